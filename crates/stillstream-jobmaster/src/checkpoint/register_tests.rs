use super::*;
use stillstream_types::JobId;

fn record(generation: u64, completed: &[u64]) -> RegisterRecord {
    RegisterRecord {
        job: JobId::from_name("job"),
        job_name: "job".into(),
        generation: Generation(generation),
        outcome: JobOutcome::Running,
        last_checkpoint_id: CheckpointId(9),
        completed: completed.iter().map(|id| reference(*id)).collect(),
        retained: Vec::new(),
        ended: None,
        began: None,
    }
}

fn reference(id: u64) -> CompletedRef {
    CompletedRef { id: CheckpointId(id), path: format!("chk-{id}") }
}

fn own(record: RegisterRecord) -> Result<FoundRegister, String> {
    Ok(FoundRegister::Own(record))
}

const NOW: Duration = Duration::from_secs(5);

/// A register at generation 2 with checkpoint 1 that writes `record` for `purpose`.
fn writing(purpose: Purpose, record_: RegisterRecord) -> Register {
    let mut register = Register::new(Some(record(2, &[1])));
    let command = register.begin(purpose, Duration::ZERO, record_.clone());
    let expected = Some(record(2, &[1]));
    assert_eq!(command, StorageCall::UpdateRegister { expected, record: record_ });
    register
}

fn complete() -> Purpose {
    Purpose::Complete(reference(2))
}

fn completing() -> Register {
    writing(complete(), record(2, &[2]))
}

fn unknown(register: &mut Register) {
    let settled = register.on_updated(RegisterOutcome::Unknown("timed out".into()), NOW);
    assert!(matches!(settled, Settled::Open(Some(StorageCall::ReadRegister), Some(_))));
}

#[test]
fn a_written_record_is_durable_and_says_what_it_dropped() {
    let mut register = completing();
    let settled = register.on_updated(RegisterOutcome::Written, NOW);
    assert_eq!(settled, Settled::Written(complete(), vec![reference(1)]));
    assert_eq!(register.durable(), Some(&record(2, &[2])));
}

#[test]
fn while_a_write_is_open_both_records_count_as_named() {
    let mut register = completing();
    unknown(&mut register);
    let named: Vec<_> = register.named().map(|c| c.id.0).collect();
    assert_eq!(named, [1, 2]);
    assert!(register.is_writing(CheckpointId(2)));
    assert_eq!(register.next(), None);
}

#[test]
fn an_unknown_write_that_is_found_by_reading_has_happened() {
    let mut register = completing();
    unknown(&mut register);
    let settled = register.on_read(own(record(2, &[2])), NOW);
    assert_eq!(settled, Settled::Written(complete(), vec![reference(1)]));
}

#[test]
fn an_unknown_write_that_is_not_found_is_repeated_and_may_no_longer_fail_for_sure() {
    let mut register = completing();
    unknown(&mut register);
    let settled = register.on_read(own(record(2, &[1])), NOW);
    assert!(matches!(settled, Settled::Open(Some(StorageCall::UpdateRegister { .. }), None)));
    // the first write may still arrive
    let settled = register.on_updated(RegisterOutcome::Failed("refused".into()), NOW);
    assert!(matches!(settled, Settled::Open(None, Some(_))));
    assert_eq!(register.tick(NOW + RETRY), Some(StorageCall::ReadRegister));
    let settled = register.on_read(own(record(2, &[2])), NOW);
    assert!(matches!(settled, Settled::Written(..)));
}

#[test]
fn a_register_that_cannot_be_read_is_read_again_later() {
    let mut register = completing();
    unknown(&mut register);
    assert!(matches!(register.on_read(Err("no route".into()), NOW), Settled::Open(None, Some(_))));
    assert_eq!(register.tick(NOW), None);
    assert_eq!(register.wake_at(Duration::from_secs(600)), Some(NOW + RETRY));
    assert_eq!(register.tick(NOW + RETRY), Some(StorageCall::ReadRegister));
    assert_eq!(register.tick(NOW + RETRY), None);
}

