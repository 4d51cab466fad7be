//! Drives one operator by hand: contexts, what it emitted, and how a restore deals out operator state.

use std::sync::Arc;

use stillstream_state::MemorySnapshotStore;
use stillstream_types::file_access::FileAccess;
use stillstream_types::{
    CheckpointId, JobId, KeyGroups, OperatorId, OperatorStateEntry, OperatorStateHandle,
    OperatorSubtaskState, RedistributionMode, SubtaskIndex, Timestamp,
};

use crate::clock::{Clock, ManualClock};
use crate::flow::watermark_groups::WatermarkGroups;
use crate::operator::batch::AnyBatch;
use crate::operator::{DEFAULT_AUTO_WATERMARK_INTERVAL, Emission, OpenContext, Output, PendingTimers};
use crate::waker::Waker;

impl OpenContext {
    /// A context of a fresh start: generation 1, checkpointing, 128 key groups, state in memory, a clock that
    /// stands still at 0 and a waker that wakes nobody.
    pub fn for_test(name: &str, subtask: u32, parallelism: u32) -> Self {
        Self {
            name: name.into(),
            operator: OperatorId::from_uid(name),
            subtask: SubtaskIndex(subtask),
            parallelism,
            key_groups: KeyGroups::new(128),
            restored: None,
            restored_checkpoint: None,
            dry: false,
            store: Arc::new(MemorySnapshotStore::default()),
            backend: crate::backends::heap(Default::default()),
            checkpointing: true,
            job: JobId::from_name("by hand"),
            checkpoint_storage: "".into(),
            file_access: FileAccess::default(),
            generation: 1,
            clock: Arc::new(ManualClock::default()),
            waker: Waker::idle(),
            pending_timers: PendingTimers::Drop,
            auto_watermark_interval: Some(DEFAULT_AUTO_WATERMARK_INTERVAL),
            watermark_each_batch: true,
            watermark_groups: WatermarkGroups::default(),
            counters: Arc::default(),
        }
    }

    /// The same, restored from `state` of checkpoint `id`, in generation `generation`.
    pub fn restored_for_test(
        mut self,
        generation: u64,
        id: CheckpointId,
        state: OperatorSubtaskState,
    ) -> Self {
        self.generation = generation;
        self.restored_checkpoint = Some(id);
        self.restored = Some(state);
        self
    }

    /// The same with another clock.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl Output {
    /// Takes everything, in order.
    pub fn take_all(&mut self) -> Vec<Emission> {
        std::mem::take(&mut self.emitted).into()
    }

    /// Takes the batches of the main output.
    pub fn take_batches(&mut self) -> Vec<AnyBatch> {
        self.take_where(|emission| match emission {
            Emission::Batch(batch) => Ok(batch),
            other => Err(other),
        })
    }

    /// Takes the batches of side output `side`.
    pub fn take_side(&mut self, side: u32) -> Vec<AnyBatch> {
        self.take_where(|emission| match emission {
            Emission::Side(number, batch) if number == side => Ok(batch),
            other => Err(other),
        })
    }

    /// Takes the watermarks.
    pub fn take_watermarks(&mut self) -> Vec<Timestamp> {
        self.take_where(|emission| match emission {
            Emission::Watermark(watermark) => Ok(watermark),
            other => Err(other),
        })
    }

    /// Takes what was said about being idle.
    pub fn take_idle(&mut self) -> Vec<bool> {
        self.take_where(|emission| match emission {
            Emission::Idle(idle) => Ok(idle),
            other => Err(other),
        })
    }

    fn take_where<T>(&mut self, take: impl Fn(Emission) -> Result<T, Emission>) -> Vec<T> {
        let mut taken = Vec::new();
        for emission in std::mem::take(&mut self.emitted) {
            match take(emission) {
                Ok(item) => taken.push(item),
                Err(other) => self.emitted.push_back(other),
            }
        }
        taken
    }
}

/// Operator state of all subtasks as a restore with `parallelism` deals it out: slices of lists, all of union
/// lists.
pub fn redistribute(old: &[OperatorSubtaskState], parallelism: usize) -> Vec<OperatorSubtaskState> {
    let handles: Vec<&OperatorStateHandle> = old.iter().flat_map(|state| &state.operator).collect();
    let mut names: Vec<&String> = handles.iter().flat_map(|handle| handle.states.keys()).collect();
    names.sort();
    names.dedup();
    let mut new = vec![OperatorSubtaskState::default(); parallelism];
    let mut give = |to: usize, name: &str, entry: OperatorStateEntry, handle: &OperatorStateHandle| {
        new[to].operator.push(OperatorStateHandle {
            states: [(name.to_owned(), entry)].into(),
            stream: handle.stream.clone(),
        });
    };
    for name in names {
        let parts = handles.iter().filter_map(|handle| Some((*handle, handle.states.get(name)?)));
        let parts: Vec<_> = parts.collect();
        let total: usize = parts.iter().map(|(_, entry)| entry.offsets.len()).sum();
        for to in 0..parallelism {
            let (from, until) = (total * to / parallelism, total * (to + 1) / parallelism);
            let mut first = 0;
            for (handle, entry) in &parts {
                let len = entry.offsets.len();
                if entry.mode != RedistributionMode::Split {
                    give(to, name, (*entry).clone(), handle);
                } else {
                    let (start, end) =
                        (from.clamp(first, first + len) - first, until.clamp(first, first + len) - first);
                    if start < end {
                        let offsets = entry.offsets[start..end].to_vec();
                        let end = entry.offsets.get(end).copied().unwrap_or(entry.end);
                        give(to, name, OperatorStateEntry { offsets, end, ..(*entry).clone() }, handle);
                    }
                }
                first += len;
            }
        }
    }
    new
}
