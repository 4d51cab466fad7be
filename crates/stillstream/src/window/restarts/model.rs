//! What windows mean, written down as directly as possible: every record is kept, and everything is looked at
//! each time.

use super::by_hand::{Fired, Record, hash};
use crate::window::assigner::{Aligned, Kind};

struct Kept {
    key: u32,
    start: i64,
    end: i64,
    values: Vec<u64>,
    fired: bool,
}

pub(super) struct Model {
    kind: Kind,
    lateness: i64,
    /// By key group.
    watermarks: Vec<i64>,
    windows: Vec<Kept>,
}

impl Model {
    pub fn new(kind: Kind, lateness: i64) -> Self {
        Self { kind, lateness, watermarks: vec![i64::MIN; 128], windows: Vec::new() }
    }

    fn watermark_of(&self, key: u32) -> i64 {
        self.watermarks[hash(key).group().0 as usize]
    }

    fn result(window: &Kept) -> Fired {
        (window.key, window.start, window.end, window.values.len() as u64, window.values.iter().sum())
    }

    /// Windows of a time, found by trying all.
    fn fixed(size: i64, slide: i64, offset: i64, time: i64) -> Vec<(i64, i64)> {
        let first = (time - size - 2 * slide - offset) / slide - 2;
        let starts = (first..).map(|n| n * slide + offset).take_while(|start| *start <= time);
        starts.filter(|start| time < start + size).map(|start| (start, start + size)).collect()
    }

    /// Windows that took the record, by position.
    fn add(&mut self, (key, value, time): Record) -> Option<Vec<(u32, i64)>> {
        let watermark = self.watermark_of(key);
        match self.kind {
            Kind::Aligned(Aligned { size, slide, offset }) => {
                let all = Self::fixed(size, slide, offset, time);
                let open: Vec<_> =
                    all.iter().filter(|(_, end)| end - 1 + self.lateness > watermark).copied().collect();
                if open.is_empty() {
                    return (all.is_empty() && time + self.lateness > watermark).then(Vec::new);
                }
                for (start, end) in &open {
                    match self.windows.iter_mut().find(|w| w.key == key && w.start == *start) {
                        Some(window) => window.values.push(value),
                        None => self.windows.push(Kept {
                            key,
                            start: *start,
                            end: *end,
                            values: vec![value],
                            fired: false,
                        }),
                    }
                }
                Some(open.into_iter().map(|(start, _)| (key, start)).collect())
            }
            Kind::Session { gap } => {
                let mut new = Kept { key, start: time, end: time + gap, values: vec![value], fired: false };
                let touches = |a: &Kept, b: &Kept| a.key == b.key && a.start <= b.end && b.start <= a.end;
                let mut rest = Vec::new();
                let mut merged: Vec<Kept> = Vec::new();
                for window in std::mem::take(&mut self.windows) {
                    if touches(&window, &new) { merged.push(window) } else { rest.push(window) }
                }
                for window in merged {
                    new.start = new.start.min(window.start);
                    new.end = new.end.max(window.end);
                    new.values.extend(window.values);
                }
                self.windows = rest;
                if new.end - 1 + self.lateness <= watermark {
                    return None;
                }
                let touched = vec![(key, new.start)];
                self.windows.push(new);
                Some(touched)
            }
        }
    }

    /// Results of one batch, and late records. A window that is over fires again for each record.
    pub fn records(&mut self, records: &[Record]) -> (Vec<Fired>, Vec<Record>) {
        let (mut fired, mut late) = (Vec::new(), Vec::new());
        for record in records {
            let Some(touched) = self.add(*record) else {
                late.push(*record);
                continue;
            };
            let watermark = self.watermark_of(record.0);
            for window in &mut self.windows {
                if touched.contains(&(window.key, window.start)) {
                    window.fired = window.end - 1 <= watermark;
                    if window.fired {
                        fired.push(Self::result(window));
                    }
                }
            }
        }
        fired.sort_unstable();
        late.sort_unstable();
        (fired, late)
    }

    /// The watermark reaches the key groups of some keys.
    pub fn watermark(&mut self, watermark: i64, reaches: impl Fn(u16) -> bool) -> Vec<Fired> {
        for group in (0..128).filter(|group| reaches(*group)) {
            let known = &mut self.watermarks[group as usize];
            *known = (*known).max(watermark);
        }
        let mut fired = Vec::new();
        let (watermarks, lateness) = (self.watermarks.clone(), self.lateness);
        self.windows.retain_mut(|window| {
            let now = watermarks[hash(window.key).group().0 as usize];
            if !window.fired && window.end - 1 <= now {
                window.fired = true;
                fired.push(Self::result(window));
            }
            (window.end - 1).saturating_add(lateness) > now
        });
        fired.sort_unstable();
        fired
    }
}
