//! NThread's equations on numbers worked by hand.

use crate::common;

use common::{SECOND_NS, key, machine, thread, window};
use egeria_facts::{ThreadFacts, Window};
use egeria_machine::NodeId;
use egeria_policy::nthread::{Configuration, Settings, plan};
use egeria_policy::{Plan, Reason};

const MB: u64 = 1_000_000;

/// What the four threads of [`four_rw80`] read together.
const READS_MB_S: f64 = 4.0 * 886.4;

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * other.abs().max(1.0)
}

fn full(window: &Window) -> Plan {
    plan(&machine(window.nodes.len()), window, &Settings::default())
}

/// A window on two nodes.
fn two(threads: Vec<ThreadFacts>) -> Window {
    window(&machine(2), threads)
}

fn reader(number: u32, node: usize, read_mb: [u64; 2]) -> ThreadFacts {
    thread(
        &machine(2),
        number,
        node,
        &read_mb.map(|mb| mb * MB),
        0,
        0.2,
    )
}

#[test]
fn initial_target_needs_the_whole_margin_over_every_other_node() {
    let goes = |read_mb| !full(&two(vec![reader(1, 1, read_mb)])).moves.is_empty();
    assert!(goes([200, 0]), "exactly 200 MB/s more is enough");
    assert!(!goes([199, 0]));
    assert!(goes([1200, 1000]));
    assert!(!goes([1199, 1000]));
    let three = machine(3);
    let spread = thread(&three, 1, 1, &[900 * MB, 100 * MB, 750 * MB], 0, 0.2);
    let moves = full(&window(&three, vec![spread])).moves;
    assert!(moves.is_empty(), "node 2 is too close behind node 0");
}

#[test]
fn margin_is_per_second_whatever_the_length_of_the_window() {
    for (duration_ns, read_bytes, goes) in [
        (SECOND_NS / 10, 20 * MB, true),
        (SECOND_NS / 10, 19 * MB, false),
        (SECOND_NS * 10, 2000 * MB, true),
        (SECOND_NS * 10, 1990 * MB, false),
    ] {
        let mut window = two(vec![thread(&machine(2), 1, 1, &[read_bytes], 0, 0.0)]);
        window.duration_ns = duration_ns;
        assert_eq!(
            !full(&window).moves.is_empty(),
            goes,
            "{read_bytes} in {duration_ns}"
        );
    }
}

#[test]
fn eq_1_weighs_reads_by_a_third() {
    // The slides' two cases: 1 GB/s of each is little, 2 GB/s of writes alone are much.
    let mixed = thread(&machine(2), 1, 0, &[1000 * MB], 1000 * MB, 0.5);
    let writing = thread(&machine(2), 1, 0, &[], 2000 * MB, 0.5);
    let load = |facts| full(&two(vec![facts])).measured[0].pm_bytes_s;
    assert!(close(load(mixed), 1000e6 / 3.0 + 1000e6));
    assert!(close(load(writing), 2000e6));
}

#[test]
fn maximum_of_one_dimm_is_a_third_of_its_reads() {
    let maximum = full(&two(Vec::new())).measured[0].pm_maximum_bytes_s;
    assert!(close(maximum.expect("declared"), 6.8e9 / 3.0));
}

/// Four rw80 threads of fio as a saturated DIMM of `optane-2s` serves them: 4 KiB need
/// 0.8 * 602 + 0.2 * 2214 = 924 ns of it, so each thread moves 1108 MB/s, 222 MB/s of that
/// written. `BW_0` = 3546/3 + 887 = 2069 MB/s, above 0.8 * 2267 = 1813.
fn four_rw80() -> Window {
    let facts = |number| thread(&machine(2), number, 0, &[886_400_000], 221_600_000, 1.0);
    two((1..=4).map(facts).collect())
}

