//! Protobuf messages of `_metadata` (versions 1 to 3) and of the register (version 1). Numbers are never
//! used again for another meaning.

use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) job: Vec<u8>,
    #[prost(string, tag = "3")]
    pub(crate) job_name: String,
    #[prost(uint64, tag = "4")]
    pub(crate) generation: u64,
    /// 1 checkpoint, 2 final, 3 savepoint
    #[prost(uint32, tag = "5")]
    pub(crate) kind: u32,
    #[prost(sint64, tag = "6")]
    pub(crate) triggered_at_ms: i64,
    #[prost(message, repeated, tag = "7")]
    pub(crate) operators: Vec<Operator>,
    /// How many folders above that of `_metadata` the anchor of the handles' paths is.
    #[prost(uint32, tag = "8")]
    pub(crate) anchor_up: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Operator {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) id: Vec<u8>,
    #[prost(string, optional, tag = "2")]
    pub(crate) uid: Option<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(uint32, tag = "4")]
    pub(crate) parallelism: u32,
    #[prost(uint32, tag = "5")]
    pub(crate) max_parallelism: u32,
    #[prost(message, repeated, tag = "6")]
    pub(crate) subtasks: Vec<Subtask>,
    /// Since version 3.
    #[prost(bytes = "vec", optional, tag = "7")]
    pub(crate) enumerator: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Subtask {
    #[prost(uint32, tag = "1")]
    pub(crate) index: u32,
    #[prost(message, repeated, tag = "2")]
    pub(crate) keyed: Vec<Keyed>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) operator: Vec<OperatorHandle>,
    /// Since version 2.
    #[prost(message, repeated, tag = "4")]
    pub(crate) incremental: Vec<Incremental>,
}

/// State in a backend's own form, as a set of files.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Incremental {
    #[prost(uint32, tag = "1")]
    pub(crate) start: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) end: u32,
    /// 1 heap chain, 2 RocksDB
    #[prost(uint32, tag = "3")]
    pub(crate) format: u32,
    #[prost(fixed64, tag = "4")]
    pub(crate) backend: u64,
    #[prost(message, optional, tag = "5")]
    pub(crate) meta: Option<Stream>,
    /// The names of `streams`, one each.
    #[prost(string, repeated, tag = "6")]
    pub(crate) names: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) streams: Vec<Stream>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Keyed {
    #[prost(uint32, tag = "1")]
    pub(crate) start: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) end: u32,
    #[prost(uint64, tag = "3")]
    pub(crate) header_len: u64,
    #[prost(fixed32, tag = "4")]
    pub(crate) header_crc32c: u32,
    // the sections column by column: there may be 32768 of them
    #[prost(uint32, repeated, tag = "5")]
    pub(crate) groups: Vec<u32>,
    #[prost(uint64, repeated, tag = "6")]
    pub(crate) offsets: Vec<u64>,
    #[prost(uint64, repeated, tag = "7")]
    pub(crate) lens: Vec<u64>,
    #[prost(fixed32, repeated, tag = "8")]
    pub(crate) crc32cs: Vec<u32>,
    #[prost(message, optional, tag = "9")]
    pub(crate) stream: Option<Stream>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorHandle {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) states: BTreeMap<String, Entry>,
    #[prost(message, optional, tag = "2")]
    pub(crate) stream: Option<Stream>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    /// 1 split, 2 union, 3 broadcast
    #[prost(uint32, tag = "1")]
    pub(crate) mode: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) schema: Vec<u8>,
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) offsets: Vec<u64>,
    #[prost(uint64, tag = "4")]
    pub(crate) end: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Stream {
    #[prost(oneof = "StreamKind", tags = "1, 2")]
    pub(crate) kind: Option<StreamKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum StreamKind {
    #[prost(bytes, tag = "1")]
    Inline(Vec<u8>),
    #[prost(message, tag = "2")]
    File(FileHandle),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileHandle {
    #[prost(string, tag = "1")]
    pub(crate) path: String,
    #[prost(uint64, tag = "2")]
    pub(crate) len: u64,
    #[prost(fixed32, tag = "3")]
    pub(crate) crc32c: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Register {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) job: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) job_name: String,
    #[prost(uint64, tag = "3")]
    pub(crate) generation: u64,
    /// 1 running, 2 finished, 3 cancelled, 4 failed
    #[prost(uint32, tag = "4")]
    pub(crate) outcome: u32,
    #[prost(uint64, tag = "5")]
    pub(crate) last_checkpoint_id: u64,
    #[prost(message, repeated, tag = "6")]
    pub(crate) completed: Vec<Completed>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) retained: Vec<Completed>,
    /// The version of this record, counted from 1.
    #[prost(uint64, tag = "7")]
    pub(crate) version: u64,
    /// Who wrote it, so that a writer knows its own write again.
    #[prost(fixed64, tag = "8")]
    pub(crate) writer: u64,
    /// The writer's count of its writes.
    #[prost(uint64, tag = "9")]
    pub(crate) write: u64,
    /// How the job ended. A reader that does not know it passes over it, and knows the outcome all the same.
    #[prost(message, optional, tag = "11")]
    pub(crate) ended: Option<Ended>,
    /// How this life of the job began.
    #[prost(message, optional, tag = "12")]
    pub(crate) began: Option<Began>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Began {
    #[prost(message, optional, tag = "1")]
    pub(crate) from: Option<StartedFrom>,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) fell_back_to: Option<u64>,
    /// Ids of operators, 16 bytes each.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(crate) left_behind: Vec<Vec<u8>>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) dropped_fields: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StartedFrom {
    #[prost(string, tag = "1")]
    pub(crate) location: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) job: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(crate) checkpoint: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) generation: u64,
    #[prost(sint64, tag = "5")]
    pub(crate) triggered_at_ms: i64,
    #[prost(bool, tag = "6")]
    pub(crate) claimed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Ended {
    #[prost(sint64, tag = "1")]
    pub(crate) at_ms: i64,
    #[prost(uint64, tag = "2")]
    pub(crate) records_in: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) records_out: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) duration_ms: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) restarts: u64,
    #[prost(uint64, optional, tag = "6")]
    pub(crate) resumed_from: Option<u64>,
    #[prost(uint64, tag = "7")]
    pub(crate) checkpoints_completed: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) checkpoints_failed: u64,
    #[prost(uint64, optional, tag = "9")]
    pub(crate) last_checkpoint: Option<u64>,
    #[prost(uint64, tag = "10")]
    pub(crate) last_checkpoint_bytes: u64,
    #[prost(uint64, tag = "11")]
    pub(crate) slowest_checkpoint_ms: u64,
    #[prost(btree_map = "string, uint64", tag = "12")]
    pub(crate) counters: BTreeMap<String, u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Completed {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(string, tag = "2")]
    pub(crate) path: String,
}
