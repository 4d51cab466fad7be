//! The suite: all scenarios, several times, in processes of their own that alternate.

mod aims;
mod child;
mod page;
mod plan;
mod row;
mod table;

use std::fs;
use std::path::PathBuf;

use stillstream::{Error, ErrorKind, Result, ResultExt};

use crate::machine::Machine;
use crate::settings::{Backend, Settings};
use plan::Run;
use row::Row;

/// Runs of each row, unless the command line says otherwise.
const ROUNDS: usize = 5;

/// What the command line asks for.
struct Wanted {
    /// Names of scenarios; none: all.
    names: Vec<String>,
    json: Option<PathBuf>,
    page: Option<PathBuf>,
    rounds: usize,
    backend: Backend,
    /// Passed on to each run.
    passed_on: Vec<String>,
}

impl Wanted {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut wanted = Self {
            names: Vec::new(),
            json: None,
            page: None,
            rounds: ROUNDS,
            backend: Backend::Heap,
            passed_on: Vec::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if !argument.starts_with("--") {
                wanted.names.push(crate::scenario::named(argument)?.name.to_string());
                continue;
            }
            let missing =
                || Error::new(ErrorKind::Configuration, format!("`{argument}` needs a value behind it"));
            let value = arguments.next().ok_or_else(missing)?;
            match argument.as_str() {
                "--json" => wanted.json = Some(value.into()),
                "--page" => wanted.page = Some(value.into()),
                "--rounds" => {
                    wanted.rounds = value.parse().ok().filter(|rounds| *rounds > 0).ok_or_else(|| {
                        Error::new(
                            ErrorKind::Configuration,
                            format!("`--rounds {value}`: expected 1 or more"),
                        )
                    })?;
                }
                _ => wanted.passed_on.extend([argument.clone(), value.clone()]),
            }
        }
        // a mistake is found now and not by the first run
        wanted.backend = Settings::read(&wanted.passed_on)?.backend;
        if let Some(at) = wanted.passed_on.iter().position(|flag| flag == "--backend") {
            // each row has its own
            wanted.passed_on.drain(at..at + 2);
        }
        Ok(wanted)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }

    /// The rows to run.
    fn runs(&self) -> Vec<Run> {
        let mut runs = match self.backend {
            Backend::Heap => plan::runs(),
            Backend::RocksDb => plan::rocksdb_runs(),
        };
        if self.backend == Backend::Heap && !self.names.is_empty() {
            // scenarios that are of RocksDB only
            runs.extend(plan::rocksdb_runs().into_iter().filter(|run| run.scenario == "ROCKSRAW"));
        }
        runs.retain(|run| self.wants(run.scenario));
        runs
    }

    /// Whether these are the rows that the page shows.
    fn is_whole(&self) -> bool {
        self.names.is_empty() && self.backend == Backend::Heap
    }
}

/// Runs what the command line asks for, and prints the table.
///
/// # Errors
/// If a run fails; the table of the others is printed before.
pub fn run(arguments: &[String]) -> Result<()> {
    let wanted = Wanted::read(arguments)?;
    let machine = Machine::here();
    let mut rows: Vec<Row> = wanted.runs().into_iter().map(Row::of).collect();
    let mut failures = Vec::new();
    for round in 0..wanted.rounds {
        // there and back, so that no row always follows the same other one
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let row = &mut rows[at];
            eprintln!("round {} of {}: {}", round + 1, wanted.rounds, row.run);
            match child::run(&row.run, &wanted.passed_on) {
                Ok(measurement) => row.add(round, measurement),
                Err(error) => failures.push(format!("{}: {error}", row.run)),
            }
        }
    }
    row::compare(&mut rows);
    println!("{machine}\n\n{}", table::text(&rows));
    if let Some(path) = &wanted.json {
        let lines = rows.iter().filter_map(Row::json).collect::<Result<Vec<_>>>()?;
        fs::write(path, lines.concat()).context(|| path.display().to_string())?;
    }
    if !failures.is_empty() {
        return Err(Error::msg(format!("{} runs failed:\n{}", failures.len(), failures.join("\n"))));
    }
    match &wanted.page {
        Some(path) if wanted.is_whole() => page::write(path, &machine, &rows),
        Some(path) => {
            println!("{} was left as it is: it shows a run of all benchmarks", path.display());
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted> {
        Wanted::read(&line.split(' ').map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn names_choose_scenarios_and_unknown_ones_are_refused() {
        let wanted = read("count JOIN --json out.json --keys 7").unwrap();
        assert!(wanted.wants("COUNT") && wanted.wants("JOIN") && !wanted.wants("COUNT+ckpt"));
        assert_eq!(wanted.passed_on, ["--keys", "7"]);
        let rows = |line| read(line).unwrap().runs().len();
        assert!(rows("--rounds 1") > 20 && !read("--backend rocksdb").unwrap().is_whole());
        assert_eq!(["--backend rocksdb", "ROCKSRAW", "count --backend rocksdb"].map(rows), [10, 2, 4]);
        for (line, part) in [
            ("CUONT", "there is no benchmark `CUONT`"),
            ("--keys x", "`--keys x`"),
            ("--rounds 0", "1 or more"),
        ] {
            let error = read(line).err().unwrap().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
