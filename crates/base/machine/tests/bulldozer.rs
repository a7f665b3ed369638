//! AsymSched's machines say what the paper's text says of them.

use egeria_machine::{Machine, Paths};

fn machine(name: &str) -> (Machine, Paths) {
    let machine = Machine::profile(name).expect("it ships with Egeria");
    let paths = machine.paths().expect("it was read").expect("it has links");
    (machine, paths)
}

/// The nodes on the way, ends included.
fn stops(paths: &Paths, from: usize, to: usize) -> Vec<usize> {
    let lanes = paths.way(from, to).iter().map(|lane| paths.lanes[*lane].to);
    [from].into_iter().chain(lanes).collect()
}

/// The nodes whose data crosses the link between two nodes, either way.
fn users(paths: &Paths, nodes: usize, link: (usize, usize)) -> Vec<usize> {
    let crosses = |from: usize, to: usize| {
        let lanes = paths.way(from, to).iter().map(|lane| paths.lanes[*lane]);
        let mut ends = lanes.map(|lane| (lane.from.min(lane.to), lane.from.max(lane.to)));
        ends.any(|ends| ends == link)
    };
    let uses =
        |node: &usize| (0..nodes).any(|other| crosses(*node, other) || crosses(other, *node));
    (0..nodes).filter(uses).collect()
}

fn has_link(paths: &Paths, from: usize, to: usize) -> bool {
    paths.way(from, to).len() == 1
}

/// §1, §3, §5.1.
#[test]
fn nodes_and_cores_are_the_papers() {
    for (name, nodes, cores) in [
        ("bulldozer-8n", 8, 64),
        ("bulldozer-b", 8, 48),
        ("bulldozer-c", 4, 24),
        ("bulldozer-d", 4, 16),
    ] {
        let (machine, _) = machine(name);
        let all: usize = machine.nodes.iter().map(|node| node.cpus.len()).sum();
        assert_eq!((machine.nodes.len(), all), (nodes, cores), "{name}");
        assert!(!machine.is_emulated(), "{name} is a real machine");
    }
    let (machine, _) = machine("bulldozer-8n");
    let bytes: u64 = machine.nodes.iter().map(|node| node.memory_bytes).sum();
    assert_eq!(bytes, 256 << 30);
}

/// §1 (claims A01 and A02).
#[test]
fn node_7_writes_4_gb_s_to_node_3_and_reads_2_by_way_of_node_2() {
    for name in ["bulldozer-8n", "bulldozer-b"] {
        let (_, paths) = machine(name);
        assert_eq!(stops(&paths, 7, 3), [7, 3], "{name}");
        assert_eq!(stops(&paths, 3, 7), [3, 2, 7], "{name}");
        assert_eq!(paths.widest_bytes_s(7, 3), 4e9, "{name}");
        assert_eq!(paths.widest_bytes_s(3, 7), 2e9, "{name}");
    }
}

/// §1: link 4-3 belongs to its ends, link 2-3 is shared by six.
#[test]
fn links_are_shared_as_in_the_paper() {
    for name in ["bulldozer-8n", "bulldozer-b"] {
        let (_, paths) = machine(name);
        assert_eq!(users(&paths, 8, (3, 4)), [3, 4], "{name}");
        assert_eq!(users(&paths, 8, (2, 3)), [0, 1, 2, 3, 6, 7], "{name}");
    }
}

/// §1 (claim A03): of a 16-bit link, the fast side of a 16/8-bit one has 3/4, the slow one what 8 bits have.
#[test]
fn widths_have_the_papers_ratios() {
    let (machine, _) = machine("bulldozer-8n");
    let links = &machine.interconnect.links;
    let uneven =
        |link: &&egeria_machine::Link| link.back_bytes_s.is_some_and(|back| back != link.bytes_s);
    assert!(links.iter().filter(uneven).count() > 0);
    for link in links.iter().filter(uneven) {
        assert_eq!(
            (link.bytes_s, link.back_bytes_s),
            (0.75 * 4e9, Some(0.5 * 4e9))
        );
    }
}

/// §2: with more than two nodes there is no set with 16-bit links between every two.
#[test]
fn no_three_nodes_are_all_joined_by_16_bits() {
    let (_, paths) = machine("bulldozer-8n");
    let is_wide = |a: usize, b: usize| {
        has_link(&paths, a, b)
            && has_link(&paths, b, a)
            && paths.widest_bytes_s(a, b).min(paths.widest_bytes_s(b, a)) == 4e9
    };
    let pairs = (0..8).flat_map(|a| (a + 1..8).map(move |b| (a, b)));
    let wide: Vec<_> = pairs.filter(|&(a, b)| is_wide(a, b)).collect();
    assert!(!wide.is_empty());
    for (a, b) in wide {
        assert!((0..8).all(|c| !(is_wide(a, c) && is_wide(b, c))), "{a} {b}");
    }
}

/// Caption of Fig. 1.
#[test]
fn two_links_are_one_way_on_a_and_both_ways_on_b() {
    let ((_, a), (_, b)) = (machine("bulldozer-8n"), machine("bulldozer-b"));
    for (from, to) in [(4, 1), (2, 7)] {
        assert!(has_link(&a, from, to) && has_link(&b, from, to));
        assert!(!has_link(&a, to, from) && has_link(&b, to, from));
    }
    let differs = |&(from, to): &(usize, usize)| stops(&a, from, to) != stops(&b, from, to);
    let pairs = (0..8).flat_map(|from| (0..8).map(move |to| (from, to)));
    let changed: Vec<_> = pairs.filter(differs).collect();
    assert_eq!(changed, [(1, 4), (7, 2)], "nothing else takes another way");
}

/// §3.
#[test]
fn c_has_two_slow_links_and_d_lacks_one_of_equal_links() {
    let ((_, c), (_, d)) = (machine("bulldozer-c"), machine("bulldozer-d"));
    let pairs: Vec<_> = (0..4)
        .flat_map(|a| (a + 1..4).map(move |b| (a, b)))
        .collect();
    let joined = |paths: &Paths| -> Vec<(usize, usize)> {
        let both = |&(a, b): &(usize, usize)| has_link(paths, a, b) && has_link(paths, b, a);
        pairs.iter().copied().filter(both).collect()
    };
    assert_eq!(joined(&c), pairs);
    let slow = |&&(a, b): &&(usize, usize)| c.widest_bytes_s(a, b) < 4e9;
    assert_eq!(pairs.iter().filter(slow).count(), 2);
    assert_eq!(joined(&d).len(), pairs.len() - 1);
    assert!(
        d.lanes
            .iter()
            .all(|lane| lane.bytes_s == d.lanes[0].bytes_s)
    );
}

/// §2 (claim A12): a second link adds 80 cycles, 38 ns at 2.1 GHz.
#[test]
fn a_second_link_costs_80_cycles() {
    let (_, paths) = machine("bulldozer-8n");
    let more_ns = paths.latency_ns(3, 7) - paths.latency_ns(7, 3);
    assert!((more_ns * 2.1 - 80.0).abs() < 0.5, "{more_ns}");
}
