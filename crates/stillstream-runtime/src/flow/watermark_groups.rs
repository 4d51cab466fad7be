//! Watermark alignment: sources of one named group keep together in event time, over all subtasks and
//! processes.
//!
//! Each worker says now and then how far the slowest of its members is; a member that is ahead of the slowest
//! one of all workers by more than the group's drift is not asked for records until the others have come
//! closer. After Flink's FLIP-182. It never holds a barrier: a source that waits here still takes part in
//! checkpoints.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use timely::scheduling::Activator;

/// What the members of a group agree on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// The group's name.
    pub name: String,
    /// How far a member may be ahead of the slowest one, in milliseconds of event time.
    pub max_drift_ms: i64,
    /// How often workers tell one another how far they are.
    pub update_interval: Duration,
}

#[derive(Clone, Copy)]
struct Member {
    group: u64,
    max_drift_ms: i64,
    /// `None`: it has no watermark yet, is idle, or has ended. It holds nobody back.
    watermark: Option<i64>,
}

#[derive(Default)]
struct Group {
    update_interval: Duration,
    /// The slowest member of each worker, as that worker said.
    said: BTreeMap<usize, i64>,
    /// What this worker said last.
    sent: Option<i64>,
}

#[derive(Default)]
struct Inner {
    me: usize,
    members: Vec<Member>,
    groups: BTreeMap<u64, Group>,
    /// Sources that wait for the others.
    waiting: Vec<Activator>,
    /// Runs the operator that sends to the other workers.
    sender: Option<Activator>,
}

impl Inner {
    /// The slowest member of this worker.
    fn own(&self, group: u64) -> Option<i64> {
        self.members.iter().filter(|member| member.group == group).filter_map(|member| member.watermark).min()
    }

    fn slowest(&self, group: u64) -> Option<i64> {
        let others = self.groups.get(&group).into_iter().flat_map(|known| known.said.iter());
        let others = others.filter(|(worker, _)| **worker != self.me).map(|(_, said)| *said);
        others.chain(self.own(group)).min()
    }
}

/// The groups of one attempt, as one worker knows them.
#[derive(Clone, Default)]
pub struct WatermarkGroups(Rc<RefCell<Inner>>);

impl fmt::Debug for WatermarkGroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WatermarkGroups({} members)", self.0.borrow().members.len())
    }
}

