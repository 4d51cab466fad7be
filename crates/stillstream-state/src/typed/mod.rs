//! Handles that know the key's type: the fast paths of built-in operators, without a virtual call per record.
//!
//! Each is over one of the backends; which one is asked once per call, and a call takes a whole batch where it matters.

mod keyed_value;
mod namespaced_value;
mod timers;

pub use keyed_value::KeyedValue;
pub use namespaced_value::{NamespaceWalk, NamespacedValue};
pub use timers::Timers;

/// Carries a call out on whichever backend it is.
macro_rules! on {
    ($of:ident, $self:expr; $heap:ident => $in_heap:expr; $rocksdb:ident => $in_rocksdb:expr) => {
        match $self {
            $of::Heap($heap) => $in_heap,
            #[cfg(feature = "rocksdb")]
            $of::RocksDb($rocksdb) => $in_rocksdb,
        }
    };
}

use on;
