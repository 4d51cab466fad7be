//! WORDS: a running count by word.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use stillstream::prelude::*;

use super::steady;
use crate::measurement::Measurement;
use crate::records::splitmix64;
use crate::settings::Settings;

const WORDS_A_LINE: u64 = 12;
/// Size of the input when it is measured for a while, for each second.
const BYTES_A_SECOND: u64 = 160_000_000;

/// Writes lines of words of which few are frequent and most are rare, as in a language: word n is about as
/// frequent as 1/n. Gives the numbers of words and of bytes.
fn write(path: &Path, keys: u64, words: Option<u64>, bytes: u64) -> std::io::Result<(u64, u64)> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut written, mut size, mut line) = (0, 0, Vec::new());
    while words.map_or(size < bytes, |words| written < words) {
        line.clear();
        for _ in 0..WORDS_A_LINE.min(words.map_or(u64::MAX, |words| words - written)) {
            let uniform = (splitmix64(written) >> 11) as f64 / (1u64 << 53) as f64;
            let number = ((keys + 1) as f64).powf(uniform) as u64 - 1;
            write!(line, "word{number:x} ")?;
            written += 1;
        }
        if let Some(last) = line.last_mut() {
            *last = b'\n';
        }
        file.write_all(&line)?;
        size += line.len() as u64;
    }
    file.flush()?;
    Ok((written, size))
}

pub(super) fn run(settings: &Settings) -> Result<Measurement> {
    let dir = settings.scratch()?;
    let path = dir.path().join("words.txt");
    let bytes = (settings.measure.as_secs_f64() * BYTES_A_SECOND as f64) as u64;
    let (words, bytes) =
        write(&path, settings.keys, settings.records, bytes).context(|| "writing the words")?;
    let (env, out) = (settings.environment(), Discard::new());
    env.from_source("lines", TextSource::new(&path).split_size(4 << 20))
        .uid("lines")
        .flat_map_into(|line, out| line.split_ascii_whitespace().for_each(|word| out.emit(word.to_string())))
        .key_by_ref(|word| word)
        .map_with_state("count", |count: &mut u64, word| {
            *count += 1;
            (word, *count)
        })
        .uid("count")
        .sink_to("discard", out.clone());
    let span = match settings.records {
        Some(_) => steady::run(settings, &env, &|| out.count(), 0)?.span,
        None => {
            // from where most words have been seen to shortly before the end
            let job = env.execute_async("benchmark")?;
            steady::wait_for(&job, &|| out.count(), words / 10)?;
            let from = crate::machine::Moment::at(out.count());
            steady::wait_for(&job, &|| out.count(), words / 100 * 95)?;
            let span = crate::machine::Moment::at(out.count()) - from;
            job.wait()?;
            span
        }
    };
    let megabytes = span.records as f64 * bytes as f64 / words as f64 / 1e6;
    let rate = megabytes / span.cpu.as_secs_f64().max(1e-9);
    Ok(Measurement::of("WORDS", settings, span).figure("mb_per_cpu_s", rate))
}
