//! Event time works wherever its strategy stands, on sources that never end.

mod endless;
mod placements;
