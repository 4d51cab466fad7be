//! [`EventClock`]: how far event time is for each key group.

use stillstream_runtime::OpenContext;
use stillstream_state::{OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::{KeyGroup, KeyGroupRange, KeyHash, Result};

/// First key group, the one after the last, watermark.
type Reached = (u16, u16, i64);

/// The operator's watermark, which is state: after a restore channels start from the beginning, but what was
/// late before is late, and a window that has fired does not fire again. After a change of the parallelism a
/// subtask owns key groups that had got to different times; each keeps its own until the watermark has passed
/// them all.
#[derive(Debug)]
pub(crate) struct EventClock {
    watermark: i64,
    /// The last watermark before the end of the input, which is not a time: a restored job may be given more
    /// to read.
    reached: i64,
    range: KeyGroupRange,
    /// Where key groups had got to before the restore, if that is later.
    floors: Vec<(KeyGroupRange, i64)>,
    state: OperatorListState<Reached>,
}

impl EventClock {
    pub fn open(backend: &mut OperatorStateBackend, context: &OpenContext) -> Result<Self> {
        let state = backend.union_list::<Reached>("window-watermark").map_err(StateError::into_error)?;
        let range = context.key_group_range();
        let owned =
            |(start, end, watermark): Reached| (KeyGroupRange::new(start, end).intersect(range), watermark);
        let reached = state.get().map_err(StateError::into_error)?.into_iter().map(owned);
        let floors = reached.filter(|(part, watermark)| !part.is_empty() && *watermark > i64::MIN).collect();
        Ok(Self { watermark: i64::MIN, reached: i64::MIN, range, floors, state })
    }

    /// The operator's own watermark.
    #[inline(always)]
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// Whether all key groups are equally far.
    #[inline(always)]
    pub fn is_even(&self) -> bool {
        self.floors.is_empty()
    }

    /// How far event time is for a key.
    #[inline(always)]
    pub fn at(&self, hash: KeyHash) -> i64 {
        if self.floors.is_empty() { self.watermark } else { self.floor(hash).max(self.watermark) }
    }

    /// How far event time was for a key before the restore, while that matters.
    pub fn floor(&self, hash: KeyHash) -> i64 {
        let group = hash.group();
        self.floors.iter().find(|(part, _)| part.contains(group)).map_or(i64::MIN, |(_, floor)| *floor)
    }

    pub fn advance(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(watermark);
        if watermark < i64::MAX {
            self.reached = self.watermark;
        }
    }

    /// Forgets where key groups had got to once all are past that. To be called when what the watermark
    /// causes is done.
    pub fn settle(&mut self) {
        if self.floors.iter().all(|(_, floor)| *floor <= self.watermark) {
            self.floors.clear();
        }
    }

    /// Brings the state up to date for a snapshot.
    pub fn save(&self) -> Result<()> {
        let reached = |part: KeyGroupRange, floor: i64| (part.start, part.end, floor.max(self.reached));
        let mut items: Vec<Reached> =
            self.floors.iter().map(|(part, floor)| reached(*part, *floor)).collect();
        let bare = |group: &KeyGroup| !self.floors.iter().any(|(part, _)| part.contains(*group));
        match self.floors.is_empty() {
            true => items.push(reached(self.range, i64::MIN)),
            false => items.extend(
                self.range.iter().filter(bare).map(|g| reached(KeyGroupRange::new(g.0, g.0 + 1), i64::MIN)),
            ),
        }
        items.retain(|(_, _, reached)| *reached > i64::MIN);
        self.state.update(items).map_err(StateError::into_error)
    }
}
