//! [`KeySessions`]: the sessions of a key as state.

use std::ops::Range;

use stillstream_state::{Data, DecodeError, Schema};

/// A session: start, end (exclusive), whether it has fired as it is, and its accumulator.
pub(super) type KeySession<Acc> = (i64, i64, bool, Acc);

/// The sessions of a key, ascending; no two touch. Stored as a list. Up to two need no memory of their own:
/// few keys have more than one that goes on and one that waits for its watermark.
///
/// Whether one has fired is stored, because after a restore with another parallelism the watermark can be
/// behind the one that fired it.
#[derive(Clone, Debug)]
pub(super) enum KeySessions<Acc> {
    One([KeySession<Acc>; 1]),
    Two([KeySession<Acc>; 2]),
    Many(Vec<KeySession<Acc>>),
}

impl<Acc> Default for KeySessions<Acc> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<Acc> From<Vec<KeySession<Acc>>> for KeySessions<Acc> {
    fn from(all: Vec<KeySession<Acc>>) -> Self {
        let all = match all.len() {
            2 => all.try_into().map(Self::Two),
            _ => all.try_into().map(Self::One),
        };
        all.unwrap_or_else(Self::Many)
    }
}

impl<Acc> KeySessions<Acc> {
    #[inline(always)]
    pub fn as_slice(&self) -> &[KeySession<Acc>] {
        match self {
            Self::One(one) => one,
            Self::Two(two) => two,
            Self::Many(all) => all,
        }
    }

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [KeySession<Acc>] {
        match self {
            Self::One(one) => one,
            Self::Two(two) => two,
            Self::Many(all) => all,
        }
    }

    fn take(&mut self) -> Vec<KeySession<Acc>> {
        match std::mem::take(self) {
            Self::One(one) => one.into(),
            Self::Two(two) => two.into(),
            Self::Many(all) => all,
        }
    }

    /// Which sessions touch a span, as in Flink; if none does, where a new one would go.
    #[inline(always)]
    fn touching(&self, start: i64, end: i64) -> Range<usize> {
        let all = self.as_slice();
        let from = all.partition_point(|burst| burst.1 < start);
        from..all.partition_point(|burst| burst.0 <= end).max(from)
    }

    /// Whether a span touches a session.
    pub fn touch(&self, start: i64, end: i64) -> bool {
        !self.touching(start, end).is_empty()
    }

    /// The session of a span: one that is new, or what becomes of those that it touches. It has not fired as
    /// it is. Says too whether one of those had not fired.
    #[inline(always)]
    pub fn join(
        &mut self,
        start: i64,
        end: i64,
        create: impl FnOnce() -> Acc,
        merge: impl FnMut(&mut Acc, Acc),
    ) -> (&mut KeySession<Acc>, bool) {
        let touching = self.touching(start, end);
        let at = touching.start;
        if touching.is_empty() {
            self.insert(at, (start, end, false, create()));
            return (&mut self.as_mut_slice()[at], false);
        }
        let waiting = self.as_slice()[touching.clone()].iter().any(|burst| !burst.2);
        if touching.len() > 1 {
            self.unite(touching, merge);
        }
        let burst = &mut self.as_mut_slice()[at];
        (burst.0, burst.1, burst.2) = (burst.0.min(start), burst.1.max(end), false);
        (burst, waiting)
    }

    #[inline(always)]
    fn insert(&mut self, at: usize, burst: KeySession<Acc>) {
        *self = match std::mem::take(self) {
            Self::Many(all) if all.is_empty() => Self::One([burst]),
            Self::One([one]) => Self::Two(if at == 0 { [burst, one] } else { [one, burst] }),
            all => Self::Many(all.with(at, burst)),
        };
    }

    #[cold]
    fn with(mut self, at: usize, burst: KeySession<Acc>) -> Vec<KeySession<Acc>> {
        let mut all = self.take();
        all.insert(at, burst);
        all
    }

    #[cold]
    fn unite(&mut self, which: Range<usize>, mut merge: impl FnMut(&mut Acc, Acc)) {
        let (mut all, first) = (self.take(), which.start);
        let others: Vec<_> = all.drain(first + 1..which.end).collect();
        for (_, end, _, acc) in others {
            all[first].1 = all[first].1.max(end);
            merge(&mut all[first].3, acc);
        }
        *self = Self::from(all);
    }

