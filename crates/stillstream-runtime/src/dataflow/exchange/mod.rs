//! How records get from the subtasks of one task to those of the next.
//!
//! | module | what is inside |
//! |---|---|
//! | `keys` | [`KeySelector`]: how the key of a record is found |
//! | `by_key`, `hashing`, `part` | splitting batches by the key group of each record's key |
//! | `by_choice` | splitting batches as a function of each record says, or at random |
//! | `channel` | the channel of one edge, as Timely calls it |

mod by_choice;
mod by_key;
mod channel;
mod hashing;
mod keys;
mod part;
#[cfg(test)]
mod tests;

pub use by_choice::{at_random, by_choice};
pub use by_key::by_key;
pub(crate) use channel::{Channel, directed};
pub use keys::{BorrowedKey, KeySelector, OwnedKey};

pub use crate::plan::Splitter;
