//! The job that is killed.

use std::path::Path;

use stillstream::prelude::*;
use stillstream_services::Kafka;

/// The job's program and its arguments.
pub struct Copy {
    brokers: String,
    folder: String,
    pub parallelism: u32,
}

impl Copy {
    pub fn new(kafka: &Kafka, folder: &Path) -> Self {
        let folder = folder.to_string_lossy().into_owned();
        Self { brokers: kafka.bootstrap().to_string(), folder, parallelism: 1 }
    }

    pub fn arguments(&self) -> [String; 3] {
        [self.brokers.clone(), self.folder.clone(), self.parallelism.to_string()]
    }

    pub fn parse(arguments: &[String]) -> Self {
        let [brokers, folder, parallelism] = arguments else {
            panic!("brokers, folder and parallelism are expected, and found is {arguments:?}")
        };
        let parallelism = parallelism.parse().expect("a number of subtasks");
        Self { brokers: brokers.clone(), folder: folder.clone(), parallelism }
    }

    pub fn run(&self) -> Result<JobResult> {
        let mut env = StreamExecutionEnvironment::new();
        env.enable_checkpointing(millis(500))
            .set_parallelism(self.parallelism)
            .set_restart_strategy(RestartStrategy::FixedDelay { attempts: 100, delay: millis(200) })
            .set_state_backend(FsStateBackend::new(format!("{}/checkpoints", self.folder)));
        let source = KafkaSource::<String>::from_topic("in").brokers(&self.brokers).text();
        let sink = KafkaSink::<String>::to_topic("out")
            .brokers(&self.brokers)
            .value(String::clone)
            .delivery(Delivery::ExactlyOnce)
            .transactional_id_prefix("copy");
        env.from_source("in", source.discovery_interval(seconds(1)))
            .uid("in")
            .sink_to("out", sink)
            .uid("out");
        env.execute("copy")
    }
}
