//! What becomes of every documented key of Flink's, present and older, in `flink_keys.txt`: it works, warns
//! or is refused, and why.

use std::collections::BTreeMap;

use super::{ConfigError, Configuration};

/// Keys of Flink 2.3 and 1.20 with a value that is not the default, by what becomes of them.
const KEYS: &str = include_str!("flink_keys.txt");

/// The keys with their values, each with what is written above it.
fn written() -> Vec<(&'static str, &'static str)> {
    let mut above = "";
    let mut keys = Vec::new();
    for line in KEYS.lines() {
        match line.strip_prefix("    ") {
            Some(setting) => keys.push((setting, above)),
            None => above = line,
        }
    }
    keys
}

/// What becomes of a setting. That its key is an older name is left out.
fn outcome(setting: &str) -> String {
    let read = match Configuration::parse_flat("flink-conf.yaml", setting) {
        Ok(read) => read,
        Err(errors) => {
            let why: Vec<String> = errors
                .iter()
                .map(|error| match error {
                    ConfigError::NotSupported { advice, .. } => advice.clone(),
                    other => format!("an error: {other}"),
                })
                .collect();
            return format!("is refused: {}", why.join("; "));
        }
    };
    let older = "this is an older name";
    let why: Vec<&str> = read.warnings().iter().map(|warning| warning.message.as_str()).collect();
    let why: Vec<&str> = why.into_iter().filter(|message| !message.starts_with(older)).collect();
    match why.as_slice() {
        [] => "works".to_string(),
        why => format!("warns: {}", why.join("; ")),
    }
}

#[test]
fn every_key_of_flinks_works_or_warns_or_is_refused_and_says_why() {
    let keys = written();
    assert!(keys.len() > 1_200, "{} keys", keys.len());
    let mut found = BTreeMap::<String, Vec<&str>>::new();
    for (setting, above) in &keys {
        let outcome = outcome(setting);
        if outcome != *above {
            found.entry(outcome).or_default().push(setting);
        }
    }
    let page: String = found
        .iter()
        .map(|(outcome, settings)| format!("{outcome}\n    {}\n", settings.join("\n    ")))
        .collect();
    assert!(page.is_empty(), "these have another outcome than flink_keys.txt says:\n{page}");
}

#[test]
fn a_key_of_flinks_is_refused_only_where_another_would_change_what_the_job_does() {
    let refused: Vec<&str> = written()
        .iter()
        .filter(|(_, above)| above.starts_with("is refused"))
        .map(|(setting, _)| *setting)
        .collect();
    assert_eq!(refused, ["execution.state-recovery.claim-mode: LEGACY", "state.backend.type: forst"]);
}
