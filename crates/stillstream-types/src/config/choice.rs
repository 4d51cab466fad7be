//! Values that are one of a few names. Case, `-` and `_` make no difference when they are read.

use super::value::{ConfigValue, Kind};

/// Whether two names are the same to Flink: `exactly-once` is `EXACTLY_ONCE`.
pub(super) fn same_name(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    plain(a) == plain(b)
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal $(| $alias:literal)*,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every name that is read, the present ones and Flink's other spellings.
            pub const NAMES: &[&str] = &[$($text, $($alias,)*)+];

            /// The name as Flink writes it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl ConfigValue for $name {
            const KIND: Kind = Kind::Choice(Self::NAMES);

            fn parse(text: &str) -> Result<Self, String> {
                $(if same_name(text, $text) $(|| same_name(text, $alias))* { return Ok(Self::$variant); })+
                Err(Self::KIND.expected())
            }

            fn to_text(&self) -> String {
                self.as_str().to_string()
            }
        }
    };
}

choice! {
    /// What a checkpoint guarantees for state.
    CheckpointingMode {
        /// Each record changes the state once; records behind a barrier wait for the other inputs.
        ExactlyOnce = "EXACTLY_ONCE",
        /// Records may change the state again after a recovery; nothing waits.
        AtLeastOnce = "AT_LEAST_ONCE",
    }
}

choice! {
    /// What happens to the last checkpoint when the job ends.
    ExternalizedCheckpointRetention {
        /// It is deleted, whether the job was cancelled, failed or finished.
        NoExternalizedCheckpoints = "NO_EXTERNALIZED_CHECKPOINTS",
        /// It stays when the job is cancelled or fails.
        RetainOnCancellation = "RETAIN_ON_CANCELLATION",
        /// It stays only when the job fails.
        DeleteOnCancellation = "DELETE_ON_CANCELLATION",
    }
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
    /// Who else may read the files that a job makes: checkpoints, the register, output. A process' umask may take more away.
    FileAccess {
        /// The user that runs the job alone: files 0600, folders 0700.
        Owner = "owner",
        /// Its group may read: files 0640, folders 0750.
        Group = "group",
        /// Everybody may read: files 0644, folders 0755.
        Everyone = "everyone",
        /// What the umask leaves: files 0666, folders 0777 without it.
        Umask = "umask",
    }
}

choice! {
    /// What becomes of timers of processing time that are still set when a bounded input ends.
    PendingTimers {
        /// They never fire, as in Flink.
        Drop = "drop",
        /// They fire at once, in order. Those that are set meanwhile do not.
        Fire = "fire",
        /// They fire at their time, also those that are set meanwhile; the job ends when none is left.
        Await = "await",
    }
}

choice! {
    /// When a running job shows its progress on the terminal.
    ProgressMode {
        /// When standard error is a terminal.
        Auto = "auto",
        /// Always.
        Always = "always",
        /// Never.
        Never = "never",
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
