//! Images of tables of numbers, to be written to a snapshot once.

use std::fmt;

use stillstream_types::{KeyGroup, KeyGroupRange};

use super::blocks::BLOCK_BYTES;
use super::frozen::FrozenTable;
use super::layout::Form;
use super::page_view::PageView;
use super::{Table, TableKey, TableValue};

/// An image of a table of numbers that may be cut, and read once from start to end.
///
/// As long as a page was not read, the table may give the image a page's entries in place of the page (see
/// the module `saves`), so no page is touched before it is read.
pub struct FrozenNumbers<K, V>(FrozenTable<K, V>);

impl<K, V> fmt::Debug for FrozenNumbers<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FrozenNumbers").field(&self.0).finish()
    }
}

/// A page of the image.
pub enum NumbersPage<'a, K, V> {
    /// The binary form of the entries of one key group, and how many they are.
    Saved(KeyGroup, &'a [u8], u32),
    /// The page as it was.
    Page(PageView<'a, K, V>),
}

impl<K, V> fmt::Debug for NumbersPage<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saved(group, _, count) => f.debug_tuple("Saved").field(group).field(count).finish(),
            Self::Page(page) => f.debug_tuple("Page").field(page).finish(),
        }
    }
}

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// An image of the table as it is now, if keys and values are numbers.
    pub fn freeze_numbers(&mut self) -> Option<FrozenNumbers<K, V>> {
        Form::<K, V>::is_numbers().then(|| FrozenNumbers(self.freeze_to_write()))
    }
}

impl<K: TableKey, V: TableValue> FrozenNumbers<K, V> {
    /// Bytes of the binary form of an entry.
    pub const ENTRY_BYTES: usize = Form::<K, V>::ENTRY_BYTES;

    /// Has memory made present for what the table will save while the image is written.
    pub fn expect_saves(&self) {
        if self.0.saves.is_some() {
            // under uniform updates most pages are written before they are read
            self.0.pool.prepare_blocks(self.0.len() * Self::ENTRY_BYTES / BLOCK_BYTES);
        }
    }

    /// How many entries are inside.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has no page.
    pub fn is_blank(&self) -> bool {
        self.0.is_blank()
    }

    /// Calls `f` with the key groups of each page and how many entries it has.
    pub fn for_each_count(&self, f: impl FnMut(KeyGroupRange, usize)) {
        self.0.for_each_count(f);
    }

    /// See [`FrozenTable::cut`].
    pub fn cut(self, bounds: &[u16]) -> Vec<Self> {
        self.0.cut(bounds).into_iter().map(Self).collect()
    }

    /// Calls `f` with every page in the order of places, and lets each page go when it was visited.
    pub fn into_pages(self, mut f: impl FnMut(NumbersPage<'_, K, V>)) {
        let Self(mut image) = self;
        let saves = image.saves.clone();
        let mut freed = Vec::new();
        while let Some(&pinned) = image.pages.get(image.at) {
            if let Some(next) = image.pages.get(image.at + 1) {
                Form::<K, V>::prefetch_page(next.entry.page());
            }
            let bytes = usize::from(pinned.count) * Self::ENTRY_BYTES;
            if let Some(saved) = saves.as_ref().and_then(|saves| saves.take(pinned.place, bytes)) {
                // first, because the image does not hold the page: a panic of `f` must not let it go
                image.at += 1;
                let group = image.places.group(pinned.place);
                f(NumbersPage::Saved(group, saved, u32::from(pinned.count)));
                continue;
            }
            f(NumbersPage::Page(PageView::new(&image, pinned)));
            image.at += 1;
            image.release(pinned, &mut freed);
        }
        image.pool.give_all(&mut freed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use stillstream_data::{Data, Key};
    use stillstream_types::KeyGroups;

    use super::*;
    use crate::PagePool;

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) % n
        }
    }

    type Model<K, V> = BTreeMap<K, V>;

    /// All entries of an image, and whether some of them were saved by the table.
    fn read<K: Key + Ord, V: Data>(image: FrozenNumbers<K, V>) -> (Model<K, V>, bool) {
        let (mut found, mut saved, mut last) = (Model::new(), false, KeyGroup(0));
        let mut add = |key, value| assert!(found.insert(key, value).is_none(), "twice");
        image.into_pages(|page| match page {
            NumbersPage::Saved(group, mut bytes, count) => {
                assert!(group >= last, "groups ascend");
                (saved, last) = (true, group);
                for _ in 0..count {
                    add(K::decode(&mut bytes).unwrap(), V::decode(&mut bytes).unwrap());
                }
                assert!(bytes.is_empty());
            }
            NumbersPage::Page(page) => page.for_each_in_group_order(&mut |group, key: &K, value: &V| {
                assert!(group >= last, "groups ascend");
                last = group;
                add(key.clone(), value.clone());
            }),
        });
        (found, saved)
    }

