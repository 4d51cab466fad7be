//! The operator behind [`DataStream::watermarks`](crate::DataStream::watermarks).

use std::sync::Arc;

use stillstream_runtime::clock::Clock;
use stillstream_runtime::event_time::{Combined, EventTime};
use stillstream_runtime::watermark_groups::GroupMember;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output, SplitEvent};
use stillstream_state::{Data, StateError};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, SnapshotForm, Timestamp,
};

use super::{SavedTime, Source, WatermarkGenerator, WatermarkOutput, WatermarkStrategy};

/// What is there once the operator is open.
struct Open {
    name: Arc<str>,
    saved: SavedTime,
    clock: Arc<dyn Clock>,
    /// How often generators are asked, in milliseconds; `None`: never.
    interval: Option<i64>,
    /// The largest event time counts after each batch, and not only when it is asked for.
    each_batch: bool,
    group: Option<GroupMember>,
}

/// One split of a source, or all records of the subtask.
struct Split<T> {
    generator: Option<Box<dyn WatermarkGenerator<T>>>,
    /// The largest event time so far.
    max: i64,
    /// When the last record came, in processing time. Only kept if the strategy has idleness.
    last_record_ms: i64,
    idle: bool,
}

pub(crate) struct AssignWatermarks<T> {
    strategy: WatermarkStrategy<T>,
    open: Option<Open>,
    /// Without word from a source: one, for all records.
    splits: Vec<Split<T>>,
    combined: Combined,
    /// Where the records come from.
    from: usize,
    /// The last watermark, the end of the input aside.
    emitted: i64,
    /// The restored watermark is still to be emitted again.
    again: bool,
    /// When generators are asked next.
    ask_at: Option<i64>,
    /// The source tells of its splits.
    told: bool,
    ended: bool,
}

impl<T: Data> AssignWatermarks<T> {
    pub fn new(strategy: WatermarkStrategy<T>) -> Self {
        Self {
            strategy,
            open: None,
            splits: Vec::new(),
            combined: Combined::of_splits(),
            from: 0,
            emitted: i64::MIN,
            again: false,
            ask_at: None,
            told: false,
            ended: false,
        }
    }

    /// Milliseconds between the largest event time and the watermark; a generator's watermark is saved as it
    /// is.
    fn delay(&self) -> Option<i64> {
        match self.strategy.source {
            Source::Nowhere => None,
            Source::Largest(delay) => Some(delay),
            Source::Generator(_) => Some(-1),
        }
    }

    /// Makes sure that there is a split `at`; it starts active.
    fn open_split(&mut self, at: usize) {
        self.combined.reserve(at);
        let now_ms = self.open.as_ref().map_or(0, |open| open.clock.now_ms());
        while self.splits.len() <= at {
            let generator = match &self.strategy.source {
                Source::Generator(make) => Some(make()),
                Source::Nowhere | Source::Largest(_) => None,
            };
            self.splits.push(Split { generator, max: i64::MIN, last_record_ms: now_ms, idle: false });
        }
    }

    /// Split `at` is so far; says what follows from it for all together.
    fn update(&mut self, at: usize, time: EventTime, out: &mut Output) {
        if let Some(now) = self.combined.update(at, time) {
            self.emit(now, out);
        }
    }

    fn emit(&mut self, now: EventTime, out: &mut Output) {
        if self.ended {
            return;
        }
        // all splits have been read through: that is the end of the input only if the source says so
        let idle = now.idle || now.is_end();
        if !idle {
            out.idle(false);
        }
        if now.watermark > self.emitted && !now.is_end() {
            self.emitted = now.watermark;
            out.watermark(now.timestamp());
        }
        if idle {
            out.idle(true);
        }
        self.report(idle);
    }

    /// Tells the group of sources how far this subtask is.
    fn report(&self, idle: bool) {
        if let Some(Open { group: Some(group), .. }) = &self.open {
            group.report(Some(self.emitted).filter(|at| *at > i64::MIN && !idle && !self.ended));
        }
    }

