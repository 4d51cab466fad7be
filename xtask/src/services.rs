//! Servers for tests: downloading them, and starting one by hand.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use stillstream_services::{Kafka, kafka};

/// What `cargo xtask services` knows.
pub(crate) const NAMES: &str = "kafka";

/// Downloads all servers that tests need, unless they are there.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    let folder = kafka::prepare().map_err(|error| format!("Kafka {}: {error}", kafka::VERSION))?;
    println!("Kafka {} is at {}", kafka::VERSION, folder.display());
    Ok(folder)
}

/// Starts a server and keeps it until a line (or the end) of standard input, or until this program ends.
pub(crate) fn up(name: &str) -> Result<(), String> {
    match name {
        "kafka" => {
            let folder = prepare()?;
            let kafka = Kafka::start().map_err(|error| error.to_string())?;
            let (user, password) = (Kafka::USER, Kafka::PASSWORD);
            println!("bootstrap.servers         {}", kafka.bootstrap());
            println!("  SASL, as {user} with {password}  {}", kafka.sasl());
            println!("  TLS                     {}", kafka.tls());
            println!("  SASL and TLS            {}", kafka.sasl_tls());
            println!("certificate of TLS        {}", kafka.certificate().display());
            println!("its log                   {}", kafka.log().display());
            println!(
                "its command-line programs java -cp '{}/lib/*' org.apache.kafka.tools.TopicCommand ..",
                folder.display()
            );
            wait_for_enter("Enter or Ctrl-C ends it and deletes its data.");
            drop(kafka);
            Ok(())
        }
        other => Err(format!("no such server: {other} (there is {NAMES})")),
    }
}

fn wait_for_enter(hint: &str) {
    println!("{hint}");
    // whoever reads our output may have gone, and a standard input that cannot be read has ended
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}
