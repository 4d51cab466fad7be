//! The commands that the coordinator gives in answer to one event.

use std::time::Duration;

use stillstream_types::Generation;

use crate::checkpoint::command::{CheckpointReport, Command};
use crate::checkpoint::event::RequestId;
use crate::checkpoint::failure::CheckpointFailure;
use crate::checkpoint::storage::StorageCall;
use crate::message::Control;

/// Collects commands in their order. They can be added, but not looked at or taken back.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    given: Vec<Command>,
    // the alarm that the shell was asked for last
    wake_at: Option<Duration>,
}

impl Commands {
    pub(super) fn push(&mut self, command: Command) {
        self.given.push(command);
    }

    pub(super) fn extend(&mut self, commands: impl IntoIterator<Item = Command>) {
        self.given.extend(commands);
    }

    pub(super) fn call(&mut self, call: StorageCall) {
        self.push(Command::Storage(call));
    }

    pub(super) fn tell(&mut self, generation: Generation, control: Control) {
        self.push(Command::Tell { generation, control });
    }

    pub(super) fn reply(&mut self, request: RequestId, result: Result<CheckpointReport, CheckpointFailure>) {
        self.push(Command::Reply { request, result });
    }

    pub(super) fn warn(&mut self, text: impl Into<String>) {
        self.push(Command::Warn(text.into()));
    }

    pub(super) fn info(&mut self, text: impl Into<String>) {
        self.push(Command::Info(text.into()));
    }

    /// The alarm has gone off. The shell may have carried out an older wish after a newer one, so what is
    /// still due is asked for again.
    pub(super) fn forget_wake(&mut self) {
        self.wake_at = None;
    }

    /// Asks for an alarm at this time, unless that was asked for already.
    pub(super) fn wake(&mut self, wanted: Option<Duration>, now: Duration) {
        if let Some(at) = wanted
            && (self.wake_at != wanted || at <= now)
        {
            self.push(Command::WakeAt(at));
        }
        self.wake_at = wanted;
    }

    /// All commands that were given since they were taken last.
    pub(super) fn take(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.given)
    }
}
