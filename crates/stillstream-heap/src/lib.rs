//! The heap backend: all keyed state in memory.
//!
//! | file | what is inside |
//! |---|---|
//! | `backend` | [`HeapKeyedStateBackend`] and its factory |
//! | `keyed`, `namespaced`, `timers` | the states |
//! | `cells`, `plain`, `space` | the tables under them |
//! | `sweep` | removes what has expired |
//! | `frozen_run`, `frozen_numbers` | a frozen table as entries of a snapshot |
//! | `chain`, `digest` | incremental checkpoints: what changed since the last one |

mod backend;
mod cells;
mod chain;
mod digest;
mod frozen_numbers;
mod frozen_run;
mod keyed;
mod namespaced;
mod plain;
mod space;
mod sweep;
mod timers;

pub use backend::{HeapBackendFactory, HeapKeyedStateBackend};
pub use keyed::HeapValues;
pub use namespaced::{HeapNamespaced, HeapWalk};
pub use timers::HeapTimers;