#[test]
fn a_sure_failure_ends_a_completion_but_a_claim_is_tried_again() {
    let mut register = completing();
    let failed = RegisterOutcome::Failed("full".into());
    assert_eq!(register.on_updated(failed.clone(), NOW), Settled::Failed(complete(), "full".into()));
    assert!(!register.is_writing(CheckpointId(2)));
    let mut register = writing(Purpose::Claim, record(3, &[1]));
    assert!(matches!(register.on_updated(failed, NOW), Settled::Open(None, Some(_))));
    assert!(matches!(register.tick(NOW + RETRY), Some(StorageCall::UpdateRegister { .. })));
}

#[test]
fn a_higher_generation_fences() {
    let mut register = completing();
    assert_eq!(
        register.on_updated(RegisterOutcome::Fenced(Generation(7)), NOW),
        Settled::Fenced(Generation(7))
    );
    let mut register = completing();
    unknown(&mut register);
    let foreign = Ok(FoundRegister::Foreign(Generation(3)));
    assert_eq!(register.on_read(foreign, NOW), Settled::Fenced(Generation(3)));
}

#[test]
fn a_claim_is_settled_by_reading_and_no_other_process_s_record_is_taken_for_it() {
    for claim in [record(2, &[]), record(3, &[1])] {
        let mut register = writing(Purpose::Claim, claim.clone());
        unknown(&mut register);
        assert!(matches!(register.on_read(own(claim.clone()), NOW), Settled::Written(Purpose::Claim, _)));
        assert_eq!(register.durable(), Some(&claim));
        let mut register = writing(Purpose::Claim, claim);
        unknown(&mut register);
        let foreign = Ok(FoundRegister::Foreign(Generation(3)));
        assert_eq!(register.on_read(foreign, NOW), Settled::Fenced(Generation(3)));
    }
}

#[test]
fn a_vanished_or_foreign_record_is_never_overwritten() {
    let mut register = completing();
    unknown(&mut register);
    assert!(matches!(register.on_read(Ok(FoundRegister::Missing), NOW), Settled::Broken(_)));
    for found in [Ok(FoundRegister::Foreign(Generation(1))), own(record(1, &[]))] {
        let mut register = completing();
        unknown(&mut register);
        assert_eq!(register.on_read(found, NOW), Settled::Fenced(Generation(1)), "another one writes it");
    }
}

#[test]
fn a_write_or_a_waiting_claim_that_stays_open_is_said_to_be_late() {
    let deadline = Duration::from_secs(10);
    let mut register = completing();
    register.push(Purpose::Claim, NOW);
    assert_eq!(register.overdue(NOW, deadline), None);
    assert_eq!(register.overdue(deadline, deadline), Some(complete()));
    assert_eq!(register.overdue(deadline, deadline), None);
    assert_eq!(register.wake_at(deadline), Some(NOW + deadline));
    assert_eq!(register.overdue(NOW + deadline, deadline), Some(Purpose::Claim));
    assert_eq!(register.overdue(NOW + deadline, deadline), None);
}

#[test]
fn a_trouble_that_lasts_is_said_once_a_minute_and_a_new_one_at_once() {
    let mut register = writing(Purpose::Claim, record(3, &[1]));
    let mut said = Vec::new();
    for second in 0..150u64 {
        let now = Duration::from_secs(second);
        let text = if second < 140 { "no such folder" } else { "disk full" };
        let Settled::Open(_, text) = register.on_updated(RegisterOutcome::Failed(text.into()), now) else {
            panic!("given up");
        };
        if text.is_some() {
            said.push(second);
        }
        assert!(register.tick(now + RETRY).is_some());
    }
    assert_eq!(said, [0, 60, 120, 140]);
}

#[test]
fn a_claim_that_another_attempt_waits_for_is_overdue_again_only_after_its_whole_time() {
    let (mut register, deadline) = (writing(Purpose::Claim, record(3, &[1])), Duration::from_secs(10));
    assert_eq!(register.overdue(deadline, deadline), Some(Purpose::Claim));
    assert_eq!(register.overdue(deadline * 5, deadline), None);
    register.renew_claim(deadline * 5);
    assert_eq!(register.overdue(deadline * 6 - RETRY, deadline), None);
    assert_eq!(register.wake_at(deadline), Some(deadline * 6));
    assert_eq!(register.overdue(deadline * 6, deadline), Some(Purpose::Claim));
}
