//! Every query gives the known result, in order and out of order, and when it is killed in the middle.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nexmark::results::golden;
use nexmark::{Auction, Bid, Event, Events, Generator, Person, Profile, QUERIES, Tally, run};
use stillstream::prelude::*;

/// The bytes that the golden fingerprints are of.
fn bytes_of(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.bytes());
    };
    let number = |out: &mut Vec<u8>, number: u64| out.extend(number.to_le_bytes());
    let time = |out: &mut Vec<u8>, at: Timestamp| out.extend(at.as_millis().to_le_bytes());
    match event {
        Event::Person(Person { id, name, email, credit_card, city, state, date_time, extra }) => {
            out.push(0);
            number(&mut out, *id);
            [name, email, credit_card, city, state].into_iter().for_each(|part| text(&mut out, part));
            time(&mut out, *date_time);
            text(&mut out, extra);
        }
        Event::Auction(auction) => {
            let Auction { id, item_name, description, initial_bid, reserve, .. } = auction;
            out.push(1);
            number(&mut out, *id);
            [item_name, description].into_iter().for_each(|part| text(&mut out, part));
            [*initial_bid, *reserve].into_iter().for_each(|part| number(&mut out, part));
            time(&mut out, auction.date_time);
            time(&mut out, auction.expires);
            [auction.seller, auction.category].into_iter().for_each(|part| number(&mut out, part));
            text(&mut out, &auction.extra);
        }
        Event::Bid(Bid { auction, bidder, price, channel, url, date_time, extra }) => {
            out.push(2);
            [*auction, *bidder, *price].into_iter().for_each(|part| number(&mut out, part));
            [channel, url].into_iter().for_each(|part| text(&mut out, part));
            time(&mut out, *date_time);
            text(&mut out, extra);
        }
    }
    out
}

/// FNV-1a, 64 bits.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn the_events_are_the_golden_ones() {
    let generator = Generator::new(Profile::FAST);
    let golden = include_str!("../golden.txt").lines();
    let mut compared = 0;
    for line in golden.filter(|line| !line.starts_with("first")) {
        let mut parts = line.split(' ');
        let number = parts.next().and_then(|part| part.parse().ok()).unwrap();
        let expected = parts.next().and_then(|part| u64::from_str_radix(part, 16).ok()).unwrap();
        let event = generator.event(number);
        assert_eq!(fingerprint(&bytes_of(&event)), expected, "event {number}: {event:?}");
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
    let all = (0..1_000_000).fold((0u64, 0), |(sum, len), i| {
        let bytes = bytes_of(&generator.event(i));
        (sum.wrapping_add(fingerprint(&bytes)), len + bytes.len())
    });
    assert_eq!(all, (0x71c2_bf22_46f4_5109, 205_897_929));
}

#[test]
fn every_query_gives_the_known_result_and_another_order_changes_nothing() {
    let slow = |disordered, count| (Profile { disordered, ..Profile::SLOW }, count);
    let fast = |disordered, count| (Profile { disordered, ..Profile::FAST }, count);
    for (profile, count) in [slow(false, 10_000), slow(true, 10_000), fast(false, 100_000)] {
        for query in QUERIES {
            let mut env = StreamExecutionEnvironment::new();
            env.set_parallelism(2);
            let tally = Tally::new(query);
            run(&env, query, Events { profile, count, splits: 2 }, &tally).unwrap();
            env.execute(format!("q{query}")).unwrap();
            assert_eq!(
                Some(tally.total().unwrap()),
                golden(query, profile.per_ms, count),
                "q{query}, {profile:?}"
            );
        }
    }
}

/// What is committed and complete in a folder.
fn committed(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "total")).count()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for another process, with a deadline")]
fn a_query_that_is_killed_and_started_again_gives_the_known_result() {
    // a join, windows of windows, sessions, and a table that changes
    for query in ["q4", "q5", "q11", "q18"] {
        let folder = tempfile::tempdir().unwrap();
        let (out, checkpoints) = (folder.path().join("out"), folder.path().join("checkpoints"));
        let start = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_nexmark"));
            command.args([query, "--events", "1000000", "--profile", "slow"]);
            command.arg("--out").arg(&out).arg("--checkpoint-dir").arg(&checkpoints);
            command.args(["--checkpoint-interval", "20ms", "-D", "stillstream.rest.enabled=false"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut first = start();
        let deadline = Instant::now() + Duration::from_secs(60);
        while committed(&out) == 0 {
            assert!(Instant::now() < deadline, "{query}: nothing was committed");
            assert!(first.try_wait().unwrap().is_none(), "{query}: it ended before it could be killed");
            std::thread::sleep(Duration::from_millis(2));
        }
        first.kill().unwrap();
        assert!(!first.wait().unwrap().success());
        let second = start().wait_with_output().unwrap();
        let log = String::from_utf8_lossy(&second.stderr);
        assert!(second.status.success(), "{query}: {log}");
        assert!(log.contains("resumes from checkpoint"), "{query}: {log}");
    }
}
