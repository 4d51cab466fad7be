//! The operator under [`DataStream::async_map`](crate::DataStream::async_map): records that wait for answers,
//! in the order in which they came, with the watermarks between them.

use std::collections::VecDeque;

use stillstream_runtime::requests::{Outcome, Requests};
use stillstream_runtime::{AnyBatch, AsyncSnapshot, OpenContext, Operator, Output};
use stillstream_state::{Data, OperatorListState, OperatorStateBackend, StateError};
use stillstream_types::{
    CheckpointId, Error, ErrorKind, OperatorSubtaskState, Result, SnapshotForm, Timestamp,
};

use super::keyed_state::open_operator_state;
use crate::async_io::{Ask, AsyncSettings};
use crate::collector::Collector;
use crate::functions::RuntimeContext;

/// While the end of the input is held back, the operator looks again after this, whether it is woken or not.
const LOOK_AGAIN_MS: i64 = 1_000;

/// In which order answers go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// In that of the records.
    Input,
    /// In that of the answers, between two watermarks.
    Completion,
}

/// What stands in the queue.
enum Entry<T, U> {
    /// A record and its event time; its answer is not there yet.
    UnderWay(T, Option<i64>),
    /// Its answer is there and waits for something before it.
    Answered(T, Option<i64>, Vec<U>),
    /// Its answer has gone on.
    Gone,
    Watermark(Timestamp),
    Idle(bool),
}

/// What exists once the operator is open.
struct Opened<T, U> {
    /// `None` where nothing will run.
    ask: Option<Ask<T, U>>,
    requests: Requests<Vec<U>>,
    /// The records under way, as of the last snapshot.
    saved: OperatorListState<(T, Option<i64>)>,
    backend: OperatorStateBackend,
    name: String,
}

pub(crate) struct AsyncOperator<T, U> {
    settings: AsyncSettings<T, U>,
    order: Order,
    opened: Option<Opened<T, U>>,
    /// Records that have been taken and not been asked for yet.
    waiting: VecDeque<(T, Option<i64>)>,
    /// Records that have been asked for, and what came between them. Numbers are given in a row: `first` is
    /// that of the front.
    queue: VecDeque<Entry<T, U>>,
    first: u64,
    /// Numbers of what is no record: no answer passes it.
    marks: VecDeque<u64>,
    /// Records in the queue that have not gone on.
    held: usize,
    out: Collector<U>,
    ends: bool,
}

fn not_open() -> Error {
    Error::new(ErrorKind::Plan, "the operator is not open")
}

impl<T: Data, U: Data> AsyncOperator<T, U> {
    pub fn new(settings: AsyncSettings<T, U>, order: Order) -> Self {
        Self {
            settings,
            order,
            opened: None,
            waiting: VecDeque::new(),
            queue: VecDeque::new(),
            first: 0,
            marks: VecDeque::new(),
            held: 0,
            out: Collector::default(),
            ends: false,
        }
    }

    /// Takes the answers that have come, lets go on what may, and asks for what there is room for.
    fn pump(&mut self, out: &mut Output) -> Result<()> {
        let done = self.opened.as_mut().ok_or_else(not_open)?.requests.take_done();
        let answered = !done.is_empty();
        for (number, outcome) in done {
            self.answer(number, outcome)?;
        }
        if answered {
            self.release(out);
        }
        self.ask_for_waiting()
    }

    fn answer(&mut self, number: u64, outcome: Outcome<Vec<U>>) -> Result<()> {
        let at = (number - self.first) as usize;
        let Some(Entry::UnderWay(record, time)) =
            self.queue.get_mut(at).map(|entry| std::mem::replace(entry, Entry::Gone))
        else {
            return Err(Error::new(ErrorKind::Plan, "an answer came twice"));
        };
        let values = match outcome {
            Outcome::Done(answer) => answer?,
            Outcome::TimedOut => match &self.settings.on_timeout {
                Some(on_timeout) => on_timeout(record.clone())?,
                None => {
                    let limit = self.settings.timeout.unwrap_or_default();
                    return Err(Error::new(
                        ErrorKind::Timeout,
                        format!(
                            "an asynchronous request for a record of type `{}` had no answer within {limit:?}: give it more time by \
                             `.timeout(..)`, or say by `.on_timeout(|record| ..)` what goes on then",
                            std::any::type_name::<T>()
                        ),
                    ));
                }
            },
        };
        let free = self.order == Order::Completion && self.marks.front().is_none_or(|mark| number < *mark);
        match free {
            true => self.emit(time, values),
            false => self.queue[at] = Entry::Answered(record, time, values),
        }
        Ok(())
    }

    fn emit(&mut self, time: Option<i64>, values: Vec<U>) {
        self.held -= 1;
        values.into_iter().for_each(|value| self.out.emit_at(value, time));
    }

