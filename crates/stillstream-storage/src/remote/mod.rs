//! Stores that are reached over the network: which scheme leads to which, and the clients that are kept for
//! them.
//!
//! | scheme | module | cargo feature |
//! |---|---|---|
//! | `s3`, `s3a`, `s3n` | `s3` | `s3` |
//! | `gs` | `gcs` | `gcs` |
//! | `az`, `abfs`, `abfss`, `wasb`, `wasbs`, `adl` | `azure` | `azure` |
//! | `hdfs`, `viewfs` | `hdfs` | `hdfs` |

#[cfg(feature = "azure")]
mod azure;
#[cfg(feature = "network")]
mod background;
#[cfg(feature = "gcs")]
mod gcs;
#[cfg(feature = "hdfs")]
mod hdfs;
#[cfg(feature = "cloud")]
mod http;
#[cfg(feature = "s3")]
mod s3;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
#[cfg(feature = "network")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "cloud")]
use object_store::ObjectStore;

#[cfg(feature = "network")]
pub(crate) use background::Background;

use crate::error::StorageError;
use crate::local::LocalStore;
#[cfg(feature = "network")]
use crate::location::StoreKind;
use crate::location::{Location, RemoteLocation};
#[cfg(feature = "cloud")]
use crate::object::ObjectBlobStore;
use crate::options::StorageOptions;
use crate::store::BlobStore;
#[cfg(feature = "cloud")]
use crate::store::CasSupport;

/// How stores that are reached over the network are asked, and the connections to them.
///
/// Clones share their connections. Settings are keys of the configuration, as in `s3.endpoint`; one that is
/// not given is taken from the environment, under the name that the cloud's own tools use. What is a secret
/// is never shown.
#[derive(Clone, Default)]
pub struct RemoteStores(Arc<Shared>);

#[derive(Default)]
struct Shared {
    settings: Settings,
    #[cfg(feature = "cloud")]
    clients: Mutex<BTreeMap<String, Client>>,
    #[cfg(feature = "hdfs")]
    name_nodes: Mutex<BTreeMap<String, hdfs_native::Client>>,
    #[cfg(feature = "network")]
    background: Mutex<Option<Arc<Background>>>,
}

/// A bucket, and how it compares and sets.
#[cfg(feature = "cloud")]
#[derive(Clone)]
pub(crate) struct Client {
    store: Arc<dyn ObjectStore>,
    cas: CasSupport,
}

/// Keys of the configuration with their values.
#[derive(Clone, Default)]
pub(crate) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// The first of these keys that is set.
    #[cfg(feature = "network")]
    pub(crate) fn get(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.0.get(*key)).map(String::as_str)
    }
}

impl fmt::Debug for RemoteStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // values may be secrets
        f.debug_tuple("RemoteStores").field(&self.0.settings.0.keys().collect::<Vec<_>>()).finish()
    }
}

impl RemoteStores {
    /// With these keys of the configuration.
    ///
    /// ```
    /// use stillstream_storage::RemoteStores;
    /// let stores = RemoteStores::new([("s3.secret-key".to_string(), "sesame".to_string())]);
    /// assert!(!format!("{stores:?}").contains("sesame"));
    /// ```
    pub fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut shared = Shared::default();
        shared.settings.0.extend(settings);
        Self(Arc::new(shared))
    }

    #[cfg(feature = "network")]
    /// The runtime on which requests run. It is made for the first of them.
    fn background(&self) -> Result<Arc<Background>, StorageError> {
        let mut background = self.0.background.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(background) = &*background {
            return Ok(background.clone());
        }
        let made = Arc::new(Background::new()?);
        Ok(background.insert(made).clone())
    }

    fn open(
        &self,
        location: &RemoteLocation,
        options: &StorageOptions,
    ) -> Result<Arc<dyn BlobStore>, StorageError> {
        match location.kind() {
            #[cfg(feature = "s3")]
            StoreKind::S3 => self.bucket(location, options, s3::connect),
            #[cfg(feature = "gcs")]
            StoreKind::Gcs => self.bucket(location, options, gcs::connect),
            #[cfg(feature = "azure")]
            StoreKind::Azure => self.bucket(location, options, azure::connect),
            #[cfg(feature = "hdfs")]
            StoreKind::Hdfs => self.hdfs(location, options),
            #[cfg(not(all(feature = "s3", feature = "gcs", feature = "azure", feature = "hdfs")))]
            kind => {
                let _ = options;
                Err(StorageError::FeatureMissing { location: location.to_string(), feature: kind.feature() })
            }
        }
    }

    /// A folder of HDFS. The client of a NameNode is kept.
    #[cfg(feature = "hdfs")]
    fn hdfs(
        &self,
        location: &RemoteLocation,
        options: &StorageOptions,
    ) -> Result<Arc<dyn BlobStore>, StorageError> {
        let background = self.background()?;
        let mut clients = self.0.name_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match clients.get(&location.root().to_string()) {
            Some(client) => client.clone(),
            None => {
                let client = hdfs::connect(location, &self.0.settings, background.handle())?;
                clients.insert(location.root().to_string(), client.clone());
                client
            }
        };
        Ok(Arc::new(crate::hdfs::HdfsStore::new(background, client, location, options)))
    }

    /// A folder of a bucket. The client of a bucket is kept: its connections are, and the credentials that it
    /// was lent.
    #[cfg(feature = "cloud")]
    fn bucket(
        &self,
        location: &RemoteLocation,
        options: &StorageOptions,
        connect: fn(&RemoteLocation, &Settings, &StorageOptions) -> Result<Client, StorageError>,
    ) -> Result<Arc<dyn BlobStore>, StorageError> {
        let background = self.background()?;
        let key = format!("{:?} {} {:?}", location.kind(), location.root(), options.deadline);
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match clients.get(&key) {
            Some(client) => client.clone(),
            None => {
                let client = connect(location, &self.0.settings, options)?;
                clients.insert(key, client.clone());
                client
            }
        };
        let Client { store, cas } = client;
        Ok(Arc::new(ObjectBlobStore::on(background, store, location, cas, options)))
    }
}

impl Location {
    /// The folder as a store. Nothing is read or written yet, and nobody is asked.
    ///
    /// # Errors
    /// [`StorageError::FeatureMissing`] when what reaches a store of this scheme was not built in;
    /// [`StorageError::BadLocation`] when the settings of the store are wrong.
    pub fn open(&self, options: &StorageOptions) -> Result<Arc<dyn BlobStore>, StorageError> {
        match self {
            Self::Local(path) => Ok(Arc::new(LocalStore::new(path, options))),
            Self::Remote(location) => options.remote.open(location, options),
        }
    }
}

/// The settings of a store are wrong.
#[cfg(feature = "network")]
pub(crate) fn unusable(location: &RemoteLocation, reason: impl fmt::Display) -> StorageError {
    StorageError::BadLocation { location: location.root().to_string(), reason: reason.to_string() }
}