    /// Keeps the sessions for which `keep` is true, and says whether there are any.
    #[inline(always)]
    pub fn retain(&mut self, mut keep: impl FnMut(&mut KeySession<Acc>) -> bool) -> bool {
        let kept = match self {
            Self::One([one]) => [keep(one), false],
            Self::Two([one, two]) => [keep(one), keep(two)],
            Self::Many(all) => {
                all.retain_mut(keep);
                return !all.is_empty();
            }
        };
        match (&self, kept) {
            (Self::One(_), [true, _]) | (_, [true, true]) => return true,
            (_, [false, false]) => *self = Self::default(),
            (_, [first, _]) => {
                if let Self::Two([one, two]) = std::mem::take(self) {
                    *self = Self::One([if first { one } else { two }]);
                }
            }
        }
        kept != [false; 2]
    }
}

impl<Acc: Data> Data for KeySessions<Acc> {
    const DEPTH: usize = <Vec<KeySession<Acc>> as Data>::DEPTH;

    fn encode(&self, out: &mut Vec<u8>) {
        let all = self.as_slice();
        (all.len() as u32).encode(out);
        KeySession::encode_slice(all, out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Vec::decode(input).map(Self::from)
    }
    fn schema() -> Schema {
        <Vec<KeySession<Acc>> as Data>::schema()
    }
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        Vec::decode_evolved(stored, input).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(spans: &[(i64, i64)]) -> Vec<KeySession<u64>> {
        spans.iter().map(|(start, end)| (*start, *end, false, (end - start) as u64)).collect()
    }

    #[test]
    fn sessions_are_stored_as_the_list_that_they_are() {
        for spans in [&[][..], &[(1, 9)], &[(1, 9), (20, 30)], &[(1, 9), (20, 30), (40, 41)]] {
            let list = bursts(spans);
            let (mut as_list, mut as_bursts) = (Vec::new(), Vec::new());
            list.encode(&mut as_list);
            KeySessions::from(list.clone()).encode(&mut as_bursts);
            assert_eq!(as_bursts, as_list);
            let read = KeySessions::<u64>::decode(&mut &as_list[..]).unwrap();
            assert_eq!(read.as_slice(), list);
            assert_eq!(matches!(read, KeySessions::Many(_)), ![1, 2].contains(&list.len()));
        }
        assert_eq!(KeySessions::<u64>::schema(), Vec::<KeySession<u64>>::schema());
    }

    #[test]
    fn a_span_makes_one_session_of_all_that_it_touches() {
        let mut sessions = KeySessions::default();
        // an accumulator counts the spans; the session has fired when the next one comes
        let mut join = |start, end| {
            let (burst, waiting) = sessions.join(start, end, || 0, |acc, other| *acc += other);
            (burst.2, burst.3) = (true, burst.3 + 1);
            assert!(!waiting);
            sessions.as_slice().to_vec()
        };
        assert_eq!(join(10, 20), [(10, 20, true, 1)]);
        assert_eq!(join(40, 50), [(10, 20, true, 1), (40, 50, true, 1)]);
        assert_eq!(join(70, 80), [(10, 20, true, 1), (40, 50, true, 1), (70, 80, true, 1)]);
        assert_eq!(join(0, 5), [(0, 5, true, 1), (10, 20, true, 1), (40, 50, true, 1), (70, 80, true, 1)]);
        assert_eq!(join(20, 40), [(0, 5, true, 1), (10, 50, true, 3), (70, 80, true, 1)]);
        assert_eq!(join(4, 70), [(0, 80, true, 6)]);
    }

    #[test]
    fn a_session_that_has_not_fired_is_told_from_those_that_have() {
        let mut sessions =
            KeySessions::from(vec![(0, 10, true, ()), (20, 30, false, ()), (40, 50, true, ())]);
        let mut waiting = |start, end| sessions.join(start, end, || (), |_, ()| ()).1;
        assert!(!waiting(60, 70));
        assert!(!waiting(50, 55));
        assert!(waiting(10, 20));
        assert!(waiting(0, 5));
    }

    #[test]
    fn the_sessions_that_are_kept_are_those_asked_for_in_their_order() {
        for n in 0..5usize {
            for mask in 0..1u32 << n {
                let list: Vec<KeySession<usize>> =
                    (0..n).map(|i| (i as i64 * 10, i as i64 * 10 + 5, false, i)).collect();
                let (mut sessions, mut seen) = (KeySessions::from(list.clone()), Vec::new());
                let any = sessions.retain(|burst| {
                    seen.push(burst.3);
                    mask >> burst.3 & 1 == 1
                });
                let expected: Vec<_> = list.into_iter().filter(|burst| mask >> burst.3 & 1 == 1).collect();
                assert_eq!(sessions.as_slice(), expected);
                assert_eq!((any, seen), (!expected.is_empty(), (0..n).collect()));
            }
        }
    }
}
