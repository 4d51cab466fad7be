//! Starting from a snapshot, and starting again after a failure.

use super::super::choice::{RecoveryClaimMode, RestartStrategyType};
use super::super::value::Kind;
use super::{Row, option};

pub(super) const RECOVERY: &[Row] = &[
    option(
        "execution.state-recovery.approximate-local-recovery",
        Kind::Boolean,
        "false",
        "restart only the failed task, losing in-flight data (experimental)",
    )
    .older(&["execution.checkpointing.approximate-local-recovery"])
    .no_effect("the whole job is restarted, which loses nothing: leave it out"),
    option(
        "execution.state-recovery.claim-mode",
        Kind::Choice(RecoveryClaimMode::NAMES),
        "NO_CLAIM",
        "who owns the snapshot that `execution.state-recovery.path` names: NO_CLAIM (it stays the person's, and the job does not \
         need it after its first checkpoint), CLAIM (it becomes the job's, which deletes it once it has as many checkpoints as it \
         keeps)",
    )
    .older(&["execution.savepoint-restore-mode"])
    .refuse(
        &["LEGACY"],
        "nobody would own the snapshot: NO_CLAIM leaves it alone and needs it no longer than to the first checkpoint, CLAIM \
         takes it over",
    ),
    option(
        "execution.state-recovery.from-local",
        Kind::Boolean,
        "false",
        "try the local copy before the remote one",
    )
    .older(&["state.backend.local-recovery"])
    .no_effect("a local copy that was kept is always tried first: set `execution.checkpointing.local-backup.enabled`"),
    option(
        "execution.state-recovery.ignore-unclaimed-state",
        Kind::Boolean,
        "false",
        "same as `--allowNonRestoredState`",
    )
    .older(&["execution.savepoint.ignore-unclaimed-state"]),
    option("execution.state-recovery.path", Kind::Text, "", "snapshot to start from")
        .older(&["execution.savepoint.path"]),
    option(
        "execution.state-recovery.without-channel-state.checkpoint-id",
        Kind::Long,
        "-1",
        "drop in-flight data of this checkpoint on restore; last resort, loses data",
    )
    .older(&["execution.checkpointing.recover-without-channel-state.checkpoint-id"])
    .no_effect("checkpoints are aligned and hold no records in flight: leave it out"),
];

pub(super) const RESTART: &[Row] = &[
    option(
        "restart-strategy.exponential-delay.attempts-before-reset-backoff",
        Kind::Integer,
        "2147483647",
        "attempts before the job fails",
    )
    .at_least(0.0),
    option(
        "restart-strategy.exponential-delay.backoff-multiplier",
        Kind::Double,
        "1.5",
        "growth per failure",
    )
    .at_least(1.0),
    option(
        "restart-strategy.exponential-delay.initial-backoff",
        Kind::Duration,
        "1 s",
        "first pause",
    )
    .at_least(1.0),
    option(
        "restart-strategy.exponential-delay.jitter-factor",
        Kind::Double,
        "0.1",
        "random spread, as a share of the pause",
    )
    .within(0.0, 1.0),
    option(
        "restart-strategy.exponential-delay.max-backoff",
        Kind::Duration,
        "1 min",
        "largest pause",
    )
    .at_least(1.0),
    option(
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        Kind::Duration,
        "1 h",
        "healthy time after which the pause goes back",
    ),
    option(
        "restart-strategy.failure-rate.delay",
        Kind::Duration,
        "1 s",
        "pause before each",
    ),
    option(
        "restart-strategy.failure-rate.failure-rate-interval",
        Kind::Duration,
        "1 min",
        "sliding interval",
    )
    .at_least(1.0),
    option(
        "restart-strategy.failure-rate.max-failures-per-interval",
        Kind::Integer,
        "1",
        "more than this many in the interval = fail",
    )
    .at_least(1.0),
    option(
        "restart-strategy.fixed-delay.attempts",
        Kind::Integer,
        "1",
        "attempts before the job fails",
    )
    .at_least(0.0),
    option(
        "restart-strategy.fixed-delay.delay",
        Kind::Duration,
        "1 s",
        "pause before each",
    ),
    option(
        "restart-strategy.type",
        Kind::Choice(RestartStrategyType::NAMES),
        "",
        "none/off/disable, fixed-delay, failure-rate, exponential-delay; unset = none without checkpoints, with them exponential-delay",
    )
    .older(&["restart-strategy"]),
];
