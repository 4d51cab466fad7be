//! What a seed stands for: how the job runs, what fails, and who is killed when.

use std::path::Path;

use stillstream::config::options;
use stillstream::prelude::*;
use stillstream_config::ByteSize;

use crate::faults::{Action, Fault};
use crate::source::mixed;

/// Xorshift: the same plan for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(mixed(seed + 1) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What happens to the program from outside.
#[derive(Clone, Debug)]
pub enum Way {
    /// Nothing: errors and panics only.
    Alone,
    /// After how many milliseconds each run is killed, to be started again.
    Killed(Vec<u64>),
    /// One of its worker processes is killed after each of these.
    Workers(Vec<u64>),
    /// After how many milliseconds it cancels its job; its checkpoints are kept, and it goes on from the last
    /// one, or not.
    Cancelled { after: u64, kept: bool },
}

/// Where the code of the job may fail, and at which of how many passes.
const CODE: &[(&str, u64)] = &[
    ("map", 2_000),
    ("keyed", 1_000),
    ("aggregate", 500),
    ("later", 300),
    ("later-timer", 100),
    ("left", 500),
    ("right", 500),
    ("ruled", 500),
    ("rule", 30),
    ("timer", 10),
    ("poll", 200),
    ("reader", 4),
    ("source-told", 10),
    ("open", 4),
    ("writer", 4),
    ("write", 40),
    ("prepare", 12),
    ("make-durable", 12),
    ("made-durable", 12),
    ("commit", 12),
    ("committed", 12),
    ("recovered", 4),
];

/// Steps of the runtime that may fail, as when a disk does.
const STEPS: &[(&str, u64)] = &[
    ("during-snapshot", 20),
    ("before-metadata", 8),
    ("after-metadata", 8),
    ("before-register", 8),
    ("after-register", 8),
    ("before-commit", 12),
    ("during-restore", 3),
    ("half-discarded", 4),
    ("before-shared-discarded", 4),
];

/// Steps at which a process can only die.
const DEATHS: &[(&str, u64)] = &[
    ("after-acknowledge", 12),
    ("before-notification", 8),
    ("before-attempt", 2),
    ("after-finish", 1),
    ("before-worker-listens", 2),
    ("after-worker-listens", 2),
    ("before-worker-starts", 2),
    ("before-workers-meet", 2),
    ("after-workers-met", 2),
];

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub way: Way,
    pub faults: Vec<Fault>,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5EED);
        let mut times = |most: u64| (0..1 + random.below(3)).map(|_| 20 + random.below(most)).collect();
        let way = match seed % 4 {
            0 => Way::Alone,
            1 => Way::Killed(times(500)),
            2 => Way::Workers(times(400)),
            _ => Way::Cancelled { after: random.below(500), kept: random.below(3) > 0 },
        };
        let mut plan = Self { seed, way, faults: vec![] };
        for _ in 0..random.below(5) {
            plan.fault(&mut random);
        }
        plan
    }

    /// Whether processes are killed.
    pub fn is_mortal(&self) -> bool {
        matches!(self.way, Way::Killed(_) | Way::Workers(_))
    }

    fn fault(&mut self, random: &mut Random) {
        let mortal = self.is_mortal();
        let ((place, most), action) = match random.below(if mortal { 5 } else { 4 }) {
            0..=2 => (random.one_of(CODE), random.one_of(&[Action::Error, Action::Panic])),
            3 => (random.one_of(STEPS), Action::Error),
            _ => match random.below(3) {
                0 => (random.one_of(CODE), Action::Abort),
                1 => (random.one_of(STEPS), Action::Abort),
                _ => (random.one_of(DEATHS), Action::Abort),
            },
        };
        self.faults.push(Fault { place, pass: 1 + random.below(most), action });
    }

    /// How the job runs the `run`-th time; what belongs to the seed alone is the same each time.
    pub fn environment(
        &self,
        run: u64,
        folder: &Path,
        from: Option<&str>,
    ) -> (StreamExecutionEnvironment, String) {
        let mut each = Random::new((self.seed << 8) + run);
        let mut always = Random::new(self.seed ^ 0xA1);
        let mut env = StreamExecutionEnvironment::new();
        let checkpoints = folder.join("checkpoints").display().to_string();
        let processes = if matches!(self.way, Way::Workers(_)) { 2 } else { 1 };
        let parallelism = (1 + each.below(4) as u32).max(processes);
        let interval = 10 + each.below(30);
        let limit = 64 << each.below(6);
        let tolerated = each.one_of(&[0, 1_000]);
        let retained = 1 + each.below(3) as u32;
        let incremental = always.below(2) == 0;
        let rocksdb = cfg!(feature = "rocksdb") && always.below(3) == 0;
        match rocksdb {
            true => env.set_state_backend(RocksDbStateBackend::new(checkpoints)),
            false => env.set_state_backend(FsStateBackend::new(checkpoints)),
        };
        env.enable_checkpointing(millis(interval))
            .set_parallelism(parallelism)
            .set_records_in_flight(limit)
            .set_tolerable_checkpoint_failures(tolerated)
            .set_num_retained(retained)
            .set_incremental_checkpoints(incremental)
            .set_restart_strategy(RestartStrategy::fixed_delay(1_000, millis(5)))
            .set_cancellation_timeout(seconds(10));
        if each.below(2) == 0 {
            env.configuration_mut().set(options::DATA_INLINE_THRESHOLD, ByteSize::from_bytes(0));
        }
        if each.below(4) == 0 {
            env.disable_operator_chaining();
        }
        if processes > 1 {
            env.configuration_mut().set(options::PROCESSES, processes as i32);
        }
        if let Way::Cancelled { kept: true, .. } = self.way {
            env.set_externalized_retention(ExternalizedCheckpointRetention::RetainOnCancellation);
        }
        match from {
            None => {}
            Some("fresh") => _ = env.start_fresh(),
            Some(path) => _ = env.restore_from(path),
        }
        let text = format!(
            "parallelism {parallelism}, {processes} processes, every {interval} ms, in flight {limit}, tolerated \
             {tolerated}, retained {retained}, incremental {incremental}, rocksdb {rocksdb}, from {from:?}"
        );
        (env, text)
    }
}
