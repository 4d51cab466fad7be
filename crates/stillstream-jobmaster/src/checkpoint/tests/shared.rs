use super::*;
use stillstream_types::{IncrementalFormat, IncrementalHandle, KeyGroupRange, NamedStream};

/// An acknowledgement that names these shared files.
fn naming(bench: &Bench, id: u64, subtask: SubtaskId, shared: &[&str]) -> Event {
    let file = |path: &str| StreamHandle::File { path: path.to_owned(), len: 10, crc32c: 0 };
    let incremental = IncrementalHandle {
        range: KeyGroupRange::new(0, 127),
        format: IncrementalFormat::RocksDb,
        backend: 1,
        meta: file(&format!("chk-{id}/{subtask}")),
        files: shared.iter().map(|path| NamedStream { name: (*path).into(), stream: file(path) }).collect(),
    };
    let state = OperatorSubtaskState { incremental: vec![incremental], ..OperatorSubtaskState::default() };
    let mut event = bench.ack_event(id, subtask);
    if let Event::Acknowledge { snapshot, .. } = &mut event {
        *snapshot = TaskSnapshot { operators: vec![(operator(subtask), state)] };
    }
    event
}

impl Bench {
    fn ack_naming(&mut self, id: u64, subtask: SubtaskId, shared: &[&str]) -> Vec<Command> {
        let event = naming(self, id, subtask, shared);
        let commands = self.on(event);
        self.deleted(commands)
    }

    /// All deletions are done: they hold back the next checkpoint no longer.
    fn deleted(&mut self, commands: Vec<Command>) -> Vec<Command> {
        for command in &commands {
            if let Command::Storage(StorageCall::Discard { discard, .. }) = command {
                self.on(Event::Storage(StorageAnswer::DiscardDone { discard: *discard, failure: None }));
            }
        }
        commands
    }

    fn abort(&mut self, id: u64, subtask: SubtaskId) -> Vec<Command> {
        let commands = self.decline(id, subtask);
        self.deleted(commands)
    }

    /// Acknowledges all and completes; the sink names the files.
    fn complete_naming(&mut self, id: u64, shared: &[&str]) -> Vec<Command> {
        self.trigger(id);
        self.ack(id, source());
        self.ack_naming(id, sink(), shared);
        self.metadata(id, WriteOutcome::Written);
        let commands = self.register_written();
        self.deleted(commands)
    }

    /// A start from this record, whose checkpoints name these files.
    fn resumed(found: RegisterRecord, shared: &[(u64, &[&str])]) -> Self {
        let mut bench = Self::new(tolerant(), Some(found));
        bench.on(Event::AttemptRequested);
        bench.register_written();
        bench.generation = bench.coordinator.register().unwrap().generation;
        assert_eq!(bench.references_read(shared), [Command::Storage(StorageCall::ListShared)]);
        bench.on(Event::AttemptStarted {
            generation: bench.generation,
            tasks: tasks(),
            enumerators: Default::default(),
        });
        bench
    }
}

fn tolerant() -> CheckpointConfig {
    CheckpointConfig { tolerable_failed_checkpoints: 99, ..every_ten_seconds() }
}

fn listed(paths: &[&str]) -> Event {
    Event::Storage(StorageAnswer::SharedListed {
        result: Ok(paths.iter().map(|path| (*path).to_owned()).collect()),
    })
}

fn files(paths: &[&str]) -> Vec<DiscardTarget> {
    vec![DiscardTarget::Files(paths.iter().map(|path| (*path).to_owned()).collect())]
}

/// The worked example of incremental checkpoints: 1 has 1, 2, 3.sst; 2 has 1, 2, 4.sst; 3 has 4, 5.sst.
#[test]
fn a_file_goes_with_the_last_checkpoint_that_names_it() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1", "shared/1-2", "shared/1-3"]);
    let commands = bench.complete_naming(2, &["shared/1-1", "shared/1-2", "shared/2-4"]);
    assert_eq!(discarded(&commands), directory_and(1, &["shared/1-3"]));
    let commands = bench.complete_naming(3, &["shared/2-4", "shared/3-5"]);
    assert_eq!(discarded(&commands), directory_and(2, &["shared/1-1", "shared/1-2"]));
}

