//! What each path answers: Flink's fields, with the job's figures in them.

use serde_json::{Value, json};
use stillstream::prelude::*;

use crate::client::{LONG, accepted, get, outcome, post};
use crate::job::{counts, environment};

/// The keys of an object, in order; those of our own left out.
fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    let mut keys: Vec<&str> =
        object.keys().map(String::as_str).filter(|key| !key.starts_with("stillstream-")).collect();
    keys.sort_unstable();
    keys
}

fn assert_keys(value: &Value, expected: &str) {
    let mut expected: Vec<&str> = expected.split_whitespace().collect();
    expected.sort_unstable();
    assert_eq!(keys(value), expected, "{value}");
}

const EXECUTION_STATES: &str =
    "CREATED SCHEDULED DEPLOYING RUNNING FINISHED CANCELING CANCELED FAILED RECONCILING INITIALIZING";
const CHECKPOINT: &str = "className id status is_savepoint savepointFormat trigger_timestamp latest_ack_timestamp \
                          checkpointed_size state_size end_to_end_duration alignment_buffered processed_data persisted_data \
                          num_subtasks num_acknowledged_subtasks checkpoint_type tasks external_path discarded";
const SPREAD: &str = "min max avg p50 p90 p95 p99 p999";

#[test]
fn every_path_of_a_running_job_has_flinks_fields() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let (job, address) = counts("fields", &env);
    let id = job.id().to_string();
    let at = |path: &str| get(address, &format!("/jobs/{id}{path}"));

    assert_keys(
        &get(address, "/overview"),
        "taskmanagers slots-total slots-available jobs-running jobs-finished jobs-cancelled jobs-failed flink-version \
         flink-commit",
    );
    assert_keys(
        &get(address, "/config"),
        "refresh-interval timezone-name timezone-offset flink-version flink-revision features",
    );
    let of = |list: &Value, key: &str| {
        let found = list["jobs"].as_array().unwrap().iter().find(|job| job[key] == id.as_str());
        found.unwrap_or_else(|| panic!("{list}")).clone()
    };
    assert_eq!(of(&get(address, "/jobs"), "id"), json!({ "id": id, "status": "RUNNING" }));
    let line = of(&get(address, "/jobs/overview"), "jid");
    assert_keys(
        &line,
        "jid name state start-time end-time duration last-modification tasks pending-operators",
    );
    assert_keys(&line["tasks"], &format!("total {}", EXECUTION_STATES.to_lowercase()));
    assert_eq!(
        (&line["name"], &line["state"], &line["end-time"]),
        (&json!("fields"), &json!("RUNNING"), &json!(-1))
    );
    assert_eq!(line["tasks"]["running"], line["tasks"]["total"]);

    let details = at("");
    assert_keys(
        &details,
        "jid name isStoppable state job-type start-time end-time duration maxParallelism now timestamps vertices status-counts \
         plan stream-graph pending-operators",
    );
    assert_keys(
        &details["timestamps"],
        "INITIALIZING CREATED RUNNING FAILING FAILED CANCELLING CANCELED FINISHED RESTARTING SUSPENDED RECONCILING",
    );
    let (started, running) =
        (details["start-time"].as_i64().unwrap(), details["timestamps"]["RUNNING"].as_i64().unwrap());
    assert!(started > 1_600_000_000_000 && running >= started, "{started} {running}");
    let vertices = details["vertices"].as_array().unwrap();
    assert_eq!(vertices.len(), 2, "{details}");
    assert_keys(
        &vertices[0],
        "id slotSharingGroupId name maxParallelism parallelism status start-time end-time duration tasks metrics",
    );
    assert_keys(&vertices[0]["tasks"], EXECUTION_STATES);
    assert_keys(&details["status-counts"], EXECUTION_STATES);
    assert_eq!((&vertices[1]["parallelism"], &vertices[1]["tasks"]["RUNNING"]), (&json!(2), &json!(2)));

    let plan = &at("/plan")["plan"];
    assert_keys(plan, "jid name type nodes");
    assert_eq!(plan, &details["plan"]);
    let nodes = plan["nodes"].as_array().unwrap();
    assert_keys(
        &nodes[0],
        "id parallelism operator operator_strategy description inputs optimizer_properties",
    );
    assert_eq!(nodes[0]["inputs"][0]["ship_strategy"], "HASH");
    assert_eq!(nodes[0]["inputs"][0]["id"], nodes[1]["id"]);
    assert_eq!(nodes[1]["stillstream-operators"][0]["uid"], "flights");
    assert_eq!(nodes[1]["stillstream-operators"][0]["id"], nodes[1]["id"]);

    let config = at("/config");
    assert_keys(&config, "jid name execution-config");
    assert_keys(
        &config["execution-config"],
        "restart-strategy job-parallelism object-reuse-mode user-config",
    );
    assert_eq!(config["execution-config"]["user-config"]["rest.bind-port"], "0");
    assert_eq!(at("/status"), json!({ "status": "RUNNING" }));

    let exceptions = at("/exceptions");
    assert_eq!(exceptions["exceptionHistory"], json!({ "entries": [], "truncated": false }));
    let times = at("/stillstream-event-time");
    assert_eq!(times["tasks"].as_array().map(Vec::len), Some(2), "{times}");
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn checkpoints_are_shown_as_a_whole_by_task_and_by_subtask() {
    let folder = tempfile::tempdir().unwrap();
    let env = environment(folder.path());
    let (job, address) = counts("checkpointed", &env);
    let id = job.id().to_string();
    let at = |path: &str| get(address, &format!("/jobs/{id}/checkpoints{path}"));

    let none = at("");
    assert_keys(&none, "counts summary latest history");
    assert_eq!(none["latest"]["completed"], Value::Null);
    assert_eq!(none["summary"]["state_size"]["p99"], "NaN");

    let request =
        accepted(&post(address, &format!("/jobs/{id}/checkpoints"), &json!({ "checkpointType": "FULL" })));
    let taken = outcome(address, &format!("/jobs/{id}/checkpoints/{request}"));
    assert_eq!(keys(&taken), ["checkpointId"]);
    let savepoint = json!({ "target-directory": folder.path().join("sp"), "formatType": "NATIVE" });
    let request = accepted(&post(address, &format!("/jobs/{id}/savepoints"), &savepoint));
    let taken_too = outcome(address, &format!("/jobs/{id}/savepoints/{request}"));
    let location = taken_too["location"].as_str().unwrap_or_else(|| panic!("{taken_too}"));

    let seen = || job.checkpoint_statistics().counts.completed == 2;
    assert!(job.wait_until(LONG, |_| seen()), "{:?}", job.checkpoint_statistics());
    let statistics = at("");
    assert_eq!(
        statistics["counts"],
        json!({ "restored": 0, "total": 2, "in_progress": 0, "completed": 2, "failed": 0 })
    );
    assert_keys(
        &statistics["summary"],
        "checkpointed_size state_size end_to_end_duration alignment_buffered processed_data persisted_data",
    );
    assert_keys(&statistics["summary"]["state_size"], SPREAD);
    assert!(statistics["summary"]["state_size"]["min"].as_u64().unwrap() > 0);
    assert_keys(&statistics["latest"], "completed savepoint failed restored");
    let completed = &statistics["latest"]["completed"];
    assert_keys(completed, CHECKPOINT);
    assert_eq!((&completed["id"], &completed["status"]), (&taken["checkpointId"], &json!("COMPLETED")));
    let path = completed["external_path"].as_str().unwrap();
    assert!(std::path::Path::new(path).join("_metadata").is_file(), "{path}");
    let newest = &statistics["latest"]["savepoint"];
    assert_eq!((&newest["external_path"], &newest["is_savepoint"]), (&json!(location), &json!(true)));
    assert_eq!(
        (&newest["checkpoint_type"], &newest["savepointFormat"]),
        (&json!("SAVEPOINT"), &json!("NATIVE"))
    );
    assert_eq!(completed["savepointFormat"], Value::Null);
    assert_eq!(statistics["history"].as_array().map(Vec::len), Some(2));
    assert_eq!(&statistics["history"][0], newest, "the newest comes first");

    let number = completed["id"].as_u64().unwrap();
    let details = at(&format!("/details/{number}"));
    assert_keys(&details, CHECKPOINT);
    let tasks = details["tasks"].as_object().unwrap();
    assert_eq!(tasks.len(), 2);
    for (vertex, task) in tasks {
        let fields = "id status latest_ack_timestamp checkpointed_size state_size end_to_end_duration alignment_buffered \
                      processed_data persisted_data num_subtasks num_acknowledged_subtasks";
        assert_keys(task, fields);
        let subtasks = at(&format!("/details/{number}/subtasks/{vertex}"));
        assert_keys(&subtasks, &format!("{fields} summary subtasks"));
        assert_keys(
            &subtasks["summary"],
            "checkpointed_size state_size end_to_end_duration checkpoint_duration alignment start_delay",
        );
        let lines = subtasks["subtasks"].as_array().unwrap();
        assert_eq!(lines.len() as u64, task["num_subtasks"].as_u64().unwrap());
        for (index, line) in lines.iter().enumerate() {
            assert_keys(
                line,
                "index status ack_timestamp end_to_end_duration checkpointed_size state_size checkpoint alignment start_delay \
                 unaligned_checkpoint aborted",
            );
            assert_keys(&line["checkpoint"], "sync async");
            assert_keys(&line["alignment"], "buffered processed persisted duration");
            assert_eq!((&line["index"], &line["status"]), (&json!(index), &json!("completed")));
        }
        let sum: u64 = lines.iter().map(|line| line["state_size"].as_u64().unwrap()).sum();
        assert_eq!(task["state_size"], sum);
    }

    let config = at("/config");
    assert_keys(
        &config,
        "mode interval timeout min_pause max_concurrent externalization state_backend checkpoint_storage unaligned_checkpoints \
         tolerable_failed_checkpoints aligned_checkpoint_timeout checkpoints_after_tasks_finish state_changelog_enabled \
         changelog_periodic_materialization_interval changelog_storage",
    );
    assert_eq!((&config["mode"], &config["interval"]), (&json!("exactly_once"), &json!(3_600_000)));
    assert_eq!(config["checkpoint_storage"], "filesystem");
    job.cancel();
    assert!(job.wait().is_err());
}

