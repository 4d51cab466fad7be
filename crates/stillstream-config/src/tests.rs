//! Reading whole configurations: goldens, precedence, and what each mistake is told.

use std::time::Duration;

use super::options as o;
use super::*;
use stillstream_types::time::{minutes, seconds};

fn yaml(text: &str) -> Configuration {
    Configuration::parse_yaml("config.yaml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn errors(text: &str) -> String {
    Configuration::parse_yaml("config.yaml", text).unwrap_err().to_string()
}

fn warnings(config: &Configuration) -> Vec<String> {
    config.warnings().iter().map(Warning::to_string).collect()
}

/// The same settings in both file formats.
const NESTED: &str = "
execution:
  checkpointing:
    interval: 10 s          # a comment
    mode: at-least-once
    tolerable-failed-checkpoints: 2147483647
    data-inline-threshold: 5kb
  checkpointing.timeout: PT2M
execution.checkpointing.num-retained: '3'
execution.checkpointing.dir: file:///tmp/a b#c
restart-strategy:
  type: failure-rate
  failure-rate: {delay: 7, max-failures-per-interval: 4}
parallelism.default: 2
";
const FLAT: &str = "
# a comment
execution.checkpointing.interval: 10 s   # another
execution.checkpointing.mode: AT_LEAST_ONCE
execution.checkpointing.tolerable-failed-checkpoints: 2147483647
execution.checkpointing.data-inline-threshold: 5kb
execution.checkpointing.timeout: PT2M
execution.checkpointing.num-retained: 3
execution.checkpointing.dir: \"file:///tmp/a b\"
restart-strategy.type: failure-rate
restart-strategy.failure-rate.delay: 7
restart-strategy.failure-rate.max-failures-per-interval: 4
parallelism.default: 2
";

#[test]
fn both_kinds_of_file_are_read_with_their_types() {
    let flat = Configuration::parse_flat("flink-conf.yaml", FLAT).unwrap();
    for (config, dir) in [(yaml(NESTED), "file:///tmp/a b#c"), (flat, "file:///tmp/a b")] {
        assert_eq!(config.get(o::CHECKPOINTING_INTERVAL), Some(seconds(10)));
        assert_eq!(config.get(o::CHECKPOINTING_MODE), CheckpointingMode::AtLeastOnce);
        assert_eq!(config.get(o::TOLERABLE_FAILED_CHECKPOINTS), i32::MAX);
        assert_eq!(config.get(o::DATA_INLINE_THRESHOLD), ByteSize::from_kib(5));
        assert_eq!(config.get(o::CHECKPOINTING_TIMEOUT), minutes(2));
        assert_eq!(config.get(o::NUM_RETAINED_CHECKPOINTS), 3);
        assert_eq!(config.get(o::CHECKPOINTS_DIR).as_deref(), Some(dir));
        let delay = Duration::from_millis(7);
        let expected =
            RestartStrategy::FailureRate { max_failures_per_interval: 4, interval: minutes(1), delay };
        assert_eq!(config.restart_strategy(), expected);
        assert_eq!(config.get(o::PARALLELISM), 2);
        assert_eq!(config.validate().unwrap(), []);
    }
}

#[test]
fn the_configuration_that_flink_ships_is_read_with_a_warning_for_each_key_without_meaning() {
    let config = yaml(
        "
env:
  java:
    opts:
      all: --add-exports=java.base/sun.net.util=ALL-UNNAMED
jobmanager:
  bind-host: localhost
  rpc: {address: localhost, port: 6123}
  memory: {process: {size: 1600m}}
  execution: {failover-strategy: region}
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 1
  memory: {process: {size: 1728m}}
parallelism: {default: 1}
rest: {address: localhost, bind-address: localhost}
",
    );
    let warnings = warnings(&config);
    assert_eq!(warnings.len(), 8, "{warnings:#?}");
    assert!(warnings[0].starts_with("config.yaml:5: `env.java.opts.all`: this key of Flink's has no effect: there are no Java processes here"));
    assert!(warnings.iter().any(|w| w.starts_with("config.yaml:9: `jobmanager.memory.process.size`")));
}

#[test]
fn an_empty_file_is_the_defaults() {
    for text in ["", "# nothing\n", "---\n", "~"] {
        let config = yaml(text);
        assert_eq!(config.get(o::CHECKPOINTING_INTERVAL), None);
        assert_eq!(config.get(o::CHECKPOINTING_TIMEOUT), minutes(10));
        assert_eq!(config.get(o::CHECKPOINTING_MODE), CheckpointingMode::ExactlyOnce);
        assert_eq!(config.get(o::RPC_FRAME_SIZE), ByteSize::from_mib(10));
        assert_eq!(config.get(o::RECORDS_IN_FLIGHT), 65_536);
        assert_eq!(config.dump(), "");
    }
}

#[test]
fn an_unknown_key_is_reported_with_its_line_and_the_nearest_key() {
    assert_eq!(
        errors("parallelism.default: 1\nexecution.checkpointing:\n  intervall: 1 s\n"),
        "config.yaml:3: unknown key `execution.checkpointing.intervall`: did you mean `execution.checkpointing.interval`?"
    );
    assert_eq!(
        errors("my.favourite.colour: blue"),
        "config.yaml:1: unknown key `my.favourite.colour`: see docs/configuration.md for all keys; one of the program's own \
         begins as `stillstream.user-keys` says"
    );
    // Flink has a thousand keys below `pipeline.`, but this is not one of them
    assert!(errors("pipeline.max-paralelism: 8").contains("did you mean `pipeline.max-parallelism`"));
}

#[test]
fn every_mistake_of_a_file_is_reported_at_once_in_order() {
    let text = errors(
        "execution.checkpointing.interval: soon
execution.checkpointing.mode: NEVER
state.backend.type: forst
parallelism.default: 0
execution.checkpointing.timeout:
stillstream.progres: auto
execution.checkpointing.min-pause: [1, 2]
execution.checkpointing.interval: 5 ms
",
    );
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 9, "{text}");
    assert_eq!(lines[0], "8 errors in the configuration:");
    for (at, parts) in [
        (1, ["config.yaml:1:", "`execution.checkpointing.interval: soon`", "a duration is expected"]),
        (2, ["config.yaml:2:", "`execution.checkpointing.mode: NEVER`", "EXACTLY_ONCE, AT_LEAST_ONCE"]),
        (3, ["config.yaml:3:", "`state.backend.type: forst`", "not supported in this release"]),
        (4, ["config.yaml:4:", "`parallelism.default: 0`", "from 1 to 32768"]),
        (5, ["config.yaml:5:", "`execution.checkpointing.timeout`", "has no value"]),
        (6, ["config.yaml:6:", "`stillstream.progres`", "did you mean `stillstream.progress`?"]),
        (7, ["config.yaml:7:", "`execution.checkpointing.min-pause: [1,2]`", "a duration is expected"]),
        (8, ["config.yaml:8:", "`execution.checkpointing.interval: 5 ms`", "at least 10 ms"]),
    ] {
        for part in parts {
            assert!(lines[at].contains(part), "{part} in: {}", lines[at]);
        }
    }
}