#[test]
fn a_full_checkpoint_releases_the_chain_before_it_once_that_is_subsumed() {
    let mut bench = Bench::running(CheckpointConfig { num_retained: 2, ..tolerant() });
    bench.complete_naming(1, &["shared/1-1", "shared/1-2"]);
    let (request, savepoint, forced) = (RequestId(2), None, true);
    bench.on(Event::TriggerRequested { request, savepoint, full: true, forced });
    bench.ack(2, source());
    bench.ack_naming(2, sink(), &["shared/2-1", "shared/2-2"]);
    bench.metadata(2, WriteOutcome::Written);
    let commands = bench.register_written();
    assert_eq!((announced(&commands), discarded(&commands)), (vec![2], vec![]));
    // what builds on it keeps it, and no longer what was there before
    let commands = bench.complete_naming(3, &["shared/2-1", "shared/3-3"]);
    assert_eq!(discarded(&commands), directory_and(1, &["shared/1-1", "shared/1-2"]));
    let commands = bench.complete_naming(4, &["shared/2-1", "shared/4-4"]);
    assert_eq!(discarded(&commands), directory_and(2, &["shared/2-2"]));
}

#[test]
fn an_aborted_checkpoint_takes_its_own_files_along_and_no_others() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1", "shared/1-2", "shared/1-3"]);
    bench.trigger(2);
    bench.ack_naming(2, sink(), &["shared/1-1", "shared/1-2", "shared/2-4"]);
    assert_eq!(discarded(&bench.abort(2, source())), directory_and(2, &["shared/2-4"]));
    // 4.sst was never confirmed: to name checkpoint 2's copy is refused, to write it again is right
    bench.trigger(3);
    bench.ack(3, source());
    let commands = bench.ack_naming(3, sink(), &["shared/2-4", "shared/3-5"]);
    assert_eq!(aborted(&commands), [3]);
    assert_eq!(discarded(&commands), directory_and(3, &["shared/3-5"]));
    let commands = bench.complete_naming(4, &["shared/4-4", "shared/4-5"]);
    let expected = directory_and(1, &["shared/1-1", "shared/1-2", "shared/1-3"]);
    assert_eq!((announced(&commands), discarded(&commands)), (vec![4], expected));
}

#[test]
fn an_acknowledgement_that_names_a_file_which_may_be_gone_is_refused_with_the_reason() {
    for unknown in
        ["shared/1-of-another-job", "shared/nonsense", "shared/3-later", "shared/../chk-1/_metadata"]
    {
        let mut bench = Bench::running(tolerant());
        bench.complete_naming(1, &["shared/1-1"]);
        let commands = {
            bench.trigger(2);
            bench.ack_naming(2, sink(), &["shared/1-1", unknown, "shared/2-2"])
        };
        let text = commands.iter().find_map(|command| match command {
            Command::Reply { result: Err(failure), .. } => Some(failure.to_string()),
            _ => None,
        });
        let text = text.unwrap();
        assert!(
            text.contains(unknown) && text.contains("out (1#0)") && text.contains("may be gone"),
            "{text}"
        );
        assert_eq!(discarded(&commands), directory_and(2, &["shared/2-2"]));
    }
}

#[test]
fn a_file_of_a_checkpoint_that_is_not_completed_yet_may_not_be_named_by_the_next() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 2, ..tolerant() });
    bench.trigger(1);
    bench.ack_naming(1, sink(), &["shared/1-1"]);
    bench.trigger(2);
    assert_eq!(aborted(&bench.ack_naming(2, sink(), &["shared/1-1"])), [2]);
    bench.ack(1, source());
    bench.metadata(1, WriteOutcome::Written);
    assert_eq!(announced(&bench.register_written()), [1]);
}

#[test]
fn late_and_repeated_acknowledgements_lose_only_files_that_nobody_names() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1"]);
    // once more, while it is completed, and after it was subsumed by one that names the same file
    assert_eq!(discarded(&bench.ack_naming(1, sink(), &["shared/1-1"])), []);
    bench.complete_naming(2, &["shared/1-1", "shared/2-2"]);
    assert_eq!(discarded(&bench.ack_naming(1, sink(), &["shared/1-1"]))[1..], []);
    bench.trigger(3);
    bench.ack_naming(3, sink(), &["shared/1-1", "shared/3-3"]);
    assert_eq!(discarded(&bench.ack_naming(3, sink(), &["shared/1-1", "shared/3-again"])), []);
    bench.abort(3, source());
    let late = bench.ack_naming(3, sink(), &["shared/1-1", "shared/2-2", "shared/3-late"]);
    let own = DiscardTarget::Files(vec![format!("chk-3/{}", sink())]);
    assert_eq!(discarded(&late), [files(&["shared/3-late"])[0].clone(), own]);
}

