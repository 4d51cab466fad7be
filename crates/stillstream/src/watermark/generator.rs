//! The operator behind `watermarks(..)`: gives records their times and emits watermarks.
//!
//! What it has seen is state: after a restore the watermark is emitted again before any record, so that no record is judged
//! by another watermark than it would have been without the restart.

use stillstream_runtime::flow::WatermarkHub;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, OpenContext, Operator, Output};
use stillstream_state::{Data, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::{CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, Timestamp};

use super::WatermarkStrategy;

/// How often an idle subtask looks how far the others are.
const FOLLOW_MS: i64 = 50;

/// Subtask, the largest time that it has seen, the watermark that it has emitted.
type Progress = (u32, i64, i64);

struct Opened {
    backend: OperatorStateBackend,
    progress: OperatorListState<Progress>,
    subtask: u32,
    hub: WatermarkHub,
    generator: u32,
}

/// One parallel instance.
pub(crate) struct WatermarkGenerator<T> {
    strategy: WatermarkStrategy<T>,
    opened: Option<Opened>,
    max_ms: i64,
    emitted: i64,
    /// A watermark from the state that has not been emitted since.
    restored: bool,
    idle: bool,
    last_record_ms: i64,
    /// Records have arrived since processing time was last told.
    active: bool,
}

impl<T: Data> WatermarkGenerator<T> {
    pub fn new(strategy: WatermarkStrategy<T>) -> Self {
        Self {
            strategy,
            opened: None,
            max_ms: i64::MIN,
            emitted: i64::MIN,
            restored: false,
            idle: false,
            last_record_ms: 0,
            active: false,
        }
    }

    fn report(&self) {
        if let Some(opened) = &self.opened {
            opened.hub.report(opened.generator, Timestamp::from_millis(self.emitted), self.idle);
        }
    }

    fn advance(&mut self, watermark: i64, out: &mut Output) {
        if watermark > self.emitted {
            self.emitted = watermark;
            out.watermark(Timestamp::from_millis(watermark));
        }
    }

    /// Emits the restored watermark, once.
    fn catch_up(&mut self, out: &mut Output) {
        if std::mem::take(&mut self.restored) {
            let watermark = std::mem::replace(&mut self.emitted, i64::MIN);
            self.advance(watermark.max(self.strategy.watermark(self.max_ms)), out);
            self.report();
        }
    }
}

/// What a subtask starts from: its own progress; the least of all after a change of the parallelism, since it may now read
/// what the slowest one read.
fn restored_progress(items: &[Progress], subtask: u32, parallelism: u32) -> Option<(i64, i64)> {
    match items.iter().find(|(owner, ..)| *owner == subtask) {
        Some((_, max, emitted)) if items.len() == parallelism as usize => Some((*max, *emitted)),
        _ => {
            items.iter().map(|(_, max, emitted)| (*max, *emitted)).reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)))
        }
    }
}

impl<T: Data> Operator for WatermarkGenerator<T> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut backend = OperatorStateBackend::new(context.subtask);
        if let Some(state) = &context.restored {
            backend.restore(&state.operator, &*context.store).map_err(StateError::into_error)?;
        }
        let progress = backend.union_list::<Progress>("watermark").map_err(StateError::into_error)?;
        let items = progress.get().map_err(StateError::into_error)?;
        if let Some(restored) = restored_progress(&items, context.subtask.0, context.parallelism) {
            (self.max_ms, self.emitted) = restored;
            self.restored = true;
        }
        let hub = context.watermark_hub();
        let generator = hub.register(self.strategy.idleness_ms.is_some());
        self.last_record_ms = context.clock.now_ms();
        self.opened = Some(Opened { backend, progress, subtask: context.subtask.0, hub, generator });
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        self.catch_up(out);
        let mut batch = batch.take::<T>()?;
        if batch.is_empty() {
            return Ok(());
        }
        if let Some(timestamp) = &self.strategy.timestamp {
            batch.times.clear();
            batch.times.extend(batch.values.iter().map(|record| timestamp(record).as_millis()));
        } else if batch.times.is_empty() {
            return Err(Error::new(
                ErrorKind::Plan,
                "records have no time, and the watermark strategy has no way to find one: add \
                 `.timestamp(|record| ..)` to it, or use a source that gives times",
            ));
        }
        self.max_ms = batch.times.iter().fold(self.max_ms, |max, time| max.max(*time));
        (self.idle, self.active) = (false, true);
        out.batch(batch);
        self.advance(self.strategy.watermark(self.max_ms), out);
        self.report();
        Ok(())
    }

    /// Watermarks from above are replaced by the own ones; only the end of the input is passed on.
    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        if watermark == Timestamp::MAX {
            self.idle = false;
            self.restored = false;
            self.advance(i64::MAX, out);
            self.report();
        }
        Ok(())
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.catch_up(out);
        let Some(idleness) = self.strategy.idleness_ms else { return Ok(None) };
        if self.emitted == i64::MAX {
            return Ok(None);
        }
        if std::mem::take(&mut self.active) {
            self.last_record_ms = now_ms;
        }
        let idle_from = self.last_record_ms.saturating_add(idleness);
        if !self.idle && now_ms >= idle_from {
            self.idle = true;
            self.report();
        }
        if !self.idle {
            return Ok(Some(idle_from));
        }
        if let Some(active) = self.opened.as_ref().and_then(|opened| opened.hub.active_watermark()) {
            // the end of the other inputs is not the end of this one
            if active != Timestamp::MAX {
                self.advance(active.as_millis(), out);
                self.report();
            }
        }
        Ok(Some(now_ms + FOLLOW_MS))
    }

    fn snapshot(&mut self, _: CheckpointId) -> Result<Option<AsyncSnapshot>> {
        let Some(opened) = &self.opened else { return Ok(None) };
        // the end of the input is not kept: whoever restores a finished source may give it more to read
        let emitted = match self.emitted {
            i64::MAX => self.strategy.watermark(self.max_ms),
            emitted => emitted,
        };
        let progress = vec![(opened.subtask, self.max_ms, emitted)];
        opened.progress.update(progress).map_err(StateError::into_error)?;
        let frozen = opened.backend.freeze().map_err(StateError::into_error)?;
        Ok(Some(Box::new(move |store| {
            let operator = frozen.write(store, "watermark").map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { keyed: Vec::new(), operator })
        })))
    }
}

#[cfg(test)]
mod tests;
