//! Long accesses of striped files by delegates: nothing looks different, and nothing is left behind.

mod common;

use common::*;
use egeria_engine::*;
use egeria_harness::fork::Forked;
use egeria_harness::memory::Mapping;
use egeria_media::PoolIndex;
use egeria_media::recorder::Recorder;
use proptest::prelude::*;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const POOLS: usize = 4;
const STRIPE: usize = 8192;
const FILE_BYTES: usize = 64 * STRIPE;

fn always(delegates: u8, min_bytes: u32) -> Option<DelegationRule> {
    Some(DelegationRule {
        delegates: NonZeroU8::new(delegates).unwrap(),
        min_read_bytes: min_bytes,
        min_write_bytes: min_bytes,
        always: true,
    })
}

fn prepared() -> (Scratch, Arc<Volume>) {
    let scratch = Scratch::new(POOLS, 16 << 20);
    let volume = scratch.attach();
    volume.set_delegation(always(2, 1), true).unwrap();
    (scratch, volume)
}

fn striped(volume: &Volume, name: &str) -> FileReference {
    let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &FILE);
    let ino = made.unwrap().ino;
    let layout = format!("striped:{STRIPE}");
    volume
        .set_xattr(
            ino,
            b"user.egeria.layout",
            layout.as_bytes(),
            XattrMode::Any,
        )
        .unwrap();
    volume.open(ino, None).unwrap()
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 31 + at / 253 + seed) as u8)
        .collect()
}

/// Threads of this process that are delegates of the volume.
fn delegates_of(volume: &Volume) -> Vec<u32> {
    let reports = volume.threads(0).into_iter();
    let delegates =
        reports.filter(|report| report.is_delegate && report.process_id == std::process::id());
    delegates.map(|report| report.thread_id).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, bytes: usize },
    Append { bytes: usize },
    Read { at: usize, bytes: usize },
    Truncate { bytes: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..FILE_BYTES, 1..FILE_BYTES / 2);
    prop_oneof![
        4 => place().prop_map(|(at, bytes)| Step::Write { at, bytes }),
        1 => (1..FILE_BYTES / 4).prop_map(|bytes| Step::Append { bytes }),
        4 => place().prop_map(|(at, bytes)| Step::Read { at, bytes }),
        1 => (0..FILE_BYTES).prop_map(|bytes| Step::Truncate { bytes }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_delegates_write_and_read_is_what_a_vector_holds(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (scratch, volume) = prepared();
        let file = striped(&volume, "file");
        let mut expected = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write { at, bytes } => {
                    let data = pattern(number, bytes);
                    prop_assert_eq!(volume.write(file, at as u64, &data), Ok(bytes));
                    if expected.len() < at + bytes {
                        expected.resize(at + bytes, 0);
                    }
                    expected[at..at + bytes].copy_from_slice(&data);
                }
                Step::Append { bytes } => {
                    let data = pattern(number, bytes);
                    let landed = volume.append(file, &data);
                    prop_assert_eq!(landed, Ok((expected.len() as u64, bytes)));
                    expected.extend(data);
                }
                Step::Read { at, bytes } => {
                    let mut read = vec![0xAA; bytes];
                    let count = expected.len().saturating_sub(at).min(bytes);
                    prop_assert_eq!(volume.read(file, at as u64, &mut read), Ok(count));
                    prop_assert!(read[..count] == expected[at.min(expected.len())..][..count]);
                }
                Step::Truncate { bytes } => {
                    let change = AttributeChange {
                        size_bytes: Some(bytes as u64),
                        ..AttributeChange::default()
                    };
                    volume.set_attributes(file.ino(), &change).unwrap();
                    expected.resize(bytes, 0);
                }
            }
        }
        prop_assert!(delegates_of(&volume).len() <= POOLS * 2);
        drop(volume);
        scratch.assert_clean();
    }
}

