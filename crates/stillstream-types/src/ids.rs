//! Identities as newtypes, so that a checkpoint id cannot be passed where a subtask index is wanted.

use std::fmt;

use crate::murmur::murmur3_128;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

number_id!(
    /// The number of a checkpoint of one job: counts from 1 and never goes back, not even after a restart.
    CheckpointId(u64)
);
number_id!(
    /// The number of one parallel instance of an operator, from 0.
    SubtaskIndex(u32)
);
number_id!(
    /// A task of the plan: one chain of operators that run in one subtask together. Numbers follow the plan's
    /// order.
    VertexId(u32)
);
number_id!(
    /// Grows with each attempt to run a job, over all processes that ever ran it. At most one generation
    /// writes.
    Generation(u64)
);

impl CheckpointId {
    /// The id after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// One subtask of one task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubtaskId {
    /// The task.
    pub vertex: VertexId,
    /// Which of its parallel instances.
    pub index: SubtaskIndex,
}

impl SubtaskId {
    /// Subtask `index` of task `vertex`.
    pub fn new(vertex: u32, index: u32) -> Self {
        Self { vertex: VertexId(vertex), index: SubtaskIndex(index) }
    }
}

impl fmt::Display for SubtaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.vertex, self.index)
    }
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let mut bytes = [0u8; 16];
                if text.len() != 32 || !text.is_ascii() {
                    return Err(format!("`{text}` is not an id: 32 hexadecimal digits are expected"));
                }
                for (byte, at) in bytes.iter_mut().zip((0..32).step_by(2)) {
                    *byte = u8::from_str_radix(&text[at..at + 2], 16)
                        .map_err(|_| format!("`{text}` is not an id: 32 hexadecimal digits are expected"))?;
                }
                Ok(Self(bytes))
            }
        }
    };
}

hex_id!(
    /// A job. The same name gives the same id in every process, so that a program that is started again finds
    /// its checkpoints.
    JobId
);
hex_id!(
    /// The identity of an operator's state: murmur3-128 of its `uid`, as in Flink.
    OperatorId
);

impl JobId {
    /// The id of the job with this name.
    pub fn from_name(name: &str) -> Self {
        Self(murmur3_128(format!("job:{name}").as_bytes()))
    }
}

impl OperatorId {
    /// The id for a `uid`.
    ///
    /// ```
    /// use stillstream_types::OperatorId;
    /// assert_eq!(OperatorId::from_uid("source-id").to_string(), "bd9c186e89cc37a76d776844dfa8ccba");
    /// ```
    pub fn from_uid(uid: &str) -> Self {
        Self(murmur3_128(uid.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_ids_equal_flinks() {
        for (uid, id) in [
            ("source-id", "bd9c186e89cc37a76d776844dfa8ccba"),
            ("mapper-id", "c9cecfed5cae9d489451c50e442666e3"),
            ("my-uid", "8409efe6adc6d20787611f16017c808f"),
        ] {
            assert_eq!(OperatorId::from_uid(uid).to_string(), id);
            assert_eq!(id.parse::<OperatorId>().unwrap(), OperatorId::from_uid(uid));
        }
    }

    #[test]
    fn a_malformed_id_is_refused_with_its_text() {
        assert!("xyz".parse::<JobId>().unwrap_err().contains("`xyz`"));
        assert!("zz9c186e89cc37a76d776844dfa8ccba".parse::<JobId>().is_err());
    }
}
