//! What becomes of transactions after crashes, and of those that somebody else has ended.

use stillstream_kafka::client::Properties;
use stillstream_kafka::sink::{KafkaCommittable, OnLostTransaction};
use stillstream_kafka::transactions;
use stillstream_runtime::Operator;
use stillstream_runtime::connect::{Sink, SinkContext};
use stillstream_services::Kafka;
use stillstream_state::MemorySnapshotStore;
use stillstream_types::{CheckpointId, ErrorKind, SnapshotForm};

use crate::job::{Begin, Checkpoint, sink, sorted};
use crate::topic::{Topic, fresh_name, wait_until};

fn begin(generation: u64, parallelism: usize, from: Option<&Checkpoint>) -> Begin<'_> {
    Begin { job: "job", generation, parallelism, from }
}

/// A job that died after checkpoint 1 was complete and before its transaction was committed; the
/// transaction's id.
fn died_before_the_commit(topic: &Topic, prefix: &str, properties: &[(&str, &str)]) -> (Checkpoint, String) {
    let with = properties.iter().fold(sink(topic, prefix), |sink, (key, value)| sink.property(*key, *value));
    let mut job = begin(1, 1, None).open(with).unwrap();
    job.write(0..50).unwrap();
    let checkpoint = job.snapshot(1).unwrap();
    job.die();
    let [id]: [String; 1] = topic.in_state(prefix, &["Ongoing"]).try_into().unwrap();
    (checkpoint, id)
}

#[test]
fn what_was_prepared_before_a_crash_of_job_and_broker_is_committed_after_it() {
    let kafka = Kafka::alone();
    let (topic, prefix) = (Topic::fresh(&kafka, 2), fresh_name("crash"));
    let (checkpoint, id) = died_before_the_commit(&topic, &prefix, &[]);
    assert_eq!(topic.committed().len(), 0);
    kafka.kill().unwrap();
    kafka.restart().unwrap();
    assert_eq!(topic.describe(&id).state, "Ongoing");
    for generation in 2..4 {
        // the second time it is committed already
        begin(generation, 1, Some(&checkpoint)).open(sink(&topic, &prefix)).unwrap().die();
        topic.settle(&prefix);
        assert_eq!(sorted(topic.committed()), (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn a_transaction_that_somebody_took_over_fails_the_job_for_good_and_names_it() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("stolen"));
    let (checkpoint, id) = died_before_the_commit(&topic, &prefix, &[]);
    topic.take_over(&id);
    let error = begin(2, 1, Some(&checkpoint)).open(sink(&topic, &prefix)).map(drop).unwrap_err();
    assert!(error.is_fatal() && error.kind() == ErrorKind::CorruptSnapshot);
    let text = error.to_string();
    assert!(text.contains(&id) && text.contains("checkpoint 1") && text.contains("50 records"), "{text}");
    assert_eq!(topic.committed().len(), 0);

    // by choice it goes on without them
    let indifferent = sink(&topic, &prefix).on_lost_transaction(OnLostTransaction::GoOn);
    let mut job = begin(3, 1, Some(&checkpoint)).open(indifferent).unwrap();
    job.write(50..60).unwrap();
    job.snapshot(2).unwrap();
    job.complete(2).unwrap();
    topic.settle(&prefix);
    assert_eq!(sorted(topic.committed()), (50..60).collect::<Vec<_>>());
}

#[test]
fn a_transaction_that_the_broker_aborted_after_its_timeout_fails_the_job_for_good() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("late"));
    let (checkpoint, id) = died_before_the_commit(&topic, &prefix, &[("transaction.timeout.ms", "1000")]);
    wait_until("the broker aborts it", || topic.describe(&id).state == "CompleteAbort");
    let error = begin(2, 1, Some(&checkpoint)).open(sink(&topic, &prefix)).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(error.is_fatal() && text.contains("was aborted") && text.contains(&id), "{text}");
    assert!(text.contains("transaction.timeout.ms"), "{text}");
}

