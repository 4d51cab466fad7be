//! Keys of stores that are reached over the network. Names are those of Flink's S3 file systems.

use super::super::value::Kind;
use super::{Row, option};

pub(super) const ROWS: &[Row] = &[
    option(
        "env.hadoop.conf.dir",
        Kind::Text,
        "",
        "the folder with `core-site.xml` and `hdfs-site.xml`, for `hdfs://`; not set: the environment variable HADOOP_CONF_DIR",
    ),
    option(
        "s3.access-key",
        Kind::Text,
        "",
        "the name of the credentials for `s3://`; not set: AWS_ACCESS_KEY_ID, or the role of the machine, container or pod",
    )
    .older(&["s3.access.key"]),
    option(
        "s3.endpoint",
        Kind::Text,
        "",
        "where an S3 server other than Amazon's answers, such as `http://minio:9000`; not set: AWS_ENDPOINT_URL_S3, \
         AWS_ENDPOINT_URL, or Amazon's",
    ),
    option(
        "s3.path.style.access",
        Kind::Boolean,
        "",
        "whether the bucket's name is part of the path and not of the host's name; not set: part of the path",
    )
    .older(&["s3.path-style-access"]),
    option(
        "s3.region",
        Kind::Text,
        "",
        "the region of the bucket; not set: AWS_REGION, AWS_DEFAULT_REGION, or us-east-1",
    )
    .older(&["s3.endpoint.region"]),
    option("s3.secret-key", Kind::Text, "", "the secret of the credentials; not set: AWS_SECRET_ACCESS_KEY")
        .older(&["s3.secret.key"]),
    option(
        "s3.session-token",
        Kind::Text,
        "",
        "the token of credentials that were lent for a time; not set: AWS_SESSION_TOKEN",
    ),
    option(
        "stillstream.storage.timeout",
        Kind::Duration,
        "60 s",
        "how long one request to a store over the network may take, with its retries; a checkpoint that needs longer fails",
    )
    .at_least(100.0),
];
