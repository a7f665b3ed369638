//! The measured program on tmpfs and in memory: it does what it is asked, and the same on all subjects.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use egeria_bench::datapath::plan::{
    CROWD, Case, Files, LARGEST_BLOCK_BYTES, MAX_THREADS, Offsets, Operation, cases,
    measuring_order,
};
use egeria_bench::datapath::worker::{Answer, Reply, Request};
use tempfile::TempDir;

const FILE_BYTES: u64 = 4 << 20;

fn offsets(case: &Case, thread: usize, seed: u64) -> Vec<u64> {
    let mut offsets = Offsets::new(case, FILE_BYTES, thread, seed);
    (0..5000).map(|_| offsets.next()).collect()
}

#[test]
fn the_pattern_depends_on_case_thread_and_seed_alone() {
    for case in cases() {
        for thread in 0..case.threads {
            let first = offsets(&case, thread, 5);
            assert_eq!(first, offsets(&case, thread, 5), "{case:?}");
            let inside = |offset: &u64| {
                offset.is_multiple_of(case.block_bytes) && offset + case.block_bytes <= FILE_BYTES
            };
            assert!(first.iter().all(inside), "{case:?}");
        }
    }
}

#[test]
fn random_offsets_differ_and_reach_every_block() {
    let case = Case {
        operation: Operation::RandomPread,
        block_bytes: LARGEST_BLOCK_BYTES,
        threads: 2,
        files: Files::Own,
    };
    assert_ne!(offsets(&case, 0, 1), offsets(&case, 1, 1));
    assert_ne!(offsets(&case, 0, 1), offsets(&case, 0, 2));
    let blocks: HashSet<u64> = offsets(&case, 0, 1).into_iter().collect();
    assert_eq!(blocks.len() as u64, FILE_BYTES / LARGEST_BLOCK_BYTES);
}

#[test]
fn threads_that_share_a_file_have_parts_of_it() {
    let case = Case {
        operation: Operation::RandomPwrite,
        block_bytes: 4096,
        threads: 2,
        files: Files::Shared,
    };
    let half = FILE_BYTES / 2;
    assert!(offsets(&case, 0, 1).iter().all(|offset| *offset < half));
    assert!(offsets(&case, 1, 1).iter().all(|offset| *offset >= half));
    let sequential = Case {
        operation: Operation::SequentialPwrite,
        ..case
    };
    let parts = (offsets(&sequential, 0, 1), offsets(&sequential, 1, 1));
    assert!(parts.0.iter().max() < parts.1.iter().min());
}

#[test]
fn sequential_offsets_follow_one_another_and_wrap() {
    let case = Case {
        operation: Operation::SequentialPread,
        block_bytes: 4096,
        threads: 1,
        files: Files::Own,
    };
    let offsets = offsets(&case, 0, 1);
    let follows = |pair: &[u64]| pair[1] == (pair[0] + 4096) % FILE_BYTES;
    assert!(offsets.windows(2).all(follows));
}

#[test]
fn the_cases_are_those_promised() {
    let all = cases();
    assert_eq!(all.len(), 8 + 1 + 4 + 18 + 12 + 4);
    let names: HashSet<String> = all.iter().map(Case::name).collect();
    assert_eq!(names.len(), 6 + 2 + 2 + 1);
    let appends = all
        .iter()
        .filter(|case| case.operation == Operation::Append);
    assert!(appends.clone().all(|case| case.block_bytes <= 4096));
    let parts = all.iter().filter(|case| case.block_bytes < 4096);
    assert_eq!(parts.count(), 8, "each size appended and in place");
    let crowds = all.iter().filter(|case| case.threads == CROWD);
    assert!(crowds.clone().count() == 2 && crowds.clone().all(|case| case.files == Files::One));
}

#[test]
fn every_case_is_measured_once_and_small_random_ones_last() {
    let all = cases();
    let order = measuring_order(&all);
    let places: HashSet<usize> = order.iter().copied().collect();
    assert_eq!(places.len(), all.len());
    let is_small_random = |place: &usize| {
        let case = &all[*place];
        let sequential = [Operation::SequentialPread, Operation::SequentialPwrite];
        let random = case.operation != Operation::Append && !sequential.contains(&case.operation);
        random && case.block_bytes <= 4096
    };
    let first = order.iter().position(is_small_random).unwrap();
    assert!(order[first..].iter().all(is_small_random));
}

