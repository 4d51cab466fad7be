//! Word count: how often each word has come so far.
//!
//! The records are keyed by the word, and each word has a number of its own as state. A job that restarts
//! after a failure has these numbers back, as of its last checkpoint, and reads on from the same point.
//!
//! ```text
//! ("to", 1)
//! ("be", 1)
//! ("or", 1)
//! ("not", 1)
//! ("to", 2)
//! ("be", 2)
//! ```

use stillstream::prelude::*;

pub fn main() -> Result<()> {
    let mut env = StreamExecutionEnvironment::from_args()?;
    env.enable_checkpointing(seconds(1));

    env.from_collection(["to be", "or not", "to be"].map(String::from))
        .flat_map_into(|line, out| line.split(' ').for_each(|word| out.emit(word.to_string())))
        .key_by_ref(|word| word)
        .map_with_state("seen", |seen: &mut u64, word| {
            *seen += 1;
            (word, *seen)
        })
        .uid("count") // the name under which the state is found again
        .print();

    env.execute("word count").map(drop)
}
