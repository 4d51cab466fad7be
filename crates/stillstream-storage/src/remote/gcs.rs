//! Google Cloud Storage. Credentials come from the environment: `GOOGLE_APPLICATION_CREDENTIALS`,
//! `GOOGLE_SERVICE_ACCOUNT` (files), `GOOGLE_SERVICE_ACCOUNT_KEY`, or the role of the machine.

use std::sync::Arc;

use object_store::gcp::GoogleCloudStorageBuilder;

use super::{Client, Settings, http, unusable};
use crate::error::StorageError;
use crate::location::RemoteLocation;
use crate::options::StorageOptions;
use crate::store::CasSupport;

pub(super) fn connect(
    location: &RemoteLocation,
    _: &Settings,
    options: &StorageOptions,
) -> Result<Client, StorageError> {
    let store = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(location.authority())
        .with_retry(http::retries(options))
        .with_client_options(http::client(options))
        .build()
        .map_err(|error| unusable(location, error))?;
    Ok(Client { store: Arc::new(store), cas: CasSupport::Tags })
}
