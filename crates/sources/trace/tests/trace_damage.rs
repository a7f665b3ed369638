//! Nothing in a trace is trusted (invariant 4): what is wrong is a warning or one line, at once.

mod traces;

use std::fs;
use std::path::PathBuf;

use egeria_facts::{MAX_THREADS, ThreadFacts};
use egeria_machine::NodeId;
use egeria_trace::{Ending, MAX_FRAME_BYTES, MAX_OTHER_FACTS_BYTES, Reader};
use proptest::prelude::*;

use traces::{
    Place, START_BYTES, checksum, contents, cpus, key, machine, packed, payloads, read, refused,
    sealed, varied, window,
};

/// A trace as bytes.
fn recorded() -> (Place, Vec<u8>) {
    let (place, machine) = (Place::new(), machine(2));
    let bytes = fs::read(place.recorded(&machine, &varied(&machine))).unwrap();
    (place, bytes)
}

/// Reads it; an error must be one line with cause and hint.
#[track_caller]
fn survive(place: &Place, bytes: &[u8]) -> bool {
    match read(&place.holding(bytes)) {
        Ok(_) => true,
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.contains("; "), "{line:?}");
            assert!(line.len() < 1000, "{line:?}");
            false
        }
    }
}

#[test]
fn the_format_is_what_the_document_says() {
    let (_, bytes) = recorded();
    let payloads = payloads(&bytes);
    let kinds: Vec<u8> = payloads.iter().map(|payload| payload[0]).collect();
    assert_eq!(kinds, [1, 2, 2, 2, 2, 3]);
    assert_eq!(sealed(&payloads), bytes);
    assert!(payloads[0][1..].starts_with(b"{\"started_unix_ns\":1790000000123456789,"));
    // A window, number 0, start 0, 10^9 ns, 5 threads.
    let contents = contents(&bytes);
    let start = [2, 0, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03, 5];
    assert_eq!(contents[1][..9], start);
    assert_eq!(payloads[5], [3, 4]);
    let read = |bytes: &[u8]| read(&Place::new().holding(bytes)).unwrap();
    assert_eq!(read(&packed(&contents)), read(&bytes));
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let (place, bytes) = recorded();
    for at in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(!survive(&place, &bytes), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn a_cut_trace_gives_its_whole_windows_and_a_warning() {
    let (place, bytes) = recorded();
    let mut ends = vec![START_BYTES];
    for payload in payloads(&bytes) {
        ends.push(ends.last().unwrap() + 12 + payload.len());
    }
    for length in 0..bytes.len() {
        let path = place.holding(&bytes[..length]);
        if length < ends[1] {
            let empty = if length == 0 {
                "is empty"
            } else {
                "cut within its header"
            };
            refused(&path, &[empty, "record again"]);
            continue;
        }
        let (windows, warning) = read(&path).unwrap();
        let whole = ends.iter().filter(|&&end| end <= length).count() - 2;
        assert_eq!(windows.len(), whole, "{length}");
        let cause = if ends.contains(&length) {
            "not finished"
        } else {
            "is cut"
        };
        assert!(warning.unwrap().contains(cause), "{length}");
    }
}

#[test]
fn zeros_that_a_power_cut_left_are_a_cut() {
    let (place, mut bytes) = recorded();
    let end = bytes.len() - 14;
    bytes.truncate(end);
    bytes.resize(end + 100_000, 0);
    let mut reader = Reader::open(&place.holding(&bytes)).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 4);
    let cut = Ending::Cut {
        lost_bytes: 100_000,
    };
    assert_eq!(reader.ending(), Some(cut));
    bytes.push(1);
    refused(&place.holding(&bytes), &["zeros where a frame should be"]);
}

#[test]
fn frames_cannot_be_missing_repeated_or_exchanged() {
    let (place, bytes) = recorded();
    let payloads = payloads(&bytes);
    let end = |frame: usize| {
        let lengths = payloads[..frame].iter().map(|payload| 12 + payload.len());
        START_BYTES + lengths.sum::<usize>()
    };
    let frame = |number: usize| &bytes[end(number)..end(number + 1)];
    let missing = [&bytes[..end(2)], &bytes[end(3)..]].concat();
    let repeated = [&bytes[..end(3)], frame(2), &bytes[end(3)..]].concat();
    let exchanged = [&bytes[..end(2)], frame(3), frame(2), &bytes[end(4)..]].concat();
    for bytes in [missing, repeated, exchanged] {
        refused(&place.holding(&bytes), &["damaged after", "wrong checksum"]);
    }
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let (place, mut bytes) = recorded();
    refused(
        &place.path("none"),
        &["none", "No such file", "check the path"],
    );
    refused(
        &place.path(""),
        &["is a directory, not a trace", "--record"],
    );
    refused("/dev/null".as_ref(), &["is a device, not a trace"]);
    refused(&place.holding(b"#!/bin/sh\n"), &["is no trace", "--record"]);
    refused(&place.holding(&[0; 4096]), &["is no trace"]);
    for version in [1, 6, 8] {
        bytes[8] = version;
        let words = [
            &format!("version {version}, and"),
            "reads version 7",
            "the egeria that recorded it",
        ];
        refused(&place.holding(&bytes), &words);
    }
}

#[test]
fn a_pipe_that_nobody_writes_to_does_not_hang() {
    let place = Place::new();
    let path = place.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    refused(&path, &["is a pipe, not a trace"]);
}

#[test]
fn absurd_lengths_and_counts_cost_nothing() {
    let (place, bytes) = recorded();
    for length in [0, MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut head = [length.to_le_bytes(), [0; 4]].concat();
        head.extend(checksum(0, &head).to_le_bytes());
        let bytes = [&bytes[..START_BYTES], &head].concat();
        refused(&place.holding(&bytes), &["a frame of", "at most"]);
    }
    let start = &payloads(&bytes)[0];
    let damaged = |path: PathBuf, what| refused(&path, &["damaged after 0 windows", what]);
    // Blocks that claim to become more than they can, or become more than they claim.
    for (claimed, what) in [
        (u32::MAX, "it takes 4294967295 of 67108864 bytes"),
        (MAX_FRAME_BYTES as u32, "cannot be expanded"),
        (2, "cannot be expanded"),
        (0, "cannot be expanded"),
    ] {
        let payload = [&[2], &claimed.to_le_bytes()[..], &[2, 0, 0, 0, 0x10, 7]].concat();
        damaged(place.holding(&sealed(&[start.clone(), payload])), what);
    }
    let with = |content: &[u8]| place.holding(&packed(&[start.clone(), content.to_vec()]));
    // Number, start, duration; then counts.
    for (counted, what) in [
        (MAX_THREADS as u64 + 1, "1048577 threads, at most 1048576"),
        (u64::MAX, "18446744073709551615 threads"),
        (MAX_THREADS as u64, "makes no sense"),
    ] {
        let content = postcard::to_extend(&(0, 0, 9, counted), vec![2]).unwrap();
        damaged(with(&content), what);
    }
    let mut content = vec![2, 0, 0, 9, 0, 0];
    content.resize(content.len() + MAX_OTHER_FACTS_BYTES + 1, 0);
    damaged(with(&content), "it takes 16777217 of 16777216 bytes");
}

#[test]
fn a_thread_is_in_a_window_once() {
    let (place, machine) = (Place::new(), machine(2));
    let idle = ThreadFacts::idle(key(1), NodeId(0), 2, cpus("0"));
    let windows = [window(&machine, 0, vec![idle.clone()])];
    let bytes = fs::read(place.recorded(&machine, &windows)).unwrap();
    let mut contents = contents(&bytes);
    let thread = postcard::to_stdvec(&idle).unwrap();
    // Kind, number, start, duration (5 bytes), count.
    assert_eq!(contents[1][8], 1);
    contents[1][8] = 2;
    contents[1].splice(9..9, thread);
    let path = place.holding(&packed(&contents));
    refused(&path, &["window 0", "is there twice"]);
}

#[test]
fn windows_that_cannot_be_are_refused() {
    let (place, machine) = (Place::new(), machine(2));
    let bytes = fs::read(place.recorded(&machine, &[window(&machine, 7, Vec::new())])).unwrap();
    let contents = contents(&bytes);
    let with = |from: usize, to: &[u8]| {
        let mut contents = contents.clone();
        contents[1].splice(from..from + 1, to.iter().copied());
        place.holding(&packed(&contents))
    };
    // Kind, number, start (5 bytes), length (5 bytes), threads, nodes, id, pool, read.
    let beyond = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    refused(
        &with(16, &beyond),
        &["window 7", "counted 9007199254740993"],
    );
    refused(&with(15, &[2]), &["a window makes no sense"]);
    refused(&with(13, &[1]), &["other facts makes no sense"]);
    let trailing = contents[1].len() - 1;
    refused(&with(trailing, &[0, 0]), &["1 bytes too many"]);
    refused(&with(trailing, &[]), &["other facts makes no sense"]);
    refused(&with(0, &[9]), &["unknown kind"]);
    let mut counted_wrong = contents.clone();
    counted_wrong[2] = vec![3, 2];
    refused(
        &place.holding(&packed(&counted_wrong)),
        &["2 windows were recorded"],
    );
    let trailing = [bytes.as_slice(), b"x"].concat();
    refused(&place.holding(&trailing), &["something follows its end"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checksums are right, what they cover is not: compressed or not. 64 x 64 mutations.
    #[test]
    fn changed_contents_never_panic(
        changes in proptest::collection::vec(
            (1_usize..6, any::<prop::sample::Index>(), any::<u8>(), 0..8_u8), 64,
        ),
    ) {
        let (place, bytes) = recorded();
        let (compressed, expanded) = (payloads(&bytes), contents(&bytes));
        for (frame, at, value, kind) in changes {
            let is_expanded = kind >= 4;
            let mut payloads = if is_expanded { expanded.clone() } else { compressed.clone() };
            let payload = &mut payloads[frame];
            let at = at.index(payload.len());
            match kind % 4 {
                0 => payload[at] = value,
                1 => payload[at] ^= 1 << (value % 8),
                2 => payload.truncate(at),
                _ => payload.insert(at, value),
            }
            let bytes = if is_expanded { packed(&payloads) } else { sealed(&payloads) };
            survive(&place, &bytes);
        }
    }

    /// The header's text is as little trusted.
    #[test]
    fn a_changed_header_never_panics(
        at in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let (place, bytes) = recorded();
        let mut payloads = payloads(&bytes);
        for (at, value) in at {
            let at = at.index(payloads[0].len());
            payloads[0][at] = value;
        }
        survive(&place, &sealed(&payloads));
    }
}
