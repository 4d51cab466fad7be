//! Settings that are one of a few names. Case, `-` and `_` make no difference when they are read.

use stillstream_types::choice;
pub use stillstream_types::choice::{
    CheckpointingMode, ExternalizedCheckpointRetention, FileAccess, PendingTimers, ProgressMode,
};

use super::value::{ConfigValue, Kind};

macro_rules! values {
    ($($name:ident),+ $(,)?) => {$(
        impl ConfigValue for $name {
            const KIND: Kind = Kind::Choice(Self::NAMES);

            fn parse(text: &str) -> Result<Self, String> {
                Self::from_name(text).ok_or_else(|| Self::KIND.expected())
            }

            fn to_text(&self) -> String {
                self.as_str().to_string()
            }
        }
    )+};
}

values! {
    CheckpointStorageType,
    CheckpointingMode,
    CompactionStyle,
    ExternalizedCheckpointRetention,
    FileAccess,
    InfoLogLevel,
    PendingTimers,
    PredefinedOptions,
    ProgressMode,
    RecoveryClaimMode,
    RestartStrategyType,
    StateBackendType,
}

choice! {
    /// Who owns the files of the snapshot that a job starts from.
    RecoveryClaimMode {
        /// The snapshot is left alone; the first checkpoint is a full one.
        NoClaim = "NO_CLAIM",
        /// The job takes the snapshot over and deletes it when it is no longer needed.
        Claim = "CLAIM",
        /// As before Flink 1.15: left alone, but later checkpoints may build on it.
        Legacy = "LEGACY",
    }
}

choice! {
    /// How a failed job is started again.
    RestartStrategyType {
        /// It is not.
        None = "none" | "off" | "disable",
        /// After a fixed pause, a fixed number of times.
        FixedDelay = "fixed-delay",
        /// After a fixed pause, unless it failed too often within an interval.
        FailureRate = "failure-rate",
        /// After a pause that grows with each failure.
        ExponentialDelay = "exponential-delay",
    }
}

choice! {
    /// Where a job keeps its keyed state while it runs.
    StateBackendType {
        /// In memory. Flink 1.x wrote `jobmanager` or `filesystem`, which also chose the checkpoint storage.
        HashMap = "hashmap" | "jobmanager" | "filesystem",
        /// In RocksDB on the local disk.
        RocksDb = "rocksdb",
        /// In ForSt, on remote storage.
        ForSt = "forst",
    }
}

choice! {
    /// Where checkpoints go.
    CheckpointStorageType {
        /// Into the memory of the JobManager.
        JobManager = "jobmanager",
        /// Into files below `execution.checkpointing.dir`.
        FileSystem = "filesystem",
    }
}

choice! {
    /// A starting point for RocksDB's options, which the single keys change (Flink's `PredefinedOptions`).
    PredefinedOptions {
        /// RocksDB's own defaults.
        Default = "DEFAULT",
        /// Four background threads, levels sized from the last one.
        SpinningDiskOptimized = "SPINNING_DISK_OPTIMIZED",
        /// The same with larger files, blocks and write buffers, and bloom filters.
        SpinningDiskOptimizedHighMem = "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
        /// Four background threads.
        FlashSsdOptimized = "FLASH_SSD_OPTIMIZED",
    }
}

choice! {
    /// How RocksDB compacts files.
    CompactionStyle {
        /// Levels of sorted files.
        Level = "LEVEL",
        /// Sorted runs of similar size.
        Universal = "UNIVERSAL",
        /// The oldest files are dropped.
        Fifo = "FIFO",
        /// Not at all.
        None = "NONE",
    }
}

choice! {
    /// What RocksDB writes into its own log.
    InfoLogLevel {
        /// Everything.
        Debug = "DEBUG_LEVEL",
        /// The usual.
        Info = "INFO_LEVEL",
        /// Warnings and worse.
        Warn = "WARN_LEVEL",
        /// Errors and worse.
        Error = "ERROR_LEVEL",
        /// Only what ends the database.
        Fatal = "FATAL_LEVEL",
        /// Only the head of the file.
        Header = "HEADER_LEVEL",
    }
}
