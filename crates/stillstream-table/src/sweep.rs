//! A walk through a table in pieces, which may remove and change entries on the way.

use super::layout::{Form, Spot};
use super::places::place_mask;
use super::{Table, TableKey, TableValue};

/// What becomes of an entry that a sweep has looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It stays as it is.
    Stays,
    /// It is changed.
    Changes,
    /// It is removed.
    Goes,
}

impl<K: TableKey, V: TableValue> Table<K, V> {
    /// Looks at the entries of the pages from place `at` on, until there were `most`, and moves `at` behind
    /// them; back to 0 at the end, where one call stops. Entries that stay while they are swept are looked at
    /// once in each round, whatever else changes. Only pages in which something goes or changes are written.
    pub fn sweep(
        &mut self,
        at: &mut u64,
        most: usize,
        mut look: impl FnMut(&K, &V) -> Fate,
        mut change: impl FnMut(&mut V),
    ) {
        let mut seen = 0;
        let mut fates: Vec<(Spot, Fate)> = Vec::new();
        while seen < most {
            let entry = self.entry(*at);
            let last = *at | place_mask(entry.depth());
            let (page, place) = (entry.page(), last & !place_mask(entry.depth()));
            // an empty page costs a look too
            seen += 1;
            // SAFETY: only `&mut self` writes the table's pages; slots given to the closure are taken
            unsafe {
                Form::<K, V>::for_each(page, |spot, _| {
                    seen += 1;
                    match look(&*Form::<K, V>::key(page, spot), &*Form::<K, V>::value(page, spot)) {
                        Fate::Stays => {}
                        fate => fates.push((spot, fate)),
                    }
                });
            }
            if !fates.is_empty() {
                let page = self.make_own(place).page();
                for (spot, fate) in fates.drain(..) {
                    // SAFETY: the slot is taken, in a copy of the page too, and the page is own; no slot is
                    // given twice
                    unsafe {
                        match fate {
                            Fate::Goes => {
                                let _entry = Form::<K, V>::remove(page, spot);
                                self.len -= 1;
                            }
                            _ => change(&mut *Form::<K, V>::value_mut(page, spot)),
                        }
                    }
                }
                self.shrink(place);
            }
            match last.checked_add(1) {
                Some(next) => *at = next,
                None => {
                    *at = 0;
                    self.sweep_spilled(look, change);
                    return;
                }
            }
        }
    }

    /// The same for the spill as a whole: with a fair hash there is none.
    fn sweep_spilled(&mut self, mut look: impl FnMut(&K, &V) -> Fate, mut change: impl FnMut(&mut V)) {
        let Some(spill) = self.spill.clone() else { return };
        for (&place, list) in spill.iter() {
            for (key, value) in list {
                match look(key, value) {
                    Fate::Stays => {}
                    Fate::Changes => {
                        if let Some(value) = self.spilled_mut(place, key) {
                            change(value);
                        }
                    }
                    Fate::Goes => drop(self.remove_spilled(place, key)),
                }
            }
        }
    }
}
