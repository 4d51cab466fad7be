//! [`FrozenCells`]: a frozen table as a run of a snapshot, whole or only what changed.

use std::mem::needs_drop;
use std::sync::Arc;

use stillstream_data::{Data, Key};
use stillstream_state::snapshot::{FrozenRun, Record, RunWriter, Weights};
use stillstream_table::{Entries, FrozenTable, PageView};
use stillstream_types::KeyGroup;

use crate::digest::{RunDigest, Tracking, fingerprint};

/// Pages looked at to guess the size of an entry, and the bytes after which that is given up.
const SAMPLE_PAGES: usize = 4;
const SAMPLE_BYTES: usize = 64 << 10;

/// The image of one table.
pub(super) struct FrozenCells<K, V> {
    table: FrozenTable<K, V>,
    tracking: Option<Arc<Tracking>>,
    /// Whether it is an image of changes.
    delta: bool,
}

impl<K: Key, V: Data> FrozenCells<K, V> {
    pub fn canonical(table: FrozenTable<K, V>) -> Self {
        table.expect_copies();
        Self { table, tracking: None, delta: false }
    }

    pub fn tracked(table: FrozenTable<K, V>, tracking: Arc<Tracking>, delta: bool) -> Self {
        table.expect_copies();
        Self { table, tracking: Some(tracking), delta }
    }

    /// Whether a page's entries are so small that they may go into a chunk together.
    const SMALL: bool = size_of::<K>() + size_of::<V>() <= 256 && !needs_drop::<K>() && !needs_drop::<V>();

    #[inline(always)]
    fn encode(key: &K, value: &V, bytes: &mut Vec<u8>) {
        key.encode(bytes);
        value.encode(bytes);
    }

    /// All entries of a group, each with `then` called after it is encoded.
    #[inline(always)]
    fn write_group(
        group: KeyGroup,
        entries: &Entries<'_, '_, K, V>,
        out: &mut RunWriter<'_>,
        mut then: impl FnMut(usize, &[u8]),
    ) {
        let mut one = |cell: usize, key: &K, value: &V, bytes: &mut Vec<u8>| {
            let start = bytes.len();
            Self::encode(key, value, bytes);
            then(cell, &bytes[start..]);
        };
        match Self::SMALL {
            true => out.entries(group, |bytes| {
                let mut count = 0;
                entries.for_each(|cell, key, value| {
                    one(cell, key, value, bytes);
                    count += 1;
                });
                count
            }),
            false => {
                entries.for_each(|cell, key, value| out.entry(group, |bytes| one(cell, key, value, bytes)))
            }
        }
    }

    /// Writes all entries of a page.
    pub fn write_page(page: &PageView<'_, K, V>, out: &mut RunWriter<'_>) {
        page.for_each_group(|group, entries| Self::write_group(group, &entries, out, |_, _| {}));
    }

    fn write_changes(table: FrozenTable<K, V>, tracking: &Tracking, out: &mut RunWriter<'_>) {
        let mut digest = RunDigest::new(PageView::<K, V>::CELLS, false);
        let mut page_writer = PageChanges { bytes: Vec::new(), entries: Vec::new() };
        table.into_pages(|page| page_writer.write(page, &mut digest, tracking, out));
        tracking.add(digest);
    }
}

/// Where an entry of a page lies, encoded: its group, cell and end; it starts where the one before it ends.
type Place = (KeyGroup, u8, usize);

struct PageChanges {
    bytes: Vec<u8>,
    entries: Vec<Place>,
}

impl PageChanges {
    /// Writes the cells of a page that are not as they were.
    fn write<K: Key, V: Data>(
        &mut self,
        page: &PageView<'_, K, V>,
        digest: &mut RunDigest,
        tracking: &Tracking,
        out: &mut RunWriter<'_>,
    ) {
        self.bytes.clear();
        self.entries.clear();
        let cells = digest.add(page.position());
        page.for_each_group(|group, entries| {
            entries.for_each(|cell, key, value| {
                let start = self.bytes.len();
                FrozenCells::encode(key, value, &mut self.bytes);
                let sum = cells[cell].wrapping_add(fingerprint(tracking.seed, &self.bytes[start..]));
                cells[cell] = sum;
                self.entries.push((group, cell as u8, self.bytes.len()));
            });
        });
        let changed = tracking.changed(page.position(), cells);
        if changed == 0 {
            return;
        }
        let (mut first, mut start) = (0, 0);
        for group in page.groups().iter() {
            let count = self.entries[first..].partition_point(|entry| entry.0 <= group);
            let entries = &self.entries[first..first + count];
            let end = entries.last().map_or(start, |entry| entry.2);
            let (of, at) = page.cells_of(group);
            let record = match of {
                // it shares its cell with groups that may be the ones that changed
                1 if page.span().groups.len() > 1 => Record {
                    from: *page.span().bits.start(),
                    to: *page.span().bits.end(),
                    cells: 1,
                    mask: changed >> at & 1,
                },
                of => Record {
                    from: *page.span().bits.start(),
                    to: *page.span().bits.end(),
                    cells: of as u8,
                    mask: changed & u64::MAX >> (64 - of),
                },
            };
            if record.mask != 0 {
                let several = of == 1;
                out.chunk(group, |namespace, bytes| {
                    record.encode(bytes);
                    bytes.extend_from_slice(namespace);
                    let (mut written, mut from) = (0, start);
                    for &(_, cell, to) in entries {
                        if several || record.mask >> cell & 1 == 1 {
                            bytes.extend_from_slice(&self.bytes[from..to]);
                            written += 1;
                        }
                        from = to;
                    }
                    written
                });
            }
            (first, start) = (first + count, end);
        }
    }
}

impl<K: Key, V: Data> FrozenRun for FrozenCells<K, V> {
    fn len(&self) -> usize {
        self.table.len()
    }

    fn is_blank(&self) -> bool {
        self.table.is_blank()
    }

    fn weigh(&self, weights: &mut Weights) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for page in self.table.sample(SAMPLE_PAGES) {
            page.for_each_in_group_order(&mut |_, key: &K, value: &V| {
                if bytes.len() < SAMPLE_BYTES {
                    Self::encode(key, value, &mut bytes);
                    count += 1;
                }
            });
        }
        let each = bytes.len().div_ceil(count.max(1));
        self.table.for_each_count(|groups, entries| weights.add(groups, entries * each));
    }

    fn cut(self: Box<Self>, bounds: &[u16]) -> Vec<Box<dyn FrozenRun>> {
        let Self { table, tracking, delta } = *self;
        let part =
            |table| -> Box<dyn FrozenRun> { Box::new(Self { table, tracking: tracking.clone(), delta }) };
        table.cut(bounds).into_iter().map(part).collect()
    }

    fn write(self: Box<Self>, out: &mut RunWriter<'_>) {
        let Self { table, tracking, delta } = *self;
        match tracking {
            Some(tracking) if delta => Self::write_changes(table, &tracking, out),
            Some(tracking) => {
                let mut digest = RunDigest::new(PageView::<K, V>::CELLS, false);
                table.into_pages(|page| {
                    let cells = digest.add(page.position());
                    page.for_each_group(|group, entries| {
                        Self::write_group(group, &entries, out, |cell, bytes| {
                            cells[cell] = cells[cell].wrapping_add(fingerprint(tracking.seed, bytes));
                        });
                    });
                });
                tracking.add(digest);
            }
            None => table.into_pages(|page| Self::write_page(page, out)),
        }
    }
}
