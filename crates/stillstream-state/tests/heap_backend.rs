//! The heap backend runs the conformance suite, with both kinds of table.

use stillstream_state::conformance::BackendFactory;
use stillstream_state::{BackendOptions, Key, KeyedStateBackend};

struct Heap {
    asynchronous: bool,
}

impl BackendFactory for Heap {
    fn create<K: Key>(&self, options: BackendOptions) -> KeyedStateBackend<K> {
        KeyedStateBackend::heap(options.asynchronous(self.asynchronous))
    }
}

stillstream_state::keyed_backend_conformance!(asynchronous, Heap { asynchronous: true });
stillstream_state::keyed_backend_conformance!(synchronous, Heap { asynchronous: false });