#[test]
fn a_subtask_that_takes_no_part_loses_its_shared_files() {
    let mut bench = Bench::running(tolerant());
    bench.trigger(1);
    let mut event = naming(&bench, 1, sink(), &["shared/1-stranger"]);
    if let Event::Acknowledge { subtask, .. } = &mut event {
        *subtask = SubtaskId::new(7, 7);
    }
    assert_eq!(discarded(&bench.on(event))[0], files(&["shared/1-stranger"])[0]);
}

#[test]
fn a_savepoint_that_names_a_shared_file_is_refused_because_it_could_not_be_moved() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1"]);
    bench.savepoint(2, "/s/2");
    let commands = bench.ack_naming(2, sink(), &["shared/1-1"]);
    assert_eq!(refused(&commands), [(2, FailureReason::CheckpointDeclined)]);
}

#[test]
fn what_a_checkpoint_under_way_may_build_on_stays_until_it_has_ended() {
    let mut bench = Bench::running(CheckpointConfig { max_concurrent: 3, ..tolerant() });
    bench.complete_naming(1, &["shared/1-1"]);
    bench.trigger(2);
    bench.trigger(3);
    // 2 wrote the same state anew: 1's file is named by nobody that is completed
    for (subtask, shared) in [(source(), &[][..]), (sink(), &["shared/2-1"])] {
        bench.ack_naming(2, subtask, shared);
    }
    bench.metadata(2, WriteOutcome::Written);
    assert_eq!(discarded(&bench.register_written()), directory(1), "3 was triggered when 1 was the newest");
    bench.ack_naming(3, sink(), &["shared/1-1"]);
    bench.ack(3, source());
    bench.metadata(3, WriteOutcome::Written);
    assert_eq!(discarded(&bench.register_written()), directory_and(2, &["shared/2-1"]));
    let commands = bench.complete_naming(4, &[]);
    assert_eq!(discarded(&commands), directory_and(3, &["shared/1-1"]));
}

#[test]
fn shared_files_go_with_the_job_when_its_checkpoints_do_and_stay_when_they_stay() {
    use stillstream_types::ExternalizedCheckpointRetention as Retention;
    for (outcome, retention, goes) in [
        (JobOutcome::Cancelled, Retention::DeleteOnCancellation, true),
        (JobOutcome::Cancelled, Retention::RetainOnCancellation, false),
        (JobOutcome::Failed, Retention::DeleteOnCancellation, false),
    ] {
        let mut bench = Bench::running(CheckpointConfig { retention, num_retained: 2, ..tolerant() });
        bench.complete_naming(1, &["shared/1-1", "shared/1-2"]);
        bench.complete_naming(2, &["shared/1-1", "shared/2-3"]);
        bench.on(Event::JobEnded { outcome });
        let commands = discarded(&bench.register_written());
        let all = [directory(1), directory_and(2, &["shared/1-1", "shared/1-2", "shared/2-3"])].concat();
        assert_eq!(commands, if goes { all } else { vec![] }, "{outcome:?} {retention:?}");
    }
}

#[test]
fn a_restart_knows_the_files_of_all_checkpoints_that_the_register_names() {
    let shared: [(u64, &[&str]); 2] =
        [(8, &["shared/3-a", "shared/8-b"]), (9, &["shared/8-b", "shared/9-c"])];
    let found = record(JobOutcome::Running, 4, 17, &[8, 9]);
    let mut bench = Bench::resumed(found, &shared);
    let commands = bench.on(listed(&[
        "shared/3-a",
        "shared/3-orphan",
        "shared/8-b",
        "shared/9-c",
        "shared/17-late",
        "shared/.17-x.tmp",
        "shared/18-mine",
        "shared/30-unknown",
        "shared/a-persons",
        "shared/sub/1-x",
    ]));
    assert_eq!(discarded(&commands), files(&["shared/3-orphan", "shared/17-late", "shared/.17-x.tmp"]));
    let commands = bench.complete_naming(18, &["shared/9-c"]);
    let [first, last] = &discarded(&commands)[..] else { panic!("{commands:?}") };
    assert_eq!(first, &directory(8)[0]);
    assert_eq!(last, &directory_and(9, &["shared/3-a", "shared/8-b"])[0]);
}