    /// Random changes of a table while its images, plain ones among them, are cut, read, half read and
    /// dropped by another thread.
    fn run<K: Key + Ord + Copy + std::fmt::Debug, V: Data + Copy + PartialEq + std::fmt::Debug>(
        seed: u64,
        keys: u64,
        key: impl Fn(u64) -> K,
        value: impl Fn(u64) -> V,
    ) -> u64 {
        let (groups, pool, mut random) = (KeyGroups::new(128), PagePool::new(), Random(seed));
        let mut saved_in = 0;
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::sync_channel::<(FrozenNumbers<K, V>, Model<K, V>, u64)>(2);
            let reader = scope.spawn(move || {
                let mut saved_in = 0;
                for (image, expected, how) in receive {
                    assert_eq!(image.len(), expected.len());
                    if how == 0 {
                        continue;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(how * 50));
                    let parts = if how % 2 == 0 { image.cut(&[0, 30, 31, 128]) } else { vec![image] };
                    let mut all = Model::new();
                    for part in parts {
                        let (found, saved) = read(part);
                        all.extend(found);
                        saved_in += u64::from(saved);
                    }
                    assert_eq!(all, expected);
                }
                saved_in
            });
            let mut table = Table::<K, V>::in_pool(groups.all(), &pool);
            let mut model = Model::new();
            let mut plain = Vec::new();
            for step in 0..60_000u64 {
                let (key, value) = (key(random.below(keys)), value(step));
                let hash = key.key_hash(groups);
                // the table grows, then shrinks, and grows again
                match random.below(10) < [1, 7, 2][(step / 20_000) as usize] {
                    true => assert_eq!(table.remove(hash, &key), model.remove(&key)),
                    false => assert_eq!(table.insert(hash, &key, value), model.insert(key, value)),
                }
                if random.below(500) == 0 {
                    let image = table.freeze_numbers().unwrap();
                    if send.send((image, model.clone(), random.below(8))).is_err() {
                        break;
                    }
                    match random.below(4) {
                        0 => plain.push((table.freeze(), model.clone())),
                        1 => plain.clear(),
                        _ => {}
                    }
                    for (image, expected) in &plain {
                        let mut found = Model::new();
                        image.for_each_in_group_order(|_, key, value| {
                            found.insert(*key, *value);
                        });
                        assert_eq!(found, *expected);
                    }
                }
            }
            drop(send);
            saved_in = reader.join().unwrap();
        });
        assert_eq!(pool.pages_in_use(), 0, "pages leaked");
        saved_in
    }

    #[test]
    fn images_stay_as_they_were_while_the_table_saves_pages_for_them() {
        let saved: u64 = (0..6).map(|seed| run::<u64, u64>(seed, 40_000, |n| n, |n| n)).sum();
        assert!(saved > 0, "nothing was saved: the test shows nothing");
        run::<u16, u8>(1, 30_000, |n| n as u16, |n| n as u8);
        run::<u128, u128>(2, 9_000, u128::from, u128::from);
        run::<u32, ()>(3, 30_000, |n| n as u32, |_| ());
    }

    #[test]
    fn a_page_is_saved_once_and_written_in_place() {
        let (groups, pool) = (KeyGroups::new(1), PagePool::new());
        let mut table = Table::<u64, u64>::in_pool(groups.all(), &pool);
        let set = |table: &mut Table<u64, u64>, n: u64, value| {
            table.insert(n.key_hash(groups), &n, value);
        };
        (0..20_000).for_each(|n| set(&mut table, n, n));
        let image = table.freeze_numbers().unwrap();
        let (pages, memory) = (pool.pages_in_use(), pool.memory_bytes());
        (0..20_000).for_each(|n| set(&mut table, n, n + 1000));
        assert_eq!(pool.pages_in_use(), pages, "no page was copied");
        let (found, saved) = read(image);
        assert!(saved && found.into_iter().eq((0..20_000).map(|n| (n, n))));
        assert_eq!(table.get(7u64.key_hash(groups), &7), Some(&1007));
        drop(table.freeze());
        set(&mut table, 0, 5);
        let kept = pool.memory_bytes() - memory;
        assert!(
            (320_000..330_000 + BLOCK_BYTES).contains(&kept),
            "what was saved is free when the image is gone: {kept}"
        );
    }
}
