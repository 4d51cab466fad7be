//! The shell: carries commands out, and checks what each one promises.

use super::*;

impl World {
    pub(super) fn carry_out(&mut self, node: usize, command: Command) {
        let seed = self.seed;
        let text = format!("{command:?}");
        self.trace = text.bytes().fold(self.trace, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let some = Some(node);
        match command {
            Command::UpdateRegister { expected, record } => {
                self.bag.push(Action::CompareAndSet { node: some, expected, record });
            }
            Command::ReadRegister => self.bag.push(Action::ReadRegister { node }),
            Command::BeginAttempt { generation, restore_from } => {
                if let Some(register) = self.register.clone().filter(|r| r.generation == generation) {
                    assert_eq!(
                        restore_from.as_ref(),
                        register.completed.last(),
                        "seed {seed}: wrong restore"
                    );
                }
                if let Some(me) = self.nodes[node].as_mut() {
                    me.running = Some(generation);
                    me.last = generation;
                }
                self.restore(generation, restore_from.as_ref());
                let task = |id: SubtaskId| TaskInfo {
                    id,
                    name: "task".into(),
                    operators: vec![OperatorInfo {
                        id: Self::operator(id),
                        uid: None,
                        name: "operator".into(),
                        parallelism: 1,
                        max_parallelism: 128,
                    }],
                    is_source: id.vertex.0 == 0,
                };
                let tasks = self.subtasks().into_iter().map(task).collect();
                self.bag.push(Action::Deliver { node, event: Event::AttemptStarted { generation, tasks } });
            }
            Command::ListDirectories => self.bag.push(Action::List { node }),
            Command::ReadReferences { completed, retained } => {
                self.bag.push(Action::ReadReferences { node, completed, retained });
            }
            Command::ListShared => self.bag.push(Action::ListShared { node }),
            Command::TriggerSources { generation, checkpoint } => {
                // a leader that does not know yet that it is none may use up what it reserved, but never an id of another
                assert!(self.used.insert(checkpoint), "seed {seed}: id {checkpoint} is used twice");
                let me = self.nodes[node].as_mut().unwrap();
                assert!(checkpoint > me.used, "seed {seed}: id {checkpoint} after {}", me.used);
                me.used = checkpoint;
                let under_way = me.coordinator.in_progress().into_iter().find(|c| c.id == checkpoint);
                let kind = under_way.map_or(CheckpointKind::Checkpoint, |c| c.kind);
                let path = checkpoint_paths::directory(JobId::from_name("sim"), kind, checkpoint);
                if kind == CheckpointKind::Final {
                    self.finals.insert(generation, checkpoint);
                }
                for subtask in self.subtasks() {
                    let path = path.clone();
                    self.bag.push(Action::Snapshot { node, generation, checkpoint, path, subtask });
                }
            }
            Command::WriteMetadata { metadata } => {
                let path = checkpoint_paths::directory(metadata.job, metadata.kind, metadata.id);
                self.bag.push(Action::WriteMetadata { node: some, path, metadata });
            }
            Command::NotifyComplete { generation, checkpoint } => {
                if let Some(register) = self.register.as_ref().filter(|r| r.generation == generation) {
                    let named = register.completed.iter().any(|c| c.id == checkpoint);
                    assert!(named, "seed {seed}: {checkpoint} is announced, the register has {register:?}");
                }
                self.completed += 1;
                for subtask in self.subtasks() {
                    self.bag.push(Action::Commit { node, generation, checkpoint, subtask });
                }
            }
            Command::NotifyAborted { .. } => self.aborted += 1,
            Command::Discard { discard, target } => {
                self.bag.push(Action::Delete { node: some, discard, target });
            }
            Command::Reply { result, .. } => {
                if let Ok(report) = result
                    && report.kind == CheckpointKind::Savepoint
                {
                    self.savepoints.insert(report.path);
                }
            }
            Command::FailJob { kind, message } => {
                assert!(kind != ErrorKind::CorruptSnapshot, "seed {seed}: {message}");
                self.bag.push(Action::Restart { node });
            }
            Command::FinishJob { outcome } => {
                self.ended(node, End::Recorded(outcome));
                if outcome != JobOutcome::Finished {
                    return;
                }
                if let Some(me) = self.nodes[node].as_mut() {
                    let generation = me.last;
                    me.finished = true;
                    let last = self.finals.get(&generation).copied();
                    for subtask in self.subtasks() {
                        let committed = self.committed.get(&(generation, subtask)).copied();
                        assert!(
                            last.is_some() && committed >= last,
                            "seed {seed}: {subtask} has not committed"
                        );
                    }
                }
            }
            Command::EndUnrecorded { outcome, .. } => self.ended(node, End::Unrecorded(outcome)),
            Command::StepDown { .. } => {
                self.ended(node, End::SteppedDown);
                self.fenced += 1;
                self.nodes[node] = None;
            }
            Command::WakeAt(at) => {
                if let Some(me) = self.nodes[node].as_mut() {
                    me.wake = Some(me.zero + at);
                }
            }
            Command::Warn(text) => self.refused += u64::from(text.contains("is refused: it names")),
            Command::Info(_) => {}
        }
    }
}
