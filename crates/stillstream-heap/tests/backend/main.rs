//! The heap backend: the conformance suite with both kinds of table, golden files, and who removes what has expired.

mod golden;
mod ttl;

use stillstream_heap::HeapBackendFactory;

stillstream_state::keyed_backend_conformance!(asynchronous, HeapBackendFactory::default());
stillstream_state::keyed_backend_conformance!(
    synchronous,
    HeapBackendFactory { asynchronous: false, incremental: false }
);
