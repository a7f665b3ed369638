//! What made faults say of made samples; and real ones where the kernel has them.

use egeria_harness::testing::skip;
use egeria_machine::Machine;
use egeria_proc::task;

use super::super::referenced::Referenced;
use super::super::region::REGION_BYTES;
use super::*;

const KEY: ProcessKey = ProcessKey {
    process_id: 7,
    start_ticks: 1,
};

/// Gives these faults in each look, and counts the looks.
struct Made(Vec<(usize, u16)>, Arc<Mutex<u32>>);

impl WriteFaults for Made {
    fn look(&mut self, processes: &[ProcessKey]) -> Vec<(ProcessKey, usize, NodeId, u64)> {
        assert_eq!(processes, [KEY]);
        *self.1.lock().unwrap() += 1;
        let faults = self.0.iter();
        faults
            .map(|(page, node)| (KEY, *page, NodeId(*node), 1))
            .collect()
    }
}

/// Eight parts on node 0, a quarter of which was accessed.
fn sample() -> Sample {
    let mut resident = NodeBytes::default();
    resident.add(NodeId(0), 8 * REGION_BYTES as u64);
    let accessed = resident.scaled_to(2 * REGION_BYTES as u64);
    Sample {
        process: KEY,
        accessed: accessed.clone(),
        resident: resident.clone(),
        from: Vec::new(),
        unassigned: NodeBytes::default(),
        pages: 4096,
        is_tracked: false,
        regions: vec![Region {
            range: 0..8 * REGION_BYTES,
            resident,
            accessed_bytes: accessed.total(),
            from: Vec::new(),
            is_fixed: false,
        }],
        took: Duration::from_millis(50),
    }
}

/// This number of faults by a node in each of these parts.
fn faults(parts: std::ops::Range<usize>, node: u16, count: usize) -> Vec<(usize, u16)> {
    let pages = move |part: usize| (0..count).map(move |page| part * REGION_BYTES + page * 4096);
    parts.flat_map(pages).map(|page| (page, node)).collect()
}

fn written(faults: Vec<(usize, u16)>) -> (Written<Referenced, Made>, Arc<Mutex<u32>>) {
    let looks = Arc::new(Mutex::new(0));
    let made = Made(faults, Arc::clone(&looks));
    let tables = Referenced::default();
    let areas = tables.hot();
    (Written::new(tables, areas, made), looks)
}

fn refined(written: &mut Written<Referenced, Made>, sample: Sample) -> Sample {
    let mut samples = [sample];
    written.refine(&mut samples, &[KEY]);
    let [sample] = samples;
    sample
}

/// The rest is over.
fn rested(written: &Written<Referenced, Made>) {
    let mut all = written.writers.lock();
    all.get_mut(&KEY).unwrap().rest_until = Instant::now();
}

#[test]
fn parts_belong_to_the_nodes_whose_threads_write_them() {
    let mut both = faults(0..3, 1, 9);
    both.extend(faults(4..6, 0, 9));
    both.extend(faults(7..8, 1, 2));
    let (mut written, _) = written(both);
    let sample = refined(&mut written, sample());
    let mut regions = sample.regions;
    regions.sort_by_key(|region| region.range.start);
    let found: Vec<_> = regions
        .iter()
        .map(|region| (region.range.start / REGION_BYTES, region.accessor()))
        .collect();
    let node = |node| Some(NodeId(node));
    // Two faults in the last part say too little.
    assert_eq!(found, [(0, node(1)), (3, None), (4, node(0)), (6, None)]);
    let all: u64 = regions.iter().map(|region| region.resident.total()).sum();
    assert_eq!(all, 8 * REGION_BYTES as u64);
    // Of what was accessed, five parts of eight are assigned.
    let quarter = |parts: u64| parts * REGION_BYTES as u64 / 4;
    let from: Vec<_> = (sample.from.iter())
        .map(|(node, accessed)| (node.0, accessed.total()))
        .collect();
    assert_eq!((from.len(), sample.unassigned.total()), (2, quarter(3)));
    assert!(from.contains(&(1, quarter(3))) && from.contains(&(0, quarter(2))));
}

#[test]
fn little_that_is_known_assigns_nothing() {
    let (mut written, _) = written(faults(0..3, 1, 9));
    let sample = refined(&mut written, sample());
    assert!(sample.from.is_empty() && sample.unassigned.total() == 0);
    assert_eq!(sample.regions.len(), 2, "but regions say what is known");
}

#[test]
fn looks_rest_and_spare_large_and_tracked_processes() {
    let (mut written, looks) = written(Vec::new());
    let looked = || *looks.lock().unwrap();
    let with = |pages, is_tracked| Sample {
        pages,
        is_tracked,
        ..sample()
    };
    written.refine(&mut [sample()], &[]);
    assert_eq!(looked(), 0, "all its threads are on one node");
    refined(&mut written, with(3_000_000, false));
    refined(&mut written, with(4096, true));
    assert_eq!(looked(), 0);
    for _ in 0..3 {
        refined(&mut written, sample());
        assert_eq!(looked(), 1, "and then it rests");
    }
    rested(&written);
    // Its bits were cleared by the first look.
    refined(&mut written, with(4096, true));
    assert_eq!(looked(), 2);
    written.keep(&[]);
    assert!(written.writers.lock().is_empty());
}

#[test]
fn one_fault_of_a_huge_page_needs_others_to_agree() {
    let (mut written, _) = written(faults(0..8, 1, 1));
    let mut known = Vec::new();
    for _ in 0..8 {
        let sample = refined(&mut written, sample());
        let mut regions = sample.regions.iter();
        known.push(regions.any(|region| region.accessor().is_some()));
        rested(&written);
    }
    assert!(!known[0] && !known[1] && known[7], "{known:?}");
}

#[test]
fn writes_of_this_process_are_seen() {
    let machine = Machine::detect().unwrap();
    let mut faults = match LiveFaults::begin(&machine) {
        Ok(faults) => faults,
        Err(why) => {
            skip(why);
            return;
        }
    };
    let own = task::process(std::process::id()).unwrap();
    let mut memory = vec![1_u8; 64 * 4096];
    let pages = memory.as_ptr() as usize..memory.as_ptr() as usize + memory.len();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                memory.iter_mut().step_by(4096).for_each(|byte| *byte ^= 1);
            }
        });
        let found = faults.look(&[own]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    let inside = found.iter().filter(|(_, page, ..)| pages.contains(page));
    assert!(inside.count() >= 32, "{} faults", found.len());
}