#[test]
fn no_checkpoint_is_triggered_before_it_is_known_what_the_earlier_ones_name() {
    let mut bench = Bench::new(tolerant(), Some(record(JobOutcome::Running, 4, 17, &[9])));
    bench.on(Event::AttemptRequested);
    let commands = bench.register_written();
    let read =
        Command::Storage(StorageCall::ReadReferences { completed: vec![reference(9)], retained: vec![] });
    assert!(commands.contains(&read), "{commands:?}");
    bench.generation = Generation(4);
    bench.on(Event::AttemptStarted {
        generation: bench.generation,
        tasks: tasks(),
        enumerators: Default::default(),
    });
    assert_eq!(bench.request(1, true), []);
    assert_eq!(
        bench.references_read(&[(9, &["shared/9-c"])]),
        [Command::Storage(StorageCall::ListShared), trigger(4, 18)]
    );
}

#[test]
fn storage_that_never_says_what_earlier_checkpoints_name_does_not_stop_checkpoints_for_ever() {
    let mut bench = Bench::new(tolerant(), Some(record(JobOutcome::Running, 4, 17, &[9])));
    bench.on(Event::AttemptRequested);
    bench.register_written();
    bench.generation = Generation(4);
    bench.on(Event::AttemptStarted {
        generation: bench.generation,
        tasks: tasks(),
        enumerators: Default::default(),
    });
    assert!(bench.wait(SECOND * 600).contains(&trigger(4, 18)));
    assert_eq!(discarded(&bench.on(listed(&["shared/3-orphan"]))), []);
}

#[test]
fn the_checkpoint_that_the_tasks_build_on_is_read_again_until_it_can_be() {
    let mut bench = Bench::new(tolerant(), Some(record(JobOutcome::Running, 4, 17, &[9])));
    bench.on(Event::AttemptRequested);
    bench.register_written();
    bench.generation = Generation(4);
    bench.on(Event::AttemptStarted {
        generation: bench.generation,
        tasks: tasks(),
        enumerators: Default::default(),
    });
    for _ in 0..3 {
        let references = References { unreadable: vec!["503".into()], ..References::default() };
        bench.on(Event::Storage(StorageAnswer::ReferencesRead { references }));
        assert_eq!(bench.request(1, true), []);
        let read =
            Command::Storage(StorageCall::ReadReferences { completed: vec![reference(9)], retained: vec![] });
        assert_eq!(bench.wait(SECOND), [read]);
    }
    assert_eq!(bench.references_read(&[(9, &["shared/9-c"])])[0], Command::Storage(StorageCall::ListShared));
    bench.ack(18, source());
    let commands = bench.ack_naming(18, sink(), &["shared/9-c"]);
    assert!(matches!(commands[..], [Command::Storage(StorageCall::WriteMetadata { .. })]), "{commands:?}");
}

#[test]
fn a_checkpoint_that_cannot_be_read_keeps_all_older_shared_files_in_place() {
    let mut bench = Bench::new(tolerant(), Some(record(JobOutcome::Running, 4, 17, &[8, 9])));
    bench.on(Event::AttemptRequested);
    bench.register_written();
    bench.generation = Generation(4);
    let found = vec![(CheckpointId(9), vec!["shared/3-a".to_owned(), "shared/9-c".to_owned()])];
    let references = References { found, kept: vec![], unreadable: vec!["chk-8/_metadata: bad".into()] };
    let commands = bench.all(Event::Storage(StorageAnswer::ReferencesRead { references }));
    assert!(commands.iter().any(|c| matches!(c, Command::Warn(text) if text.contains("chk-8/_metadata"))));
    assert!(!commands.contains(&Command::Storage(StorageCall::ListShared)));
    bench.on(Event::AttemptStarted {
        generation: bench.generation,
        tasks: tasks(),
        enumerators: Default::default(),
    });
    // what this run itself writes and aborts goes as ever
    bench.trigger(18);
    bench.ack_naming(18, sink(), &["shared/9-c", "shared/18-d"]);
    assert_eq!(discarded(&bench.abort(18, source())), directory_and(18, &["shared/18-d"]));
    let commands = bench.complete_naming(19, &["shared/9-c", "shared/19-e"]);
    assert_eq!(discarded(&commands), [directory(8), directory(9)].concat(), "3-a may be one of 8's");
    let commands = bench.complete_naming(20, &[]);
    assert_eq!(discarded(&commands), directory_and(19, &["shared/19-e"]));
    assert_eq!(discarded(&bench.on(listed(&["shared/2-orphan"]))), []);
}

