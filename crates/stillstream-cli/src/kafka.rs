//! `stillstream kafka transactions`: what a job left open on Kafka.

use stillstream_types::Error;

use crate::Answer;
use crate::arguments::KafkaCommand;

/// Without the cargo feature there is no client.
#[cfg(not(feature = "kafka"))]
pub(crate) fn run(_: &KafkaCommand) -> Result<Answer, Error> {
    Err(Error::new(
        stillstream_types::ErrorKind::Configuration,
        "this command was built without the cargo feature `kafka`: install it with `--features kafka` to look into a Kafka \
         cluster",
    ))
}

#[cfg(feature = "kafka")]
pub(crate) fn run(command: &KafkaCommand) -> Result<Answer, Error> {
    let KafkaCommand::Transactions(wanted) = command;
    with_client::run(wanted)
}

#[cfg(feature = "kafka")]
mod with_client {
    use serde_json::json;
    use stillstream_kafka::client::Properties;
    use stillstream_kafka::transactions::{self, OpenTransaction};
    use stillstream_types::{Error, Result, ResultExt};

    use crate::Answer;
    use crate::arguments::TransactionsArguments;
    use crate::table::{moment, table, took};

    fn properties(wanted: &TransactionsArguments) -> Result<Properties> {
        let mut properties = Properties::new(&wanted.brokers);
        if let Some(file) = &wanted.command_config {
            let text = std::fs::read_to_string(file).context(|| format!("reading `{}`", file.display()))?;
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let Some((key, value)) = line.split_once('=') else {
                    let message = format!("`{}`: a line `key=value` is expected, and found is `{line}`", file.display());
                    return Err(Error::new(stillstream_types::ErrorKind::Configuration, message));
                };
                properties.set(key.trim(), value.trim());
            }
        }
        Ok(properties)
    }

    pub(super) fn run(wanted: &TransactionsArguments) -> Result<Answer> {
        let properties = properties(wanted)?;
        let prefix = wanted.prefix.as_deref().unwrap_or_default();
        let (what, ids) = match (&wanted.commit, &wanted.abort, wanted.abort_all) {
            (Some(id), ..) => ("committed", vec![id.clone()]),
            (None, Some(id), _) => ("aborted", vec![id.clone()]),
            (None, None, true) => {
                let open = transactions::open(&properties, prefix)?;
                ("aborted", open.into_iter().map(|open| open.transactional_id).collect())
            }
            (None, None, false) => return Ok(listed(&transactions::open(&properties, prefix)?)),
        };
        let mut text = String::new();
        for id in &ids {
            match what {
                "committed" => transactions::commit(&properties, id)?,
                _ => transactions::abort(&properties, id)?,
            }
            text += &format!("{what}: {id}\n");
        }
        if ids.is_empty() {
            text = format!("no transaction is open whose id begins with `{prefix}`\n");
        }
        Ok(Answer { text, json: json!({ what: ids }), damaged: false })
    }

    fn listed(open: &[OpenTransaction]) -> Answer {
        let json = open.iter().map(|open| {
            json!({
                "transactional-id": open.transactional_id,
                "producer-id": open.producer_id,
                "epoch": open.epoch,
                "began": open.began_ms,
                "timeout-ms": open.timeout.as_millis() as u64,
                "partitions": open.partitions,
            })
        });
        let json = json.collect();
        if open.is_empty() {
            return Answer { text: "no such transaction is open\n".into(), json, damaged: false };
        }
        let heads = ["transactional id", "producer", "epoch", "began", "timeout", "partitions"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        rows.extend(open.iter().map(|open| {
            vec![
                open.transactional_id.clone(),
                open.producer_id.to_string(),
                open.epoch.to_string(),
                open.began_ms.map_or("-".into(), moment),
                took(open.timeout.as_millis() as u64),
                open.partitions.join(" "),
            ]
        }));
        Answer { text: table(&rows), json, damaged: false }
    }
}
