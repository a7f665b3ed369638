//! Links and routes: the way data takes, and what files may not say of it.

use egeria_machine::Machine;
use proptest::prelude::*;

fn file(nodes: u16, links: &str) -> String {
    let nodes = (0..nodes).map(|id| format!("[[nodes]]\nid = {id}\ncpus = \"{id}\"\n"));
    let nodes: String = nodes.collect();
    format!("name = \"linked\"\n{nodes}{links}")
}

fn link(from: u16, to: u16, bytes_s: f64, back: f64) -> String {
    let back = match back {
        0.0 => String::new(),
        back => format!("back_bytes_s = {back:?}\n"),
    };
    format!("[[links]]\nfrom = {from}\nto = {to}\nbytes_s = {bytes_s:?}\n{back}")
}

fn machine(nodes: u16, links: &str) -> Machine {
    Machine::from_toml(&file(nodes, links), "linked.toml".as_ref()).unwrap()
}

/// The nodes on the way, ends included.
fn stops(machine: &Machine, from: usize, to: usize) -> Vec<usize> {
    let paths = machine.paths().unwrap().unwrap();
    let lanes = paths.way(from, to).iter().map(|lane| paths.lanes[*lane]);
    [from]
        .into_iter()
        .chain(lanes.map(|lane| lane.to))
        .collect()
}

#[test]
fn data_takes_the_fewest_links_then_the_widest() {
    // A square: two ways of two links from 0 to 3, the one over 2 is wider at its narrowest.
    let links = [
        link(0, 1, 9e9, 9e9),
        link(1, 3, 2e9, 2e9),
        link(0, 2, 4e9, 4e9),
        link(2, 3, 3e9, 3e9),
    ];
    let machine = machine(4, &links.concat());
    let paths = machine.paths().unwrap().unwrap();
    assert_eq!(stops(&machine, 0, 3), [0, 2, 3]);
    assert_eq!(stops(&machine, 0, 2), [0, 2]);
    assert_eq!(paths.widest_bytes_s(0, 3), 3e9);
    assert!(paths.widest_bytes_s(1, 1).is_infinite());
}

#[test]
fn of_equally_wide_ways_the_one_of_first_nodes_is_taken() {
    // To 3 the way over 2 is wider; to 4 both carry what the last link does.
    let links = [
        link(0, 1, 5e9, 5e9),
        link(1, 3, 5e9, 5e9),
        link(0, 2, 9e9, 9e9),
        link(2, 3, 9e9, 9e9),
        link(3, 4, 1e9, 1e9),
    ];
    let machine = machine(5, &links.concat());
    assert_eq!(stops(&machine, 0, 3), [0, 2, 3]);
    assert_eq!(stops(&machine, 0, 4), [0, 1, 3, 4]);
    assert_eq!(stops(&machine, 4, 0), [4, 3, 1, 0]);
}

#[test]
fn a_one_way_link_carries_data_one_way() {
    let links = [
        link(0, 1, 4e9, 0.0),
        link(0, 2, 4e9, 4e9),
        link(1, 2, 2e9, 2e9),
    ];
    let machine = machine(3, &links.concat());
    assert_eq!(stops(&machine, 0, 1), [0, 1]);
    assert_eq!(stops(&machine, 1, 0), [1, 2, 0]);
}

#[test]
fn a_route_in_the_file_is_taken_instead() {
    let links = [
        link(0, 1, 4e9, 4e9),
        link(1, 2, 4e9, 4e9),
        link(0, 2, 4e9, 4e9),
    ];
    let route = "[[routes]]\nfrom = 0\nto = 2\nvia = [1]\n";
    let machine = machine(3, &(links.concat() + route));
    assert_eq!(stops(&machine, 0, 2), [0, 1, 2]);
    assert_eq!(stops(&machine, 2, 0), [2, 0]);
}

#[test]
fn latencies_add_up_on_the_way() {
    let slow = |text: String| text + "latency_ns = 40.0\n";
    let links = [slow(link(0, 1, 4e9, 4e9)), slow(link(1, 2, 4e9, 4e9))];
    let paths = machine(3, &links.concat()).paths().unwrap().unwrap();
    assert_eq!(paths.latency_ns(0, 2), 80.0);
    assert_eq!(paths.latency_ns(0, 0), 0.0);
}

#[test]
fn a_machine_without_links_has_no_paths() {
    assert_eq!(machine(2, "").paths().unwrap(), None);
}

#[test]
fn a_written_file_reads_back_with_its_links() {
    let route = "[[routes]]\nfrom = 0\nto = 2\nvia = [1]\n";
    let links = [
        link(0, 1, 4e9, 3e9),
        link(1, 2, 4e9, 4e9),
        link(0, 2, 4e9, 4e9),
    ];
    let machine = machine(3, &(links.concat() + route));
    let again = Machine::from_toml(&machine.to_toml(), "linked.toml".as_ref()).unwrap();
    assert_eq!(again, machine);
}

