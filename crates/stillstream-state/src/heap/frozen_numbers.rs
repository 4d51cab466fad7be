//! A frozen table of numbers as a run of a full snapshot.

use super::frozen_run::FrozenCells;
use crate::snapshot::{FrozenRun, RunWriter, Weights};
use crate::table::{FrozenNumbers, NumbersPage};
use crate::{Data, Key};

impl<K: Key, V: Data> FrozenRun for FrozenNumbers<K, V> {
    fn len(&self) -> usize {
        FrozenNumbers::len(self)
    }

    fn is_blank(&self) -> bool {
        FrozenNumbers::is_blank(self)
    }

    fn weigh(&self, weights: &mut Weights) {
        self.for_each_count(|groups, entries| weights.add(groups, entries * Self::ENTRY_BYTES));
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let boxed = |part| -> Box<dyn FrozenRun> { Box::new(part) };
        FrozenNumbers::cut(*self, bounds).into_iter().map(boxed).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        self.into_pages(|page| match page {
            NumbersPage::Saved(group, entries, count) => out.entries(group, |bytes| {
                bytes.extend_from_slice(entries);
                count
            }),
            NumbersPage::Page(page) => match page.group_of_numbers() {
                Some(group) => out.entries(group, |bytes| page.append_numbers(bytes)),
                None => FrozenCells::write_page(&page, out),
            },
        });
    }
}