#[test]
fn numbers_that_the_cluster_does_not_know_are_no_commit() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("unknown"));
    let (_, id) = died_before_the_commit(&topic, &prefix, &[]);
    let described = topic.describe(&id);
    let sink = sink(&topic, &prefix);
    let mut committer = sink.committer(&SinkContext::for_test("sink", 0, 1)).unwrap();
    let right = KafkaCommittable {
        transactional_id: id.clone(),
        producer_id: described.producer_id,
        epoch: described.producer_epoch,
        transaction_version: 2,
        records: 50,
    };
    let unknown = KafkaCommittable { transactional_id: format!("{prefix}-nobody"), ..right.clone() };
    let other_epoch = KafkaCommittable { epoch: right.epoch + 3, ..right.clone() };
    let other_producer = KafkaCommittable { producer_id: right.producer_id + 1000, ..right.clone() };
    for wrong in [unknown, other_epoch, other_producer] {
        let error = committer.commit(&wrong).unwrap_err();
        assert!(error.is_fatal(), "{wrong:?}: {error}");
        assert!(error.to_string().contains(&wrong.transactional_id), "{error}");
    }
    assert_eq!(topic.describe(&id).state, "Ongoing", "none of these has touched it");
    committer.commit(&right).unwrap();
    committer.commit(&right).unwrap();
    topic.settle(&prefix);
    assert_eq!(topic.committed().len(), 50);
}

#[test]
fn pending_commits_survive_a_rescale_from_three_to_two_to_four_and_nothing_stays_open() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 3), fresh_name("rescale"));
    let mut job = begin(1, 3, None).open(sink(&topic, &prefix)).unwrap();
    job.write(0..30).unwrap();
    let first = job.snapshot(1).unwrap();
    // of these no checkpoint knows; subtask 2 will not exist any more
    job.write(1000..1030).unwrap();
    wait_until("they are on their way", || topic.in_state(&prefix, &["Ongoing"]).len() == 6);
    job.die();
    let mut job = begin(2, 2, Some(&first)).open(sink(&topic, &prefix)).unwrap();
    job.write(30..60).unwrap();
    let second = job.snapshot(2).unwrap();
    job.die();
    let mut job = begin(3, 4, Some(&second)).open(sink(&topic, &prefix)).unwrap();
    job.write(60..100).unwrap();
    job.snapshot(3).unwrap();
    job.complete(3).unwrap();
    topic.settle(&prefix);
    assert_eq!(topic.in_state(&prefix, &["Ongoing"]), Vec::<String>::new());
    assert_eq!(sorted(topic.committed()), (0..100).collect::<Vec<_>>());
}

#[test]
fn an_attempt_that_was_replaced_can_write_no_more() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("zombie"));
    let mut old = begin(1, 1, None).open(sink(&topic, &prefix)).unwrap();
    old.write(0..10).unwrap();
    wait_until("the old attempt writes", || topic.in_state(&prefix, &["Ongoing"]).len() == 1);
    let mut new = begin(2, 1, None).open(sink(&topic, &prefix)).unwrap();
    new.write(0..20).unwrap();
    new.snapshot(1).unwrap();
    new.complete(1).unwrap();
    let late = old.write(10..20).and_then(|()| old.snapshot(1)).and_then(|_| old.complete(1));
    assert!(late.is_err(), "the old attempt has committed");
    topic.settle(&prefix);
    assert_eq!(sorted(topic.committed()), (0..20).collect::<Vec<_>>());
}

#[test]
fn what_a_process_that_was_cut_off_begins_too_late_is_aborted_while_the_next_attempt_runs() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("late-start"));
    let mut old = begin(1, 2, None).open(sink(&topic, &prefix)).unwrap();
    let mut new = begin(2, 1, None).open(sink(&topic, &prefix)).unwrap();
    new.await_ready(0).unwrap();
    old.write(0..10).unwrap();
    wait_until("the old attempt writes", || topic.in_state(&prefix, &["Ongoing"]).len() == 2);
    wait_until("it is aborted", || topic.in_state(&prefix, &["Ongoing"]).is_empty());
    old.die();
}

#[test]
fn two_jobs_with_one_prefix_do_not_harm_one_another() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("shared"));
    let mut one = begin(1, 1, None).open(sink(&topic, &prefix)).unwrap();
    one.write(0..10).unwrap();
    let checkpoint = one.snapshot(1).unwrap();
    one.write(10..20).unwrap();
    let other = Begin { job: "other job", generation: 9, parallelism: 1, from: None };
    let mut other = other.open(sink(&topic, &prefix)).unwrap();
    other.write(100..110).unwrap();
    assert_eq!(checkpoint.id, 1);
    one.complete(1).unwrap();
    one.snapshot(2).unwrap();
    one.complete(2).unwrap();
    other.snapshot(1).unwrap();
    other.complete(1).unwrap();
    topic.settle(&prefix);
    assert_eq!(sorted(topic.committed()), (0..20).chain(100..110).collect::<Vec<_>>());
}