#[test]
fn the_picture_names_the_links() {
    let links = [
        link(0, 1, 4e9, 3e9),
        link(1, 2, 4e9, 4e9),
        link(2, 0, 1e9, 0.0),
    ];
    let picture = machine(3, &links.concat()).picture();
    for line in [
        "0 to 1: 4.00 GB/s, back 3.00 GB/s",
        "1 to 2: 4.00 GB/s, both ways",
        "2 to 0: 1.00 GB/s, one way",
    ] {
        assert!(picture.contains(line), "{picture}");
    }
}

#[test]
fn links_that_make_no_sense_get_one_line_with_key_and_hint() {
    let ring = [link(0, 1, 4e9, 4e9), link(1, 2, 4e9, 4e9)].concat();
    let route = |via: &str| format!("{ring}[[routes]]\nfrom = 0\nto = 2\nvia = [{via}]\n");
    let cases = [
        (
            link(0, 1, 4e9, 4e9),
            "links: no way leads from node 0 to node 2",
        ),
        (
            link(0, 1, 4e9, 0.0) + &link(1, 2, 4e9, 4e9),
            "links: no way leads from node 1 to node 0",
        ),
        (link(0, 9, 4e9, 4e9), "links[0].to: there is no node 9"),
        (
            link(1, 1, 4e9, 4e9),
            "links[0]: it leads from node 1 to itself",
        ),
        (link(0, 1, 0.0, 4e9), "links[0].bytes_s: 0"),
        (
            link(0, 1, f64::NAN, 4e9).replace("NaN", "nan"),
            "links[0].bytes_s: NaN",
        ),
        (link(0, 1, 4e9, -1.0), "links[0].back_bytes_s: -1"),
        (
            ring.clone() + &link(1, 0, 4e9, 0.0),
            "links[2]: a second link from 1 to 0",
        ),
        (route("1, 1"), "routes[0]: it comes to node 1 twice"),
        (route("1, 0"), "routes[0]: it comes to node 0 twice"),
        (route(""), "routes[0]: no link leads from node 0 to 2"),
        (route("7"), "routes[0].via: there is no node 7"),
        (
            route("1") + &route("1").replace(&ring, ""),
            "routes[1]: a second route from 0 to 2",
        ),
        (
            "[[routes]]\nfrom = 0\nto = 2\n".to_owned(),
            "routes: there are no links for them",
        ),
        (ring + "width = 16\n", "unknown field `width`"),
    ];
    for (links, expected) in cases {
        let error = Machine::from_toml(&file(3, &links), "linked.toml".as_ref()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{text}\nfor {expected}");
        assert!(!text.contains('\n') && text.contains("; "), "{text}");
    }
}

proptest! {
    /// Whatever the links, every way leads where it should over links that are there, by the fewest.
    #[test]
    fn ways_lead_from_one_node_to_the_other(
        nodes in 2u16..8,
        chosen in prop::collection::vec((0u16..8, 0u16..8, 1u32..4, 0u32..4), 1..24),
    ) {
        let mut seen = std::collections::HashSet::new();
        let mut links = String::new();
        for (from, to, bytes, back) in chosen {
            if from < nodes && to < nodes && from != to
                && !seen.contains(&(from, to)) && !seen.contains(&(to, from))
            {
                seen.insert((from, to));
                links += &link(from, to, f64::from(bytes), f64::from(back));
            }
        }
        let Ok(machine) = Machine::from_toml(&file(nodes, &links), "linked.toml".as_ref()) else {
            return Ok(());
        };
        let Some(paths) = machine.paths().unwrap() else { return Ok(()) };
        let nodes = usize::from(nodes);
        // Floyd and Warshall's distances.
        let mut hops = vec![vec![usize::MAX / 2; nodes]; nodes];
        for lane in &paths.lanes {
            hops[lane.from][lane.to] = 1;
        }
        for middle in 0..nodes {
            for from in 0..nodes {
                for to in 0..nodes {
                    hops[from][to] = hops[from][to].min(hops[from][middle] + hops[middle][to]);
                }
            }
        }
        for (from, row) in hops.iter().enumerate() {
            for (to, fewest) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                let way = paths.way(from, to);
                prop_assert_eq!(way.len(), *fewest);
                let mut here = from;
                for lane in way {
                    prop_assert_eq!(paths.lanes[*lane].from, here);
                    here = paths.lanes[*lane].to;
                }
                prop_assert_eq!(here, to);
            }
        }
    }
}
