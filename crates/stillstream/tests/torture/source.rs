//! A bounded source of several splits, whose rows can be computed again, and that goes on checkpoint by
//! checkpoint.

use stillstream::connect::{SourceContext, SplitNews, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, CheckpointId, SourceStatus};

use crate::faults::place;

/// Key, weight, event time in milliseconds.
pub type Row = (u64, u64, i64);

/// When no checkpoint has come for this long, the source goes on all the same.
const PATIENCE_MS: i64 = 40;

/// A well-mixed number of a number.
pub fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

/// What a source has.
#[derive(Clone, Debug)]
pub struct Rows {
    pub number: u64,
    pub count: u64,
    pub keys: u64,
    pub splits: u64,
    /// Rows of one subtask for each checkpoint.
    pub step: u64,
    /// Whether each split has a watermark of its own.
    pub apart: bool,
}

impl Rows {
    pub fn row(&self, index: u64) -> Row {
        let id = mixed((self.number << 32) + index + 1);
        (id % self.keys, id, (index / 2) as i64)
    }

    pub fn all(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.count).map(|index| self.row(index))
    }
}

/// Its first row, one after its last, and the next one.
type Split = (u64, u64, u64);

impl SplitSource for Rows {
    type Item = Row;
    type Split = Split;

    fn splits(&self) -> Result<Vec<Split>> {
        let bound = |split: u64| self.count * split / self.splits;
        Ok((0..self.splits).map(|split| (bound(split), bound(split + 1), bound(split))).collect())
    }

    fn reader(&self, context: &SourceContext) -> Result<Box<dyn SplitReader<Row, Split>>> {
        place("reader")?;
        let (rows, context) = (self.clone(), context.clone());
        Ok(Box::new(Reader {
            open: rows.step,
            rows,
            context,
            splits: vec![],
            turn: 0,
            since: None,
            news: None,
        }))
    }
}

struct Reader {
    rows: Rows,
    context: SourceContext,
    splits: Vec<Split>,
    /// How many rows may still be read before the next checkpoint.
    open: u64,
    turn: usize,
    /// Since when it waits.
    since: Option<i64>,
    news: Option<SplitNews>,
}

fn is_done(split: &Split) -> bool {
    split.2 >= split.1
}

impl SplitReader<Row, Split> for Reader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.splits = splits;
        let opened = (0..self.splits.len()).filter(|at| !is_done(&self.splits[*at])).collect();
        self.news = Some(SplitNews { opened, ..SplitNews::default() });
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<Row>) -> Result<SourceStatus> {
        place("poll")?;
        if self.splits.iter().all(is_done) {
            return Ok(SourceStatus::Ended);
        }
        if self.open == 0 {
            let now = self.context.clock.now_ms();
            let since = *self.since.get_or_insert(now);
            if now < since + PATIENCE_MS {
                return Ok(SourceStatus::Idle { until_ms: Some(now + 2) });
            }
            self.open = self.rows.step;
        }
        self.since = None;
        while is_done(&self.splits[self.turn % self.splits.len()]) {
            self.turn += 1;
        }
        let at = self.turn % self.splits.len();
        self.turn += 1;
        let split = &mut self.splits[at];
        let until = split.1.min(split.2 + self.open.min(max_records as u64).min(7));
        out.values.extend((split.2..until).map(|index| self.rows.row(index)));
        self.open -= until - split.2;
        split.2 = until;
        let ended = if is_done(split) { vec![at] } else { vec![] };
        let news = self.news.get_or_insert_default();
        news.current = Some(at);
        news.ended = ended;
        Ok(SourceStatus::More)
    }

    fn positions(&self) -> Vec<Split> {
        self.splits.clone()
    }

    fn split_news(&mut self) -> Option<SplitNews> {
        let news = self.news.take();
        news.filter(|_| self.rows.apart)
    }

    fn checkpoint_complete(&mut self, _: CheckpointId) -> Result<()> {
        place("source-told")?;
        self.open = self.rows.step;
        Ok(())
    }
}