#[test]
fn text_that_is_not_a_configuration_is_refused_with_its_line() {
    for (text, line, part) in [
        ("a: 1\nb: [1, 2\nc: 3\n", ":", "not valid YAML"),
        ("- a\n- b\n", "config.yaml:1:", "a mapping is expected"),
        ("just text", "config.yaml:1:", "a mapping is expected"),
        ("parallelism.default: 1\n---\nparallelism.default: 2\n", "config.yaml:2:", "second"),
        ("parallelism.default: &a 1\nrest.port: *a\n", "config.yaml:2:", "aliases"),
        ("? [a]\n: 1\n", "config.yaml:1:", "a key is expected"),
        ("pipeline.max-parallelism: [[1]]\n", "config.yaml:1:", "a list of plain texts"),
    ] {
        let errors = errors(text);
        assert!(errors.contains(line) && errors.contains(part), "{text}: {errors}");
    }
    let nested = |depth: usize| "{a: ".repeat(depth) + "1" + &"}".repeat(depth);
    assert!(errors(&nested(40)).contains("nested too deeply"));
    // far deeper, the parser itself gives up: with an error, not with the stack
    assert!(errors(&nested(5_000)).starts_with("config.yaml:1: "));
}

#[test]
fn a_malformed_line_of_a_flat_file_is_reported_and_the_rest_still_checked() {
    let text = "parallelism.default:2\nnonsense\nexecution:\nparallelism.default: two\n";
    let errors = Configuration::parse_flat("flink-conf.yaml", text).unwrap_err();
    let lines: Vec<_> = errors.iter().map(ConfigError::to_string).collect();
    assert_eq!(
        lines[..3],
        [
            "flink-conf.yaml:1: `key: value` is expected: there must be a space after the colon",
            "flink-conf.yaml:2: `key: value` is expected: there is no colon",
            "flink-conf.yaml:3: `key: value` is expected: the key has no value (nested keys belong into `config.yaml`)",
        ]
    );
    assert!(
        lines[3].starts_with("flink-conf.yaml:4: `parallelism.default: two` is not valid"),
        "{}",
        lines[3]
    );
    assert_eq!(lines.len(), 4);
}

