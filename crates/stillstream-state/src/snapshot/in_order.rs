//! Units encoded on several threads and written by one, in order, with a bound on what is held in memory.
//!
//! Encoders take units in order, and only so many ahead of the one that is being written. Each hands its
//! blocks over through a short queue; when the queue is full it waits. The unit that is being written was
//! taken before all later ones, so its encoder never waits for another unit: no deadlock. What is held is at
//! most `AHEAD` units for each encoder, each with `QUEUE` full blocks and the one that is being filled.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::buffers;
use super::run::Sizes;
use super::units::{Block, Unit};
use crate::StateError;

const AHEAD: usize = 2;
const QUEUE: usize = 2;

/// Threads beside the one that writes: one core is left to the worker, and more than four in all would gain
/// nothing, for one of them writes.
pub(super) fn encoders() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.saturating_sub(1).clamp(1, 3)
}

type Blocks = Receiver<Result<Block, StateError>>;

#[derive(Default)]
struct Shared {
    waiting: VecDeque<(SyncSender<Result<Block, StateError>>, Unit)>,
    taken: usize,
    written: usize,
    stopped: bool,
}

struct Queue {
    shared: Mutex<Shared>,
    changed: Condvar,
    window: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // nobody's code runs under the lock
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(SyncSender<Result<Block, StateError>>, Unit)> {
        let mut shared = self.lock();
        while !shared.stopped && !shared.waiting.is_empty() && shared.taken >= shared.written + self.window {
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
        if shared.stopped {
            return None;
        }
        let next = shared.waiting.pop_front()?;
        shared.taken += 1;
        Some(next)
    }

    fn stop(&self) {
        let mut shared = self.lock();
        shared.stopped = true;
        // with the senders gone, nobody waits for these units
        shared.waiting.clear();
        self.changed.notify_all();
    }

    fn encode(&self, sizes: &Sizes) {
        let _stop = StopOnPanic(self);
        while let Some((blocks, unit)) = self.next() {
            let mut gone = false;
            let result = unit.encode(sizes, &mut |block| {
                gone = blocks.send(Ok(block)).is_err();
                match gone {
                    // the writer has failed and says so itself
                    true => Err(StateError::Io {
                        what: "writing the snapshot".into(),
                        source: std::io::Error::other("it was given up"),
                    }),
                    false => Ok(()),
                }
            });
            if let (Err(error), false) = (result, gone) {
                // a writer that is gone needs no error
                let _ = blocks.send(Err(error));
            }
        }
    }

    /// Takes all blocks in order.
    fn drain(
        &self,
        units: Vec<Blocks>,
        write: &mut dyn FnMut(&Block) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        for blocks in units {
            for block in blocks {
                let block = block?;
                write(&block)?;
                buffers::give(block.bytes);
            }
            self.lock().written += 1;
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// A user's `encode` that panics ends its thread; nobody may wait for it.
struct StopOnPanic<'a>(&'a Queue);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Encodes all units and hands their blocks to `write`, in order. A panic of an encoder goes on in the
/// caller.
pub(super) fn encode_in_order(
    units: Vec<Unit>,
    encoders: usize,
    sizes: &Sizes,
    write: &mut dyn FnMut(&Block) -> Result<(), StateError>,
) -> Result<(), StateError> {
    if units.len() <= 1 {
        return units.into_iter().try_for_each(|unit| {
            unit.encode(sizes, &mut |block| {
                write(&block)?;
                buffers::give(block.bytes);
                Ok(())
            })
        });
    }
    let (mut waiting, mut receivers) = (VecDeque::new(), Vec::new());
    for unit in units {
        let (sender, receiver) = sync_channel(QUEUE);
        waiting.push_back((sender, unit));
        receivers.push(receiver);
    }
    let queue = Queue {
        shared: Mutex::new(Shared { waiting, ..Shared::default() }),
        changed: Condvar::new(),
        window: AHEAD * encoders,
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for n in 0..encoders {
            let thread = std::thread::Builder::new().name(format!("encode-{n}"));
            match thread.spawn_scoped(scope, || queue.encode(sizes)) {
                Ok(thread) => threads.push(thread),
                // fewer will do; without any, nobody would encode
                Err(_) if n > 0 => break,
                Err(source) => {
                    return Err(StateError::Io {
                        what: "starting a thread that encodes a snapshot".into(),
                        source,
                    });
                }
            }
        }
        let written = queue.drain(receivers, write);
        if written.is_err() {
            queue.stop();
        }
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        written
    })
}
