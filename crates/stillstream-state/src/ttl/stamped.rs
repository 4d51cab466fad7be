//! [`Stamped`]: a value with the time of its last touch.

use std::cell::Cell;

use crate::Key;
use crate::data::{Data, DecodeError, Schema};
use crate::kinds::MapEntries;

/// What state with a time to live stores in the place of a value, a list's item or a map's value.
#[derive(Clone, Debug)]
pub struct Stamped<V> {
    /// When it was last touched: milliseconds since 1970.
    pub touched: i64,
    /// The value, item or map's value.
    pub value: V,
}

thread_local! {
    static STAMP: Cell<i64> = const { Cell::new(0) };
}

/// Runs `f`, which may read values that were stored without a time to live: it begins at `now`.
pub fn stamping_at<R>(now: i64, f: impl FnOnce() -> R) -> R {
    // reading has no parameter for it
    STAMP.set(now);
    f()
}

impl<V: Data> Data for Stamped<V> {
    const DEPTH: usize = 1 + V::DEPTH;
    const EXPIRING: bool = true;

    fn encode(&self, out: &mut Vec<u8>) {
        self.touched.encode(out);
        self.value.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { touched: i64::decode(input)?, value: V::decode(input)? })
    }

    fn schema() -> Schema {
        Schema::Expiring(Box::new(V::schema()))
    }

    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        match stored {
            Schema::Expiring(inner) => {
                Ok(Self { touched: i64::decode(input)?, value: V::decode_evolved(inner, input)? })
            }
            bare => Ok(Self { touched: STAMP.get(), value: V::decode_evolved(bare, input)? }),
        }
    }
}

/// One key's entry of state with a time to live, whole.
pub trait Expire: Data {
    /// How many of its parts were last touched at `cutoff` or earlier, and how many later.
    fn expired(&self, cutoff: i64) -> (u64, u64);
    /// Removes the former, where there are some of both.
    fn trim(&mut self, cutoff: i64);
}

fn count<'a, V: 'a>(parts: impl Iterator<Item = &'a Stamped<V>>, cutoff: i64) -> (u64, u64) {
    parts.fold((0, 0), |(expired, live), part| match part.touched <= cutoff {
        true => (expired + 1, live),
        false => (expired, live + 1),
    })
}

impl<V: Data> Expire for Stamped<V> {
    fn expired(&self, cutoff: i64) -> (u64, u64) {
        count(std::iter::once(self), cutoff)
    }
    fn trim(&mut self, _: i64) {}
}

impl<V: Data> Expire for Vec<Stamped<V>> {
    fn expired(&self, cutoff: i64) -> (u64, u64) {
        count(self.iter(), cutoff)
    }
    fn trim(&mut self, cutoff: i64) {
        self.retain(|item| item.touched > cutoff);
        self.shrink_to(self.len() * 2);
    }
}

impl<MK: Key, MV: Data> Expire for MapEntries<MK, Stamped<MV>> {
    fn expired(&self, cutoff: i64) -> (u64, u64) {
        count(self.iter().map(|(_, value)| value), cutoff)
    }
    fn trim(&mut self, cutoff: i64) {
        self.retain(|value| value.touched > cutoff);
    }
}