#[test]
fn code_wins_over_the_file_and_an_argument_over_both() {
    let mut config =
        yaml("parallelism.default: 1\nexecution.checkpointing.timeout: 1 s\npipeline.max-parallelism: 64\n");
    let (args, rest) =
        Configuration::from_args(["-Dparallelism.default=3", "in.csv", "-D", "rest.port=1", "--", "-Dx"])
            .unwrap();
    assert_eq!(rest, ["in.csv", "--", "-Dx"]);
    config.merge(args);
    config.set(o::PARALLELISM, 2).set(o::CHECKPOINTING_TIMEOUT, seconds(2));
    assert_eq!(config.get(o::PARALLELISM), 3);
    assert_eq!(config.origin(o::PARALLELISM), Some(&Origin::Argument));
    assert_eq!(config.get(o::CHECKPOINTING_TIMEOUT), seconds(2));
    assert_eq!(config.get(o::MAX_PARALLELISM), 64);
    assert_eq!(config.origin(o::MAX_PARALLELISM).unwrap().to_string(), "config.yaml:3");
    assert!(!config.is_set(o::CHECKPOINTING_MODE));
    // the order of arrival makes no difference
    let mut config = Configuration::from_args(["-D", "parallelism.default=3"]).unwrap().0;
    config.set(o::PARALLELISM, 2);
    config.merge(yaml("parallelism.default: 1"));
    assert_eq!(config.get(o::PARALLELISM), 3);
}

#[test]
fn code_can_take_a_setting_of_the_file_away() {
    let mut config = yaml("execution.checkpointing.interval: 1 s");
    config.set(o::CHECKPOINTING_INTERVAL, None);
    assert_eq!(config.get(o::CHECKPOINTING_INTERVAL), None);
    assert_eq!(config.dump(), "execution.checkpointing.interval: (none)  # set in code\n");
    config.validate().unwrap();
}

#[test]
fn arguments_that_are_not_settings_are_refused() {
    let errors =
        Configuration::from_args(["-D", "parallelism.default", "-D=4", "-Dparallel.default=1", "-D"])
            .unwrap_err();
    let lines: Vec<_> = errors.iter().map(ConfigError::to_string).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert!(lines[0].starts_with("argument -D: `key=value` is expected after -D"), "{}", lines[0]);
    assert!(lines[2].contains("did you mean `parallelism.default`?"), "{}", lines[2]);
    let (config, _) =
        Configuration::from_args(["-Dparallelism.default=1", "-Dparallelism.default=2"]).unwrap();
    assert_eq!(config.get(o::PARALLELISM), 2);
    assert_eq!(
        warnings(&config),
        ["argument -D: `parallelism.default`: set more than once: the last one counts"]
    );
}

