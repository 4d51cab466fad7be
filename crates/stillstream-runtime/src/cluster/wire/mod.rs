//! Frames between the JobManager and its worker processes: a `u32` length (little-endian), then a protobuf
//! message. Every message carries the generation that it belongs to.
//!
//! There is a variant for each [`Report`] and each [`Control`], under the same name, and a few more by which
//! a process is brought up. Both sides are the same program, so the messages have no versions.
//!
//! | file | what is inside |
//! |---|---|
//! | this one | the messages |
//! | `frame` | the bytes of a message on a connection |
//! | `convert` | from what the two sides say to each other to messages, and back |

mod convert;
mod frame;

use std::collections::BTreeMap;

use stillstream_types::ErrorKind;

pub(crate) use convert::{decode_report, encode_report};
pub(crate) use frame::{LARGEST_HELLO, decode_frame, frame_len, read_frame, write_frame};

/// From a worker process.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ToManager {
    #[prost(uint64, tag = "1")]
    pub generation: u64,
    #[prost(oneof = "FromWorker", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13")]
    pub message: Option<FromWorker>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum FromWorker {
    /// The first word of a connection.
    #[prost(message, tag = "2")]
    Hello(Hello),
    /// Where the process listens for its peers.
    #[prost(string, tag = "3")]
    Listening(String),
    /// What the process has counted; it is the heartbeat too.
    #[prost(message, tag = "4")]
    Figures(Figures),
    #[prost(message, tag = "5")]
    Running(Subtask),
    #[prost(message, tag = "6")]
    Ended(Subtask),
    #[prost(message, tag = "7")]
    EventTime(SubtaskTime),
    #[prost(message, tag = "8")]
    Acknowledged(Acknowledged),
    #[prost(message, tag = "9")]
    Declined(Declined),
    #[prost(message, tag = "10")]
    Committed(Committed),
    #[prost(message, tag = "11")]
    Failed(Failed),
    #[prost(message, tag = "12")]
    Stopped(Stopped),
    #[prost(message, tag = "13")]
    SplitsWanted(Subtask),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Hello {
    #[prost(uint32, tag = "1")]
    pub process: u32,
    #[prost(string, tag = "2")]
    pub token: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Figures {
    #[prost(message, repeated, tag = "1")]
    pub workers: Vec<WorkerFigures>,
    /// Totals by name.
    #[prost(btree_map = "string, uint64", tag = "2")]
    pub counters: BTreeMap<String, u64>,
    /// What goes up and down, by name.
    #[prost(btree_map = "string, uint64", tag = "3")]
    pub gauges: BTreeMap<String, u64>,
}

/// The figures of one worker, in the order in which they are declared.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WorkerFigures {
    #[prost(uint64, repeated, tag = "1")]
    pub figures: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Subtask {
    #[prost(uint32, tag = "1")]
    vertex: u32,
    #[prost(uint32, tag = "2")]
    index: u32,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Time {
    #[prost(sint64, tag = "1")]
    watermark: i64,
    #[prost(bool, tag = "2")]
    idle: bool,
    #[prost(sint64, tag = "3")]
    moved_at_ms: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SubtaskTime {
    #[prost(message, required, tag = "1")]
    subtask: Subtask,
    #[prost(message, required, tag = "2")]
    combined: Time,
    #[prost(message, repeated, tag = "3")]
    channels: Vec<Time>,
}

/// State of one subtask of one operator.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct State {
    #[prost(bytes = "vec", tag = "1")]
    operator: Vec<u8>,
    #[prost(uint32, tag = "2")]
    index: u32,
    /// In the form that `_metadata` has.
    #[prost(bytes = "vec", tag = "3")]
    state: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Acknowledged {
    #[prost(uint64, tag = "1")]
    checkpoint: u64,
    #[prost(message, required, tag = "2")]
    subtask: Subtask,
    #[prost(message, repeated, tag = "3")]
    snapshot: Vec<State>,
    #[prost(uint64, tag = "4")]
    start_delay_us: u64,
    #[prost(uint64, tag = "5")]
    alignment_us: u64,
    #[prost(uint64, tag = "6")]
    synchronous_us: u64,
    #[prost(uint64, tag = "7")]
    asynchronous_us: u64,
    #[prost(uint64, tag = "8")]
    set_aside_bytes: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Declined {
    #[prost(uint64, tag = "1")]
    checkpoint: u64,
    #[prost(message, required, tag = "2")]
    subtask: Subtask,
    #[prost(string, tag = "3")]
    reason: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Committed {
    #[prost(uint64, tag = "1")]
    checkpoint: u64,
    #[prost(message, required, tag = "2")]
    subtask: Subtask,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Failed {
    #[prost(message, optional, tag = "1")]
    subtask: Option<Subtask>,
    #[prost(enumeration = "Kind", tag = "2")]
    kind: i32,
    #[prost(string, tag = "3")]
    message: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Stopped {
    #[prost(uint64, tag = "1")]
    worker: u64,
    #[prost(bool, tag = "2")]
    drained: bool,
}

/// To a worker process.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ToWorker {
    #[prost(uint64, tag = "1")]
    pub generation: u64,
    #[prost(oneof = "FromManager", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10, 11")]
    pub message: Option<FromManager>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum FromManager {
    /// Open a socket for the peers, and say where.
    #[prost(message, tag = "2")]
    Prepare(()),
    /// Meet the peers, and run the attempt.
    #[prost(message, tag = "3")]
    Start(Start),
    /// The job is over.
    #[prost(message, tag = "4")]
    Shutdown(()),
    #[prost(message, tag = "5")]
    Trigger(Trigger),
    #[prost(uint64, tag = "6")]
    Complete(u64),
    #[prost(uint64, tag = "7")]
    Aborted(u64),
    #[prost(message, tag = "8")]
    Finish(()),
    #[prost(message, tag = "9")]
    Stop(()),
    #[prost(message, tag = "10")]
    Drain(()),
    #[prost(message, tag = "11")]
    Assign(Assign),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Assign {
    #[prost(bytes = "vec", tag = "1")]
    operator: Vec<u8>,
    /// The reader of each split.
    #[prost(uint32, repeated, tag = "2")]
    readers: Vec<u32>,
    #[prost(bytes = "vec", repeated, tag = "3")]
    splits: Vec<Vec<u8>>,
    #[prost(uint32, optional, tag = "4")]
    answers: Option<u32>,
    #[prost(bool, tag = "5")]
    no_more: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Start {
    /// Where each process listens, in the order of their numbers.
    #[prost(string, repeated, tag = "1")]
    pub addresses: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub restored: Option<Restored>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Restored {
    #[prost(uint64, tag = "1")]
    checkpoint: u64,
    #[prost(string, optional, tag = "2")]
    location: Option<String>,
    #[prost(message, repeated, tag = "3")]
    states: Vec<State>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Trigger {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(sint64, tag = "2")]
    at_ms: i64,
    #[prost(message, optional, tag = "3")]
    savepoint: Option<Savepoint>,
    #[prost(bool, tag = "4")]
    stop: bool,
    #[prost(bool, tag = "5")]
    full: bool,
}

/// [`SavepointTarget`].
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Savepoint {
    #[prost(string, tag = "1")]
    location: String,
    #[prost(bool, tag = "2")]
    native: bool,
}

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => {
        /// [`ErrorKind`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug, prost::Enumeration)]
        #[repr(i32)]
        pub(crate) enum Kind { $($name = $number),* }

        impl From<ErrorKind> for Kind {
            fn from(kind: ErrorKind) -> Self {
                match kind { $(ErrorKind::$name => Self::$name),* }
            }
        }

        impl From<Kind> for ErrorKind {
            fn from(kind: Kind) -> Self {
                match kind { $(Kind::$name => Self::$name),* }
            }
        }
    };
}

kinds! {
    User = 0, Configuration = 1, Plan = 2, State = 3, CorruptSnapshot = 4, Checkpoint = 5, Storage = 6, Connector = 7,
    Panic = 8, Peer = 9, Fenced = 10, Cancelled = 11, Timeout = 12, Incompatible = 13,
}
