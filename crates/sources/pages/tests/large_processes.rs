//! Processes with very many mappings, or with very much address space: a look at them is bounded.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use egeria_facts::ProcessKey;
use egeria_harness::testing::skip;
use egeria_machine::NodeId;
use egeria_pages::accesses::{HotPages, Referenced, Sampler};
use egeria_pages::areas;
use egeria_pages::located::Located;
use egeria_proc::task;

const HELPER: &str = "EGERIA_LARGE_HELPER";
const PAGE: usize = 4096;
/// Of the program with many mappings: below the usual `vm.max_map_count`, 65,530.
const MAPPINGS: usize = 60_000;
/// Mappings that one look reads.
const OF_A_LOOK: usize = 1 << 14;
/// Of the sparse program: 4 TiB with some pages.
const SPARSE_BYTES: usize = 4 << 40;
const SPARSE_PAGES: usize = 100;
const SPARSE_STEP: usize = SPARSE_BYTES / SPARSE_PAGES / PAGE * PAGE;

/// A program with memory of its own kind, which uses all of it all the time.
struct Program(Child);

impl Program {
    fn start(kind: &str) -> Program {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper", "--nocapture"])
            .env(HELPER, kind)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.any(|line| line.unwrap().contains("ready")),
            "it ended"
        );
        Program(child)
    }

    fn key(&self) -> ProcessKey {
        task::process(self.0.id()).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn map(bytes: usize) -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory, where the kernel chooses.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    // SAFETY: the same memory; pages of 4 KiB are wanted.
    unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
    memory.cast()
}

/// No test: what the others look at.
#[test]
fn helper() {
    let Some(kind) = std::env::var_os(HELPER) else {
        return;
    };
    let is_sparse = kind == "sparse";
    let bytes = if is_sparse {
        SPARSE_BYTES
    } else {
        MAPPINGS * PAGE
    };
    let memory = map(bytes);
    let step = if is_sparse { SPARSE_STEP } else { PAGE };
    for number in (1..MAPPINGS).step_by(2).filter(|_| !is_sparse) {
        // SAFETY: touches a page of that memory, which is read from then on.
        unsafe {
            let page = memory.add(number * PAGE);
            page.write(1);
            assert_eq!(libc::mprotect(page.cast(), PAGE, libc::PROT_READ), 0);
        }
    }
    let mut is_first = true;
    loop {
        let is_written = |number: &usize| is_sparse || number.is_multiple_of(2);
        for number in (0..bytes / step).filter(is_written) {
            // SAFETY: a page of that memory, which is still writable.
            unsafe { memory.add(number * step).write(1) };
        }
        if std::mem::take(&mut is_first) {
            println!("ready");
        }
    }
}

#[test]
fn many_mappings_are_read_in_several_looks() {
    if Referenced::check().is_err() {
        skip("this kernel does not count accesses by page tables");
        return;
    }
    let program = Program::start("many");
    let process = program.key();
    let mut sampler = Referenced::default();
    let all = (MAPPINGS * PAGE) as u64;
    let mut before = 0;
    for look in 1..=MAPPINGS.div_ceil(OF_A_LOOK) + 1 {
        let sample = sampler.sample(&[process]).remove(0);
        let more = sample.resident.total().saturating_sub(before);
        // Other mappings have more than a page each.
        assert!(
            more <= (OF_A_LOOK * PAGE) as u64 + (32 << 20),
            "look {look}"
        );
        before = sample.resident.total();
        if before >= all {
            break;
        }
    }
    assert!(before >= all, "{before} of {all}");
    let written = sampler.sample(&[process]).remove(0).accessed.total();
    assert!(written >= all / 4, "{written} of {all}");
    // They lie together: what is remembered is bounded by memory.
    let areas = areas::of(process.process_id).unwrap();
    assert!(areas.len() < MAPPINGS / 100, "{} areas", areas.len());
}

#[test]
fn of_terabytes_only_what_is_there_is_looked_at() {
    if Referenced::check().is_err() {
        skip("this kernel does not count accesses by page tables");
        return;
    }
    let program = Program::start("sparse");
    let process = program.key();
    let mut sampler = Referenced::default();
    let sample = sampler.sample(&[process]).remove(0);
    assert!(sample.resident.total() < 64 << 20, "{sample:?}");
    let is_sparse = |range: &std::ops::Range<usize>| range.len() >= SPARSE_BYTES;
    let region = sample.regions.iter().find(|each| is_sparse(&each.range));
    let region = region.expect("it is used").clone();
    assert!(region.resident.total() >= (SPARSE_PAGES * PAGE) as u64);
    let nodes: Vec<NodeId> = region.resident.iter().map(|(node, _)| node).collect();
    assert!(!sampler.hot().hot_pages(process, &nodes, 10).is_empty());
    let located = Located::open(process).unwrap();
    let first = located.pages(region.range.start..region.range.start + PAGE, PAGE);
    assert_eq!(first.unwrap().len(), 1);
    if !answers_questions_about_pages() {
        skip("kernels before 6.7 write an entry for each page that is not there");
        return;
    }
    // A stretch without pages, however long, is one question.
    let before = read_bytes();
    let hole = region.range.start + PAGE..region.range.start + SPARSE_STEP;
    assert_eq!(located.pages(hole, PAGE).unwrap(), []);
    assert!(read_bytes() - before < 1 << 16);
}

/// Whether the kernel has `PAGEMAP_SCAN`.
fn answers_questions_about_pages() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(6), Some(7))
}

/// What this thread has read so far.
fn read_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("rchar: "));
    count.unwrap().parse().unwrap()
}