#[test]
fn an_older_name_is_read_with_a_warning_that_names_the_present_one() {
    let config =
        yaml("state.checkpoints.dir: /tmp/c\nstate.backend: filesystem\nrestart-strategy: fixeddelay\n");
    assert_eq!(config.get(o::CHECKPOINTS_DIR).as_deref(), Some("/tmp/c"));
    assert_eq!(config.get(o::STATE_BACKEND), StateBackendType::HashMap);
    assert_eq!(config.get(o::RESTART_STRATEGY), Some(RestartStrategyType::FixedDelay));
    assert_eq!(
        warnings(&config)[0],
        "config.yaml:1: `state.checkpoints.dir`: this is an older name: write `execution.checkpointing.dir`"
    );
    assert_eq!(config.warnings().len(), 3);
    let two = yaml("state.backend.local-recovery: true");
    assert!(warnings(&two)[0].ends_with(
        "write `execution.checkpointing.local-backup.enabled` and `execution.state-recovery.from-local`"
    ));
}

#[test]
fn a_key_set_twice_with_two_values_is_an_error_and_with_one_value_a_warning() {
    assert_eq!(
        errors("state.checkpoints.dir: /a\nexecution.checkpointing.dir: /b\n"),
        "config.yaml:2: `execution.checkpointing.dir` was already set at config.yaml:1 to another value: keep one of the two"
    );
    let same = yaml("execution.checkpointing.timeout: 60 s\nexecution.checkpointing:\n  timeout: 1 min\n");
    assert_eq!(
        warnings(&same),
        [
            "config.yaml:3: `execution.checkpointing.timeout`: already set at config.yaml:1: keep one of the two"
        ]
    );
}

#[test]
fn a_key_without_effect_is_never_silent_and_one_that_changes_guarantees_is_refused() {
    let config = yaml("heartbeat.timeout: 50 s\nstate.backend.rocksdb.options-factory: a.B\n");
    assert_eq!(warnings(&config).len(), 1, "a default needs no warning");
    assert!(warnings(&config)[0].contains("has no effect"), "{}", warnings(&config)[0]);
    assert!(errors("state.backend: forst").contains("`state.backend.type: forst` is not supported"));
    assert_eq!(yaml("high-availability.type: none").warnings(), []);
}

#[test]
fn settings_that_contradict_each_other_are_found_when_all_are_in() {
    let problems = |text: &str| yaml(text).validate().unwrap_err().to_string();
    assert_eq!(
        problems("execution.checkpointing.unaligned: true\nexecution.checkpointing.mode: AT_LEAST_ONCE"),
        "config.yaml:1: `execution.checkpointing.unaligned.enabled` needs `execution.checkpointing.mode: EXACTLY_ONCE`"
    );
    assert!(
        problems("pipeline.max-parallelism: 2\nparallelism.default: 4").contains("at least one key group")
    );
    assert!(problems("pipeline.max-parallelism: 0").contains("from 1 to 32768"));
    assert!(
        problems("execution.checkpointing.storage: filesystem").contains("set `execution.checkpointing.dir`")
    );
    assert!(problems("heartbeat.interval: 2 min").contains("`heartbeat.timeout: 50 s`"));
    assert!(
        problems(
            "execution.checkpointing.interval: 1 min\nexecution.checkpointing.interval-during-backlog: 1 s"
        )
        .contains("must be 0 or at least")
    );
    assert!(problems("restart-strategy.exponential-delay.initial-backoff: 2 h").contains("is more than"));
}

