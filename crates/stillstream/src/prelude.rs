//! Everything that a job usually needs: `use stillstream::prelude::*;`

pub use std::time::Duration;

pub use stillstream_connectors::{
    Collect, CsvSource, Discard, FileSink, Generator, Malformed, OnMalformed, Print, TextSource,
};
#[cfg(feature = "kafka")]
pub use stillstream_kafka::{
    sink::{Delivery, KafkaRecord, KafkaSink, OnLostTransaction},
    source::{
        ConsumerRecord, DeadLetter, KafkaSource, OffsetReset, OnBadRecord, StartOffsets, StopOffsets, Topics,
    },
};
pub use stillstream_runtime::job::{JobClient, JobEnding, JobResult};
#[cfg(feature = "serde-adapter")]
pub use stillstream_state::Serde;
pub use stillstream_state::{
    Aggregate, AggregatingState, BroadcastState, Data, ListState, MapState, OperatorListState, ReducingState,
    StateTtlConfig, TimeDomain, TtlUpdateType, TtlVisibility, ValueState,
};
pub use stillstream_types::time::{days, hours, millis, minutes, seconds};
pub use stillstream_types::{
    CheckpointType, CheckpointingMode, Error, ErrorKind, ExternalizedCheckpointRetention, PendingTimers,
    ProgressMode, Result, ResultExt, SavepointFormat, Timestamp,
};

pub use crate::functions::{
    BroadcastContext, BroadcastProcess, BroadcastStates, CoContext, CoProcess, CoStates, ConnectedProcess,
    Context, ExpiringStates, KeyedContext, KeyedProcess, KeyedStates, OperatorStates, Process,
    ProcessContext, States, TimedContext,
};
pub use crate::join::{after, before};
pub use crate::watermark::{WatermarkGenerator, WatermarkOutput, WatermarkStrategy};
pub use crate::window::{
    GlobalWindows, ProcessWindow, Session, Sliding, TimeWindow, Tumbling, WindowContext, WindowStates,
};
pub use crate::{
    AsyncRetry, Collector, DataStream, FsStateBackend, KeySelector, KeyedStream, MemoryStateBackend,
    OutputTag, RestartStrategy, RocksDbStateBackend, StreamExecutionEnvironment, StreamSink, TryAggregate,
};
