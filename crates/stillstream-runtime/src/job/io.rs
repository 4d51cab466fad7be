//! Threads that carry out the coordinator's storage commands, so that the JobManager never blocks on IO.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use stillstream_jobmaster::{DiscardTarget, JobEvent, StorageCall};
use stillstream_types::Result;

use super::checkpoint_storage::JobCheckpointStorage;
use super::manager::Message;
use super::savepoints::MadeFor;
use crate::catch::{catch_on_thread, spawn};

type Job = Box<dyn FnOnce() -> JobEvent + Send>;

/// Two lanes: one for what a checkpoint waits for, one for deletions, which may hang without harm.
pub(crate) struct IoThreads {
    main: Option<mpsc::Sender<Job>>,
    low: Option<mpsc::Sender<Job>>,
    main_threads: Vec<std::thread::JoinHandle<()>>,
    low_threads: Vec<std::thread::JoinHandle<()>>,
    answers: mpsc::Sender<Message>,
    made: MadeFor,
}

impl fmt::Debug for IoThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IoThreads")
    }
}

/// The answer of a job. One that panics has none, and the JobManager would wait for it for ever: it is told.
fn answer(job: Job) -> Message {
    Message::Event(catch_on_thread(|| Ok(job())).unwrap_or_else(JobEvent::Panicked))
}

fn lane(
    name: &str,
    threads: usize,
    answers: &mpsc::Sender<Message>,
) -> Result<(mpsc::Sender<Job>, Vec<std::thread::JoinHandle<()>>)> {
    let (sender, receiver) = mpsc::channel::<Job>();
    let receiver = Arc::new(Mutex::new(receiver));
    let mut handles = Vec::new();
    for n in 0..threads {
        let (receiver, answers, last_word) = (receiver.clone(), answers.clone(), answers.clone());
        let run = move || {
            loop {
                let job = receiver.lock().recv();
                let Ok(job) = job else { return };
                // the job has ended if nobody wants the answer
                let _ = answers.send(answer(job));
            }
        };
        let panicked = move |error| drop(last_word.send(Message::Event(JobEvent::Panicked(error))));
        handles.push(spawn(format!("{name}-{n}"), run, panicked)?);
    }
    Ok((sender, handles))
}

impl IoThreads {
    /// `made`: what was made for savepoints, of which those that fail are deleted here.
    pub fn start(answers: mpsc::Sender<Message>, made: MadeFor) -> Result<Self> {
        let (main, main_threads) = lane("checkpoint-io", 2, &answers)?;
        let (low, low_threads) = lane("clean-up", 2, &answers)?;
        Ok(Self { main: Some(main), low: Some(low), main_threads, low_threads, answers, made })
    }

    /// Where answers go, and whatever else the JobManager is to hear of.
    pub fn answers(&self) -> mpsc::Sender<Message> {
        self.answers.clone()
    }

    pub fn run(&self, job: impl FnOnce() -> JobEvent + Send + 'static) {
        Self::send(&self.main, Box::new(job), &self.answers);
    }

    /// Carries a call out, in its lane.
    pub fn call(&self, checkpoints: &Arc<dyn JobCheckpointStorage>, call: StorageCall) {
        let low = matches!(call, StorageCall::ListShared | StorageCall::Discard { .. });
        let failed = match &call {
            StorageCall::Discard { target: DiscardTarget::Savepoint(location), .. } => Some(location.clone()),
            _ => None,
        };
        let (checkpoints, made) = (checkpoints.clone(), self.made.clone());
        let job = move || {
            let answer = checkpoints.answer(call);
            failed.iter().for_each(|location| made.remove(location));
            JobEvent::Storage(answer)
        };
        match low {
            true => self.run_low(job),
            false => self.run(job),
        }
    }

    /// For deletions.
    pub fn run_low(&self, job: impl FnOnce() -> JobEvent + Send + 'static) {
        Self::send(&self.low, Box::new(job), &self.answers);
    }

    fn send(lane: &Option<mpsc::Sender<Job>>, job: Job, answers: &mpsc::Sender<Message>) {
        let Some(lane) = lane else { return };
        if let Err(mpsc::SendError(job)) = lane.send(job) {
            // the threads are gone, which nothing should bring about: do it here rather than not at all
            let _ = answers.send(answer(job));
        }
    }

    /// Lets what has begun end, for a short while, deletions aside: its answers can then be acted upon.
    pub fn finish_main(&mut self) {
        self.main = None;
        wait(&self.main_threads, Duration::from_secs(2));
    }

    /// Lets deletions that have begun end, for a short while: what is left is removed at the next start.
    pub fn finish(&mut self) {
        self.main = None;
        self.low = None;
        wait(&self.low_threads, Duration::from_secs(10));
    }
}

fn wait(threads: &[std::thread::JoinHandle<()>], longest: Duration) {
    for _ in 0..longest.as_millis() / 5 {
        if threads.iter().all(std::thread::JoinHandle::is_finished) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_storage_call_is_told_with_the_name_of_its_thread_and_the_thread_goes_on() {
        let (sender, answers) = mpsc::channel();
        let io = IoThreads::start(sender, MadeFor::default()).unwrap();
        for n in 0..5 {
            io.run(move || panic!("call {n} broke"));
            match answers.recv_timeout(Duration::from_secs(30)).unwrap() {
                Message::Event(JobEvent::Panicked(error)) => {
                    let text = error.to_string();
                    let expected = format!("panicked: call {n} broke");
                    assert!(
                        text.contains("the thread `checkpoint-io-") && text.ends_with(&expected),
                        "{text}"
                    );
                }
                _ => panic!("another message"),
            }
        }
        io.run(|| JobEvent::Cancel);
        assert!(matches!(
            answers.recv_timeout(Duration::from_secs(30)),
            Ok(Message::Event(JobEvent::Cancel))
        ));
    }
}
