//! A frozen table of numbers as a run of a full snapshot.

use stillstream_data::{Data, Key};
use stillstream_state::snapshot::{FrozenRun, RunWriter, Weights};
use stillstream_table::{FrozenNumbers, NumbersPage};

use crate::frozen_run::FrozenCells;

/// An image of a table of numbers.
pub(crate) struct WrittenNumbers<K, V>(pub FrozenNumbers<K, V>);

impl<K: Key, V: Data> FrozenRun for WrittenNumbers<K, V> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_blank(&self) -> bool {
        self.0.is_blank()
    }

    fn weigh(&self, weights: &mut Weights) {
        self.0.for_each_count(|groups, entries| {
            weights.add(groups, entries * FrozenNumbers::<K, V>::ENTRY_BYTES);
        });
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let boxed = |part| -> Box<dyn FrozenRun> { Box::new(Self(part)) };
        self.0.cut(bounds).into_iter().map(boxed).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        self.0.into_pages(|page| match page {
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