#[test]
fn checkpoints_without_records_make_no_transactions() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("empty"));
    let mut job = begin(1, 2, None).open(sink(&topic, &prefix)).unwrap();
    for id in 1..=3 {
        let checkpoint = job.snapshot(id).unwrap();
        assert!(checkpoint.states.iter().all(|state| state.operator.is_empty()));
        job.complete(id).unwrap();
    }
    assert_eq!(topic.transactions(&prefix), []);
    job.write(0..1).unwrap();
    job.snapshot(4).unwrap();
    job.complete(4).unwrap();
    topic.settle(&prefix);
    assert_eq!(topic.committed(), ["0"]);
}

#[test]
fn transactions_of_the_older_protocol_are_committed_after_a_crash_also_when_the_cluster_was_upgraded_meanwhile()
 {
    let kafka = Kafka::alone();
    let topic = Topic::fresh(&kafka, 1);
    topic.set_transaction_version(1);
    let (prefix, upgraded) = (fresh_name("older"), fresh_name("upgraded"));
    let (checkpoint, _) = died_before_the_commit(&topic, &prefix, &[]);
    let (pending, _) = died_before_the_commit(&topic, &upgraded, &[]);
    for generation in 2..4 {
        let mut job = begin(generation, 1, Some(&checkpoint)).open(sink(&topic, &prefix)).unwrap();
        if generation == 2 {
            // left open, and taken from its producer by the next attempt
            job.write(1000..1010).unwrap();
        } else {
            job.await_ready(0).unwrap();
        }
        job.die();
    }
    topic.set_transaction_version(2);
    begin(2, 1, Some(&pending)).open(sink(&topic, &upgraded)).unwrap().die();
    for prefix in [prefix, upgraded] {
        topic.settle(&prefix);
        assert_eq!(topic.in_state(&prefix, &["Ongoing"]), Vec::<String>::new());
    }
    assert_eq!(
        sorted(topic.committed()),
        (0..50).flat_map(|n| [n, n]).collect::<Vec<_>>(),
        "by each of two jobs"
    );
}

#[test]
fn a_person_sees_what_a_dead_job_left_and_commits_or_aborts_it() {
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("person"));
    let properties = Properties::new(&topic.brokers);
    let (_, id) = died_before_the_commit(&topic, &prefix, &[]);
    let open = transactions::open(&properties, &prefix).unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((&open[0].transactional_id, &open[0].partitions), (&id, &vec![format!("{}-0", topic.name)]));
    transactions::commit(&properties, &id).unwrap();
    topic.settle(&prefix);
    assert_eq!(topic.committed().len(), 50);
    let error = transactions::abort(&properties, &id).unwrap_err().to_string();
    assert!(error.contains(&id) && error.contains("CompleteCommit"), "{error}");

    let other = fresh_name("person");
    let (_, id) = died_before_the_commit(&topic, &other, &[]);
    transactions::abort(&properties, &id).unwrap();
    wait_until("it is aborted", || transactions::open(&properties, &other).unwrap().is_empty());
    assert_eq!(topic.committed().len(), 50);
    let error = transactions::commit(&properties, "nobody").unwrap_err().to_string();
    assert!(error.contains("does not know it"), "{error}");
}

#[test]
fn what_was_not_acknowledged_when_its_attempt_ended_is_in_no_checkpoint_and_does_not_stay_open() {
    const ATTEMPTS: usize = 20;
    let kafka = Kafka::shared();
    let (topic, prefix) = (Topic::fresh(&kafka, 1), fresh_name("ended"));
    let mut held = 0;
    for n in 0..ATTEMPTS {
        let job = format!("job {n}");
        let begin = Begin { job: &job, generation: 1, parallelism: 1, from: None };
        let mut attempt = begin.open(sink(&topic, &prefix)).unwrap();
        attempt.write(0..10).unwrap();
        let rest = attempt.subtasks[0].snapshot(CheckpointId(1), SnapshotForm::Checkpoint).unwrap().unwrap();
        drop(attempt);
        held += usize::from(rest(&MemorySnapshotStore::default()).is_ok());
    }
    assert!(held < ATTEMPTS, "no attempt ended early enough");
    // readers wait for these alone, which checkpoints hold
    wait_until("the others end", || topic.in_state(&prefix, &["Ongoing"]).len() == held);
}