#[test]
fn pm_contention_sheds_writers_until_it_is_over() {
    let plan = full(&four_rw80());
    assert_eq!(plan.pm_contended, Some(NodeId(0)));
    // 2069 - 222 = 1847 is still above 1813, 1626 is not. Eq. 4 alone would let all four go.
    let movers: Vec<_> = plan.moves.iter().map(|each| each.thread).collect();
    assert_eq!(movers, [key(1), key(2)]);
    assert!(close(
        plan.expected[0].pm_bytes_s,
        READS_MB_S / 3.0 * 1e6 + 443_200_000.0
    ));
    assert!(close(plan.expected[1].pm_bytes_s, 443_200_000.0));
}

#[test]
fn eqs_2_to_4_are_accounted_for_each_move() {
    let plan = full(&four_rw80());
    let average = (READS_MB_S / 3.0 * 1e6 + 886_400_000.0) / 2.0;
    for (step, (source, target)) in plan.moves.iter().zip([
        (2.0 * average, 0.0),
        (2.0 * average - 221_600_000.0, 221_600_000.0),
    ]) {
        let Reason::PmContention {
            pm_bytes_s,
            maximum_bytes_s,
            average_bytes_s,
            shed_bytes_s,
            room_bytes_s,
            written_bytes_s,
            write_ratio,
            ..
        } = &step.reason
        else {
            panic!("{step}");
        };
        assert!(close(*pm_bytes_s, source) && close(*average_bytes_s, average));
        assert!(close(*maximum_bytes_s, 6.8e9 / 3.0) && close(*written_bytes_s, 221_600_000.0));
        assert!(close(*shed_bytes_s, source - average), "Eq. 3");
        assert!(close(*room_bytes_s, target - average), "Eq. 3");
        assert!(room_bytes_s + written_bytes_s <= 0.0, "Eq. 4");
        assert!(close(*write_ratio, 0.2), "Eq. 2");
    }
}

#[test]
fn highest_write_ratio_leaves_first_then_the_larger_writer() {
    let facts = |number, read_mb, written_mb| {
        thread(
            &machine(2),
            number,
            0,
            &[read_mb * MB],
            written_mb * MB,
            0.2,
        )
    };
    let threads = vec![
        facts(1, 3000, 300),
        facts(2, 100, 100),
        facts(3, 200, 200),
        facts(4, 1000, 200),
    ];
    // BW_0 = 4300/3 + 800 = 2233; 2233 - 200 = 2033, - 100 = 1933, - 200 = 1733.
    let order: Vec<_> = [3, 2, 4].map(key).into();
    let plan = full(&two(threads));
    let mut moves = plan.moves.clone();
    moves.sort_by(|one, other| shed(&other.reason).total_cmp(&shed(&one.reason)));
    assert_eq!(
        moves.iter().map(|each| each.thread).collect::<Vec<_>>(),
        order
    );
}

fn shed(reason: &Reason) -> f64 {
    match reason {
        Reason::PmContention { shed_bytes_s, .. } => *shed_bytes_s,
        other => panic!("{other}"),
    }
}

#[test]
fn eq_4_keeps_a_writer_that_no_node_has_room_for() {
    // BW_0 = 1900, mean 950: a writer of 1000 would only carry the contention over.
    let facts = |number, written_mb| thread(&machine(2), number, 0, &[], written_mb * MB, 0.2);
    let plan = full(&two(vec![facts(1, 1000), facts(2, 900)]));
    let movers: Vec<_> = plan.moves.iter().map(|each| each.thread).collect();
    assert_eq!(movers, [key(2)]);
    assert!(
        plan.kept(key(1))
            .is_some_and(|kept| kept.to_string().contains("room"))
    );
}

#[test]
fn pm_contention_needs_every_other_node_below_half() {
    let facts =
        |number, node, written_mb| thread(&machine(3), number, node, &[], written_mb * MB, 0.2);
    let contended = |other_mb| {
        let threads = vec![facts(1, 0, 1900), facts(2, 1, other_mb)];
        full(&window(&machine(3), threads)).pm_contended
    };
    assert_eq!(contended(949), Some(NodeId(0)));
    assert_eq!(contended(950), None);
}

