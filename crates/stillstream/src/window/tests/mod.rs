//! Operators driven by hand, compared with a model that does everything the slow and obvious way.

mod by_hand;
mod firing;
mod model;
mod random;
mod skew;
