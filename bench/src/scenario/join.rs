//! JOIN: two keyed inputs, each with state of its own.

use stillstream::prelude::*;

use super::steady;
use crate::measurement::Measurement;
use crate::records::{keyed, warm_up};
use crate::settings::Settings;

/// Joins each record with the newest one of the other side.
struct Newest {
    left: ValueState<u64>,
    right: ValueState<u64>,
}

impl CoProcess for Newest {
    type Key = u64;
    type In1 = (u64, u64);
    type In2 = (u64, u64);
    type Out = (u64, u64, u64);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { left: states.value("left")?, right: states.value("right")? })
    }

    fn process1(&mut self, (key, value): (u64, u64), ctx: &mut CoContext<Self>) -> Result<()> {
        self.left.set(ctx, value)?;
        let right = self.right.get(ctx)?.unwrap_or_default();
        ctx.emit((key, value, right));
        Ok(())
    }

    fn process2(&mut self, (key, value): (u64, u64), ctx: &mut CoContext<Self>) -> Result<()> {
        self.right.set(ctx, value)?;
        let left = self.left.get(ctx)?.unwrap_or_default();
        ctx.emit((key, left, value));
        Ok(())
    }
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let (env, out, keys) = (settings.environment(), Discard::new(), settings.keys);
    let side = |name: &str, salt: u64| {
        let make = move |seq: u64| match seq < keys {
            true => keyed(seq, keys),
            false => keyed(seq + salt, keys),
        };
        env.from_source(name, Generator::new(settings.records.map_or(u64::MAX, |records| records / 2), make))
            .uid(name)
    };
    side("left", 0)
        .connect(&side("right", 1 << 40))
        .key_by(|record| record.0, |record| record.0)
        .process::<Newest>()
        .uid("join")
        .sink_to("discard", out.clone());
    let steady = steady::run(settings, &env, &|| out.count(), 2 * warm_up(keys))?;
    Ok(Measurement::of("JOIN", settings, steady.span))
}
