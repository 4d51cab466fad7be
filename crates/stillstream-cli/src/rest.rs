//! Asking the REST interface of a running job.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use stillstream_types::{Error, ErrorKind};
use ureq::http::Uri;
use ureq::{Agent, Body};

use crate::arguments::Server;

const DEFAULT: &str = "http://127.0.0.1:8081";
/// Holds the address, where `--rest` does not.
const ADDRESS: &str = "STILLSTREAM_REST";
/// Holds the token, where `--token-file` does not.
const TOKEN: &str = "STILLSTREAM_REST_TOKEN";
/// A server answers at once; what takes longer it does behind an id.
const PATIENCE: Duration = Duration::from_secs(15);

/// A server.
pub(crate) struct Rest {
    base: String,
    local: bool,
    token: Option<String>,
    agent: Agent,
}

/// A job, as the server lists it.
pub(crate) struct Job {
    pub id: String,
    pub name: String,
}

#[expect(clippy::disallowed_methods, reason = "the command's shell: the one place that reads variables")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn configuration(message: String) -> Error {
    Error::new(ErrorKind::Configuration, message)
}

/// The text at a place of an answer, or nothing.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

impl Rest {
    pub fn of(server: &Server) -> Result<Self, Error> {
        let base = server.rest.clone().or_else(|| variable(ADDRESS)).unwrap_or_else(|| DEFAULT.into());
        let base = base.trim_end_matches('/');
        let wrong =
            |what: &str| configuration(format!("`{base}` is not the address of a REST interface: {what}"));
        let base = match base.split_once("://") {
            None => format!("http://{base}"),
            Some(("http", _)) => base.to_owned(),
            Some(("https", _)) => {
                return Err(wrong(
                    "there is no TLS in this command; go by a tunnel (`ssh -L`) or a proxy of this machine",
                ));
            }
            Some(_) => return Err(wrong("`http://<host>:<port>` is expected")),
        };
        let uri: Uri = base.parse().map_err(|_| wrong("`http://<host>:<port>` is expected"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let token = match &server.token_file {
            None => variable(TOKEN),
            Some(file) => {
                let read = std::fs::read_to_string(file)
                    .map_err(|error| configuration(format!("cannot read the token in `{file}`: {error}")))?;
                Some(read.lines().next().unwrap_or_default().trim().to_owned())
            }
        };
        let mut config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        if local {
            config = config.proxy(None);
        }
        Ok(Self { base, local, token, agent: config.build().into() })
    }

    /// Whether the server is on this machine, so that both mean the same by a path.
    pub fn is_local(&self) -> bool {
        self.local
    }

    pub fn get(&self, path: &str) -> Result<Value, Error> {
        let request = self.agent.get(format!("{}{path}", self.base));
        self.answer(match self.authorization() {
            Some(token) => request.header("Authorization", token).call(),
            None => request.call(),
        })
    }

    pub fn post(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let request = self.agent.post(format!("{}{path}", self.base)).content_type("application/json");
        self.answer(match self.authorization() {
            Some(token) => request.header("Authorization", token).send(body.to_string()),
            None => request.send(body.to_string()),
        })
    }

    pub fn patch(&self, path: &str) -> Result<Value, Error> {
        let request = self.agent.patch(format!("{}{path}", self.base));
        self.answer(match self.authorization() {
            Some(token) => request.header("Authorization", token).send_empty(),
            None => request.send_empty(),
        })
    }

    fn authorization(&self) -> Option<String> {
        self.token.as_ref().map(|token| format!("Bearer {token}"))
    }

    fn answer(&self, answered: Result<ureq::http::Response<Body>, ureq::Error>) -> Result<Value, Error> {
        let mut response = answered.map_err(|error| self.unreachable(&error))?;
        let status = response.status().as_u16();
        let read = response.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?;
        let Ok(value) = serde_json::from_str::<Value>(&read) else {
            let base = &self.base;
            return Err(configuration(format!(
                "what answers at {base} is no REST interface of a job (status {status}, no JSON): {HOW}"
            )));
        };
        if status < 400 {
            return Ok(value);
        }
        let said = value["errors"][0].as_str().unwrap_or("it does not say why");
        Err(match status {
            401 => configuration(format!(
                "{}: {said}; `--token-file FILE` or the variable {TOKEN} has the token",
                self.base
            )),
            _ => configuration(format!("{} refuses the request: {said}", self.base)),
        })
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        let base = &self.base;
        match error {
            ureq::Error::Timeout(_) => {
                let seconds = PATIENCE.as_secs();
                Error::new(ErrorKind::Timeout, format!("{base} has not answered for {seconds} s: {HOW}"))
            }
            error => {
                Error::new(ErrorKind::Peer, format!("no REST interface answers at {base} ({error}): {HOW}"))
            }
        }
    }

    /// The job that is meant: by its id, or by its name if no other has it.
    pub fn job(&self, wanted: &str) -> Result<Job, Error> {
        let overview = self.get("/jobs/overview")?;
        let jobs = overview["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown =
            |job: &Value| format!("`{}` ({}, {})", text(job, "name"), text(job, "jid"), text(job, "state"));
        let mut meant: Vec<&Value> =
            jobs.iter().filter(|job| text(job, "jid") == wanted || text(job, "name") == wanted).collect();
        if meant.len() > 1 {
            // of several runs of a job the one that runs is meant
            meant.retain(|job| job["end-time"].as_i64() == Some(-1));
        }
        match meant.as_slice() {
            [job] => Ok(Job { id: text(job, "jid").into(), name: text(job, "name").into() }),
            [] => {
                let known: Vec<String> = jobs.iter().map(shown).collect();
                let known = if known.is_empty() {
                    "it has no job".into()
                } else {
                    format!("it has {}", known.join(", "))
                };
                Err(configuration(format!("there is no job `{wanted}` at {}: {known}", self.base)))
            }
            several => {
                let several: Vec<String> = several.iter().map(|job| shown(job)).collect();
                Err(configuration(format!(
                    "several jobs are called `{wanted}`, name one by its id: {}",
                    several.join(", ")
                )))
            }
        }
    }
}

const HOW: &str = "the job's log says where its own is (`answers by REST at http://..`), and `--rest URL` or the variable STILLSTREAM_REST \
                   names it; a job that reads its arguments by `from_args` has one, others ask for it by \
                   `stillstream.rest.enabled: true`";
