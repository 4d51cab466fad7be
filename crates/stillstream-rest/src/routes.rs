//! Which path does what.
//!
//! To add a path: a line in [`router`], a handler here, and its JSON in `json`.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use stillstream_runtime::clock::Clock;
use stillstream_runtime::job::{EndHold, JobClient};
use stillstream_types::{CheckpointType, Error, SavepointFormat};

use crate::calls::{self, Wanted};
use crate::guard::Guard;
use crate::jobs::Jobs;
use crate::json::{checkpoints, details, exceptions, job, overview};
use crate::operations::{self, Group, Key, Operations, TriggerId};
use crate::reply::{Answer, Refusal, Reply};

/// The longest body that a request may have.
const LONGEST_BODY: usize = 64 << 10;

/// What handlers work with.
#[derive(Debug)]
pub(crate) struct App {
    pub jobs: Arc<Jobs>,
    pub operations: Operations,
    pub guard: Guard,
    pub clock: Arc<dyn Clock>,
}

type AppState = State<Arc<App>>;

/// What is kept until the answer is sent: the outcome of an operation may be the last thing that a process
/// says.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptUntilSent(Arc<Mutex<Vec<Arc<EndHold>>>>);

/// All paths.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/overview", get(async |app: AppState| Reply::ok(overview::overview(&app.jobs.all()))))
        .route("/config", get(async || Reply::ok(overview::config())))
        .route("/jobs", get(async |app: AppState| Reply::ok(overview::ids(&app.jobs.all()))))
        .route(
            "/jobs/overview",
            get(async |app: AppState| Reply::ok(overview::jobs(&app.jobs.all(), app.clock.now_ms()))),
        )
        .route("/jobs/{job}", get(job_details).patch(cancel))
        .route("/jobs/{job}/status", of_job(|job| json!({ "status": job.status().name() })))
        .route("/jobs/{job}/config", of_job(job::config))
        .route("/jobs/{job}/plan", of_job(|job| json!({ "plan": job::plan(job) })))
        .route("/jobs/{job}/exceptions", of_job(exceptions::exceptions))
        .route("/jobs/{job}/stillstream-event-time", of_job(job::event_time))
        .route("/jobs/{job}/checkpoints", of_job(checkpoints::statistics).post(trigger_checkpoint))
        .route("/jobs/{job}/checkpoints/config", of_job(checkpoints::config))
        .route("/jobs/{job}/checkpoints/details/{checkpoint}", get(checkpoint))
        .route("/jobs/{job}/checkpoints/details/{checkpoint}/subtasks/{vertex}", get(subtasks))
        .route("/jobs/{job}/checkpoints/{trigger}", get(checkpoint_status))
        .route("/jobs/{job}/savepoints", post(trigger_savepoint))
        .route("/jobs/{job}/savepoints/{trigger}", get(savepoint_status))
        .route("/jobs/{job}/stop", post(stop))
        .route("/savepoint-disposal", post(dispose))
        .route("/savepoint-disposal/{trigger}", get(disposal_status))
        .fallback(async |request: Request| {
            Refusal::missing(format!(
                "there is no path `{}` here: docs/rest.md lists all",
                request.uri().path()
            ))
        })
        .method_not_allowed_fallback(async |request: Request| {
            let message = format!("`{}` does not go with `{}`", request.uri().path(), request.method());
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(from_fn_with_state(app.clone(), check))
        .with_state(app)
}

async fn check(State(app): AppState, request: Request, next: Next) -> Response {
    match app.guard.check(request.method(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// `GET`: shows something of a job.
fn of_job(show: fn(&JobClient) -> Value) -> MethodRouter<Arc<App>> {
    get(move |State(app): AppState, Path(id): Path<String>| async move {
        Answer::Ok(Reply::ok(show(&app.jobs.find(&id)?)))
    })
}

async fn job_details(State(app): AppState, Path(id): Path<String>) -> Answer {
    Ok(Reply::ok(job::details(&app.jobs.find(&id)?, app.clock.now_ms())))
}

async fn checkpoint(State(app): AppState, Path((id, checkpoint)): Path<(String, String)>) -> Answer {
    Ok(Reply::ok(details::checkpoint(&app.jobs.find(&id)?, &checkpoint)?))
}

async fn subtasks(
    State(app): AppState,
    Path((id, checkpoint, vertex)): Path<(String, String, String)>,
) -> Answer {
    Ok(Reply::ok(details::subtasks(&app.jobs.find(&id)?, &checkpoint, &vertex)?))
}

/// `PATCH /jobs/:id?mode=cancel`.
async fn cancel(State(app): AppState, Path(id): Path<String>, RawQuery(query): RawQuery) -> Answer {
    let job = app.jobs.find(&id)?;
    let query = query.unwrap_or_default();
    let mode = query.split('&').find_map(|pair| pair.strip_prefix("mode=")).unwrap_or("cancel");
    if mode != "cancel" {
        return Err(Refusal::bad(format!(
            "`mode={mode}` is not offered: `cancel` ends the job at once, and `POST /jobs/{id}/stop` with a savepoint"
        )));
    }
    if job.status().is_terminal() {
        let message = format!("job `{}` has ended already ({})", job.name(), job.status());
        return Err(Refusal::new(StatusCode::CONFLICT, message));
    }
    tracing::info!(job = %job.name(), "the job is cancelled, as a REST request asks for");
    job.cancel();
    Ok(Reply::accepted(json!({})))
}

/// The body of a request. None at all is the same as `{}`.
fn body<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let bytes = body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("the body is longer than {LONGEST_BODY} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        status => Refusal::new(status, format!("the body could not be read: {rejection}")),
    })?;
    let bytes: &[u8] = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes };
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::bad("the body is not what is expected here: a JSON object, as in `{}`"));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Refusal::bad(format!("the body is not what is expected here: {error}")))
}

