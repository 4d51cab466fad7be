//! How sessions of one key grow and merge. Pure: state and timers are the operator's.

/// One session: start, end (excluded), whether it has fired, accumulator.
pub(crate) type Entry<A> = (i64, i64, bool, A);

/// The last millisecond of a session.
pub(crate) fn max_timestamp<A>(session: &Entry<A>) -> i64 {
    session.1.saturating_sub(1)
}

/// What a session needs after a record has been placed in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Its timer is pending.
    Nothing,
    /// A timer at this time.
    Timer(i64),
    /// It is over and within the allowed lateness: it fires again, and is forgotten at this time.
    FireAgain(i64),
}

/// The rules: gap and allowed lateness in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub gap: i64,
    pub lateness: i64,
}

impl Rules {
    /// Makes room for a record: extends, merges or opens a session, and returns its position. `None`: the record is late,
    /// which is judged after merging, as Flink does.
    ///
    /// `sessions` is sorted, and neighbours neither overlap nor touch. A session that has not fired has a timer pending
    /// somewhere within it, at its end or before; so an extension registers nothing.
    pub fn place<A>(
        &self,
        sessions: &mut Vec<Entry<A>>,
        time: i64,
        watermark: i64,
        create: impl FnOnce() -> A,
        mut merge: impl FnMut(&mut A, A),
    ) -> Option<(usize, Next)> {
        let (start, end) = (time, time.saturating_add(self.gap));
        let first = sessions.partition_point(|session| session.1 < start);
        let after = sessions.partition_point(|session| session.0 <= end);
        let mut pending = false;
        if first >= after {
            let max = end.saturating_sub(1);
            if max.saturating_add(self.lateness) <= watermark {
                return None;
            }
            sessions.insert(first, (start, end, false, create()));
        } else {
            pending = sessions[first..after].iter().any(|session| !session.2);
            let mut low = sessions[first].0.min(start);
            let mut high = sessions[first].1.max(end);
            if after - first > 1 {
                let others: Vec<Entry<A>> = sessions.drain(first + 1..after).collect();
                for (start, end, _, acc) in others {
                    (low, high) = (low.min(start), high.max(end));
                    merge(&mut sessions[first].3, acc);
                }
            }
            (sessions[first].0, sessions[first].1) = (low, high);
        }
        let session = &mut sessions[first];
        let max = max_timestamp(session);
        session.2 = max <= watermark;
        let next = match (session.2, pending) {
            (true, _) => Next::FireAgain(max.saturating_add(self.lateness)),
            (false, true) => Next::Nothing,
            (false, false) => Next::Timer(max),
        };
        Some((first, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sessions: &mut Vec<Entry<u32>>, time: i64, watermark: i64, lateness: i64) -> Option<Next> {
        let rules = Rules { gap: 10, lateness };
        let (at, next) = rules.place(sessions, time, watermark, || 0, |a, b| *a += b)?;
        sessions[at].3 += 1;
        Some(next)
    }

    #[test]
    fn records_a_gap_apart_are_one_session_and_further_apart_two() {
        let mut sessions = Vec::new();
        assert_eq!(place(&mut sessions, 0, i64::MIN, 0), Some(Next::Timer(9)));
        assert_eq!(place(&mut sessions, 10, i64::MIN, 0), Some(Next::Nothing));
        assert_eq!(place(&mut sessions, 31, i64::MIN, 0), Some(Next::Timer(40)));
        assert_eq!(sessions, [(0, 20, false, 2), (31, 41, false, 1)]);
    }

    #[test]
    fn a_record_between_two_sessions_joins_them() {
        let mut sessions = vec![(0, 10, false, 1), (18, 28, false, 2), (100, 110, false, 4)];
        assert_eq!(place(&mut sessions, 9, i64::MIN, 0), Some(Next::Nothing));
        assert_eq!(sessions, [(0, 28, false, 4), (100, 110, false, 4)]);
    }

    #[test]
    fn a_late_record_is_taken_if_it_joins_a_session_that_is_open() {
        let mut sessions = vec![(20, 30, false, 1)];
        assert_eq!(place(&mut sessions, 5, 25, 0), None);
        assert_eq!(place(&mut sessions, 12, 25, 0), Some(Next::Nothing));
        assert_eq!(sessions, [(12, 30, false, 2)]);
    }

    #[test]
    fn a_session_that_has_fired_fires_again_or_waits_for_its_new_end() {
        let mut sessions = vec![(0, 10, true, 1)];
        assert_eq!(place(&mut sessions, 3, 15, 50), Some(Next::FireAgain(62)));
        assert_eq!(place(&mut sessions, 9, 15, 50), Some(Next::Timer(18)));
        assert_eq!(sessions, [(0, 19, false, 3)]);
    }
}
