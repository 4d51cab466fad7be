//! The way of a control message within a process: from the JobManager's side to a worker, and there to its
//! tasks.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc;

use parking_lot::Mutex;
use timely::scheduling::Activator;

use crate::control::Control;

/// Takes the control messages of one worker, and wakes the worker if it is parked.
pub(crate) struct Inbox {
    sender: mpsc::Sender<Control>,
    thread: Mutex<Option<std::thread::Thread>>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}

impl Inbox {
    /// Sender and receiver of one worker.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Control>) {
        let (sender, receiver) = mpsc::channel();
        (Arc::new(Self { sender, thread: Mutex::new(None) }), receiver)
    }

    pub fn send(&self, control: Control) {
        // a worker that is gone needs no message
        let _ = self.sender.send(control);
        if let Some(thread) = self.thread.lock().as_ref() {
            thread.unpark();
        }
    }

    /// Says which thread to wake.
    pub fn bind(&self, thread: std::thread::Thread) {
        *self.thread.lock() = Some(thread);
    }
}

/// Holds the control messages of one task until it runs.
pub(crate) struct Mailbox {
    pub mail: VecDeque<Control>,
    activator: Activator,
    is_source: bool,
    /// This worker runs a subtask of the task.
    active: bool,
}

impl Mailbox {
    pub fn new(activator: Activator, is_source: bool, active: bool) -> Self {
        Self { mail: VecDeque::new(), activator, is_source, active }
    }

    /// Takes a message, if it is for this task, and wakes the task.
    pub fn put(&mut self, message: &Control) {
        // whoever has inputs finishes when those before it have, and reads no splits
        let for_sources = matches!(message, Control::Drain | Control::Finish | Control::Assign(_));
        if self.active && (self.is_source || !for_sources) {
            self.mail.push_back(message.clone());
            self.activator.activate();
        }
    }
}
