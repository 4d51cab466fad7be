//! [`Sessions`]: which windows of a key have merged into which. Flink's `MergingWindowSet`.

use stillstream_state::Data;

use crate::window::TimeWindow;

/// A window, and the window under which its contents lie: that of one of those that it has merged from, so
/// that the largest part of the contents stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_state)]
pub(crate) struct Merged {
    pub window: TimeWindow,
    pub contents: TimeWindow,
}

/// The windows of a key. No two of them touch.
#[derive(Clone, PartialEq, Eq, Debug, Default, Data)]
#[data(crate = stillstream_state)]
pub(crate) struct Sessions(Vec<Merged>);

/// What adding a window has come to.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Added {
    /// The window that the record is in now.
    pub now: Merged,
    /// Windows that were there and are part of it now; the first one's contents are the new window's. Empty
    /// unless the set of windows has changed in another way than by a new one.
    pub merged: Vec<Merged>,
}

impl Sessions {
    /// Adds a record's window.
    pub fn add(&mut self, window: TimeWindow) -> Added {
        let mut now = window;
        let mut merged: Vec<Merged> = Vec::new();
        // windows that are there do not touch one another, so one pass finds all that the new one touches
        self.0.retain(|there| {
            let touches = there.window.touches(window);
            if touches {
                now = now.cover(there.window);
                merged.push(*there);
            }
            !touches
        });
        // the earliest one's records come first
        merged.sort_unstable_by_key(|there| there.window);
        let now = Merged { window: now, contents: merged.first().map_or(now, |first| first.contents) };
        self.0.push(now);
        if let [only] = merged[..]
            && only.window == now.window
        {
            merged.clear();
        }
        Added { now, merged }
    }

    /// Where the contents of a window lie; `None` if there is no such window any more.
    pub fn contents_of(&self, window: TimeWindow) -> Option<TimeWindow> {
        self.0.iter().find(|there| there.window == window).map(|there| there.contents)
    }

    /// Forgets a window.
    pub fn retire(&mut self, window: TimeWindow) {
        self.0.retain(|there| there.window != window);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> TimeWindow {
        TimeWindow::of(start, end)
    }

    #[test]
    fn windows_that_touch_merge_and_the_contents_stay_with_the_first() {
        let mut sessions = Sessions::default();
        assert!(sessions.add(window(0, 10)).merged.is_empty());
        assert!(sessions.add(window(30, 40)).merged.is_empty());
        let inside = sessions.add(window(2, 8));
        assert_eq!((inside.now.window, inside.merged), (window(0, 10), vec![]), "nothing has changed");
        let longer = sessions.add(window(10, 20));
        assert_eq!((longer.now.window, longer.merged.len()), (window(0, 20), 1));
        let both = sessions.add(window(20, 30));
        assert_eq!((both.now.window, both.merged.len()), (window(0, 40), 2));
        assert_eq!(both.now.contents, window(0, 10));
        assert_eq!(sessions.contents_of(window(0, 40)), Some(window(0, 10)));
        assert_eq!(sessions.contents_of(window(0, 20)), None);
        sessions.retire(window(0, 40));
        assert!(sessions.is_empty());
    }

    #[test]
    fn a_window_that_covers_an_old_one_is_a_merge_of_it() {
        let mut sessions = Sessions::default();
        sessions.add(window(5, 10));
        let wider = sessions.add(window(0, 20));
        assert_eq!((wider.now.window, wider.now.contents), (window(0, 20), window(5, 10)));
        assert_eq!(wider.merged, [Merged { window: window(5, 10), contents: window(5, 10) }]);
    }
}
