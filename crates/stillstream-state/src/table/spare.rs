//! Pages made present ahead of the worker.
//!
//! The first touch of fresh memory takes long: up to 5 ms where a huge page must be cleared. While a snapshot is held, a table takes a
//! page for each one that it copies. So a freeze of a large table asks for memory, and a thread of the process, which does
//! nothing else, makes chunk after chunk present while the worker uses the ones before. What a snapshot copied is free when it ends and
//! serves the next one: there is work for the first snapshots, and where a table has grown.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use stillstream_types::threads::work_in_background;

use super::pool::State;

type Request = (Weak<Mutex<State>>, usize);

/// Asks for `pages` spare pages in a pool. If no thread can be started, the worker makes its memory present itself.
pub(super) fn prepare(pool: &Arc<Mutex<State>>, pages: usize) {
    static THREAD: OnceLock<Option<Sender<Request>>> = OnceLock::new();
    let start = || {
        let (sender, requests) = channel::<Request>();
        let run = move || {
            work_in_background();
            requests.into_iter().for_each(|(pool, pages)| fill(&pool, pages));
        };
        std::thread::Builder::new().name("spare-pages".into()).spawn(run).is_ok().then_some(sender)
    };
    if let Some(sender) = THREAD.get_or_init(start) {
        // the thread lives as long as the process
        let _ = sender.send((Arc::downgrade(pool), pages));
    }
}

/// Adds chunks until there are enough spare pages.
fn fill(pool: &Weak<Mutex<State>>, pages: usize) {
    let spare = |pool: &Mutex<State>| pool.lock().unwrap_or_else(PoisonError::into_inner).spare();
    // what the worker takes meanwhile is not made up for: it is part of what was asked for
    let missing = pool.upgrade().map_or(0, |pool| pages.saturating_sub(spare(&pool)));
    for _ in 0..missing.div_ceil(super::pool::CHUNK_PAGES - 1) {
        let Some(pool) = pool.upgrade() else { return };
        let state = || pool.lock().unwrap_or_else(PoisonError::into_inner);
        if state().spare() >= pages {
            return;
        }
        let chunk = state().chunk_to_prepare();
        chunk.make_present();
        state().add_ready(chunk);
    }
}
