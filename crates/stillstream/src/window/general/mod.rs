//! The operator behind every window that is not simple: any assigner, trigger, evictor and function.
//!
//! State lies by key and window ([`WindowKey`]); each window has timers of its own, those of its trigger and
//! the one at which it is forgotten. What happens when, in which order, is Flink's `WindowOperator`: a record
//! is added, then the trigger is asked, then the window fires, then it is purged; a window is forgotten at
//! its last moment, or later by the allowed lateness.
//!
//! | module | what is inside |
//! |---|---|
//! | `key` | key and window as one key |
//! | `contents` | what a window holds |
//! | `sessions` | windows that merge |
//! | `assign` | a record's windows |
//! | `open` | what is done with one window |

mod assign;
mod contents;
mod key;
mod open;
mod sessions;
#[cfg(test)]
mod tests;

pub(crate) use contents::{Aggregated, Contents, Evicted, Listed};
pub(crate) use key::{Place, WindowKey};

use std::sync::Arc;

use stillstream_runtime::exchange::KeySelector;
use stillstream_runtime::{AnyBatch, AsyncSnapshot, Batch, OpenContext, Operator, Output};
use stillstream_state::{Data, Key, KeyedBackend, StateError, TimeDomain};
use stillstream_types::{CheckpointId, Error, ErrorKind, Result, SnapshotForm, Timestamp};

use super::assigner::Windows;
use super::context::WindowContext;
use super::shell::{SLICE, Settings, not_open};
use super::states::WindowStates;
use super::trigger::Trigger;
use crate::operators::keyed_state::checkpoint_notices;
use open::Open;

/// What is called when a window fires; `In` is what its contents come to.
pub(crate) trait Function<K: Key, In>: Send + Sync + 'static {
    type Out: Data;
    /// One parallel instance.
    type Instance: 'static;

    fn open(&self, states: &mut WindowStates<'_, K>) -> Result<Self::Instance>;

    fn call(
        &self,
        instance: &mut Self::Instance,
        input: In,
        ctx: &mut WindowContext<'_, K, Self::Out>,
    ) -> Result<()>;

    /// The window is forgotten.
    fn clear(&self, instance: &mut Self::Instance, ctx: &mut WindowContext<'_, K, Self::Out>) -> Result<()>;

    /// All input is through.
    fn close(&self, instance: &mut Self::Instance) -> Result<()> {
        let _ = instance;
        Ok(())
    }
}

/// What all parallel instances share.
pub(crate) struct Parts<T, Tr, C, F> {
    pub windows: Windows<T>,
    pub settings: Settings<T>,
    pub trigger: Arc<Tr>,
    pub contents: Arc<C>,
    pub function: Arc<F>,
}

impl<T, Tr, C, F> Clone for Parts<T, Tr, C, F> {
    fn clone(&self) -> Self {
        Self {
            windows: self.windows.clone(),
            settings: self.settings.clone(),
            trigger: self.trigger.clone(),
            contents: self.contents.clone(),
            function: self.function.clone(),
        }
    }
}

pub(crate) struct GeneralWindows<T, S, Tr, C, F>
where
    T: Data,
    S: KeySelector<T>,
    Tr: Trigger<T>,
    C: Contents<T>,
    F: Function<S::Key, C::Out>,
{
    parts: Parts<T, Tr, C, F>,
    selector: Arc<S>,
    open: Option<Open<S::Key, T, Tr, C, F>>,
}

impl<T, S, Tr, C, F> GeneralWindows<T, S, Tr, C, F>
where
    T: Data,
    S: KeySelector<T>,
    Tr: Trigger<T>,
    C: Contents<T>,
    F: Function<S::Key, C::Out>,
{
    pub fn new(parts: Parts<T, Tr, C, F>, selector: Arc<S>) -> Self {
        Self { parts, selector, open: None }
    }
}

impl<T, S, Tr, C, F> Operator for GeneralWindows<T, S, Tr, C, F>
where
    T: Data,
    S: KeySelector<T>,
    Tr: Trigger<T>,
    C: Contents<T>,
    F: Function<S::Key, C::Out>,
{
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        self.open = Some(Open::new(self.parts.clone(), context)?);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let Batch { values, times, hashes } = batch.take::<T>()?;
        if hashes.len() != values.len() {
            return Err(Error::new(ErrorKind::Plan, "a window got records without key hashes"));
        }
        open.look_at_clock();
        for (i, value) in values.into_iter().enumerate() {
            let key = self.selector.key(&value);
            open.record(&key, hashes[i], value, times.get(i).copied())?;
        }
        open.shell.flush(out);
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        open.shell.clock.advance(watermark.as_millis());
        open.passing.hold(watermark);
        if !open.is_due(TimeDomain::EventTime, open.watermark()) {
            open.shell.clock.settle();
            open.passing.release(out);
        }
        Ok(())
    }

    fn resume(&mut self, out: &mut Output) -> Result<bool> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        if !open.passing.holds() {
            return Ok(false);
        }
        let more = open.fire(TimeDomain::EventTime, open.watermark(), out.room().clamp(1, SLICE))?;
        open.shell.flush(out);
        if !more {
            open.shell.clock.settle();
            open.passing.release(out);
        }
        Ok(more)
    }

    fn end_of_input(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        let again = open.end_of_input(now_ms, out.room().clamp(1, SLICE))?;
        open.shell.flush(out);
        Ok(again)
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        let open = self.open.as_mut().ok_or_else(not_open)?;
        if open.has_ended() {
            return Ok(None);
        }
        let now = Timestamp::from_millis(now_ms);
        let more = open.fire(TimeDomain::ProcessingTime, now, out.room().clamp(1, SLICE))?;
        open.shell.flush(out);
        Ok(Some(if more { now_ms } else { open.next_processing_time() }))
    }

    fn snapshot(&mut self, id: CheckpointId, form: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        self.open.as_mut().ok_or_else(not_open)?.shell.snapshot(id, form)
    }

    fn finish(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), Open::close)
    }

    checkpoint_notices!(open => shell.backend());
}

/// State that could not be read or written.
fn state<R>(result: Result<R, StateError>) -> Result<R> {
    result.map_err(StateError::into_error)
}
