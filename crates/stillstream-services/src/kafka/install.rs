//! What is downloaded and made once, and then used by every start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Kafka;
use crate::cache;
use crate::error::{About, Error, Result};
use crate::packages::{self, Needed};

/// The version of Kafka. It stands in `services/kafka/pom.xml` too.
pub const VERSION: &str = "4.4.0";

/// Below the folder of the installation.
pub(super) const CERTIFICATE: &str = "tls/ca.pem";
pub(super) const KEYSTORE: &str = "tls/broker.p12";
pub(super) const LOGGING: &str = "log4j2.properties";

const POM: &str = include_str!("../../services/kafka/pom.xml");
const PROPERTIES: &str = include_str!("../../services/kafka/server.properties");
const KEYSTORE_PASSWORD: &str = "stillstream";

/// Changes whenever what [`prepare`] makes of the same version changes.
const FORM: u32 = 1;

const NEEDED: [Needed; 2] = [
    Needed { program: "java", ask: "-version", package: "openjdk-17-jre-headless" },
    Needed { program: "mvn", ask: "-version", package: "maven" },
];

/// Downloads Kafka unless it is there (54 MB, some seconds), by Maven. Java and Maven are installed first if
/// they are missing and this is Debian or its kin. Returns where it is.
///
/// # Errors
/// If Java or Maven is missing and cannot be installed, or the download fails.
pub fn prepare() -> Result<PathBuf> {
    packages::provide(if installed_folder().is_dir() { &NEEDED[..1] } else { &NEEDED })?;
    cache::once(&name(), |folder| {
        let pom = folder.join("pom.xml");
        std::fs::write(&pom, POM).about(|| pom.display().to_string())?;
        let library = format!("-DoutputDirectory={}", folder.join("lib").display());
        let arguments =
            ["-q", "-B", "-f", &pom.display().to_string(), "dependency:copy-dependencies", &library];
        run("mvn", &arguments)?;
        let logging = folder.join(LOGGING);
        std::fs::write(&logging, include_str!("../../services/kafka/log4j2.properties"))
            .about(|| logging.display().to_string())?;
        make_certificates(&folder.join("tls"))?;
        make_template(folder)
    })
}

/// Where [`prepare`] has put it.
pub(super) fn installed() -> Result<PathBuf> {
    let folder = installed_folder();
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(Error::new(format!(
            "Kafka {VERSION} is not at {}: run `cargo xtask services prepare`, which downloads it",
            folder.display()
        ))),
    }
}

fn installed_folder() -> PathBuf {
    cache::folder().join(name())
}

fn name() -> String {
    format!("kafka-{VERSION}-{FORM}")
}

pub(super) fn class_path(installed: &Path) -> String {
    installed.join("lib/*").display().to_string()
}

/// The broker's properties with what belongs to one start.
pub(super) fn properties(values: &[(&str, &str)]) -> String {
    let fixed =
        [("USER", Kafka::USER), ("PASSWORD", Kafka::PASSWORD), ("KEYSTORE_PASSWORD", KEYSTORE_PASSWORD)];
    fixed
        .iter()
        .chain(values)
        .fold(PROPERTIES.to_string(), |text, (name, value)| text.replace(&format!("@{name}@"), value))
}

/// Kafka's data folder must be formatted before its first start, which takes a Java process a second. It is
/// the same for all starts.
fn make_template(folder: &Path) -> Result<()> {
    let template = folder.join("template");
    std::fs::create_dir_all(&template).about(|| template.display().to_string())?;
    let text = properties(&[
        ("PORT", "18000"),
        ("SASL_PORT", "18001"),
        ("TLS_PORT", "18002"),
        ("SASL_TLS_PORT", "18003"),
        ("CONTROLLER_PORT", "18004"),
        ("DIR", &template.display().to_string()),
        ("KEYSTORE", &folder.join(KEYSTORE).display().to_string()),
    ]);
    let file = folder.join("format.properties");
    std::fs::write(&file, text).about(|| file.display().to_string())?;
    let user = format!("SCRAM-SHA-256=[name={},password={}]", Kafka::USER, Kafka::PASSWORD);
    let (class_path, file) = (class_path(folder), file.display().to_string());
    run(
        "java",
        &[
            "-cp",
            &class_path,
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id",
            "c3RpbGxzdHJlYW0tdGVzdA",
            "--config",
            &file,
            "--add-scram",
            &user,
        ],
    )
}

/// Fills the data folder of a first start.
pub(super) fn format(installed: &Path, data: &Path) -> Result<()> {
    copy(&installed.join("template"), data)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).about(|| to.display().to_string())?;
    for entry in std::fs::read_dir(from).about(|| from.display().to_string())? {
        let from = entry.about(|| from.display().to_string())?.path();
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            copy(&from, &to)?;
        } else {
            std::fs::copy(&from, &to).about(|| to.display().to_string())?;
        }
    }
    Ok(())
}

/// A certificate authority of our own, and the broker's certificate by it, both valid for a hundred years.
fn make_certificates(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).about(|| folder.display().to_string())?;
    let path = |name: &str| folder.join(name).display().to_string();
    let (authority, broker) = (path("ca.p12"), path("broker.p12"));
    let (request, signed, pem) = (path("broker.csr"), path("broker.pem"), path("ca.pem"));
    let keytool = |store: &str, arguments: &[&str]| {
        let mut all = arguments.to_vec();
        all.extend(["-keystore", store, "-storetype", "PKCS12", "-storepass", KEYSTORE_PASSWORD]);
        run("keytool", &all)
    };
    let key = ["-keyalg", "RSA", "-keysize", "2048", "-validity", "36500"];
    let make = ["-genkeypair", "-alias", "ca", "-dname", "CN=Stillstream tests", "-ext", "bc:c"];
    keytool(&authority, &[&make[..], &key].concat())?;
    keytool(&authority, &["-exportcert", "-rfc", "-alias", "ca", "-file", &pem])?;
    let make = ["-genkeypair", "-alias", "broker", "-dname", "CN=localhost"];
    keytool(&broker, &[&make[..], &key].concat())?;
    keytool(&broker, &["-certreq", "-alias", "broker", "-file", &request])?;
    let names = "san=dns:localhost,ip:127.0.0.1";
    let sign = ["-gencert", "-rfc", "-alias", "ca", "-infile", &request, "-outfile", &signed, "-ext", names];
    keytool(&authority, &[&sign[..], &key[4..]].concat())?;
    keytool(&broker, &["-importcert", "-noprompt", "-alias", "ca", "-file", &pem])?;
    keytool(&broker, &["-importcert", "-noprompt", "-alias", "broker", "-file", &signed])
}

/// Runs a program; its output is in the error if it fails.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.about(|| format!("running {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error::new(format!(
        "`{program} {}` failed: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&said).trim()
    )))
}
