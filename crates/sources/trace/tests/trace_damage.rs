//! Nothing in a trace is trusted (invariant 4): what is wrong is a warning or one line, at once.

mod traces;

use std::fs;

use egeria_facts::ThreadFacts;
use egeria_machine::NodeId;
use egeria_trace::{Ending, MAX_FRAME_BYTES, Reader};
use proptest::prelude::*;

use traces::{
    Place, START_BYTES, checksum, cpus, key, machine, payloads, read, refused, sealed, varied,
    window,
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
    // A window, fresh, number 0, start 0, 10^9 ns.
    assert_eq!(payloads[1][..9], [2, 1, 0, 0, 0x80, 0x94, 0xeb, 0xdc, 0x03]);
    assert_eq!(payloads[5], [3, 4]);
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
fn other_files_and_newer_traces_are_told_apart() {
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
    bytes[8] = 3;
    refused(
        &place.holding(&bytes),
        &["version 3", "newer than 2", "the egeria that recorded it"],
    );
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
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let start = &payloads(&bytes)[0];
    // A window of two idle nodes, then no CPU sets, no new threads, and threads without end.
    let idle = [2, 1, 0, 0, 9, 1, 0, 0, 0, 1, 0, 0, 0];
    for (before, what) in [
        (&[][..], "CPU sets"),
        (&[0][..], "new threads"),
        (&[0, 0][..], "threads"),
        (&[1][..], "runs of CPUs"),
    ] {
        let payload = [&idle[..], before, &huge].concat();
        let path = place.holding(&sealed(&[start.clone(), payload]));
        refused(&path, &["damaged after 0 windows", what]);
    }
}

/// Each record of a thread costs memory, and so do names: three bytes must not buy both again.
#[test]
fn a_thread_is_in_a_window_once() {
    let (place, machine) = (Place::new(), machine(2));
    let idle = ThreadFacts::idle(key(1), NodeId(0), 2, cpus("0"));
    let bytes = fs::read(place.recorded(&machine, &[window(&machine, 0, vec![idle])])).unwrap();
    let mut payloads = payloads(&bytes);
    let payload = &mut payloads[1];
    let end = payload.len() - 4;
    assert_eq!(payload[end..], [1, 0, 0, 0]);
    payload[end] = 2;
    // One step back.
    payload.extend([1, 0, 0]);
    let path = place.holding(&sealed(&payloads));
    refused(
        &path,
        &["damaged after 0 windows", "a thread twice in a window"],
    );
}

#[test]
fn windows_that_cannot_be_are_refused() {
    let (place, machine) = (Place::new(), machine(2));
    let bytes = fs::read(place.recorded(&machine, &[window(&machine, 7, Vec::new())])).unwrap();
    let payloads = payloads(&bytes);
    let with = |from: usize, to: &[u8]| {
        let mut payloads = payloads.clone();
        payloads[1].splice(from..from + 1, to.iter().copied());
        place.holding(&sealed(&payloads))
    };
    // Kind, fresh, number, start (5 bytes), length (5 bytes), pool, read.
    let beyond = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    refused(
        &with(14, &beyond),
        &["window 7", "counted 9007199254740993"],
    );
    refused(&with(13, &[2]), &["a node makes no sense"]);
    let trailing = payloads[1].len() - 1;
    refused(&with(trailing, &[0, 0]), &["1 bytes too many"]);
    refused(
        &with(trailing, &[1, 0, 0, 0]),
        &["a thread that nobody named"],
    );
    refused(&with(0, &[9]), &["unknown kind"]);
    let mut counted_wrong = payloads.clone();
    counted_wrong[2] = vec![3, 2];
    refused(
        &place.holding(&sealed(&counted_wrong)),
        &["2 windows were recorded"],
    );
    let trailing = [bytes.as_slice(), b"x"].concat();
    refused(&place.holding(&trailing), &["something follows its end"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checksums are right, contents are not: the decoder itself is asked. 64 x 64 mutations.
    #[test]
    fn changed_contents_never_panic(
        changes in proptest::collection::vec(
            (1_usize..6, any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 64,
        ),
    ) {
        let (place, bytes) = recorded();
        let payloads = payloads(&bytes);
        for (frame, at, value, kind) in changes {
            let mut payloads = payloads.clone();
            let payload = &mut payloads[frame];
            let at = at.index(payload.len());
            match kind {
                0 => payload[at] = value,
                1 => payload[at] ^= 1 << (value % 8),
                2 => payload.truncate(at),
                _ => payload.insert(at, value),
            }
            survive(&place, &sealed(&payloads));
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