#[test]
fn delegates_read_and_write_for_several_threads() {
    let (scratch, volume) = prepared();
    let before = volume.counters();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let volume = &volume;
            scope.spawn(move || {
                let file = striped(volume, &format!("file{thread}"));
                for round in 0..50 {
                    let data = pattern(thread * 100 + round, FILE_BYTES);
                    assert_eq!(volume.write(file, 0, &data), Ok(FILE_BYTES));
                    let mut read = vec![0; FILE_BYTES];
                    assert_eq!(volume.read(file, 0, &mut read), Ok(FILE_BYTES));
                    assert!(read == data);
                }
            });
        }
    });
    let counters = volume.counters();
    let all = 6 * 50 * 2 * FILE_BYTES as u64;
    let counted = |counters: &Counters| {
        let pools = counters.read_bytes.iter().chain(&counters.written_bytes);
        pools.sum::<u64>()
    };
    assert_eq!(counted(&counters) - counted(&before), all, "counted once");
    assert!(counters.delegated_bytes > all / 2, "{counters:?}");
    let delegates = delegates_of(&volume);
    assert!(delegates.len() <= 2 * POOLS);
    drop(volume);
    for thread in delegates {
        // A joined thread is listed until the kernel is done with it.
        let task = format!("/proc/self/task/{thread}");
        let gone = || !std::path::Path::new(&task).exists();
        let ended = (0..1000).any(|_| {
            gone() || {
                thread::sleep(Duration::from_millis(10));
                false
            }
        });
        assert!(ended, "it ended with the volume");
    }
    scratch.assert_clean();
}

#[test]
fn writers_of_disjoint_ranges_of_one_file_share_delegates() {
    let (scratch, volume) = prepared();
    let file = striped(&volume, "file");
    volume.write(file, 0, &vec![0; FILE_BYTES]).unwrap();
    let part = FILE_BYTES / 4;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let volume = &volume;
            scope.spawn(move || {
                for round in 0..100 {
                    let data = vec![(thread * 50 + round) as u8; part];
                    let written = volume.write(file, (thread * part) as u64, &data);
                    assert_eq!(written, Ok(part));
                }
            });
        }
    });
    let mut read = vec![0; FILE_BYTES];
    volume.read(file, 0, &mut read).unwrap();
    for thread in 0..4 {
        let last = (thread * 50 + 99) as u8;
        let of_thread = &read[thread * part..(thread + 1) * part];
        assert!(of_thread.iter().all(|byte| *byte == last), "{thread}");
    }
    drop(volume);
    scratch.assert_clean();
}

/// Memory of two pages, of which only the first may be touched.
fn half_mapped(bytes: usize) -> Mapping {
    let memory = Mapping::of_zeros(2 * bytes).expect("memory");
    memory
        .protect_from(bytes, libc::PROT_NONE)
        .expect("mprotect");
    memory
}

