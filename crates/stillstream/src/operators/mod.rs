//! The runtime's operators behind the methods of the streams: batches in, batches out.

pub(crate) mod stateless;
