//! Page faults of this machine are sampled: the same rings and records as those of a PMU.

use egeria_harness::testing::{is_root, skip};
use std::time::Duration;

use egeria_harness::memory::Mapping;
use egeria_perf::{Access, AccessEvents, Event, EventSampler, PerfError, Served};

const PAGE: usize = 4096;

fn sampler(window: Duration) -> Option<EventSampler> {
    match EventSampler::begin(&[Event::page_faults()], window) {
        Ok(sampler) => Some(sampler),
        Err(error @ (PerfError::NotAllowed(_) | PerfError::Room { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("a kernel that should do: {error}"),
    }
}

/// New memory, each page touched once; given back at the end.
fn touch(pages: usize) -> std::ops::Range<u64> {
    let bytes = pages * PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let memory = Mapping::new(-1, bytes, access, flags, 0).unwrap();
    memory.advise(libc::MADV_NOHUGEPAGE).unwrap();
    (0..pages).for_each(|page| memory.set(page * PAGE, 1));
    let start = memory.address(0) as u64;
    start..start + bytes as u64
}

fn of_this_thread(accesses: &[Access]) -> Vec<Access> {
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let own =
        |access: &&Access| (access.process_id, access.thread_id) == (std::process::id(), thread);
    accesses.iter().filter(own).copied().collect()
}

#[test]
fn each_page_that_is_touched_first_is_sampled_with_its_thread() {
    let Some(mut sampler) = sampler(Duration::from_secs(1)) else {
        return;
    };
    assert_eq!(sampler.period(), 1);
    sampler.take();
    let range = touch(100);
    let taken = sampler.take();
    assert_eq!(taken.tally.damaged, 0);
    let own = of_this_thread(&taken.accesses);
    let pages = own.iter().filter(|access| range.contains(&access.address));
    let mut pages: Vec<u64> = pages.map(|access| access.address / PAGE as u64).collect();
    pages.sort_unstable();
    pages.dedup();
    // On a busy machine the ring may have been full for a part.
    let all = 100 - taken.tally.lost.min(100) as usize;
    assert!(
        pages.len() >= all,
        "{} of 100, {:?}",
        pages.len(),
        taken.tally
    );
    for access in own {
        assert_eq!((access.served, access.weight), (Served::Unknown, 1));
    }
}

#[test]
fn lost_faults_are_counted_and_the_period_grows() {
    let Some(mut sampler) = sampler(Duration::from_millis(100)) else {
        return;
    };
    sampler.take();
    let (mut lost, mut most) = (0, 0);
    for _ in 0..6 {
        touch(20_000);
        // The kernel says what was lost with the next sample that finds room.
        let taken = sampler.take();
        lost += taken.tally.lost;
        most = most.max(taken.accesses.len());
        assert_eq!(taken.tally.damaged, 0);
    }
    let cpus = std::thread::available_parallelism().unwrap().get();
    // 16 pages of a ring hold 1,365 samples of 48 bytes.
    assert!(most <= 1400 * cpus, "{most}");
    assert!(lost > 0);
    assert!(sampler.period() > 16, "{}", sampler.period());
    let weighed = |accesses: &[Access]| {
        let own = of_this_thread(accesses).into_iter();
        own.map(|access| access.weight).sum::<u64>()
    };
    // What was lost before is said with the next samples, so the first that fit are not the first taken.
    let mut rounds = (0..20).map(|_| {
        let period = sampler.period();
        touch(20_000);
        (period, sampler.take())
    });
    let (period, taken) = rounds
        .find(|(_, taken)| taken.tally.lost == 0)
        .expect("samples that fit once the period has grown");
    let own = of_this_thread(&taken.accesses);
    // If other programs have very many faults, one sample stands for more than this thread's.
    assert!(
        own.iter().any(|access| access.weight == period) || period > 2_000,
        "{period}: {own:?}"
    );
    // They stand for all of them: the weight says for how many each. The counter of each CPU may be near its next sample.
    let whole = weighed(&taken.accesses);
    let unsure = 10_000 + period * (cpus as u64 + 1);
    assert!(whole.abs_diff(20_000) <= unsure, "{whole}, {period}");
}

#[test]
fn who_may_not_is_told_so_in_one_line() {
    if !is_root() {
        return;
    }
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if level.trim().parse::<i64>().unwrap() <= 0 {
        skip("everybody may sample here");
        return;
    }
    let asked = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        EventSampler::check(&[Event::page_faults()])
    });
    let error = asked.join().unwrap().expect_err("nobody may not");
    assert!(error.is_of_rights(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("perf_event_paranoid is") && !text.contains('\n'),
        "{text}"
    );
    assert!(matches!(EventSampler::check(&[]), Err(PerfError::NoPmu)));
}
