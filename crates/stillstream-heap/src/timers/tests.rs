//! The queue against a sorted set, and its images against what the set was when they were made.

use std::collections::BTreeSet;

use super::*;

type Model = BTreeSet<(i64, u64, i8, u32)>;
type Queue = HeapTimers<u32, i8>;

fn queue() -> Queue {
    HeapTimers(Rc::new(TimerQueue::new(KeyGroups::new(128))))
}

/// A small generator (SplitMix64), so that each seed is one case.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

fn of_model((time, hash, namespace, key): (i64, u64, i8, u32)) -> Timer<u32, i8> {
    Timer { time: Timestamp::from_millis(time), hash: KeyHash(hash), key, namespace }
}

fn to_model(timer: &Timer<u32, i8>) -> (i64, u64, i8, u32) {
    (timer.time.as_millis(), timer.hash.0, timer.namespace, timer.key)
}

/// Timers must come by time, hash and namespace; those of one place come in any order.
fn assert_are<'a>(timers: impl Iterator<Item = &'a Timer<u32, i8>>, model: &Model) {
    let timers: Vec<_> = timers.map(to_model).collect();
    assert!(timers.is_sorted_by_key(|(time, hash, namespace, _)| (*time, *hash, *namespace)));
    assert_eq!(timers.len(), model.len());
    assert_eq!(timers.into_iter().collect::<Model>(), *model);
}

/// How a run's timers lie: their times, and how many keys and hashes there are.
struct Shape {
    time: fn(&mut Random, step: i64) -> i64,
    keys: u64,
    hashes: u64,
}

fn run(seed: u64, shape: &Shape) {
    let mut random = Random(seed);
    let (queue, mut model) = (queue(), Model::new());
    let mut images: Vec<(Vec<Leaf<u32, i8>>, Model)> = Vec::new();
    let mut popped = Vec::new();
    for step in 0..60_000 {
        let key = random.below(shape.keys);
        let place = ((shape.time)(&mut random, step), key % shape.hashes, random.below(2) as i8, key as u32);
        let timer = of_model(place);
        match random.below(10_000) {
            0..5_500 => {
                queue.set_all([timer]).unwrap();
                model.insert(place);
            }
            5_500..7_000 => {
                queue.unset(timer).unwrap();
                model.remove(&place);
            }
            // both of a timer that is likely to be there
            7_000..8_000 => {
                let near = *model.range(place..).next().unwrap_or(&place);
                let timer = of_model(near);
                let was = queue.delete(timer.time, timer.hash, &timer.key, timer.namespace).unwrap();
                assert_eq!(was, model.remove(&near));
                if random.below(2) == 0 {
                    queue.set_all([timer]).unwrap();
                    model.insert(near);
                }
            }
            8_000..9_500 => {
                let new = queue.register(timer.time, timer.hash, &timer.key, timer.namespace).unwrap();
                assert_eq!(new, model.insert(place));
            }
            9_500..9_900 => {
                let up_to = (shape.time)(&mut random, step);
                let due = model.first().copied().filter(|first| first.0 <= up_to);
                let got = queue.pop_due(Timestamp::from_millis(up_to)).unwrap();
                assert_eq!(
                    got.as_ref().map(|timer| (timer.time.as_millis(), timer.hash.0)),
                    due.map(|due| (due.0, due.1))
                );
                assert!(got.is_none_or(|timer| model.remove(&to_model(&timer))));
            }
            9_900..9_960 => {
                let (up_to, most) = ((shape.time)(&mut random, step), random.below(3_000) as usize);
                queue.pop_all_due(Timestamp::from_millis(up_to), most, &mut popped).unwrap();
                let due = model.range(..(up_to + 1, 0, i8::MIN, 0)).count().min(most);
                assert_eq!(popped.len(), due);
                // of timers of one place, any may have been taken
                let mut taken = Model::new();
                popped.iter().for_each(|timer| {
                    assert!(model.remove(&to_model(timer)) && taken.insert(to_model(timer)))
                });
                assert_are(popped.iter(), &taken);
                let (last, first) = (taken.last(), model.first());
                assert!(last.is_none_or(|last| {
                    first.is_none_or(|first| (last.0, last.1, last.2) <= (first.0, first.1, first.2))
                }));
                popped.clear();
            }
            9_960..9_975 => {
                let leaves = queue.0.leaves.borrow_mut().leaves.values_mut().map(Leaf::freeze).collect();
                images.push((leaves, model.clone()));
            }
            9_975..9_985 => {
                if !images.is_empty() {
                    let (leaves, then) = images.swap_remove(random.below(images.len() as u64) as usize);
                    let sorted: Vec<_> = leaves.into_iter().map(Leaf::into_sorted).collect();
                    assert_are(sorted.iter().flat_map(|leaf| leaf.iter()), &then);
                }
            }
            _ => {
                let first = model.first().map(|first| first.0);
                assert_eq!(queue.peek_next_time().map(Timestamp::as_millis), first);
                if random.below(2) == 0 {
                    assert_eq!(queue.len().unwrap(), model.len());
                }
            }
        }
    }
    for (leaves, then) in images {
        let sorted: Vec<_> = leaves.into_iter().map(Leaf::into_sorted).collect();
        assert_are(sorted.iter().flat_map(|leaf| leaf.iter()), &then);
    }
    queue.pop_all_due(Timestamp::MAX, usize::MAX, &mut popped).unwrap();
    assert_are(popped.iter(), &model);
    assert_eq!((queue.len().unwrap(), queue.peek_next_time()), (0, None));
}

