//! One block cache and one write-buffer manager for all databases of a process.
//!
//! A part of the budget is for hot entries as native values ([`Share`]); RocksDB has the rest.
//!
//! Its split is Flink's (`RocksDBMemoryControllerUtils`): write buffers are charged to the cache, and RocksDB
//! may exceed their limit by half before it stalls, so the cache gets `(3 - ratio) / 3` of the budget and the
//! manager `2 * ratio / 3`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rust_rocksdb::{Cache, WriteBufferManager};

use crate::options::MemoryBudget;

/// What the databases of a process share.
pub(crate) struct SharedMemory {
    pub cache: Cache,
    pub write_buffers: WriteBufferManager,
    write_buffer_bytes: usize,
    write_back_bytes: usize,
    /// States that share `write_back_bytes`.
    states: AtomicUsize,
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMemory")
            .field("cache_capacity_bytes", &self.cache.get_capacity())
            .field("cache_usage_bytes", &self.cache.get_usage())
            .field("write_buffer_usage_bytes", &self.write_buffers.get_usage())
            .finish()
    }
}

/// By what a budget says.
type ByBudget = BTreeMap<(u64, u64, u64), Weak<SharedMemory>>;

impl SharedMemory {
    /// The one of this process for this budget, made at first use and dropped with its last database.
    pub fn of_process(budget: &MemoryBudget) -> Option<Arc<Self>> {
        static SHARED: OnceLock<Mutex<ByBudget>> = OnceLock::new();
        let total = budget.total_bytes?;
        let mut shared = SHARED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let key = (total, budget.write_buffer_ratio.to_bits(), budget.write_back_ratio.to_bits());
        if let Some(there) = shared.get(&key).and_then(Weak::upgrade) {
            return Some(there);
        }
        let made = Arc::new(Self::new(total, budget));
        shared.retain(|_, memory| memory.strong_count() > 0);
        shared.insert(key, Arc::downgrade(&made));
        Some(made)
    }

    fn new(total: u64, budget: &MemoryBudget) -> Self {
        let write_back_bytes = (total as f64 * budget.write_back_ratio.clamp(0.0, 0.95)) as u64;
        let (cache_bytes, write_buffer_bytes) = split(total - write_back_bytes, budget.write_buffer_ratio);
        let cache = Cache::new_lru_cache(cache_bytes);
        let write_buffers =
            WriteBufferManager::new_write_buffer_manager_with_cache(write_buffer_bytes, false, cache.clone());
        let write_back_bytes = write_back_bytes as usize;
        Self { cache, write_buffers, write_buffer_bytes, write_back_bytes, states: AtomicUsize::new(0) }
    }

    /// Whether write buffers take all the room that the cache leaves them, so that somebody has to wait for a
    /// flush. RocksDB itself starts to flush in the background before their limit, and waits for nothing.
    pub fn write_buffers_are_full(&self) -> bool {
        self.write_buffers.get_usage() > self.write_buffer_bytes + self.write_buffer_bytes / 2
    }

    /// What all write buffers may take.
    pub fn write_buffer_bytes(&self) -> usize {
        self.write_buffer_bytes
    }

    /// What hot entries may take in all states.
    pub fn write_back_bytes(&self) -> usize {
        self.write_back_bytes
    }

    /// The largest arena block of a write buffer: with larger ones the manager would flush all the time
    /// (Flink's check).
    pub fn arena_block_bytes(&self, write_buffer_bytes: usize) -> usize {
        let default = (write_buffer_bytes / 8).min(1 << 20);
        default.min(self.write_buffer_bytes * 7 / 8 / 16).max(4096)
    }
}

/// One state's share of the memory for hot entries: all states have equal ones.
#[derive(Debug)]
pub(crate) struct Share(Option<Arc<SharedMemory>>);

/// The share of a state where memory is not managed: 64 MiB.
const UNMANAGED_BYTES: usize = 64 << 20;

impl Share {
    pub fn of(memory: Option<Arc<SharedMemory>>) -> Self {
        if let Some(memory) = &memory {
            memory.states.fetch_add(1, Ordering::Relaxed);
        }
        Self(memory)
    }

    /// How much it is now.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(UNMANAGED_BYTES, |memory| {
            memory.write_back_bytes / memory.states.load(Ordering::Relaxed).max(1)
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some(memory) = &self.0 {
            memory.states.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Bytes of the cache, and of the write buffers within it.
fn split(total: u64, ratio: f64) -> (usize, usize) {
    let total = total as f64;
    (((3.0 - ratio) * total / 3.0) as usize, (2.0 * total * ratio / 3.0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_split_as_in_flink() {
        assert_eq!(split(300 << 20, 0.5), (250 << 20, 100 << 20));
        assert_eq!(split(300 << 20, 0.0), (300 << 20, 0));
    }

    #[test]
    fn backends_of_one_budget_share_one_cache() {
        let budget = MemoryBudget { total_bytes: Some(7 << 20), ..MemoryBudget::default() };
        let (a, b) = (SharedMemory::of_process(&budget), SharedMemory::of_process(&budget));
        let (Some(a), Some(b)) = (a, b) else { panic!("the budget is managed") };
        assert!(Arc::ptr_eq(&a, &b));
        let shares = [Share::of(Some(a.clone())), Share::of(Some(b))];
        assert_eq!(shares[0].bytes(), (7 << 20) / 4);
        drop(shares);
        assert_eq!(Share::of(Some(a)).bytes(), (7 << 20) / 2);
        assert!(SharedMemory::of_process(&MemoryBudget { total_bytes: None, ..budget }).is_none());
    }
}
