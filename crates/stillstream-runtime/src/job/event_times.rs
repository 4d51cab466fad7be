//! Where event time stands in a running job, channel by channel, and the sentence that says who holds it
//! back.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stillstream_types::{SubtaskId, SubtaskIndex, Timestamp};

use super::info::{JobInfo, PlanVertex, ShipStrategy};
use crate::clock::Clock;
use crate::control::TaskTime;

/// Event time of one subtask of a task, which is a chain of operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEventTime {
    /// The task's name: its operators, joined by arrows.
    pub task: Arc<str>,
    /// Which parallel instance.
    pub subtask: SubtaskIndex,
    /// What holds for all channels together; `None` before the first watermark.
    pub watermark: Option<Timestamp>,
    /// Whether all channels are idle.
    pub idle: bool,
    /// Whether windows wait for it here.
    pub needed: bool,
    /// By input and sender.
    pub channels: Vec<ChannelEventTime>,
}

/// Event time of one channel: one input, and one sending subtask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEventTime {
    /// The number of the input, from 1 on, as people count.
    pub input: usize,
    /// The task that sends.
    pub from: Arc<str>,
    /// Its subtask.
    pub from_subtask: SubtaskIndex,
    /// Its last watermark; `None` if it has sent none.
    pub watermark: Option<Timestamp>,
    /// It is left out of the minimum.
    pub idle: bool,
    /// How long its watermark has not moved, or how long it has sent none.
    pub silent_for: Duration,
}

impl TaskEventTime {
    /// The channels that hold event time back here: active, with the least watermark, and not ended.
    pub fn held_back_by(&self) -> impl Iterator<Item = &ChannelEventTime> {
        let active = |channel: &&ChannelEventTime| !channel.idle && channel.watermark != Some(Timestamp::MAX);
        let least = self.channels.iter().filter(active).map(|channel| channel.watermark).min();
        self.channels.iter().filter(active).filter(move |channel| Some(channel.watermark) == least)
    }
}

impl fmt::Display for ChannelEventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.silent_for.as_secs();
        write!(f, "from subtask {} of `{}`, ", self.from_subtask, self.from)?;
        match self.watermark {
            None => write!(f, "has sent no watermark for {seconds} s"),
            Some(at) => write!(f, "stands at {at} since {seconds} s"),
        }
    }
}

impl fmt::Display for TaskEventTime {
    /// Who holds event time back: "input 1 of `join`, from subtask 3 of `orders`, has sent no watermark for
    /// 60 s".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, subtask, .. } = self;
        if self.idle {
            return write!(f, "all inputs of `{task}` subtask {subtask} are idle");
        }
        let mut held = self.held_back_by();
        match held.next() {
            None => write!(f, "the input of `{task}` subtask {subtask} has ended"),
            Some(channel) => {
                write!(f, "input {} of `{task}`, {channel}", channel.input)?;
                match held.count() {
                    0 => Ok(()),
                    more => write!(f, ", and {more} more channels as well"),
                }
            }
        }
    }
}

fn known(watermark: i64) -> Option<Timestamp> {
    (watermark > i64::MIN).then(|| Timestamp::from_millis(watermark))
}

/// What tasks have said of event time during the present attempt.
#[derive(Default)]
pub(crate) struct EventTimes {
    said: BTreeMap<SubtaskId, TaskTime>,
    /// The job, for names, and the clock, for how long somebody has been silent; known once the job runs.
    known: Option<(Arc<JobInfo>, Arc<dyn Clock>)>,
}

impl EventTimes {
    pub fn of(info: Arc<JobInfo>, clock: Arc<dyn Clock>) -> Self {
        Self { said: BTreeMap::new(), known: Some((info, clock)) }
    }

    pub fn learn(&mut self, subtask: SubtaskId, time: TaskTime) {
        self.said.insert(subtask, time);
    }

    /// A new attempt starts from the beginning.
    pub fn clear(&mut self) {
        self.said.clear();
    }

    /// For people, as of now.
    pub fn read(&self) -> Vec<TaskEventTime> {
        let Some((info, clock)) = &self.known else { return Vec::new() };
        let vertices = &info.plan.vertices;
        let now_ms = clock.now_ms();
        let tasks = self.said.iter().filter_map(|(subtask, time)| {
            let task = vertices.get(subtask.vertex.0 as usize)?;
            Some(read_task(vertices, task, subtask.index, time, now_ms))
        });
        tasks.collect()
    }
}

fn read_task(
    vertices: &[PlanVertex],
    task: &PlanVertex,
    subtask: SubtaskIndex,
    time: &TaskTime,
    now_ms: i64,
) -> TaskEventTime {
    let senders = task.inputs.iter().flat_map(|input| {
        let local = input.ship == ShipStrategy::Forward;
        let all = if local { subtask.0..subtask.0 + 1 } else { 0..input.from_parallelism };
        let from = vertices[input.from].name.clone();
        all.map(move |sender| (input.port, from.clone(), SubtaskIndex(sender)))
    });
    let channels =
        senders.zip(&time.channels).map(|((port, from, from_subtask), channel)| ChannelEventTime {
            input: port + 1,
            from,
            from_subtask,
            watermark: known(channel.time.watermark),
            idle: channel.time.idle,
            silent_for: Duration::from_millis(now_ms.saturating_sub(channel.moved_at_ms).max(0) as u64),
        });
    TaskEventTime {
        task: task.name.clone(),
        subtask,
        watermark: known(time.combined.watermark),
        idle: time.combined.idle,
        needed: task.needs_event_time,
        channels: channels.collect(),
    }
}