    /// After a restore downstream starts without a watermark.
    fn emit_again(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.again) && self.emitted > i64::MIN {
            out.watermark(Timestamp::from_millis(self.emitted));
            self.report(false);
        }
    }

    /// Whether the largest event time has become a watermark by now.
    fn emit_largest(&mut self, at: usize, delay: i64, out: &mut Output) {
        if let Some(split) = self.splits.get(at).filter(|split| split.max > i64::MIN) {
            let watermark = split.max.saturating_sub(delay).saturating_sub(1);
            let idle = split.idle;
            self.update(at, EventTime { watermark, idle }, out);
        }
    }

    /// What a generator has said.
    fn take(&mut self, at: usize, said: WatermarkOutput, out: &mut Output) {
        let WatermarkOutput { watermark, idle } = said;
        if watermark.is_none() && idle.is_none() {
            return;
        }
        let before = self.combined.channel(at);
        let split = &mut self.splits[at];
        split.idle = idle.unwrap_or(split.idle);
        let time = EventTime { watermark: watermark.unwrap_or(before.watermark), idle: split.idle };
        self.update(at, time, out);
    }

    /// The records of a batch one by one, since a watermark may stand behind any of them.
    fn generate(&mut self, at: usize, batch: Batch<T>, out: &mut Output) {
        let Batch { values, times, hashes } = batch;
        let mut part = Batch::default();
        let mut hashes = hashes.into_iter();
        for (value, time) in values.into_iter().zip(times) {
            let mut said = WatermarkOutput::default();
            if let Some(generator) = self.splits[at].generator.as_mut() {
                generator.on_event(&value, Timestamp::from_millis(time), &mut said);
            }
            part.push(value, Some(time));
            part.hashes.extend(hashes.next());
            if said != WatermarkOutput::default() {
                out.batch(std::mem::take(&mut part));
                self.take(at, said, out);
            }
        }
        out.batch(part);
    }

    /// A split that has records is active.
    fn wake(&mut self, at: usize, out: &mut Output) {
        if self.strategy.idleness.is_some()
            && let Some(open) = &self.open
        {
            self.splits[at].last_record_ms = open.clock.now_ms();
        }
        let split = &mut self.splits[at];
        if std::mem::take(&mut split.idle) {
            let watermark = self.combined.channel(at).watermark;
            self.update(at, EventTime { watermark, idle: false }, out);
        }
    }

    /// Generators are asked when it is time, and the largest event time counts.
    fn ask(&mut self, now_ms: i64, out: &mut Output) {
        let Some(interval) = self.open.as_ref().and_then(|open| open.interval) else { return };
        if self.ask_at.is_some_and(|at| now_ms < at) {
            return;
        }
        self.ask_at = Some(now_ms.saturating_add(interval));
        for at in 0..self.splits.len() {
            match self.strategy.source {
                Source::Largest(delay) => self.emit_largest(at, delay, out),
                Source::Generator(_) => {
                    let mut said = WatermarkOutput::default();
                    if let Some(generator) = self.splits[at].generator.as_mut() {
                        generator.on_periodic(&mut said);
                    }
                    self.take(at, said, out);
                }
                Source::Nowhere => {}
            }
        }
    }

    /// The watermark beyond which a split waits for the group.
    fn limit(&self) -> Option<i64> {
        self.open.as_ref()?.group.as_ref().filter(|_| self.told)?.limit()
    }

    fn is_split_ahead(&self, at: usize, limit: Option<i64>) -> bool {
        let (said, split) = (self.combined.channel(at), &self.splits[at]);
        let largest = match self.strategy.source {
            Source::Largest(delay) => split.max.saturating_sub(delay).saturating_sub(1),
            Source::Generator(_) | Source::Nowhere => i64::MIN,
        };
        !said.is_end() && limit.is_some_and(|limit| said.watermark.max(largest) > limit)
    }

    /// Splits without records for long become idle; returns when the next one would.
    fn let_sleep(&mut self, now_ms: i64, after: i64, out: &mut Output) -> i64 {
        let (ahead, limit) = (self.is_ahead(), self.limit());
        let mut next = i64::MAX;
        for at in 0..self.splits.len() {
            let waits = ahead || self.is_split_ahead(at, limit);
            let split = &mut self.splits[at];
            if waits {
                // it is not asked for records: that says nothing about whether there are any
                split.last_record_ms = now_ms;
            }
            let due = split.last_record_ms.saturating_add(after);
            if split.idle || self.combined.channel(at).is_end() {
                continue;
            }
            if now_ms < due {
                next = next.min(due);
                continue;
            }
            split.idle = true;
            let watermark = self.combined.channel(at).watermark;
            self.update(at, EventTime { watermark, idle: true }, out);
        }
        next
    }
}

