//! DAMON in a directory that behaves like the kernel's, next to others that use it, and killed at any call; and what the
//! real one says here.

mod fake;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use super::super::sampler::HotPages;
use super::setup::{Setup, restore};
use super::*;
use fake::{Fake, Killed};

const MARK: u32 = 4711;
const SETUP: Setup = Setup { mark: MARK };

struct All {
    folder: tempfile::TempDir,
    fake: Fake,
}

impl All {
    fn new(operations: &'static str) -> All {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let fake = Fake::new(folder.path(), operations);
        fake.state().living.extend([100, 200, std::process::id()]);
        All { folder, fake }
    }

    /// Another program observes a process.
    fn others(&self) {
        for (file, line) in [
            ("nr_kdamonds", "1"),
            ("0/contexts/nr_contexts", "1"),
            ("0/contexts/0/targets/nr_targets", "1"),
            ("0/contexts/0/targets/0/pid_target", "200"),
        ] {
            self.fake.do_write(file, line).unwrap();
        }
    }

    fn count(&self) -> String {
        self.fake.get("nr_kdamonds")
    }
}

fn made() -> [Change; 1] {
    [Change::Made { mark: MARK }]
}

#[test]
fn whenever_it_is_killed_nothing_is_left() {
    let work = |fake: &Fake| {
        SETUP.make(fake).unwrap();
        SETUP.observe(fake, &[100, 200], 20_000).unwrap();
        SETUP.set_interval(fake, 40_000).unwrap();
        used::update(fake).unwrap();
        SETUP.observe(fake, &[200], 40_000).unwrap();
        SETUP.remove(fake).unwrap();
    };
    let all = All::new("vaddr paddr");
    work(&all.fake);
    assert_eq!(all.count(), "0");
    let calls = all.fake.state().calls;
    assert!(calls > 40, "{calls}");
    for at in 0..calls {
        for is_done in [false, true] {
            let all = All::new("vaddr paddr");
            all.fake.state().killed = Some((at, is_done));
            let killed = catch_unwind(AssertUnwindSafe(|| work(&all.fake)));
            assert!(killed.unwrap_err().is::<Killed>());
            restore(&all.fake, made()).unwrap();
            assert_eq!(all.count(), "0", "killed at call {at}, done: {is_done}");
        }
    }
}

#[test]
fn what_others_set_up_is_left_as_it_is() {
    let all = All::new("vaddr");
    all.others();
    for state in ["off", "on"] {
        let _ = all.fake.do_write("0/state", state);
        assert_eq!(SETUP.make(&all.fake), Err(Unusable::InUse));
        // A journal of before does not make it ours.
        assert!(!restore(&all.fake, made()).unwrap());
        assert_eq!(all.count(), "1");
        assert_eq!(all.fake.get("0/contexts/0/targets/0/pid_target"), "200");
    }
    assert_eq!(all.fake.observed(), Some(vec![200]));
    assert!(!restore(&all.fake, []).unwrap());
    let over = [Change::Made { mark: MARK }, Change::Over];
    assert!(!restore(&all.fake, over).unwrap());
}

#[test]
fn each_reason_not_to_use_it_is_one_line() {
    let all = All::new("paddr");
    let root = all.folder.path();
    assert_eq!(SETUP.make(&all.fake), Err(Unusable::NoAddresses));
    assert_eq!(all.count(), "0", "nothing is left");
    assert_eq!(check(root), Ok(()));
    std::fs::create_dir(root.join("proc")).unwrap();
    let symbols = root.join("proc/kallsyms");
    std::fs::write(&symbols, "0 t damon_pa_check_accesses\n").unwrap();
    assert_eq!(check(root), Err(Unusable::NoAddresses));
    std::fs::write(&symbols, "0 t damon_va_prepare_access_checks\n").unwrap();
    assert_eq!(check(root), Ok(()));
    all.others();
    assert_eq!(check(root), Err(Unusable::NoAddresses));
    assert_eq!(check(Path::new("/nonexistent")), Err(Unusable::Absent));
    for text in ["", "many\n", "-1\n", &"1".repeat(10_000)] {
        std::fs::write(
            root.join("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"),
            text,
        )
        .unwrap();
        let why = check(root).unwrap_err().to_string();
        assert!(
            why.starts_with("DAMON cannot be used: ") && !why.contains('\n'),
            "{why}"
        );
    }
}

#[test]
fn regions_that_cannot_be_are_left_out() {
    let all = All::new("vaddr");
    SETUP.make(&all.fake).unwrap();
    SETUP.observe(&all.fake, &[100], 20_000).unwrap();
    let region = |start: &str, end: &str, accesses: &str| {
        (start.to_owned(), end.to_owned(), accesses.to_owned())
    };
    let most = u64::MAX.to_string();
    let used = vec![
        region("8192", "12288", "5"),
        region("4096", "8192", "4000000000"),
        region("4096", "20480", "3"),
        region("20480", "4096", "3"),
        region("40960", &most, "3"),
        region("-4096", "4096", "3"),
        region("4096\n8192", "12288", "3"),
        region("", "12288", "3"),
        region("45056", "49152", "0"),
        region("49152", "53248", "1"),
    ];
    all.fake.state().used.insert(100, used);
    used::update(&all.fake).unwrap();
    let found = used::of_target(&all.fake, 0).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|used| (used.range.start, used.share))
        .collect();
    assert_eq!(found, [(4096, 1.0), (8192, 0.5), (49_152, 0.1)]);
    let many = (0..5000_u64).map(|number| {
        let (start, end) = (number * 4096, (number + 1) * 4096);
        region(&start.to_string(), &end.to_string(), "1")
    });
    all.fake.state().used.insert(100, many.collect());
    used::update(&all.fake).unwrap();
    assert_eq!(used::of_target(&all.fake, 0).unwrap().len(), 1024);
}