#[test]
fn a_number_out_of_range_set_in_code_is_found_by_validate() {
    let mut config = Configuration::new();
    config.set(o::PARALLELISM, 0).set(o::RESTART_EXPONENTIAL_JITTER, f64::NAN);
    config.set(o::STATE_BACKEND, StateBackendType::ForSt);
    let text = config.validate().unwrap_err().to_string();
    for part in [
        "set in code: `parallelism.default: 0` is not valid",
        "`restart-strategy.exponential-delay.jitter-factor: NaN` is not valid",
        "`state.backend.type: forst` is not supported",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(config.get(o::RESTART_EXPONENTIAL_JITTER), 0.1);
    config.set(o::CHECKPOINTING_TIMEOUT, Duration::MAX);
    assert!(config.get(o::CHECKPOINTING_TIMEOUT) > Duration::from_secs(500 * 365 * 86_400));
}

#[test]
fn keys_of_a_restart_strategy_that_was_not_chosen_are_not_ignored_in_silence() {
    let warnings = yaml("restart-strategy.fixed-delay.attempts: 3").validate().unwrap();
    assert!(
        warnings[0].to_string().ends_with("it needs `restart-strategy.type: fixed-delay`"),
        "{}",
        warnings[0]
    );
    let chosen = yaml("restart-strategy.fixed-delay.attempts: 3\nrestart-strategy.type: fixed-delay");
    assert_eq!(chosen.validate().unwrap(), []);
    assert_eq!(chosen.restart_strategy(), RestartStrategy::FixedDelay { attempts: 3, delay: seconds(1) });
}

#[test]
fn with_checkpoints_the_pause_before_a_restart_grows_unless_another_strategy_is_chosen() {
    let config =
        yaml("execution.checkpointing.interval: 1 s\nrestart-strategy.exponential-delay.max-backoff: 5 s");
    assert_eq!(config.validate().unwrap(), [], "the key has an effect");
    let RestartStrategy::ExponentialDelay {
        attempts_before_reset_backoff: attempts,
        initial_backoff: initial,
        max_backoff: max,
        backoff_multiplier: multiplier,
        ..
    } = config.restart_strategy()
    else {
        panic!("{:?}", config.restart_strategy());
    };
    assert_eq!((attempts, initial, max, multiplier), (i32::MAX as u32, seconds(1), seconds(5), 1.5));
    assert_eq!(yaml("parallelism.default: 2").restart_strategy(), RestartStrategy::None);
}

#[test]
fn checkpoints_go_to_files_as_soon_as_a_directory_is_set() {
    assert_eq!(Configuration::new().checkpoint_storage(), CheckpointStorageType::JobManager);
    assert_eq!(yaml("state.checkpoints.dir: /c").checkpoint_storage(), CheckpointStorageType::FileSystem);
    let old = yaml("state.checkpoints.dir: /c\nstate.backend: jobmanager");
    assert_eq!(old.checkpoint_storage(), CheckpointStorageType::JobManager);
}

#[test]
fn a_map_is_read_as_a_mapping_and_as_text() {
    for text in [
        "taskmanager.memory.managed.consumer-weights: {OPERATOR: 1, PYTHON: 2}",
        "taskmanager:\n  memory.managed:\n    consumer-weights:\n      OPERATOR: 1\n      PYTHON: 2\n",
        "taskmanager.memory.managed.consumer-weights: OPERATOR:1,PYTHON:2",
    ] {
        let dump = yaml(text).dump();
        assert!(
            dump.starts_with("taskmanager.memory.managed.consumer-weights: OPERATOR:1,PYTHON:2"),
            "{dump}"
        );
    }
}

#[test]
fn secrets_are_not_printed() {
    let key = "high-availability.zookeeper.client.authorization";
    let config = yaml(&format!("{key}: digest:hunter2"));
    assert!(config.dump().contains(&format!("{key}: ******")));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!errors(&format!("{key}: hunter2")).contains("hunter2"));
}

