//! HDFS: a NameNode and a DataNode, each a process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::command::run;
use crate::error::{About, Error, Result};
use crate::kafka::now;
use crate::packages::{self, Needed};
use crate::process::Process;
use crate::{cache, ports};

/// The version of Hadoop. It stands in `services/hdfs/pom.xml` too.
pub const VERSION: &str = "3.5.0";

const POM: &str = include_str!("../services/hdfs/pom.xml");
const CORE: &str = include_str!("../services/hdfs/conf/core-site.xml");
const HDFS: &str = include_str!("../services/hdfs/conf/hdfs-site.xml");

const NAME_NODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATA_NODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";

/// How long the two may take until they answer. They take 7 s by themselves; tests share their machine.
const STARTED_WITHIN: Duration = Duration::from_secs(180);

/// How many this program has started; for the names of their files.
static STARTED: AtomicU32 = AtomicU32::new(0);

const NEEDED: [Needed; 2] = [
    Needed { program: "java", ask: "-version", package: "openjdk-17-jre-headless" },
    Needed { program: "mvn", ask: "-version", package: "maven" },
];

fn name() -> String {
    format!("hdfs-{VERSION}-1")
}

/// Downloads Hadoop's servers unless they are there (104 MB), by Maven.
///
/// # Errors
/// If Java or Maven is missing and cannot be installed, or the download fails.
pub fn prepare() -> Result<PathBuf> {
    let there = cache::folder().join(name()).is_dir();
    packages::provide(if there { &NEEDED[..1] } else { &NEEDED })?;
    cache::once(&name(), |folder| {
        let pom = folder.join("pom.xml");
        std::fs::write(&pom, POM).about(|| pom.display().to_string())?;
        let library = format!("-DoutputDirectory={}", folder.join("lib").display());
        run(Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(&pom)
            .args(["dependency:copy-dependencies", &library]))
    })
}

/// A running HDFS of this program. It ends with this value, and with the program at the latest.
#[derive(Debug)]
pub struct Hdfs {
    installed: PathBuf,
    port: u16,
    web: u16,
    folder: PathBuf,
    name_log: PathBuf,
    data_log: PathBuf,
    name_node: Mutex<Option<Process>>,
    data_node: Mutex<Option<Process>>,
}

impl Hdfs {
    /// Starts both on free ports with an empty file system, and waits until files can be written.
    ///
    /// # Errors
    /// If Hadoop was not downloaded (`cargo xtask services prepare` does it), or does not start; with the end
    /// of a log.
    pub fn start() -> Result<Self> {
        let installed = cache::folder().join(name());
        if !installed.is_dir() {
            return Err(Error::new(format!(
                "Hadoop {VERSION} is not at {}: run `cargo xtask services prepare`, which downloads it",
                installed.display()
            )));
        }
        let [port, web] = ports::free()?;
        let name = format!("hdfs-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("stillstream-{name}"));
        if folder.exists() {
            // of a process that had our number before
            std::fs::remove_dir_all(&folder).about(|| folder.display().to_string())?;
        }
        let conf = folder.join("conf");
        std::fs::create_dir_all(&conf).about(|| conf.display().to_string())?;
        let data = folder.join("data").display().to_string();
        for (name, text) in [("core-site.xml", CORE), ("hdfs-site.xml", HDFS)] {
            let text = text.replace("@DIR@", &data).replace("@PORT@", &port.to_string());
            let text = text.replace("@WEB_PORT@", &web.to_string());
            std::fs::write(conf.join(name), text).about(|| conf.join(name).display().to_string())?;
        }
        let log = |node: &str| cache::log(&format!("{name}-{node}"));
        let (name_log, data_log) = (log("namenode")?, log("datanode")?);
        let (name_node, data_node) = (Mutex::default(), Mutex::default());
        let hdfs = Self { installed, port, web, folder, name_log, data_log, name_node, data_node };
        let format = hdfs.java(NAME_NODE);
        run(Command::new(&format[0]).args(&format[1..]).args(["-format", "-nonInteractive"]))?;
        hdfs.run()?;
        Ok(hdfs)
    }

    fn java(&self, class: &str) -> Vec<String> {
        let class_path = format!("{}:{}/lib/*", self.folder.join("conf").display(), self.installed.display());
        // they share their cores with the test, and few live long enough for the second compiler
        ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &class_path, class]
            .map(str::to_string)
            .to_vec()
    }

    fn run(&self) -> Result<()> {
        let name_node = Process::start(&self.java(NAME_NODE), &self.name_log, &self.folder)?;
        let data_node = Process::start(&self.java(DATA_NODE), &self.data_log, &self.folder)?;
        let start = now();
        loop {
            let error = match self.live_data_nodes() {
                Ok((1, false)) => break,
                Ok((nodes, safe)) => format!("{nodes} DataNodes, safe mode: {safe}"),
                Err(error) => error.to_string(),
            };
            let ended = [&name_node, &data_node].into_iter().find(|node| node.has_ended());
            if ended.is_some() || start.elapsed() > STARTED_WITHIN {
                let (took, end) = (start.elapsed().as_secs(), ended.unwrap_or(&name_node).end());
                return Err(Error::new(format!("no HDFS at {} within {took} s: {error}; {end}", self.uri())));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        *lock(&self.name_node) = Some(name_node);
        *lock(&self.data_node) = Some(data_node);
        Ok(())
    }

    /// How many DataNodes have told the NameNode of themselves, and whether it still takes no changes.
    fn live_data_nodes(&self) -> Result<(u32, bool)> {
        let about = || format!("asking the NameNode at 127.0.0.1:{}", self.web);
        let ask = |bean: &str| -> Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.web)).about(about)?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).about(about)?;
            let request = format!("GET /jmx?qry=Hadoop:service=NameNode,name={bean} HTTP/1.0\r\n\r\n");
            stream.write_all(request.as_bytes()).about(about)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).about(about)?;
            Ok(answer)
        };
        let value = |answer: &str, name: &str| {
            let (_, rest) = answer.split_once(&format!("\"{name}\" : "))?;
            Some(rest.split([',', '\n']).next()?.trim().trim_matches('"').to_string())
        };
        let state = ask("FSNamesystemState")?;
        let nodes = value(&state, "NumLiveDataNodes").and_then(|text| text.parse().ok()).unwrap_or(0);
        let safe = value(&state, "FSState").is_none_or(|state| state != "Operational");
        Ok((nodes, safe))
    }

    /// The whole file system, as in `hdfs://127.0.0.1:8020`.
    pub fn uri(&self) -> String {
        format!("hdfs://127.0.0.1:{}", self.port)
    }

    /// The files of the logs of NameNode and DataNode.
    pub fn logs(&self) -> [&Path; 2] {
        [&self.name_log, &self.data_log]
    }

    /// Kills both with SIGKILL and waits until they have ended. Their data stays.
    ///
    /// # Errors
    /// If one does not end.
    pub fn kill(&self) -> Result<()> {
        for node in [&self.name_node, &self.data_node] {
            let process = lock(node).take();
            process.map_or(Ok(()), Process::kill)?;
        }
        Ok(())
    }

    /// Starts both on the same ports and data, after a [`kill`](Self::kill) or instead of it, and waits until
    /// files can be written.
    ///
    /// # Errors
    /// If they do not start; with the end of a log.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.run()
    }
}

fn lock(process: &Mutex<Option<Process>>) -> MutexGuard<'_, Option<Process>> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Hdfs {
    fn drop(&mut self) {
        for node in [&self.name_node, &self.data_node] {
            drop(lock(node).take());
        }
        // the shells of the processes delete the folder, but not after a kill
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
