//! The server of this process: one for all its jobs.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use stillstream_runtime::clock::{Clock, SystemClock};
use stillstream_runtime::job::JobClient;
use stillstream_types::{Error, ErrorKind, Result};

use crate::guard::Guard;
use crate::jobs::Jobs;
use crate::operations::Operations;
use crate::routes::App;
use crate::server::{bind, serve};
use crate::settings::RestSettings;

/// The jobs that were admitted, and the server that shows them.
#[derive(Default)]
struct Process {
    jobs: Arc<Jobs>,
    running: Mutex<Option<Running>>,
}

struct Running {
    settings: RestSettings,
    address: SocketAddr,
    /// Jobs that are about to be admitted.
    doors: usize,
}

static PROCESS: LazyLock<Process> = LazyLock::new(Process::default);

/// The way in for a job that is about to start. As long as there is one, the server goes on.
#[derive(Debug)]
pub struct Door {
    address: SocketAddr,
}

impl Door {
    /// Where the server answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows a job from now on, also after its end as long as the server goes on. Another run of the same job
    /// goes.
    pub fn admit(self, job: &JobClient) {
        PROCESS.jobs.admit(job);
        // said when it is true: whoever reads it may ask at once
        tracing::info!(job = %job.name(), "job `{}` ({}) answers by REST at http://{}", job.name(), job.id(), self.address);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(running) = &mut *PROCESS.running.lock() {
            running.doors -= 1;
        }
    }
}

/// Starts the server of this process, or joins the one that runs.
///
/// # Errors
/// Before anything listens: settings that would let others on the network drive jobs. Then: no port is free,
/// or the server that runs was started with other settings.
pub fn open(settings: &RestSettings) -> Result<Door> {
    settings.validate()?;
    let mut running = PROCESS.running.lock();
    if let Some(running) = &mut *running {
        running.agrees_with(settings)?;
        running.doors += 1;
        return Ok(Door { address: running.address });
    }
    let listener = bind(settings.address, settings.ports)?;
    let address = listener.local_addr()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let app = Arc::new(App {
        jobs: PROCESS.jobs.clone(),
        operations: Operations::new(clock.clone(), settings.keep_outcomes),
        guard: Guard::new(settings),
        clock,
    });
    std::thread::Builder::new().name("rest".into()).spawn(move || {
        let served = catch_unwind(AssertUnwindSafe(|| serve(listener, app, still_needed)));
        match served {
            Ok(Ok(())) => return,
            Ok(Err(error)) => tracing::error!("the REST interface has ended, and its jobs go on: {error}"),
            Err(_) => tracing::error!(
                "the thread `rest` panicked: the REST interface has ended, and its jobs go on"
            ),
        }
        *PROCESS.running.lock() = None;
    })?;
    *running = Some(Running { settings: settings.clone(), address, doors: 1 });
    Ok(Door { address })
}

/// Asked by the server. If not, it is taken off at once: a job that comes then starts another.
fn still_needed() -> bool {
    let mut running = PROCESS.running.lock();
    if PROCESS.jobs.some_run() || running.as_ref().is_some_and(|running| running.doors > 0) {
        return true;
    }
    *running = None;
    false
}

impl Running {
    /// A process has one server: a job whose settings it does not keep must not start in the belief that it
    /// does.
    fn agrees_with(&self, wanted: &RestSettings) -> Result<()> {
        let port = self.address.port();
        let ports = !wanted.ports.chosen
            || wanted.ports == self.settings.ports
            || (wanted.ports.first..=wanted.ports.last).contains(&port);
        let what = if wanted.token != self.settings.token {
            "another token"
        } else if wanted.address != self.settings.address {
            "another address (rest.bind-address)"
        } else if !ports {
            "another port (rest.bind-port)"
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Configuration,
            format!(
                "the REST interface of this process answers at {} already, for another of its jobs, and this job wants {what}: a \
                 process has one; give its jobs the same settings",
                self.address
            ),
        ))
    }
}