#[test]
fn a_folder_is_searched_for_either_file_but_not_for_both() {
    let dir = std::env::temp_dir().join(format!("stillstream-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (new, old) = (dir.join("config.yaml"), dir.join("flink-conf.yaml"));
    let load = || Configuration::load(&dir).map(|config| config.get(o::PARALLELISM));
    let neither = load().unwrap_err().to_string();
    std::fs::write(&old, "parallelism.default: 2 # two\n").unwrap();
    let only_old = load();
    std::fs::write(&new, "parallelism: {default: 3}\n").unwrap();
    let both = load().unwrap_err().to_string();
    std::fs::remove_file(&old).unwrap();
    let only_new = load();
    std::fs::write(&new, [0xff, 0xfe]).unwrap();
    let binary = load().unwrap_err().to_string();
    std::fs::remove_dir_all(&dir).unwrap();
    let gone = Configuration::load(&new).unwrap_err();

    assert!(neither.contains("neither `config.yaml` nor `flink-conf.yaml`"), "{neither}");
    assert_eq!((only_old, only_new), (Ok(2), Ok(3)));
    assert!(both.contains("delete the one that is not meant"), "{both}");
    assert!(binary.contains("not UTF-8"), "{binary}");
    assert!(gone.to_string().contains("config.yaml: cannot read the configuration"), "{gone}");
    assert_eq!(gone.into_error().kind(), stillstream_types::ErrorKind::Configuration);
}

#[test]
fn the_page_of_keys_in_the_documentation_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == docs::markdown(),
        "docs/configuration.md is out of date: run `cargo xtask docs-config`"
    );
}

#[test]
fn keys_of_the_programs_own_are_those_that_begin_as_it_says_wherever_that_stands() {
    let config = yaml(
        "acme:\n  threshold: 10\n  names: [a, b]\nstillstream.user-keys: [acme]\nparallelism.default: 2\n",
    );
    assert_eq!(
        (config.user_key("acme.threshold"), config.user_key("acme.names")),
        (Some("10"), Some("[a,b]"))
    );
    assert_eq!(config.user_keys().count(), 2);
    assert!(config.dump().contains("acme.threshold: 10  # config.yaml:2"), "{}", config.dump());
    assert_eq!((config.shown()["acme.threshold"].as_str(), config.warnings()), ("10", &[][..]));
    // a mistake in another key is one still, and so is one that only looks alike
    let error = errors("stillstream.user-keys: [acme]\nacmes.threshold: 10\nparalelism.default: 2");
    assert!(
        error.contains("unknown key `acmes.threshold`") && error.contains("`parallelism.default`?"),
        "{error}"
    );
    assert!(
        errors("stillstream.user-keys: acme\nacme.a: 1\nacme: {a: 2}")
            .contains("`acme.a` was already set at")
    );
    let mut code = Configuration::new();
    code.set_text("stillstream.user-keys", "acme").unwrap().set_text("acme.password", "hunter2").unwrap();
    assert_eq!(code.user_key("acme.password"), Some("hunter2"));
    assert!(!code.dump().contains("hunter2"));
}

#[test]
fn a_beginning_that_would_hide_mistakes_in_known_keys_is_refused() {
    for start in ["state", "execution.checkpointing", "metrics", "stillstream", "'*'"] {
        let error = errors(&format!("stillstream.user-keys: [acme, {start}]"));
        assert!(error.contains("a beginning of the program's own is expected"), "{start}: {error}");
    }
}

#[test]
fn an_argument_wins_over_the_file_for_keys_of_the_programs_own_too() {
    let file = std::env::temp_dir().join(format!("stillstream-user-keys-{}.yaml", std::process::id()));
    std::fs::write(&file, "stillstream.user-keys: [acme]\nacme: {a: 1, b: 1}\nother.c: 1\n").unwrap();
    let undeclared = Configuration::load(&file).unwrap_err().to_string();
    let read = Configuration::read(Some(&file), ["acme.a=2", "stillstream.user-keys=other"]);
    let wrong = Configuration::read(Some(&file), ["acme.a", "parallelism.default=x"]).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    assert!(undeclared.contains(":3: unknown key `other.c`"), "{undeclared}");
    let config = read.unwrap();
    let value = |key| config.user_key(key).unwrap();
    assert_eq!([value("acme.a"), value("acme.b"), value("other.c")], ["2", "1", "1"]);
    assert_eq!(wrong.iter().count(), 3, "of the file and of the arguments: {wrong}");
}
