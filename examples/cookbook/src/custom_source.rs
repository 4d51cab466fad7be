//! A source of one's own: a log in two shards, read side by side.
//!
//! A source cuts its input into splits, and a split says where to go on in it. The splits are what a
//! checkpoint holds of a source: after a failure each shard is read again from exactly there.
//!
//! ```text
//! north: rain
//! north: sun
//! south: sun
//! ```

use stillstream::connect::{SourceContext, SplitReader, SplitSource};
use stillstream::prelude::*;
use stillstream::{Batch, SourceStatus};

/// What would be two files, or two partitions.
const LOG: [&[&str]; 2] = [&["north: rain", "north: sun"], &["south: sun"]];

struct Log;

/// A split with its position.
#[derive(Clone, Data)]
struct Shard {
    number: u32,
    next_line: u64,
}

impl SplitSource for Log {
    type Item = String;
    type Split = Shard;

    fn splits(&self) -> Result<Vec<Shard>> {
        Ok((0..LOG.len() as u32).map(|number| Shard { number, next_line: 0 }).collect())
    }

    fn reader(&self, _: &SourceContext) -> Result<Box<dyn SplitReader<String, Shard>>> {
        Ok(Box::new(Reader { shards: Vec::new() }))
    }
}

/// Reads the shards that one subtask has been given.
struct Reader {
    shards: Vec<Shard>,
}

impl SplitReader<String, Shard> for Reader {
    fn assign(&mut self, shards: Vec<Shard>) -> Result<()> {
        self.shards.extend(shards);
        Ok(())
    }

    fn poll(&mut self, max_records: usize, out: &mut Batch<String>) -> Result<SourceStatus> {
        for shard in &mut self.shards {
            let unread = &LOG[shard.number as usize][shard.next_line as usize..];
            let lines = &unread[..unread.len().min(max_records)];
            if !lines.is_empty() {
                out.values.extend(lines.iter().map(|line| line.to_string()));
                shard.next_line += lines.len() as u64;
                return Ok(SourceStatus::More);
            }
        }
        Ok(SourceStatus::Ended)
    }

    fn positions(&self) -> Vec<Shard> {
        self.shards.clone()
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    env.from_source("log", Log).uid("log").print();
    env.execute("custom source").map(drop)
}