#[test]
fn files_of_a_checkpoint_that_its_owner_keeps_are_never_deleted() {
    let mut found = record(JobOutcome::Running, 4, 17, &[9]);
    found.retained = vec![reference(3)];
    let shared: [(u64, &[&str]); 2] =
        [(3, &["shared/2-a", "shared/3-b"]), (9, &["shared/2-a", "shared/9-c"])];
    let mut bench = Bench::resumed(found, &shared);
    let commands = bench.complete_naming(18, &["shared/2-a"]);
    assert_eq!(discarded(&commands), directory_and(9, &["shared/9-c"]));
    for id in 19..25 {
        assert_eq!(discarded(&bench.complete_naming(id, &[])), directory(id - 1));
    }
    // kept by a file `_keep`: the register does not know it
    let mut bench = Bench::new(tolerant(), Some(record(JobOutcome::Running, 4, 17, &[])));
    bench.on(Event::AttemptRequested);
    bench.register_written();
    let references = References {
        found: vec![(CheckpointId(5), vec!["shared/5-kept".into()])],
        kept: vec![CheckpointId(5)],
        unreadable: vec![],
    };
    bench.on(Event::Storage(StorageAnswer::ReferencesRead { references }));
    assert_eq!(
        discarded(&bench.on(listed(&["shared/5-kept", "shared/5-orphan"]))),
        files(&["shared/5-orphan"])
    );
    bench.generation = Generation(4);
    bench.on(Event::AttemptStarted {
        generation: bench.generation,
        tasks: tasks(),
        enumerators: Default::default(),
    });
    bench.complete_naming(18, &[]);
    assert_eq!(discarded(&bench.complete_naming(19, &[])), directory(18));
}

#[test]
fn a_leader_whose_job_was_taken_over_deletes_nothing_that_the_other_may_name() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1"]);
    // another process took the job over and completed 12 with the same file; this one claims again
    bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    bench.on(Event::AttemptRequested);
    bench.on(Event::Storage(StorageAnswer::RegisterUpdated {
        outcome: RegisterOutcome::Unknown("changed".into()),
    }));
    let theirs = Ok(FoundRegister::Foreign(Generation(2)));
    let commands = bench.on(Event::Storage(StorageAnswer::RegisterRead { result: theirs }));
    assert_eq!(commands.last(), Some(&Command::StepDown { owner: Generation(2) }));
    assert_eq!(discarded(&commands), []);
    // late, and of a checkpoint of theirs whose file 12 may name
    let late = naming(&bench, 11, sink(), &["shared/11-theirs"]);
    assert_eq!(bench.on(late), []);
    assert_eq!(discarded(&bench.on(Event::JobEnded { outcome: JobOutcome::Failed })), []);
}

#[test]
fn files_that_a_failing_task_left_unreported_are_swept_after_the_next_success() {
    let mut bench = Bench::running(tolerant());
    bench.complete_naming(1, &["shared/1-1"]);
    bench.trigger(2);
    bench.abort(2, sink());
    let commands = bench.complete_naming(3, &["shared/1-1", "shared/3-3"]);
    assert!(commands.contains(&Command::Storage(StorageCall::ListShared)), "{commands:?}");
    bench.trigger(4);
    let commands = bench.on(listed(&["shared/1-1", "shared/2-half", "shared/3-3", "shared/4-now"]));
    assert_eq!(discarded(&commands), files(&["shared/2-half"]));
    bench.ack_naming(4, sink(), &["shared/4-now"]);
    bench.ack(4, source());
    bench.metadata(4, WriteOutcome::Written);
    assert!(!bench.register_written().contains(&Command::Storage(StorageCall::ListShared)), "once is enough");
}

#[test]
fn shared_files_of_a_checkpoint_aborted_during_its_metadata_write_go_after_that_write() {
    let mut bench = Bench::running(tolerant());
    bench.trigger(1);
    bench.ack(1, source());
    bench.ack_naming(1, sink(), &["shared/1-1"]);
    let stopped =
        bench.on(Event::AttemptStopped { generation: bench.generation, reason: "x".into(), restarts: true });
    assert_eq!(discarded(&stopped), []);
    assert_eq!(
        discarded(&bench.on(listed(&["shared/1-1"]))),
        [],
        "the metadata that names it may still appear"
    );
    assert_eq!(discarded(&bench.metadata(1, WriteOutcome::Written)), directory_and(1, &["shared/1-1"]));
}
