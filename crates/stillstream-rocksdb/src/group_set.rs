//! [`GroupSet`]: key groups, in memory that follows their number.

/// Above so many, a bit for each group takes less.
const FEW: usize = 64;

/// A set of key groups. Most windows hold keys of a few groups or of nearly all.
#[derive(Debug)]
pub(crate) enum GroupSet {
    /// Ascending.
    Few(Vec<u16>),
    /// A bit each.
    Many(Vec<u64>),
}

impl Default for GroupSet {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl GroupSet {
    #[inline]
    pub fn contains(&self, group: u16) -> bool {
        match self {
            Self::Few(groups) => groups.binary_search(&group).is_ok(),
            Self::Many(words) => {
                words.get(usize::from(group / 64)).is_some_and(|word| word >> (group % 64) & 1 == 1)
            }
        }
    }

    pub fn insert(&mut self, group: u16) {
        match self {
            Self::Few(groups) => {
                let Err(at) = groups.binary_search(&group) else { return };
                groups.insert(at, group);
                if groups.len() > FEW {
                    let all = std::mem::take(groups);
                    *self = Self::Many(Vec::new());
                    all.into_iter().for_each(|group| self.insert(group));
                }
            }
            Self::Many(words) => {
                let at = usize::from(group / 64);
                if words.len() <= at {
                    words.resize(at + 1, 0);
                }
                words[at] |= 1 << (group % 64);
            }
        }
    }

    /// The groups, ascending.
    pub fn to_vec(&self) -> Vec<u16> {
        match self {
            Self::Few(groups) => groups.clone(),
            Self::Many(words) => {
                let bits = words.iter().zip(0u16..).flat_map(|(word, at)| {
                    (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
                });
                bits.collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_whatever_its_size() {
        for step in [1u16, 7, 500] {
            let (mut set, mut expected) = (GroupSet::default(), Vec::new());
            for group in
                (0..32_768u16).step_by(usize::from(step)).take(300).collect::<Vec<_>>().into_iter().rev()
            {
                assert!(!set.contains(group));
                set.insert(group);
                set.insert(group);
                expected.push(group);
                assert!(set.contains(group));
            }
            expected.reverse();
            assert_eq!(set.to_vec(), expected);
        }
    }
}