impl<T: Data> Operator for AssignWatermarks<T> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let Some(delay) = self.delay() else { return Ok(()) };
        let (saved, restored) = SavedTime::open(context, "max-event-time")?;
        if let Some(max) = restored {
            self.emitted = max.saturating_sub(delay).saturating_sub(1);
            self.again = true;
        }
        let millis = |interval: std::time::Duration| super::millis_of(interval).max(1);
        self.open = Some(Open {
            name: context.name.clone(),
            saved,
            clock: context.clock.clone(),
            interval: context.auto_watermark_interval.map(millis),
            each_batch: context.watermark_each_batch,
            group: self.strategy.alignment.as_ref().map(|group| context.watermark_groups.join(group)),
        });
        self.open_split(0);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let mut batch = batch.take::<T>()?;
        match &self.strategy.times {
            Some(fill) => fill(&batch.values, &mut batch.times),
            None if batch.times.is_empty() && !batch.is_empty() => {
                return Err(Error::new(
                    ErrorKind::Plan,
                    "the records have no event time, and the WatermarkStrategy does not tell it: add \
                     `.timestamp(|record| ..)` to the strategy",
                ));
            }
            None => {}
        }
        if self.open.is_none() || batch.is_empty() {
            out.batch(batch);
            return Ok(());
        }
        self.emit_again(out);
        let at = self.from;
        self.open_split(at);
        self.wake(at, out);
        match self.strategy.source {
            Source::Generator(_) => self.generate(at, batch, out),
            Source::Largest(delay) => {
                let max = batch.times.iter().copied().max().unwrap_or(i64::MIN);
                out.batch(batch);
                self.splits[at].max = self.splits[at].max.max(max);
                if self.open.as_ref().is_some_and(|open| open.each_batch) {
                    self.emit_largest(at, delay, out);
                }
            }
            Source::Nowhere => out.batch(batch),
        }
        Ok(())
    }

    fn split(&mut self, event: SplitEvent, out: &mut Output) -> Result<()> {
        if self.open.is_none() {
            return Ok(());
        }
        self.emit_again(out);
        match event {
            SplitEvent::Told => {
                // splits are opened one by one from here on; none yet
                self.told = true;
                (self.splits, self.combined) = (Vec::new(), Combined::of_splits());
                out.idle(true);
            }
            SplitEvent::Opened(split) => {
                let (at, known) = (split as usize, self.splits.len());
                self.open_split(at);
                // those between are not open yet: they count as read through until they are
                for between in known..at {
                    self.combined.update(between, EventTime::END);
                }
                self.combined.reopen(at);
                out.idle(false);
                self.report(false);
            }
            SplitEvent::From(split) => self.from = split as usize,
            // splits that are told of are idle when they have been read through
            SplitEvent::Waits(_) if self.told => {}
            SplitEvent::Waits(false) => self.wake(0, out),
            SplitEvent::Waits(true) => {
                self.splits[0].idle = true;
                let watermark = self.combined.channel(0).watermark;
                self.update(0, EventTime { watermark, idle: true }, out);
            }
            SplitEvent::Ended(split) => {
                if let (Source::Largest(delay), Some(_)) = (&self.strategy.source, self.open.as_ref()) {
                    let delay = *delay;
                    self.emit_largest(split as usize, delay, out);
                }
                self.update(split as usize, EventTime::END, out);
            }
        }
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        if watermark == Timestamp::MAX {
            self.ended = true;
            self.report(true);
            // the end is not idle
            out.idle(false);
            out.watermark(watermark);
        }
        Ok(())
    }

    fn idle(&mut self, _: bool, _: &mut Output) -> Result<()> {
        // what was said above ends here: this operator sees for itself
        Ok(())
    }

    fn is_ahead(&mut self) -> bool {
        self.open.as_ref().and_then(|open| open.group.as_ref()).is_some_and(GroupMember::is_ahead)
    }

    fn splits_ahead(&mut self, splits: &mut Vec<u32>) {
        let limit = self.limit();
        let ahead = (0..self.splits.len()).filter(|at| self.is_split_ahead(*at, limit));
        splits.extend(ahead.map(|at| at as u32));
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.emit_again(out);
        let Some(open) = self.open.as_ref().filter(|_| !self.ended) else { return Ok(None) };
        let asks = match self.strategy.source {
            Source::Generator(_) => true,
            Source::Largest(_) => !open.each_batch,
            Source::Nowhere => false,
        };
        let mut next = None;
        if asks {
            self.ask(now_ms, out);
            next = self.ask_at;
        }
        if let Some(after) = self.strategy.idleness {
            let due = self.let_sleep(now_ms, after, out);
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Ok(next)
    }

    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let (Some(open), Some(delay)) = (&self.open, self.delay()) else { return Ok(None) };
        // the form of the first release: the largest event time, of which the watermark follows
        let max = match self.emitted {
            i64::MIN => i64::MIN,
            emitted => emitted.saturating_add(delay).saturating_add(1),
        };
        let (frozen, name) = (open.saved.freeze(max)?, open.name.clone());
        Ok(Some(Box::new(move |store| {
            let operator = frozen.write(store, &name).map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })))
    }
}