#[test]
fn timers_and_their_images_are_what_a_sorted_set_says() {
    let shapes = [
        // anywhere
        Shape { time: |random, _| random.below(1 << 40) as i64 - (1 << 39), keys: 1 << 30, hashes: 1 << 20 },
        // a horizon that moves on, as event time does
        Shape { time: |random, step| step / 8 + random.below(5_000) as i64, keys: 1 << 20, hashes: 1 << 20 },
        // the same ones again and again
        Shape { time: |random, _| random.below(40) as i64, keys: 50, hashes: 20 },
        // many at one moment, of few hashes: places that no split can part
        Shape { time: |random, _| random.below(2) as i64, keys: 4_000, hashes: 2 },
        // each before all others
        Shape { time: |random, step| -step + random.below(3) as i64, keys: 1_000, hashes: 1_000 },
    ];
    for (n, shape) in shapes.iter().enumerate() {
        for seed in 0..2 {
            run(seed << 8 | n as u64, shape);
        }
    }
}

#[test]
fn a_timer_that_is_set_again_and_again_takes_no_more_memory() {
    let queue = queue();
    for _ in 0..1_000 {
        for key in 0..1_000 {
            queue.set_all([of_model((7, u64::from(key), 0, key))]).unwrap();
        }
    }
    let bytes: usize = queue.0.leaves.borrow().leaves.values().map(Leaf::memory_bytes).sum();
    assert!(bytes < 4 * 1_000 * size_of::<Timer<u32, i8>>(), "{bytes} bytes for 1000 timers");
    assert_eq!(queue.len().unwrap(), 1_000);
}

#[test]
fn a_freeze_copies_no_timer_and_later_changes_copy_few() {
    let queue = queue();
    let timer = |n: u32| of_model((i64::from(n % 50_000), u64::from(n), 0, n));
    queue.set_all((0..100_000).map(timer)).unwrap();
    let leaves = queue.0.leaves.borrow().leaves.len();
    assert!(leaves < 100_000 / (LEAF / 4), "{leaves} leaves");
    let image: Vec<_> = queue.0.leaves.borrow_mut().leaves.values_mut().map(Leaf::freeze).collect();
    queue.set_all((100_000..100_010).map(timer)).unwrap();
    let apart = |(leaf, image): &(&Leaf<u32, i8>, &Leaf<u32, i8>)| !leaf.shares_timers_with(image);
    let changed = queue.0.leaves.borrow().leaves.values().zip(&image).filter(apart).count();
    assert!(changed <= 1, "{changed} leaves were copied for 10 timers");
}
