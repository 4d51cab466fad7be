//! What the clients of all clouds have in common: deadlines, retries and TLS.

use std::time::Duration;

use object_store::{BackoffConfig, ClientOptions, RetryConfig};
// object_store's client; named for the feature that gives it TLS by the provider below
use reqwest as _;

use crate::options::StorageOptions;

/// Retries with jitter until a third of the deadline is gone: with the pause and the request that may follow
/// then, the client's own error comes before the deadline.
pub(super) fn retries(options: &StorageOptions) -> RetryConfig {
    let deadline = options.deadline;
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100).min(deadline / 12),
            max_backoff: deadline / 12,
            base: 2.,
        },
        max_retries: usize::MAX,
        retry_timeout: deadline / 3,
    }
}

/// One request may take half of the deadline.
pub(super) fn client(options: &StorageOptions) -> ClientOptions {
    provide_tls();
    ClientOptions::new()
        .with_timeout(options.deadline / 2)
        .with_connect_timeout((options.deadline / 6).min(Duration::from_secs(5)))
}

/// TLS needs to know who does its arithmetic. A program that has said so already is left alone.
fn provide_tls() {
    // an error says that there is one
    let _ = rustls::crypto::ring::default_provider().install_default();
}