/// A folder's name ends up in the log and on terminals.
fn directory(name: Option<String>) -> Result<Option<String>, Refusal> {
    match name {
        Some(name) if name.contains(char::is_control) => {
            Err(Refusal::bad(format!("the directory {name:?} has control characters in its name")))
        }
        name => Ok(name),
    }
}

#[derive(Deserialize, Default)]
enum Format {
    #[default]
    #[serde(rename = "CANONICAL")]
    Canonical,
    #[serde(rename = "NATIVE")]
    Native,
}

impl Format {
    fn wanted(self, directory: Option<String>) -> Wanted {
        let format = match self {
            Self::Canonical => SavepointFormat::Canonical,
            Self::Native => SavepointFormat::Native,
        };
        Wanted { directory: directory.filter(|directory| !directory.is_empty()), format }
    }
}

fn trigger_id(text: Option<String>) -> Result<TriggerId, Refusal> {
    match text {
        None => Ok(TriggerId::random()),
        Some(text) => text.parse().map_err(|error| Refusal::bad(format!("`triggerId`: {error}"))),
    }
}

impl App {
    /// Begins an operation on a job, and answers with its id.
    fn begin(
        &self,
        group: Group,
        trigger: Option<String>,
        job: &JobClient,
        wish: String,
        run: impl FnOnce(&JobClient) -> stillstream_types::Result<Value> + Send + 'static,
    ) -> Answer {
        let trigger = trigger_id(trigger)?;
        let key = Key { group, job: Some(job.id()), trigger };
        tracing::info!(job = %job.name(), "a REST request asks for {wish} (operation {trigger})");
        let owned = job.clone();
        self.operations.begin(key, wish, Some(job.hold_end()), move || run(&owned))?;
        Ok(Reply::accepted(json!({ "request-id": trigger.to_string() })))
    }

    fn status(
        &self,
        key: &Key,
        kept: &KeptUntilSent,
        show: impl FnOnce(operations::Outcome) -> Value,
    ) -> Answer {
        let (state, hold) = self.operations.look(key)?;
        kept.0.lock().extend(hold);
        Ok(Reply::ok(match state {
            operations::State::InProgress => json!({ "status": { "id": "IN_PROGRESS" }, "operation": null }),
            operations::State::Completed(outcome) => {
                json!({ "status": { "id": "COMPLETED" }, "operation": show(outcome) })
            }
        }))
    }

    fn job_operation(&self, group: Group, id: &str, trigger: &str) -> Result<Key, Refusal> {
        let job = Some(self.jobs.find(id)?.id());
        Ok(Key { group, job, trigger: trigger.parse().map_err(Refusal::bad)? })
    }
}

