//! The known key that an unknown one was probably meant to be.

use super::table;

/// The nearest known key, if it is near enough to be worth a hint, and how many letters the nearest one is
/// away.
pub(super) fn key(written: &str) -> (Option<String>, usize) {
    let plain = written.to_lowercase().replace('_', "-");
    let most = (plain.len() / 5).max(2);
    let names = table::rows().flat_map(|row| std::iter::once(row.key).chain(row.older.iter().copied()));
    let similar = names.filter(|name| name.len().abs_diff(plain.len()) <= most);
    let best = similar.map(|name| (distance(&plain, &name.to_lowercase()), name)).min();
    let distance = match best {
        Some((distance, name)) if distance <= most => return (Some(name.to_string()), distance),
        Some((distance, _)) => distance,
        None => usize::MAX,
    };
    // `checkpointing.interval` without its beginning, or `checkpoint.timeout` where only the last part is
    // right
    let tail = format!(".{plain}");
    let longer = table::rows().find(|row| row.key.ends_with(&tail)).map(|row| row.key.to_string());
    (longer, distance)
}

/// How many letters were put in, left out, changed, or swapped with their neighbour, in bytes: keys are
/// ASCII.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = row[j] + usize::from(x != y);
            let mut best = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changed_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
        assert_eq!(distance("same", "same"), 0);
        assert_eq!((distance("yaer", "year"), distance("ab", "ba")), (1, 1));
    }

    #[test]
    fn a_key_with_a_letter_wrong_or_its_beginning_missing_finds_its_neighbour() {
        let near = |written| key(written).0;
        assert_eq!(near("execution.checkpointing.intervall").unwrap(), "execution.checkpointing.interval");
        assert_eq!(near("execution.checkpointing.min_pause").unwrap(), "execution.checkpointing.min-pause");
        assert_eq!(near("checkpointing.interval").unwrap(), "execution.checkpointing.interval");
        assert_eq!(near("my.favourite.colour"), None);
    }
}
