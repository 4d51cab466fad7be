//! Amazon S3, and whatever speaks its protocol.
//!
//! | key | the same in the environment |
//! |---|---|
//! | `s3.access-key`, `s3.secret-key` | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` |
//! | `s3.session-token` | `AWS_SESSION_TOKEN` |
//! | `s3.endpoint` | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` |
//! | `s3.region` | `AWS_REGION`, `AWS_DEFAULT_REGION` |
//! | `s3.path.style.access` | `AWS_VIRTUAL_HOSTED_STYLE_REQUEST`, the other way round |
//!
//! Without any of them the role of the machine, container or pod is asked.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key, S3ConditionalPut};

use super::{Client, Settings, http, unusable};
use crate::error::StorageError;
use crate::location::RemoteLocation;
use crate::options::StorageOptions;
use crate::store::CasSupport;

pub(super) fn connect(
    location: &RemoteLocation,
    settings: &Settings,
    options: &StorageOptions,
) -> Result<Client, StorageError> {
    let bucket = location.authority();
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(http::retries(options));
    for (keys, key) in [
        (&["s3.access-key"][..], Key::AccessKeyId),
        (&["s3.secret-key"], Key::SecretAccessKey),
        (&["s3.session-token"], Key::Token),
        (&["s3.region"], Key::Region),
    ] {
        if let Some(value) = settings.get(keys) {
            builder = builder.with_config(key, value);
        }
    }
    let path_style = match settings.get(&["s3.path.style.access"]) {
        None => None,
        Some(text) => Some(text.parse::<bool>().map_err(|_| {
            unusable(location, format!("`s3.path.style.access` is `{text}`; it takes `true` or `false`"))
        })?),
    };
    let given = settings.get(&["s3.endpoint"]).map(str::to_owned);
    let from_environment = |key: Key| builder.get_config_value(&key);
    let endpoint = given
        .clone()
        .or_else(|| from_environment(Key::S3Endpoint))
        .or_else(|| from_environment(Key::Endpoint))
        .map(|endpoint| with_scheme(&endpoint));
    if let Some(endpoint) = &endpoint {
        builder = match path_style {
            Some(false) => {
                let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
                builder
                    .with_config(
                        Key::S3Endpoint,
                        format!("{scheme}://{bucket}.{}", host.trim_end_matches('/')),
                    )
                    .with_virtual_hosted_style_request(true)
            }
            Some(true) => {
                builder.with_config(Key::S3Endpoint, endpoint).with_virtual_hosted_style_request(false)
            }
            None => builder.with_config(Key::S3Endpoint, endpoint),
        };
    } else if let Some(path_style) = path_style {
        builder = builder.with_virtual_hosted_style_request(!path_style);
    }
    let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let store = builder
        .with_client_options(http::client(options).with_allow_http(plain))
        .build()
        .map_err(|error| unusable(location, error))?;
    Ok(Client { store: Arc::new(store), cas: CasSupport::Tags })
}

/// Flink takes an endpoint without a scheme too, and asks it by TLS.
fn with_scheme(endpoint: &str) -> String {
    if endpoint.contains("://") { endpoint.into() } else { format!("https://{endpoint}") }
}