/// A failure in the form of Flink's serialized exceptions, without the Java object.
fn cause(error: &Error) -> Value {
    json!({
        "class": format!("stillstream.{:?}", error.kind()),
        "stack-trace": error.to_string(),
        "serialized-throwable": null,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRequest {
    #[serde(rename = "checkpointType")]
    kind: Option<String>,
    #[serde(rename = "triggerId")]
    trigger: Option<String>,
}

async fn trigger_checkpoint(
    State(app): AppState,
    Path(id): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Answer {
    let (job, request) = (app.jobs.find(&id)?, body::<CheckpointRequest>(bytes)?);
    let kind = match request.kind {
        None => CheckpointType::default(),
        Some(text) => text.parse().map_err(|error| Refusal::bad(format!("`checkpointType`: {error}")))?,
    };
    if kind == CheckpointType::Incremental && !job.info().checkpoint.incremental {
        return Err(Refusal::bad(format!(
            "job `{}` takes no incremental checkpoints (execution.checkpointing.incremental is false): `CONFIGURED` and \
             `FULL` ones can be had",
            job.name()
        )));
    }
    let wish = match kind {
        CheckpointType::Configured => "a checkpoint",
        CheckpointType::Full => "a full checkpoint",
        CheckpointType::Incremental => "an incremental checkpoint",
    };
    app.begin(Group::Checkpoints, request.trigger, &job, wish.into(), move |job| calls::checkpoint(job, kind))
}

async fn checkpoint_status(
    State(app): AppState,
    Path((id, trigger)): Path<(String, String)>,
    Extension(kept): Extension<KeptUntilSent>,
) -> Answer {
    let key = app.job_operation(Group::Checkpoints, &id, &trigger)?;
    app.status(&key, &kept, |outcome| {
        outcome.unwrap_or_else(|error| json!({ "checkpointId": null, "failureCause": cause(&error) }))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavepointRequest {
    #[serde(rename = "target-directory")]
    directory: Option<String>,
    #[serde(rename = "cancel-job", default)]
    cancel: bool,
    #[serde(rename = "formatType", default)]
    format: Format,
    #[serde(rename = "triggerId")]
    trigger: Option<String>,
}

async fn trigger_savepoint(
    State(app): AppState,
    Path(id): Path<String>,
    bytes: Result<Bytes, BytesRejection>,
) -> Answer {
    let (job, request) = (app.jobs.find(&id)?, body::<SavepointRequest>(bytes)?);
    let wanted = request.format.wanted(directory(request.directory)?);
    if request.cancel {
        // what would be committed between a savepoint and a cancel would appear twice after a start from the
        // savepoint, so the two are one step
        let wish = describe("a stop with a savepoint (`cancel-job`)", &wanted);
        return app.begin(Group::Savepoints, request.trigger, &job, wish, move |job| {
            calls::stop(job, &wanted, false)
        });
    }
    app.begin(Group::Savepoints, request.trigger, &job, describe("a savepoint", &wanted), move |job| {
        calls::savepoint(job, &wanted)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StopRequest {
    #[serde(rename = "targetDirectory")]
    directory: Option<String>,
    #[serde(default)]
    drain: bool,
    #[serde(rename = "formatType", default)]
    format: Format,
    #[serde(rename = "triggerId")]
    trigger: Option<String>,
}

async fn stop(State(app): AppState, Path(id): Path<String>, bytes: Result<Bytes, BytesRejection>) -> Answer {
    let (job, request) = (app.jobs.find(&id)?, body::<StopRequest>(bytes)?);
    let (wanted, drain) = (request.format.wanted(directory(request.directory)?), request.drain);
    let what = if drain { "a stop that drains, with a savepoint" } else { "a stop with a savepoint" };
    app.begin(Group::Savepoints, request.trigger, &job, describe(what, &wanted), move |job| {
        calls::stop(job, &wanted, drain)
    })
}

fn describe(what: &str, wanted: &Wanted) -> String {
    let format = match wanted.format {
        SavepointFormat::Canonical => "canonical",
        SavepointFormat::Native => "native",
    };
    match &wanted.directory {
        Some(directory) => format!("{what} in `{directory}` ({format})"),
        None => format!("{what} ({format})"),
    }
}

async fn savepoint_status(
    State(app): AppState,
    Path((id, trigger)): Path<(String, String)>,
    Extension(kept): Extension<KeptUntilSent>,
) -> Answer {
    let key = app.job_operation(Group::Savepoints, &id, &trigger)?;
    app.status(&key, &kept, |outcome| {
        outcome.unwrap_or_else(|error| json!({ "failure-cause": cause(&error) }))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DisposalRequest {
    #[serde(rename = "savepoint-path")]
    path: String,
}

async fn dispose(State(app): AppState, bytes: Result<Bytes, BytesRejection>) -> Answer {
    let request = body::<DisposalRequest>(bytes)?;
    let (trigger, jobs) = (TriggerId::random(), app.jobs.clone());
    let key = Key { group: Group::Disposals, job: None, trigger };
    let wish = format!("the disposal of the savepoint `{}`", request.path);
    tracing::info!("a REST request asks for {wish} (operation {trigger})");
    app.operations.begin(key, wish, None, move || calls::dispose(&jobs, &request.path))?;
    Ok(Reply::accepted(json!({ "request-id": trigger.to_string() })))
}

async fn disposal_status(
    State(app): AppState,
    Path(trigger): Path<String>,
    Extension(kept): Extension<KeptUntilSent>,
) -> Answer {
    let key = Key { group: Group::Disposals, job: None, trigger: trigger.parse().map_err(Refusal::bad)? };
    app.status(&key, &kept, |outcome| {
        outcome.unwrap_or_else(|error| json!({ "failure-cause": cause(&error) }))
    })
}