    /// Lets go on what nothing holds back.
    fn release(&mut self, out: &mut Output) {
        loop {
            match self.queue.pop_front() {
                None => break,
                Some(Entry::UnderWay(record, time)) => {
                    self.queue.push_front(Entry::UnderWay(record, time));
                    break;
                }
                Some(Entry::Answered(_, time, values)) => self.emit(time, values),
                Some(Entry::Gone) => {}
                Some(mark) => {
                    self.marks.pop_front();
                    self.out.flush(out);
                    match mark {
                        Entry::Watermark(watermark) => out.watermark(watermark),
                        Entry::Idle(idle) => out.idle(idle),
                        Entry::UnderWay(..) | Entry::Answered(..) | Entry::Gone => {}
                    }
                    self.first += 1;
                    self.release_up_to_mark();
                    continue;
                }
            }
            self.first += 1;
        }
        self.out.flush(out);
    }

    /// Lets go on the answers that have waited for the mark before them.
    fn release_up_to_mark(&mut self) {
        if self.order == Order::Input {
            return;
        }
        let until = self.marks.front().map_or(self.queue.len(), |mark| (mark - self.first) as usize);
        for at in 0..until {
            if let Entry::Answered(_, time, values) = &mut self.queue[at] {
                let (time, values) = (*time, std::mem::take(values));
                self.queue[at] = Entry::Gone;
                self.emit(time, values);
            }
        }
    }

    fn ask_for_waiting(&mut self) -> Result<()> {
        while self.held < self.settings.capacity {
            let Some((record, time)) = self.waiting.pop_front() else { break };
            let opened = self.opened.as_mut().ok_or_else(not_open)?;
            let (ask, asked_for) = (opened.ask.clone().ok_or_else(not_open)?, record.clone());
            let number = self.first + self.queue.len() as u64;
            opened.requests.start(number, move || ask(asked_for.clone()))?;
            self.queue.push_back(Entry::UnderWay(record, time));
            self.held += 1;
        }
        Ok(())
    }

    /// Something that no answer passes.
    fn mark(&mut self, mark: Entry<T, U>, out: &mut Output) {
        self.marks.push_back(self.first + self.queue.len() as u64);
        self.queue.push_back(mark);
        self.release(out);
    }
}

impl<T: Data, U: Data> Operator for AsyncOperator<T, U> {
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        let mut backend = open_operator_state(context)?;
        let saved = backend.list::<(T, Option<i64>)>("under-way").map_err(StateError::into_error)?;
        let mut requests = Requests::new(context.waker.clone());
        (requests.timeout, requests.delays) = (self.settings.timeout, self.settings.delays);
        requests.retryable = self.settings.retryable.clone();
        let ask = match context.dry {
            true => None,
            false => {
                self.waiting = saved.get().map_err(StateError::into_error)?.into();
                let runtime = RuntimeContext::of(context);
                Some(stillstream_runtime::requests::within(|| (self.settings.open)(&runtime))??)
            }
        };
        self.opened = Some(Opened { ask, requests, saved, backend, name: context.name.to_string() });
        if !self.waiting.is_empty() {
            // they are asked for when the operator is scheduled
            context.waker.wake();
        }
        Ok(())
    }

    fn ready(&mut self, out: &mut Output) -> Result<bool> {
        self.pump(out)?;
        Ok(self.waiting.is_empty() && self.held < self.settings.capacity)
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let batch = batch.take::<T>()?;
        let times: Vec<Option<i64>> = (0..batch.len()).map(|i| batch.time(i)).collect();
        self.waiting.extend(batch.values.into_iter().zip(times));
        self.pump(out)
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        self.mark(Entry::Watermark(watermark), out);
        Ok(())
    }

    fn idle(&mut self, idle: bool, out: &mut Output) -> Result<()> {
        self.mark(Entry::Idle(idle), out);
        Ok(())
    }

    fn end_of_input(&mut self, _: i64, out: &mut Output) -> Result<Option<i64>> {
        self.pump(out)?;
        self.ends = self.held + self.waiting.len() > 0;
        // whenever an answer comes
        Ok(self.ends.then_some(i64::MAX))
    }

    fn processing_time(&mut self, now_ms: i64, out: &mut Output) -> Result<Option<i64>> {
        self.pump(out)?;
        let waits = self.ends && self.held + self.waiting.len() > 0;
        Ok(Some(if waits { now_ms.saturating_add(LOOK_AGAIN_MS) } else { i64::MAX }))
    }

    fn snapshot(&mut self, _: CheckpointId, _: SnapshotForm) -> Result<Option<AsyncSnapshot>> {
        let opened = self.opened.as_mut().ok_or_else(not_open)?;
        let record = |entry: &Entry<T, U>| match entry {
            Entry::UnderWay(record, time) | Entry::Answered(record, time, _) => Some((record.clone(), *time)),
            Entry::Gone | Entry::Watermark(_) | Entry::Idle(_) => None,
        };
        let under_way = self.queue.iter().filter_map(record).chain(self.waiting.iter().cloned());
        opened.saved.update(under_way.collect()).map_err(StateError::into_error)?;
        let (frozen, name) = (opened.backend.freeze().map_err(StateError::into_error)?, opened.name.clone());
        Ok(Some(Box::new(move |store| {
            let operator = frozen.write(store, &name).map_err(StateError::into_error)?;
            Ok(OperatorSubtaskState { operator, ..OperatorSubtaskState::default() })
        })))
    }
}