/// The number by which a group is known on all workers: FNV-1a of its name.
fn number(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// A subtask's place in its group.
#[derive(Clone, Debug)]
pub struct GroupMember {
    groups: WatermarkGroups,
    index: usize,
}

impl GroupMember {
    /// Says how far this subtask is; `None`: it holds nobody back.
    pub fn report(&self, watermark: Option<i64>) {
        let mut inner = self.groups.0.borrow_mut();
        let Some(member) = inner.members.get_mut(self.index) else { return };
        if std::mem::replace(&mut member.watermark, watermark) == watermark {
            return;
        }
        let group = member.group;
        let (own, known) = (inner.own(group), inner.groups.get(&group));
        if let (Some(sender), Some(known)) = (&inner.sender, known)
            && known.sent != own
        {
            sender.activate_after(known.update_interval);
        }
    }

    /// Whether it should wait for the others.
    pub fn is_ahead(&self) -> bool {
        let inner = self.groups.0.borrow();
        let own = inner.members.get(self.index).and_then(|member| member.watermark);
        drop(inner);
        own.zip(self.limit()).is_some_and(|(own, limit)| own > limit)
    }

    /// The watermark beyond which a subtask, or a split of one, waits for the others; `None` while the group
    /// has no watermark.
    pub fn limit(&self) -> Option<i64> {
        let inner = self.groups.0.borrow();
        let member = inner.members.get(self.index)?;
        Some(inner.slowest(member.group)?.saturating_add(member.max_drift_ms))
    }
}

impl WatermarkGroups {
    pub(crate) fn new(me: usize) -> Self {
        Self(Rc::new(RefCell::new(Inner { me, ..Inner::default() })))
    }

    /// Makes a subtask a member of a group.
    pub fn join(&self, settings: &GroupSettings) -> GroupMember {
        let mut inner = self.0.borrow_mut();
        let group = number(&settings.name);
        inner.members.push(Member { group, max_drift_ms: settings.max_drift_ms, watermark: None });
        let known = inner.groups.entry(group).or_default();
        known.update_interval = settings.update_interval.max(Duration::from_millis(1));
        GroupMember { groups: self.clone(), index: inner.members.len() - 1 }
    }

    /// How often a source that waits should look again; `None` if there is no group at all.
    pub(crate) fn look_again(&self) -> Option<Duration> {
        self.0.borrow().groups.values().map(|group| group.update_interval).min()
    }

    /// Calls the source when another worker has said something.
    pub(crate) fn wait(&self, activator: &Activator) {
        self.0.borrow_mut().waiting.push(activator.clone());
    }

    /// Who is to be run when there is something to send.
    pub(crate) fn set_sender(&self, sender: Activator) {
        self.0.borrow_mut().sender = Some(sender);
    }

    /// What this worker has not said yet: group, slowest member (the largest number: none that counts).
    pub(crate) fn take_news(&self) -> Vec<(u64, i64)> {
        let mut inner = self.0.borrow_mut();
        let numbers: Vec<u64> = inner.groups.keys().copied().collect();
        let mut news = Vec::new();
        for group in numbers {
            let own = inner.own(group);
            if let Some(known) = inner.groups.get_mut(&group).filter(|known| known.sent != own) {
                known.sent = own;
                news.push((group, own.unwrap_or(i64::MAX)));
            }
        }
        if !news.is_empty() {
            inner.waiting.drain(..).for_each(|source| source.activate());
        }
        news
    }

    /// What another worker has said.
    pub(crate) fn heard(&self, worker: usize, group: u64, slowest: i64) {
        let mut inner = self.0.borrow_mut();
        let said = &mut inner.groups.entry(group).or_default().said;
        match slowest {
            i64::MAX => said.remove(&worker),
            slowest => said.insert(worker, slowest),
        };
        inner.waiting.drain(..).for_each(|source| source.activate());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(max_drift_ms: i64) -> GroupSettings {
        GroupSettings { name: "clicks".into(), max_drift_ms, update_interval: Duration::from_secs(1) }
    }

    #[test]
    fn a_member_waits_when_it_is_further_ahead_of_the_slowest_than_the_drift() {
        let groups = WatermarkGroups::new(0);
        let (fast, slow) = (groups.join(&settings(10)), groups.join(&settings(10)));
        let other = groups.join(&GroupSettings { name: "orders".into(), ..settings(0) });
        other.report(Some(-500));
        fast.report(Some(1_000));
        assert!(!fast.is_ahead(), "nobody else has a watermark");
        slow.report(Some(989));
        assert!(fast.is_ahead() && !slow.is_ahead() && !other.is_ahead());
        slow.report(Some(990));
        assert!(!fast.is_ahead());
        slow.report(None);
        fast.report(Some(5_000));
        assert!(!fast.is_ahead(), "who is idle or has ended holds nobody back");
    }

    #[test]
    fn members_of_other_workers_count_too_until_they_say_that_they_do_not() {
        let groups = WatermarkGroups::new(0);
        let own = groups.join(&settings(10));
        own.report(Some(100));
        let clicks = number("clicks");
        assert_eq!(groups.take_news(), [(clicks, 100)]);
        assert_eq!(groups.take_news(), []);
        groups.heard(1, clicks, 50);
        assert!(own.is_ahead());
        groups.heard(1, clicks, i64::MAX);
        assert!(!own.is_ahead());
        own.report(None);
        assert_eq!(groups.take_news(), [(clicks, i64::MAX)]);
    }
}