#[test]
fn pm_contention_needs_more_than_the_limit() {
    let contended = |written| full(&two(vec![thread(&machine(2), 1, 0, &[], written, 0.2)]));
    assert_eq!(contended(1_813_333_333).pm_contended, None);
    assert_eq!(contended(1_813_333_334).pm_contended, Some(NodeId(0)));
}

#[test]
fn eq_6_divides_running_time_by_all_cores() {
    let plan = full(&two(vec![thread(&machine(2), 1, 0, &[], MB, 0.5)]));
    assert!(close(plan.measured[0].cpu_share, 0.5 / 4.0));
}

#[test]
fn eq_5_limits_what_a_node_takes() {
    let facts = |number, node, busy| thread(&machine(2), number, node, &[], 2 * MB, busy);
    let mut threads: Vec<_> = (1..=8).map(|number| facts(number, 0, 0.5)).collect();
    threads.push(facts(9, 1, 1.0));
    let lower = |limit: &str| {
        let mut settings = Settings::default();
        settings.set("cpu_limit", limit).expect("in range");
        plan(&machine(2), &two(threads.clone()), &settings)
    };
    // Node 1 has 0.25; each thread needs 0.125; the gap of 0.75 closes with three moves.
    assert_eq!(lower("0.9").moves.len(), 3);
    assert!(close(lower("0.9").expected[1].cpu_share, 0.625));
    // 0.25 + 0.125 + 0.125 is 0.5.
    assert_eq!(lower("0.5").moves.len(), 2);
    assert_eq!(lower("0.49").moves.len(), 1);
}

#[test]
fn cpu_contention_needs_the_limit_and_twice_the_others() {
    let facts = |number, node, busy| thread(&machine(2), number, node, &[], 2 * MB, busy);
    let contended = |here: f64, there: f64| {
        let mut threads: Vec<_> = (1..=8).map(|number| facts(number, 0, here)).collect();
        threads.push(facts(9, 1, there));
        threads.push(facts(10, 1, there));
        full(&two(threads)).cpu_contended
    };
    assert_eq!(contended(0.5, 0.5), Some(NodeId(0)), "1.0 beside 0.25");
    assert_eq!(
        contended(0.5, 1.0),
        Some(NodeId(0)),
        "1.0 beside 0.5: at least twice"
    );
    assert_eq!(contended(0.499, 1.0), None, "0.998 beside 0.5");
    assert_eq!(contended(0.45, 0.1), None, "0.9 is not more than the limit");
    assert_eq!(contended(0.46, 0.1), Some(NodeId(0)));
}

#[test]
fn threads_without_target_leave_first() {
    let facts = |number, read_mb: [u64; 2]| {
        thread(&machine(2), number, 0, &read_mb.map(|mb| mb * MB), 0, 0.5)
    };
    let mut threads: Vec<_> = (1..=6).map(|number| facts(number, [300, 0])).collect();
    threads.push(facts(7, [250, 0]));
    threads.push(facts(8, [400, 390]));
    threads.push(facts(9, [260, 0]));
    threads.push(facts(10, [240, 0]));
    let plan = full(&two(threads));
    let movers: Vec<_> = plan
        .moves
        .iter()
        .map(|each| each.thread.thread_id)
        .collect();
    // Five of ten: the gap closes. 8 has no target; 10, 7 and 9 read least; then the first.
    assert_eq!(movers, [1, 7, 8, 9, 10]);
}

#[test]
fn configurations_are_those_of_table_2() {
    let stages = |configuration: Configuration| {
        let stages = configuration.stages();
        [stages.remote, stages.cpu, stages.pm, stages.sharing]
    };
    assert_eq!(stages(Configuration::Off), [false, false, false, false]);
    assert_eq!(stages(Configuration::Rl), [true, false, false, false]);
    assert_eq!(stages(Configuration::Cpu), [true, true, false, false]);
    assert_eq!(stages(Configuration::Nm), [true, true, true, false]);
    assert_eq!(stages(Configuration::Full), [true, true, true, true]);
}
