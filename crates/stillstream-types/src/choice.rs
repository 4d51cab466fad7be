//! Choices of a job that its engine, its operators and its stores follow, each with the names that Flink's
//! configuration has for it. What reads them from a configuration is `stillstream-config`.

/// Whether two names are the same to Flink, where case, `-` and `_` make no difference: `exactly-once` is
/// `EXACTLY_ONCE`.
pub fn same_name(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
    };
    plain(a) == plain(b)
}

/// Makes an enum whose values have the names of Flink's configuration; for the crates of Stillstream.
#[doc(hidden)]
#[macro_export]
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

            /// The choice of this name; case, `-` and `_` make no difference.
            pub fn from_name(name: &str) -> Option<Self> {
                $(if $crate::choice::same_name(name, $text) $(|| $crate::choice::same_name(name, $alias))* {
                    return Some(Self::$variant);
                })+
                None
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
    /// Who else may read the files that a job makes: checkpoints, the register, output. A process' umask may
    /// take more away.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_found_by_its_name_however_it_is_spelled() {
        for name in ["EXACTLY_ONCE", "exactly-once", "ExactlyOnce"] {
            assert_eq!(CheckpointingMode::from_name(name), Some(CheckpointingMode::ExactlyOnce), "{name}");
        }
        assert_eq!(CheckpointingMode::from_name("once"), None);
        assert_eq!(ProgressMode::NAMES, ["auto", "always", "never"]);
    }
}
