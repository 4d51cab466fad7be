//! Memory made present ahead of the worker.
//!
//! The first touch of fresh memory takes long: up to 5 ms where a huge page must be cleared. While a snapshot
//! is held, a table takes memory for each page that it copies or saves. So a freeze of a large table asks for
//! memory, and a thread of the process, which does nothing else, makes piece after piece present while the
//! worker uses the ones before. What a snapshot took is free when it ends and serves the next one: there is
//! work for the first snapshots, and where a table has grown.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::blocks::Block;
use super::pool::{CHUNK_PAGES, State};

type Pool = Mutex<State>;
type Request = (Weak<Pool>, Wanted);

/// What is to be there when it is needed.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// For copies of pages, beside those in use.
    Pages(usize),
    /// For entries that are saved: those that the pool will have, with those in use.
    Blocks(usize),
}

/// Asks for memory in a pool. If no thread can be started, the worker makes its memory present itself.
pub(super) fn prepare(pool: &Arc<Pool>, wanted: Wanted) {
    static THREAD: OnceLock<Option<Sender<Request>>> = OnceLock::new();
    let start = || {
        let (sender, requests) = channel::<Request>();
        let run = move || {
            requests.into_iter().for_each(|(pool, wanted)| fill(&pool, wanted));
        };
        std::thread::Builder::new().name("spare-pages".into()).spawn(run).is_ok().then_some(sender)
    };
    if let Some(sender) = THREAD.get_or_init(start) {
        // the thread lives as long as the process
        let _ = sender.send((Arc::downgrade(pool), wanted));
    }
}

fn lock(pool: &Pool) -> MutexGuard<'_, State> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wanted {
    /// How many pieces are missing that are made present one by one.
    fn missing(self, state: &State) -> usize {
        match self {
            Self::Pages(pages) => pages.saturating_sub(state.spare_pages()).div_ceil(CHUNK_PAGES - 1),
            Self::Blocks(blocks) => blocks.saturating_sub(state.blocks()),
        }
    }

    fn add_one(self, pool: &Pool) {
        match self {
            Self::Pages(_) => {
                let chunk = lock(pool).chunk_to_prepare();
                chunk.make_present();
                lock(pool).add_ready(chunk);
            }
            Self::Blocks(_) => {
                let block = Block::present();
                lock(pool).add_block(block);
            }
        }
    }
}

/// Adds what is missing. What the worker takes meanwhile is part of what was asked for: it is not made up
/// for.
fn fill(pool: &Weak<Pool>, wanted: Wanted) {
    let missing = pool.upgrade().map_or(0, |pool| wanted.missing(&lock(&pool)));
    for _ in 0..missing {
        let Some(pool) = pool.upgrade() else { return };
        if wanted.missing(&lock(&pool)) == 0 {
            return;
        }
        wanted.add_one(&pool);
    }
}