#[test]
fn bad_memory_is_the_same_error_as_without_delegates() {
    egeria_media::guard::install().unwrap();
    let (scratch, volume) = prepared();
    let file = striped(&volume, "file");
    let data = pattern(7, FILE_BYTES);
    volume.write(file, 0, &data).unwrap();
    // Once the time of the last change is logged, writes go in place.
    volume.write(file, 0, &data).unwrap();
    let half = FILE_BYTES / 2;
    let memory = half_mapped(half);
    let (start, behind) = (memory.address(0), memory.address(half));
    let outcomes = || {
        // SAFETY: memory of the test, of which a part may not be touched: the guard is installed.
        unsafe {
            [
                volume.read_to(file, 0, CallerDestination::new(start, FILE_BYTES)),
                volume.write_from(file, 0, CallerSource::new(start, FILE_BYTES)),
                volume.read_to(file, 0, CallerDestination::new(behind, half)),
                volume.write_from(file, 0, CallerSource::new(behind, half)),
            ]
        }
    };
    let delegated = outcomes();
    volume.set_delegation(None, true).unwrap();
    let direct = outcomes();
    assert_eq!(delegated, direct);
    assert_eq!(direct[2], Err(Errno(libc::EFAULT)));
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn a_forked_child_has_delegates_of_its_own() {
    let (scratch, volume) = prepared();
    let file = striped(&volume, "file");
    let data = pattern(1, FILE_BYTES);
    volume.write(file, 0, &data).unwrap();
    let before = volume.counters().delegated_bytes;
    let child = Forked::run_well(|| {
        volume.after_fork_in_child();
        let changed = pattern(2, FILE_BYTES);
        let written = volume.write(file, 0, &changed) == Ok(FILE_BYTES);
        let mut read = vec![0; FILE_BYTES];
        let same = volume.read(file, 0, &mut read) == Ok(FILE_BYTES) && read == changed;
        let counted = volume.counters().delegated_bytes;
        let has_own = counted - before >= 2 * FILE_BYTES as u64;
        written && same && has_own
    });
    assert!(child.unwrap().wait().success());
    let mut read = vec![0; FILE_BYTES];
    volume.read(file, 0, &mut read).unwrap();
    assert!(read == pattern(2, FILE_BYTES));
    volume.write(file, 0, &data).unwrap();
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn where_no_thread_may_be_started_the_caller_does_it() {
    let (scratch, volume) = prepared();
    volume.start_delegates_if(|| false);
    let file = striped(&volume, "file");
    let data = pattern(3, FILE_BYTES);
    assert_eq!(volume.write(file, 0, &data), Ok(FILE_BYTES));
    let mut read = vec![0; FILE_BYTES];
    assert_eq!(volume.read(file, 0, &mut read), Ok(FILE_BYTES));
    assert!(read == data);
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn delegates_ask_for_places_at_limited_pools() {
    let (scratch, volume) = prepared();
    for pool in 0..POOLS {
        let (pool, limit) = (PoolIndex(pool as u8), std::num::NonZeroU32::new(1));
        volume
            .limit_admission(pool, limit, LimitedBy::Hand)
            .unwrap();
    }
    let file = striped(&volume, "file");
    let data = pattern(4, FILE_BYTES);
    volume.write(file, 0, &data).unwrap();
    let asked = volume.counters().asked;
    assert!(
        asked[..POOLS].iter().all(|asked| asked.requests > 0),
        "{asked:?}"
    );
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn a_rule_set_by_hand_is_no_planner_s_to_change() {
    let (_scratch, volume) = prepared();
    assert_eq!(volume.set_delegation(None, false), Err(Errno(libc::EBUSY)));
    assert_eq!(
        volume.set_delegation(always(17, 1), true),
        Err(Errno(libc::EINVAL))
    );
    let rule = always(3, 32768);
    volume.set_delegation(rule, true).unwrap();
    assert_eq!(volume.delegation(), (rule, true));
    volume.set_delegation(None, true).unwrap();
    assert_eq!(volume.delegation(), (None, true));
}

#[test]
fn a_delegated_write_is_durable_when_it_returns() {
    let (_scratch, volume) = prepared();
    let file = striped(&volume, "file");
    let recorder = Recorder::new();
    for (index, pool) in volume.pools().iter().enumerate() {
        recorder.attach(PoolIndex(index as u8), pool).unwrap();
    }
    // To new blocks, in place, and behind the end.
    let before = volume.counters().delegated_bytes;
    for round in 0..6 {
        let written = volume.write(file, 5 * round, &pattern(1, FILE_BYTES));
        assert_eq!(written, Ok(FILE_BYTES));
        recorder.mark(round);
    }
    assert!(volume.counters().delegated_bytes > before);
    volume
        .pools()
        .iter()
        .for_each(|pool| Recorder::detach(pool));
    assert_eq!(durable_marks(&recorder), 6);
}

#[test]
fn striped_files_are_known_as_soon_as_one_is_met() {
    let scratch = Scratch::new(POOLS, 16 << 20);
    let volume = scratch.attach();
    let layout = b"user.egeria.layout";
    volume.create(InodeNumber::ROOT, b"plain", &FILE).unwrap();
    let set = |ino, value: &[u8]| {
        volume
            .set_xattr(ino, layout, value, XattrMode::Any)
            .unwrap()
    };
    set(InodeNumber::ROOT, b"striped");
    assert!(!volume.has_striped_files(), "a directory is no file");
    set(InodeNumber::ROOT, b"local");
    let made = volume.create(InodeNumber::ROOT, b"other", &FILE).unwrap();
    assert!(!volume.has_striped_files());
    set(made.ino, b"striped:8192");
    assert!(volume.has_striped_files());
    drop(volume);
    let volume = scratch.attach();
    assert!(volume.has_striped_files(), "recovery meets all files");
}
