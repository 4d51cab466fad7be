//! Azure Blob Storage. Account and credentials come from the environment: `AZURE_STORAGE_ACCOUNT_NAME`,
//! `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN`, `AZURE_CLIENT_ID` and so on, or the role of the
//! machine.

use std::sync::Arc;

use object_store::azure::MicrosoftAzureBuilder;

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
    // `az://container`, or `abfss://container@account.dfs.core.windows.net`
    let builder = MicrosoftAzureBuilder::from_env();
    let (container, host) = location.authority().split_once('@').unwrap_or((location.authority(), ""));
    let builder = match host.split('.').next() {
        Some(account) if !account.is_empty() => builder.with_account(account),
        _ => builder,
    };
    let store = builder
        .with_container_name(container)
        .with_retry(http::retries(options))
        .with_client_options(http::client(options))
        .build()
        .map_err(|error| unusable(location, error))?;
    Ok(Client { store: Arc::new(store), cas: CasSupport::Tags })
}
