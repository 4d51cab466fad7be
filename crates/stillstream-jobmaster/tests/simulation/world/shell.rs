//! The shell: carries commands out, and checks what each one promises.

use super::attempts::Barrier;
use super::*;

impl World {
    pub(super) fn feed(&mut self, at: usize, event: JobEvent) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let (now, random) = (self.now, self.below(1000) as f64 / 1000.0);
            let Some(node) = self.nodes[at].as_mut() else { return };
            let now = now.saturating_sub(node.zero);
            let wall_ms = now.as_millis() as i64;
            for command in node.engine.handle(event, Moment { now, wall_ms, random }) {
                if self.faults.crash_at == Some(self.tally.commands) {
                    self.faults.crash_at = None;
                    return self.crash(at);
                }
                self.tally.commands += 1;
                if self.faults.one_in > 0 && !self.faults.calm && self.below(400) == 0 {
                    return self.crash(at);
                }
                if let Some(trace) = &mut self.trace {
                    let text = format!("{command:?}");
                    *trace =
                        text.bytes().fold(*trace, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
                }
                events.extend(self.carry_out(at, command));
                if self.nodes[at].is_none() {
                    return;
                }
            }
        }
    }

    /// Begins what is wanted; gives back an answer that comes at once.
    fn carry_out(&mut self, at: usize, command: JobCommand) -> Option<JobEvent> {
        match command {
            JobCommand::Storage(call) => self.bag.push(Action::Call { node: Some(at), call }),
            JobCommand::ReadSnapshot { generation, from } => {
                self.bag.push(Action::ReadSnapshot { node: at, generation, from });
            }
            JobCommand::Deploy(spec) => return self.deploy(at, spec),
            JobCommand::Tell { generation, control } => self.tell(at, generation, control),
            JobCommand::Replace { workers } => return Some(self.replace(at, workers)),
            JobCommand::Reply { request, result } => self.replied(at, request, result),
            JobCommand::Restarting { .. } => self.tally.restarts += 1,
            JobCommand::Warn(text) => self.tally.refused += u64::from(text.contains("is refused: it names")),
            JobCommand::Log(level, text) => {
                assert!(level != Level::Error || !text.contains("cannot go from"), "an illegal step: {text}")
            }
            JobCommand::StillStopping { .. } | JobCommand::Reached(_) => {}
            JobCommand::End(result) => self.ended(at, result),
        }
        None
    }

    fn tell(&mut self, at: usize, generation: Generation, control: Control) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        let (plan, workers) = (node.plan.clone(), node.plan.iter().copied().max().unwrap_or(1) as usize);
        let subtasks: Vec<SubtaskId> = nodes::tasks(&plan).into_iter().map(|task| task.id).collect();
        match control {
            Control::Trigger { id, savepoint, full, stop, .. } => {
                // a leader that does not know yet that it is none may use up what it reserved, but never an
                // id of another
                assert!(self.used.insert(id), "id {id} is used twice");
                assert!(id > node.used, "id {id} after {}", node.used);
                node.used = id;
                let place = savepoint.map(|target| target.location);
                self.cut(at, generation, id, Barrier { place, full, stop });
                for subtask in subtasks {
                    self.bag.push(Action::Snapshot { node: at, generation, checkpoint: id, subtask });
                }
            }
            Control::Assign(assignment) => self.assign(at, generation, &assignment),
            Control::Complete { id } => {
                self.check_splits(id);
                if let Some(register) = self.register.as_ref().filter(|r| r.generation == generation) {
                    let named = register.completed.iter().any(|c| c.id == id);
                    assert!(named, "{id} is announced, the register has {register:?}");
                }
                self.tally.completed += 1;
                for subtask in subtasks {
                    self.bag.push(Action::Commit { node: at, generation, checkpoint: id, subtask });
                }
            }
            Control::Aborted { id } => {
                self.tally.aborted += 1;
                self.aborted(at, generation, id);
            }
            Control::Drain => self.bag.push(Action::Drain { node: at, generation }),
            Control::Finish | Control::Stop => {
                let drain = control == Control::Finish;
                for worker in 0..workers {
                    self.bag.push(Action::Stop { node: at, generation, worker, drain });
                }
            }
        }
    }
}