/// A running worker; killed when dropped.
struct Worker {
    child: Child,
    directory: TempDir,
}

impl Worker {
    fn start(kind: &str) -> Worker {
        let directory = tempfile::Builder::new()
            .prefix("egeria-bench-test-")
            .tempdir_in("/dev/shm")
            .unwrap();
        let paths: Vec<PathBuf> = (0..MAX_THREADS)
            .map(|n| directory.path().join(format!("data{n}")))
            .collect();
        let child = Command::new(env!("CARGO_BIN_EXE_egeria-datapath-worker"))
            .arg(kind)
            .arg(FILE_BYTES.to_string())
            .args(paths)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Worker { child, directory }
    }

    fn ask(&mut self, requests: &[Request]) -> Vec<Answer<Reply>> {
        let stdin = self.child.stdin.as_mut().unwrap();
        for request in requests {
            serde_json::to_writer(&mut *stdin, request).unwrap();
            stdin.write_all(b"\n").unwrap();
        }
        let stdout = BufReader::new(self.child.stdout.as_mut().unwrap());
        let lines = stdout.lines().take(requests.len());
        lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    }

    fn size_of(&self, name: &str) -> u64 {
        std::fs::metadata(self.directory.path().join(name)).map_or(0, |facts| facts.len())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(case: &Case) -> Request {
    Request::Measure {
        operation: case.operation,
        block_bytes: case.block_bytes,
        threads: case.threads,
        files: case.files,
        seed: 3,
        milliseconds: 2,
        append_bytes: 1 << 20,
    }
}

#[test]
fn every_case_is_measured_on_files_and_in_memory() {
    for kind in ["files", "memory"] {
        let mut worker = Worker::start(kind);
        let mut requests = vec![Request::Prepare];
        requests.extend(cases().iter().map(measure));
        let replies = worker.ask(&requests);
        assert_eq!(
            replies[0],
            Answer::Done(Reply::Ready {
                prefaulted_bytes: 0
            })
        );
        for (case, reply) in cases().iter().zip(&replies[1..]) {
            let Answer::Done(Reply::Measured { calls, ops_s, .. }) = reply else {
                panic!("{kind} {case:?}: {reply:?}");
            };
            assert!(*calls > 0 && *ops_s > 0.0, "{kind} {case:?}: {reply:?}");
        }
        assert_eq!(worker.size_of("data0"), FILE_BYTES);
        // What was appended is gone, or repeated measurements would fill the volume.
        assert_eq!(worker.size_of("data0.appended"), 0);
    }
}

#[test]
fn nonsense_is_answered_and_does_not_end_the_worker() {
    let mut worker = Worker::start("files");
    let too_many = Case {
        operation: Operation::RandomPread,
        block_bytes: 4096,
        threads: 3,
        files: Files::Own,
    };
    let replies = worker.ask(&[
        measure(&cases()[0]),
        Request::Prepare,
        measure(&too_many),
        measure(&cases()[0]),
    ]);
    assert!(
        matches!(&replies[0], Answer::Failed { failure } if failure.contains("before prepared"))
    );
    assert!(matches!(&replies[2], Answer::Failed { .. }));
    assert!(matches!(&replies[3], Answer::Done(Reply::Measured { .. })));
}

#[test]
fn mappings_of_a_file_are_found_and_no_others() {
    let mut worker = Worker::start("memory");
    let mapped = worker.directory.path().join("data0");
    let prefault = |path: &Path| Request::Prefault {
        path: path.to_owned(),
    };
    let replies = worker.ask(&[
        Request::Prepare,
        prefault(&mapped),
        prefault(Path::new("/nonexistent")),
    ]);
    assert!(
        matches!(replies[1], Answer::Done(Reply::Ready { prefaulted_bytes }) if prefaulted_bytes >= FILE_BYTES)
    );
    assert_eq!(
        replies[2],
        Answer::Done(Reply::Ready {
            prefaulted_bytes: 0
        })
    );
}

#[test]
fn started_by_hand_it_says_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_egeria-datapath-worker"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("egeria-lab bench datapath"));
}