/// A sampler on a directory, and what its journal has.
fn damon(all: &All) -> (Damon, Arc<Mutex<Vec<Change>>>) {
    let changes = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&changes);
    let notes: Notes = Arc::new(move |change| {
        lines.lock().unwrap().push(*change);
        Ok(())
    });
    let kernel = Arc::new(all.fake.clone());
    (
        Damon::begin(kernel, notes, Referenced::default()).unwrap(),
        changes,
    )
}

/// Looks until the condition holds.
fn until(damon: &mut Damon, own: ProcessKey, holds: impl Fn(&Damon, &[Sample]) -> bool) {
    let begin = Instant::now();
    loop {
        damon.keep(&[own]);
        let samples = damon.sample(&[own]);
        if holds(damon, &samples) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{samples:?}");
    }
}

#[test]
fn a_process_is_observed_by_regions_until_another_takes_damon() {
    if Referenced::check().is_err() {
        egeria_harness::testing::skip("this kernel does not count accesses by page tables");
        return;
    }
    let all = All::new("vaddr");
    let own = egeria_proc::task::process(std::process::id()).unwrap();
    let memory = vec![1_u8; 64 << 20];
    let begin = (memory.as_ptr() as usize).next_multiple_of(4096);
    let used = begin..begin + (8 << 20);
    let line = (
        used.start.to_string(),
        used.end.to_string(),
        "10".to_owned(),
    );
    all.fake.state().used.insert(own.process_id, vec![line]);
    let (mut damon, changes) = damon(&all);
    assert_eq!(
        *changes.lock().unwrap(),
        [Change::Made {
            mark: own.process_id
        }]
    );
    // At first page tables are asked, so that something is known at once.
    assert_eq!(damon.sample(&[own]).len(), 1);
    let mut hot = damon.hot();
    until(&mut damon, own, |_, samples| {
        let regions = &samples[0].regions;
        let ranges: Vec<_> = regions.iter().map(|region| region.range.clone()).collect();
        ranges == [used.clone()] && regions[0].accessed_bytes == used.len() as u64
    });
    assert_eq!(all.fake.observed(), Some(vec![own.process_id]));
    let nodes: Vec<egeria_machine::NodeId> = (0..64).map(egeria_machine::NodeId).collect();
    let pages = hot.hot_pages(own, &nodes, 100_000);
    assert_eq!(pages.len(), used.len() / 4096);
    assert!(pages.iter().all(|(page, _)| used.contains(page)));
    // Another changes it: it is left alone, and page tables are asked again.
    all.fake.put(
        "0/contexts/0/monitoring_attrs/intervals/update_us",
        "60000000",
    );
    until(&mut damon, own, |damon, _| damon.observer.is_none());
    assert_eq!(all.fake.observed(), Some(vec![own.process_id]));
    drop(memory);
}

#[test]
fn at_its_end_the_set_up_and_its_journal_end() {
    let all = All::new("vaddr");
    let (damon, changes) = damon(&all);
    assert_eq!(all.count(), "1");
    drop(damon);
    assert_eq!(all.count(), "0");
    assert_eq!(changes.lock().unwrap().last(), Some(&Change::Over));
}

#[test]
fn if_the_kernel_uses_damon_for_itself_it_is_given_up() {
    let all = All::new("vaddr");
    all.fake.state().is_exclusive = true;
    let (mut damon, _) = damon(&all);
    let own = egeria_proc::task::process(std::process::id()).unwrap();
    let begin = Instant::now();
    while damon.seen().is_none() && damon.observer.is_some() {
        assert!(begin.elapsed() < Duration::from_secs(120));
        damon.keep(&[own]);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(damon.observer.is_none());
    assert_eq!(all.count(), "0");
}

#[test]
fn observed_processes_stay_and_a_few_join_them() {
    let keys = |range: std::ops::Range<u32>| -> Vec<ProcessKey> {
        let key = |process_id| ProcessKey {
            process_id,
            start_ticks: 1,
        };
        range.map(key).collect()
    };
    let first = choose(&[], &keys(0..20));
    assert_eq!(first, keys(0..MAX_TARGETS as u32));
    let mut later = keys(100..120);
    later.extend(keys(0..2));
    let second = choose(&first, &later);
    assert_eq!(second[..2], keys(0..2)[..]);
    assert_eq!(second[2..], later[..MAX_TARGETS - 2]);
}

#[test]
fn how_much_is_used_is_for_one_moment() {
    let of = |share, sample_ms| {
        let (sample, moment) = (Duration::from_millis(sample_ms), Duration::from_millis(50));
        (busy(share, sample, moment) * 100.0).round()
    };
    assert_eq!((of(0.5, 50), of(1.0, 100), of(0.0, 10)), (50.0, 100.0, 0.0));
    // What half of the samples of 25 ms see is seen in three of four moments.
    assert_eq!((of(0.5, 25), of(0.1, 100)), (75.0, 5.0));
}

/// Nothing is changed by the question, also where another has DAMON.
#[test]
fn this_machine_says_whether_it_can_be_used() {
    let count = || std::fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").ok();
    let operations = "/sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/avail_operations";
    let operations = std::fs::read_to_string(operations);
    let before = count();
    let answer = check(Path::new("/"));
    assert_eq!(count(), before);
    if operations.is_ok_and(|names| !names.contains("vaddr")) {
        assert_eq!(answer, Err(Unusable::NoAddresses));
    } else if before.is_none() {
        assert!(answer.is_err());
    }
}