#[test]
fn failures_and_restarts_are_shown_with_the_task_that_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut env = environment(folder.path());
    env.set_restart_strategy(RestartStrategy::fixed_delay(5, Duration::ZERO));
    let fail = folder.path().join("fail");
    std::fs::write(&fail, "").unwrap();
    env.from_source("numbers", Generator::unbounded(|n| n).records_per_second(1_000.0))
        .uid("numbers")
        .try_map(move |n| match n == 7 && std::fs::remove_file(&fail).is_ok() {
            true => Err(Error::msg("seven is not my number")),
            false => Ok(n),
        })
        .discard();
    let job = env.execute_async("failing once").unwrap();
    let address = job.rest_address().unwrap();
    assert!(job.wait_until(LONG, |job| job.restarts() == 1 && job.metrics().records_out > 20));
    let path = format!("/jobs/{}", job.id());
    let exceptions = get(address, &format!("{path}/exceptions"));
    let entries = exceptions["exceptionHistory"]["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{exceptions}");
    assert_keys(
        &entries[0],
        "exceptionName stacktrace timestamp failureLabels taskName endpoint taskManagerId concurrentExceptions",
    );
    assert!(entries[0]["stacktrace"].as_str().unwrap().contains("seven is not my number"), "{exceptions}");
    assert!(entries[0]["taskName"].as_str().unwrap().contains("numbers"), "{exceptions}");
    let details = get(address, &path);
    assert_eq!(details["stillstream-restarts"], 1);
    assert!(details["timestamps"]["RESTARTING"].as_i64().unwrap() > 0, "{details}");
    job.cancel();
    assert!(job.wait().is_err());
}
