//! HDFS. Host and port of the NameNode, or a logical name, are in the location; the rest is in
//! `core-site.xml` and `hdfs-site.xml` of `env.hadoop.conf.dir`, HADOOP_CONF_DIR or HADOOP_HOME. The user is
//! HADOOP_USER_NAME, that of the process, or that of a Kerberos ticket (which needs libgssapi at run time).

use hdfs_native::{Client, ClientBuilder};
use tokio::runtime::Handle;

use super::{Settings, unusable};
use crate::error::StorageError;
use crate::location::RemoteLocation;

pub(super) fn connect(
    location: &RemoteLocation,
    settings: &Settings,
    handle: &Handle,
) -> Result<Client, StorageError> {
    let mut builder = ClientBuilder::new().with_io_runtime(handle.clone());
    if let Some(folder) = settings.get(&["env.hadoop.conf.dir"]) {
        builder = builder.with_config_dir(folder);
    }
    if !location.authority().is_empty() {
        builder = builder.with_url(location.root().to_string());
    }
    // it looks up names, and wants to be where its requests run
    let _runtime = handle.enter();
    builder.build().map_err(|error| unusable(location, error))
}
