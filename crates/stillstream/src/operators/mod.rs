//! The runtime's operators behind the methods of the streams: batches in, batches out.

pub(crate) mod async_io;
pub(crate) mod delegate;
pub(crate) mod expiry;
mod in_order;
pub(crate) mod keyed_process;
pub(crate) mod keyed_state;
pub(crate) mod keyed_value;
pub(crate) mod plain_process;
pub(crate) mod records;
pub(crate) mod stateless;
pub(crate) mod timed_process;

#[cfg(test)]
mod async_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod timed_tests;
#[cfg(test)]
mod timer_tests;
