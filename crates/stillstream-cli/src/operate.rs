//! Driving a running job: `savepoint`, `stop`, `cancel` and `checkpoint`.

use std::io::{IsTerminal, Write};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use stillstream_types::{Error, ErrorKind};

use crate::Answer;
use crate::arguments::{Form, SavepointArguments};
use crate::rest::{Job, Rest, text};
use crate::table::took;

/// How often is asked what has become of a request.
const PAUSE: Duration = Duration::from_millis(200);

/// A line on the terminal that says how far it is.
struct Progress {
    shown: bool,
    what: String,
    waited: Duration,
}

impl Progress {
    fn new(what: String) -> Self {
        Self { shown: std::io::stderr().is_terminal(), what, waited: Duration::ZERO }
    }

    /// Waits a little, and says so.
    fn wait(&mut self, how_far: impl FnOnce() -> Option<String>) {
        if self.shown {
            let how_far = how_far().map_or_else(String::new, |how_far| format!(", {how_far}"));
            let waited = took(self.waited.as_millis() as u64);
            // a terminal that is gone reads nothing
            let _ = write!(std::io::stderr(), "\r\x1b[K{} .. {waited}{how_far}", self.what);
        }
        sleep(PAUSE);
        self.waited += PAUSE;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// How far the newest checkpoint or savepoint is.
fn how_far(rest: &Rest, job: &Job) -> Option<String> {
    let statistics = rest.get(&format!("/jobs/{}/checkpoints", job.id)).ok()?;
    let newest = statistics["history"].get(0).filter(|one| one["status"] == "IN_PROGRESS")?;
    Some(format!("{} of {} subtasks", newest["num_acknowledged_subtasks"], newest["num_subtasks"]))
}

/// Asks for an operation and waits for its outcome, or says which one it is.
fn operate(
    rest: &Rest,
    job: &Job,
    what: &str,
    (asked_at, told_at): (&str, &str),
    body: &Value,
    detached: bool,
) -> Result<Result<Value, Answer>, Error> {
    let accepted = rest.post(&format!("/jobs/{}/{asked_at}", job.id), body)?;
    let request = text(&accepted, "request-id").to_owned();
    let path = format!("/jobs/{}/{told_at}/{request}", job.id);
    if detached {
        let text = format!("{request}\n");
        let json = json!({ "job": job.name, "id": job.id, "request-id": request, "status": path });
        return Ok(Err(Answer { text, json, damaged: false }));
    }
    let mut progress = Progress::new(format!("{what} of `{}`", job.name));
    loop {
        let status = rest.get(&path).map_err(|error| {
            let lost =
                format!("it is not known what became of the {what} of `{}` (request {request})", job.name);
            error.context(lost)
        })?;
        if status["status"]["id"] == "COMPLETED" {
            let operation = status["operation"].clone();
            let failure = ["failure-cause", "failureCause"].iter().find_map(|key| operation[key].as_object());
            return match failure {
                None => Ok(Ok(operation)),
                Some(cause) => {
                    let why =
                        cause.get("stack-trace").and_then(Value::as_str).unwrap_or("it does not say why");
                    let message = format!("the {what} of `{}` failed: {why}", job.name);
                    Err(Error::new(ErrorKind::Checkpoint, message))
                }
            };
        }
        progress.wait(|| how_far(rest, job));
    }
}

/// The directory as the job's process finds it: a path of this machine does not depend on where one stands.
fn directory(rest: &Rest, dir: Option<&str>) -> Result<Option<String>, Error> {
    let Some(dir) = dir else { return Ok(None) };
    if dir.contains("://") || !rest.is_local() {
        return Ok(Some(dir.to_owned()));
    }
    let absolute = std::path::absolute(dir)?;
    Ok(Some(absolute.to_string_lossy().into_owned()))
}

fn form(form: Form) -> &'static str {
    match form {
        Form::Canonical => "CANONICAL",
        Form::Native => "NATIVE",
    }
}

/// The answer that names where something lies.
fn located(job: &Job, operation: &Value, key: &str) -> Answer {
    let location = text(operation, key);
    let json = json!({ "job": job.name, "id": job.id, "location": location });
    Answer { text: format!("{location}\n"), json, damaged: false }
}

/// `savepoint`.
pub(crate) fn savepoint(rest: &Rest, wanted: &SavepointArguments) -> Result<Answer, Error> {
    let job = rest.job(&wanted.job)?;
    let mut body = json!({ "formatType": form(wanted.form) });
    if let Some(directory) = directory(rest, wanted.dir.as_deref())? {
        body["target-directory"] = directory.into();
    }
    let outcome = operate(rest, &job, "savepoint", ("savepoints", "savepoints"), &body, wanted.detached)?;
    Ok(outcome.map_or_else(|detached| detached, |operation| located(&job, &operation, "location")))
}

/// `stop`.
pub(crate) fn stop(rest: &Rest, wanted: &SavepointArguments, drain: bool) -> Result<Answer, Error> {
    let job = rest.job(&wanted.job)?;
    let mut body = json!({ "formatType": form(wanted.form), "drain": drain });
    if let Some(directory) = directory(rest, wanted.dir.as_deref())? {
        body["targetDirectory"] = directory.into();
    }
    let outcome = operate(rest, &job, "stop", ("stop", "savepoints"), &body, wanted.detached)?;
    Ok(outcome.map_or_else(|detached| detached, |operation| located(&job, &operation, "location")))
}

/// `checkpoint`.
pub(crate) fn checkpoint(rest: &Rest, job: &str, full: bool, detached: bool) -> Result<Answer, Error> {
    let job = rest.job(job)?;
    let body = json!({ "checkpointType": if full { "FULL" } else { "CONFIGURED" } });
    let outcome = operate(rest, &job, "checkpoint", ("checkpoints", "checkpoints"), &body, detached)?;
    Ok(outcome.map_or_else(
        |detached| detached,
        |operation| {
            let (id, location) = (&operation["checkpointId"], text(&operation, "stillstream-location"));
            Answer {
                text: format!("{id} {location}\n"),
                json: json!({ "job": job.name, "id": job.id, "checkpoint": id, "location": location }),
                damaged: false,
            }
        },
    ))
}

/// `cancel`. The process of a job often ends with it, and its server too: that is the end one waits for.
pub(crate) fn cancel(rest: &Rest, job: &str, detached: bool) -> Result<Answer, Error> {
    let job = rest.job(job)?;
    rest.patch(&format!("/jobs/{}?mode=cancel", job.id))?;
    let said = |state: &str, text: String| {
        let json = json!({ "job": job.name, "id": job.id, "state": state });
        Ok(Answer { text, json, damaged: false })
    };
    if detached {
        return said("CANCELLING", format!("job `{}` is being cancelled\n", job.name));
    }
    let mut progress = Progress::new(format!("cancelling `{}`", job.name));
    loop {
        match rest.get(&format!("/jobs/{}", job.id)) {
            Err(error) if error.kind() == ErrorKind::Peer => {
                return said("CANCELED", format!("job `{}` is cancelled\n", job.name));
            }
            Err(error) => return Err(error),
            Ok(details) => {
                let state = text(&details, "state");
                if state == "CANCELED" {
                    return said(state, format!("job `{}` is cancelled\n", job.name));
                }
                if details["end-time"].as_i64().is_some_and(|at| at >= 0) {
                    return said(
                        state,
                        format!("job `{}` has ended before it was cancelled: {state}\n", job.name),
                    );
                }
            }
        }
        progress.wait(|| None);
    }
}
