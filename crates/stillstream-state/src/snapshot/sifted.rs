//! [`SiftedRun`]: a run of state with a time to live, without what has expired.

use std::fmt;

use super::run::{Chunks, FrozenRun, HEAD_BYTES, Part, RunWriter, Sizes, Weights};
use crate::StateError;
use crate::data::{Data, DecodeError, Schema};
use crate::meta::StateMeta;
use crate::ttl::{Sift, Sifted};

/// What is left out, and what is needed to find it.
#[derive(Clone)]
struct Rule {
    state: String,
    sift: Sift,
    key: Schema,
    value: Schema,
    /// What was last touched at this time or earlier goes.
    cutoff: i64,
}

/// Sifts the binary form of another run, so that no code is needed for each type. Costs a copy.
pub struct SiftedRun {
    run: Box<dyn FrozenRun>,
    rule: Rule,
}

impl fmt::Debug for SiftedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SiftedRun").field("state", &self.rule.state).finish_non_exhaustive()
    }
}

impl SiftedRun {
    /// The run as it is, if its entries have no time or cannot be taken apart without the program's types.
    pub fn wrap(run: Box<dyn FrozenRun>, key: Schema, meta: &StateMeta, cutoff: i64) -> Box<dyn FrozenRun> {
        match Sift::canonical(meta) {
            Some(sift) if key.can_skip() && meta.value.can_skip() => {
                let (state, value) = (meta.name.clone(), meta.value.clone());
                Box::new(Self { run, rule: Rule { state, sift, key, value, cutoff } })
            }
            _ => run,
        }
    }
}

impl FrozenRun for SiftedRun {
    fn len(&self) -> usize {
        self.run.len()
    }

    fn is_blank(&self) -> bool {
        self.run.is_blank()
    }

    fn weigh(&self, weights: &mut Weights) {
        self.run.weigh(weights);
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let Self { run, rule } = *self;
        let part = |run| -> Box<dyn FrozenRun> { Box::new(Self { run, rule: rule.clone() }) };
        run.cut(bounds).into_iter().map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        let Self { run, rule } = *self;
        // the limit is for what is left
        let sizes = Sizes::of_one(&rule.state, u64::MAX);
        let (mut chunks, mut sifted) = (Chunks::default(), Vec::new());
        let written = {
            let mut full = |chunks: &mut Chunks| rule.pass_on(chunks, &mut sifted, out);
            let mut inner = RunWriter::new(0, &[], &sizes, &mut chunks, &mut full);
            run.write(&mut inner);
            inner.finish()
        };
        if let Err(error) = written.and_then(|()| rule.pass_on(&mut chunks, &mut sifted, out)) {
            out.fail(error);
        }
    }
}

impl Rule {
    fn pass_on(
        &self,
        chunks: &mut Chunks,
        sifted: &mut Vec<u8>,
        out: &mut RunWriter<'_>,
    ) -> Result<(), StateError> {
        for part in &chunks.parts {
            sifted.clear();
            let count = self.sift(&chunks.bytes, part, sifted);
            let count = count.map_err(|source| StateError::Decode { name: self.state.clone(), source })?;
            if count > 0 {
                out.raw(part.group, count, sifted);
            }
        }
        chunks.bytes.clear();
        chunks.parts.clear();
        Ok(())
    }

    /// Appends the entries of a chunk that are left, and says how many they are.
    fn sift(&self, bytes: &[u8], part: &Part, out: &mut Vec<u8>) -> Result<u32, DecodeError> {
        let (head, mut input) = bytes[part.bytes.clone()].split_at(HEAD_BYTES);
        let count = u32::decode(&mut &head[2..])?;
        let (mut left, mut rest) = (0, Vec::new());
        for _ in 0..count {
            let entry = input;
            self.key.skip(&mut input)?;
            let (key, value) = entry.split_at(entry.len() - input.len());
            self.value.skip(&mut input)?;
            let value = &value[..value.len() - input.len()];
            let value = match self.sift.sift(value, self.cutoff, &mut rest)? {
                Sifted::All => value,
                Sifted::Less(_) => &rest,
                Sifted::Nothing(_) => continue,
            };
            out.extend_from_slice(key);
            out.extend_from_slice(value);
            left += 1;
        }
        Ok(left)
    }
}
