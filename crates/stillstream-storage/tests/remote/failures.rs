//! What a person reads when a store cannot be used, and what a server that was away leaves of a job's files.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use stillstream_services::S3;
use stillstream_storage::{CheckpointStorage, StorageError, StorageOptions};
use stillstream_types::streams::SnapshotStore;
use stillstream_types::{CheckpointId, JobId};

use crate::{hdfs, options, runtime, s3};

/// Looks whether checkpoints can be written there.
fn probe(uri: &str, options: StorageOptions) -> Result<(), StorageError> {
    let runtime = runtime();
    let options = StorageOptions { deadline: Duration::from_secs(5), ..options };
    CheckpointStorage::open(uri, options, runtime.handle().clone())?.probe_writable()
}

fn bucket() -> String {
    format!("s3://{}/jobs", S3::BUCKET)
}

/// Answers every request with this, and says what was asked.
#[expect(clippy::disallowed_methods, reason = "a server of this test, which ends with its program")]
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut request = vec![0; 1 << 16];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    endpoint
}

#[test]
fn a_store_that_cannot_be_used_is_refused_with_a_sentence_that_says_why() {
    let server = s3();
    let mut cases = vec![
        ("s3://no-such-bucket/x".to_string(), vec![], "make the bucket"),
        (bucket(), vec![("s3.endpoint", "http://127.0.0.1:9")], "it cannot be reached: Connection refused"),
        (bucket(), vec![("s3.path.style.access", "perhaps")], "takes `true` or `false`"),
    ];
    // the other server takes any credentials
    if server.keeps_objects() {
        cases.push((bucket(), vec![("s3.secret-key", "wrong")], "check `s3.access-key` and `s3.secret-key`"));
        cases.push((bucket(), vec![("s3.region", "eu-mars-1")], "check `s3.region`"));
    }
    for (uri, set, expected) in cases {
        let error = probe(&uri, options(server, &set)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(&uri[..10]), "{set:?}: {error}");
        for hidden in [S3::SECRET_KEY, "<Error>", "StringToSign"] {
            assert!(!error.contains(hidden), "{hidden} in {error}");
        }
    }
}

#[test]
fn a_store_that_is_overloaded_is_asked_again_and_then_named_as_that() {
    let busy = "HTTP/1.1 503 Slow Down\r\nContent-Length: 60\r\n\r\n<Error><Code>SlowDown</Code><Message>Later</Message></Error>";
    let endpoint = answering(busy);
    let error = probe(&bucket(), options(s3(), &[("s3.endpoint", &endpoint)])).unwrap_err().to_string();
    assert!(error.contains("SlowDown: Later") && error.contains("asked again"), "{error}");
    assert!(error.contains("overloaded"), "{error}");
}

#[test]
fn a_store_that_takes_no_notice_of_conditions_is_refused() {
    let careless = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n";
    let endpoint = answering(careless);
    let runtime = runtime();
    let options = options(s3(), &[("s3.endpoint", &endpoint)]);
    let storage = CheckpointStorage::open(&bucket(), options, runtime.handle().clone()).unwrap();
    let error = storage.probe_writable().unwrap_err();
    // what was written does not come back either, which is seen first where an object has content
    assert!(
        matches!(&error, StorageError::NoCompareAndSet { .. } | StorageError::NotWritable { .. }),
        "{error}"
    );
}

#[test]
fn a_name_node_that_is_not_there_or_refuses_is_named() {
    let error = probe("hdfs://127.0.0.1:9/x", StorageOptions::default()).unwrap_err().to_string();
    assert!(error.contains("hdfs://127.0.0.1:9/x") && !error.contains("\tat "), "{error}");
    let file = format!("{}/a-file", hdfs().uri());
    let runtime = runtime();
    let root = CheckpointStorage::open(&hdfs().uri(), StorageOptions::default(), runtime.handle().clone());
    root.unwrap().probe_writable().unwrap();
    // a file stands where a folder is wanted
    let store = stillstream_storage::Location::parse(&hdfs().uri())
        .unwrap()
        .open(&StorageOptions::default())
        .unwrap();
    store.put_new("a-file", b"x").unwrap();
    let error = probe(&file, StorageOptions::default()).unwrap_err().to_string();
    assert!(error.contains("a-file") && !error.contains("\tat ") && !error.contains('\n'), "{error}");
}

#[test]
fn a_server_that_is_away_for_a_while_delays_what_is_written_and_loses_nothing() {
    let (server, runtime) = (S3::start().unwrap(), runtime());
    let storage =
        CheckpointStorage::open(&bucket(), options(&server, &[]), runtime.handle().clone()).unwrap();
    let job = storage.job(JobId::from_name("away"));
    let mut lease = job.claim("away").unwrap();
    let write = |id: u64| {
        let snapshots = job.snapshot_store(CheckpointId(id), "0-0");
        let mut stream = snapshots.create("state").unwrap();
        stream.write_all(&vec![id as u8; 30_000]).unwrap();
        stream.finish().unwrap()
    };
    let before = write(1);
    match server.keeps_objects() {
        true => server.kill().unwrap(),
        false => server.pause().unwrap(),
    }
    let during = std::thread::scope(|scope| {
        let during = scope.spawn(|| write(2));
        match server.keeps_objects() {
            true => server.restart().unwrap(),
            false => server.resume().unwrap(),
        }
        during.join().unwrap()
    });
    lease.update(|record| record.last_checkpoint_id = CheckpointId(2)).unwrap();
    for (handle, id) in [(before, 1), (during, 2)] {
        assert_eq!(job.reader().read_all(&handle).unwrap(), vec![id; 30_000]);
    }
}
