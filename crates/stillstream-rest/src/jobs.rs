//! The jobs of this process that can be asked about: those that run, and the newest of those that have ended.

use parking_lot::Mutex;
use stillstream_runtime::job::JobClient;
use stillstream_types::JobId;

use crate::reply::Refusal;

/// So many jobs that have ended stay visible.
const ENDED: usize = 100;

/// The jobs, in the order in which they came. All clients are observers.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<Vec<JobClient>>);

impl Jobs {
    /// Shows a job. Another run of the same job, which has the same id, goes.
    pub fn admit(&self, job: &JobClient) {
        let mut jobs = self.0.lock();
        jobs.retain(|other| other.id() != job.id());
        jobs.push(job.observer());
        while jobs.iter().filter(|job| job.has_ended()).count() > ENDED {
            let Some(oldest) = jobs.iter().position(JobClient::has_ended) else { break };
            jobs.remove(oldest);
        }
    }

    pub fn all(&self) -> Vec<JobClient> {
        self.0.lock().clone()
    }

    /// Whether one of them has not ended.
    pub fn some_run(&self) -> bool {
        self.0.lock().iter().any(|job| !job.has_ended())
    }

    /// The job with this id.
    pub fn find(&self, id: &str) -> Result<JobClient, Refusal> {
        let id: JobId = id.parse().map_err(Refusal::bad)?;
        let jobs = self.0.lock();
        let found = jobs.iter().find(|job| job.id() == id).cloned();
        found.ok_or_else(|| {
            Refusal::missing(format!(
                "Job {id} not found: `GET /jobs/overview` lists the jobs of this process"
            ))
        })
    }
}
