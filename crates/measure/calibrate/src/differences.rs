//! A machine as its file says it beside what was found by measuring it: figures, each by what accesses make of both.

use egeria_machine::costs::{Access, AccessCosts, Beside, Pattern};
use egeria_machine::curves::thread_counts;
use egeria_machine::fair::{Flow, max_min_shares};
use egeria_machine::{AccessKind, Machine, Paths, format_bandwidth};
use serde::Serialize;

use crate::{STREAM_BYTES, WORD_BYTES};

/// A queue is seen where threads can have so many times as many lines on their way.
const VISIBLE: f64 = 3.0;

/// One figure. What only one of both has is 0 in the other.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// What it is of, in words.
    pub what: String,
    /// As the file says it.
    pub declared: f64,
    /// As it was measured.
    pub measured: f64,
}

impl Difference {
    /// What it is, the file's figure, the measured one and how far apart they are, for people.
    pub fn cells(&self) -> [String; 4] {
        let shown = |value: f64| {
            if self.what.ends_with("bytes/s") {
                format_bandwidth(value)
            } else {
                format!("{value:.1}")
            }
        };
        [
            self.what.clone(),
            shown(self.declared),
            shown(self.measured),
            format!("{:.1} %", 100.0 * self.distance()),
        ]
    }

    /// How far apart they are, as a share of what the file says; infinite where that is nothing.
    pub fn distance(&self) -> f64 {
        if self.declared == self.measured {
            0.0
        } else {
            (self.measured / self.declared - 1.0).abs()
        }
    }
}

/// All figures that measuring can tell. Both machines have the same nodes, and each node the same memories in the same order; of
/// those that only one machine has nothing is said.
pub fn differences(declared: &Machine, found: &Machine) -> Vec<Difference> {
    let both = of_both(declared, found);
    let mut all = Vec::new();
    for place in 0..both[0].places.len() {
        all.extend(of_memory(declared, &both, place));
    }
    for (node, cores) in both[0].cores.iter().enumerate() {
        if *cores > 0 && both.iter().all(|costs| costs.caches[node].is_some()) {
            let name = format!("cache of node {}", declared.nodes[node].id.0);
            let latency_ns = |costs: &AccessCosts| costs.cached_ns(node, 0);
            let read_bytes_s = |costs: &AccessCosts| {
                STREAM_BYTES as f64 / costs.cached_ns(node, STREAM_BYTES) * 1e9
            };
            all.push(difference(
                format!("{name}, latency, ns"),
                &both,
                latency_ns,
            ));
            all.push(difference(
                format!("{name}, one thread, bytes/s"),
                &both,
                read_bytes_s,
            ));
        }
    }
    all.extend(of_queues(declared, &both));
    if let (Some(of_file), Some(of_found)) = (&both[0].paths, &both[1].paths) {
        all.extend(of_links(declared, [of_file, of_found], &both));
    }
    all
}

/// Of each node only as many memories as both have, so that the same position is the same memory: an emulated node may have more
/// than a file holds of what was found.
fn of_both(declared: &Machine, found: &Machine) -> [AccessCosts; 2] {
    let mut both = [declared, found].map(AccessCosts::of);
    let counts = [&both[0], &both[1]].map(|costs| {
        let mut counts = vec![0; costs.cores.len()];
        costs
            .places
            .iter()
            .for_each(|place| counts[place.node] += 1);
        counts
    });
    for costs in &mut both {
        let mut left: Vec<usize> = (counts[0].iter().zip(&counts[1]))
            .map(|(one, other)| *one.min(other))
            .collect();
        costs.places.retain(|place| {
            let is_left = left.get(place.node).is_some_and(|left| *left > 0);
            if is_left {
                left[place.node] -= 1;
            }
            is_left
        });
    }
    both
}

fn difference(
    what: String,
    both: &[AccessCosts; 2],
    figure: impl Fn(&AccessCosts) -> f64,
) -> Difference {
    let [declared, measured] = [&both[0], &both[1]].map(figure);
    Difference {
        what,
        declared,
        measured,
    }
}

/// What one memory gives: the node's own threads by their number, and one thread and all threads of each other node.
fn of_memory(machine: &Machine, both: &[AccessCosts; 2], place: usize) -> Vec<Difference> {
    let (node, kind) = {
        let place = &both[0].places[place];
        (place.node, place.memory.kind.name())
    };
    let id = machine.nodes[node].id.0;
    let mut all = Vec::new();
    let is_local = both[0].cores[node] > 0;
    let counts = thread_counts(both[0].cores[node] as usize);
    for (operation, written_share) in [("read", 0.0), ("written", 1.0), ("mixed", 0.5)] {
        for &threads in counts.iter().filter(|_| is_local) {
            all.push(difference(
                format!("{kind} of node {id}, {operation} by {threads} of its threads, bytes/s"),
                both,
                |costs| bandwidth(costs, (node, place), threads, written_share),
            ));
        }
    }
    for (home, cores) in both[0].cores.iter().enumerate() {
        if *cores == 0 {
            continue;
        }
        let from = machine.nodes[home].id.0;
        all.push(difference(
            format!("{kind} of node {id}, a load from node {from}, ns"),
            both,
            |costs| alone_ns(costs, &word(AccessKind::Read, home, place)),
        ));
        if home != node {
            let threads = *cores as usize;
            for (operation, written_share) in [("read", 0.0), ("written", 1.0)] {
                for threads in if threads > 1 {
                    vec![1, threads]
                } else {
                    vec![1]
                } {
                    all.push(difference(
                        format!("{kind} of node {id}, {operation} by {threads} threads of node {from}, bytes/s"),
                        both,
                        |costs| {
                            let way = if written_share > 0.0 {
(home, node)
} else {
(node, home)
};
                            let link = costs.paths.as_ref().map(|paths| paths.widest_bytes_s(way.0, way.1));
                            bandwidth(costs, (home, place), threads, written_share)
                                .min(link.unwrap_or(f64::INFINITY))
                        },
                    ));
                }
            }
        } else {
            all.push(difference(
                format!("{kind} of node {id}, a non-temporal store, ns"),
                both,
                |costs| alone_ns(costs, &word(AccessKind::Write, home, place)),
            ));
        }
    }
    all
}

fn word(kind: AccessKind, home: usize, place: usize) -> Access {
    Access {
        kind,
        home,
        place,
        bytes: WORD_BYTES,
        pattern: Pattern::Random,
        at_once: false,
    }
}

/// How long one access after the other takes, ns: the medium may be busy with the one before for longer than that one took.
fn alone_ns(costs: &AccessCosts, access: &Access) -> f64 {
    let access_ns = costs.access_ns(access, 1.0, 0.0);
    access_ns.max(costs.service_ns(access, Beside::ALONE))
}

/// What so many threads of a node get of a memory by streams, bytes/s.
fn bandwidth(
    costs: &AccessCosts,
    (home, place): (usize, usize),
    threads: usize,
    written_share: f64,
) -> f64 {
    let accessors = threads as f64;
    let beside = Beside {
        accessors,
        written_share,
        ..Beside::ALONE
    };
    let (mut access_ns, mut service_ns) = (0.0, 0.0);
    for (kind, share) in [
        (AccessKind::Read, 1.0 - written_share),
        (AccessKind::Write, written_share),
    ] {
        let access = Access {
            bytes: STREAM_BYTES,
            pattern: Pattern::Sequential,
            at_once: true,
            ..word(kind, home, place)
        };
        access_ns += share * costs.access_ns(&access, accessors, 0.0);
        service_ns += share * costs.service_ns(&access, beside);
    }
    let each_ns = access_ns.max(service_ns);
    accessors * STREAM_BYTES as f64 / each_ns.max(accessors * service_ns) * 1e9
}

/// Queues that the threads of a node can fill, in lines, and grains.
fn of_queues(machine: &Machine, both: &[AccessCosts; 2]) -> Vec<Difference> {
    let mut all = Vec::new();
    for (index, place) in both[0].places.iter().enumerate() {
        let found = &both[1].places[index];
        let (id, kind) = (machine.nodes[place.node].id.0, place.memory.kind.name());
        all.push(Difference {
            what: format!("{kind} of node {id}, granularity, bytes"),
            declared: place.memory.granularity_bytes as f64,
            measured: found.memory.granularity_bytes as f64,
        });
        let lines = |costs: &AccessCosts, queues: &[usize]| {
            let lines = queues.iter().map(|queue| costs.queue_lines[*queue]);
            lines.fold(f64::INFINITY, f64::min)
        };
        let (declared, measured) = (
            lines(&both[0], &place.queues),
            lines(&both[1], &found.queues),
        );
        let shares_it = (both[0].places.iter().enumerate()).any(|(other, of)| {
            other != index && of.queues.iter().any(|queue| place.queues.contains(queue))
        });
        let cores = f64::from(both[0].cores[place.node]);
        let most = f64::from(place.memory.lines_in_flight(AccessKind::Write)) * (cores - 1.0);
        if shares_it && (measured.is_finite() || most > VISIBLE * declared) {
            all.push(Difference {
                what: format!("{kind} of node {id}, queue of its controller, lines"),
                declared,
                measured: if measured.is_finite() { measured } else { 0.0 },
            });
        }
    }
    all
}

/// What each link carries, what each way does, and each two ways at once: as far as memories and CPUs at their ends can show it.
fn of_links(machine: &Machine, paths: [&Paths; 2], both: &[AccessCosts; 2]) -> Vec<Difference> {
    let id = |node: usize| machine.nodes[node].id.0;
    let nodes = machine.nodes.len();
    let shown: Vec<f64> = (0..nodes * nodes)
        .map(|way| most_shown(&both[0], way / nodes, way % nodes))
        .collect();
    let most = |way: (usize, usize)| shown[way.0 * nodes + way.1];
    let carried = |paths: &Paths, way: (usize, usize)| {
        let mut lanes = paths.lanes.iter();
        let lane = lanes.find(|lane| (lane.from, lane.to) == way);
        lane.map_or(0.0, |lane| lane.bytes_s.min(most(way)))
    };
    let ways = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    let ways: Vec<(usize, usize)> = ways.filter(|way| most(*way) > 0.0).collect();
    let mut all = Vec::new();
    for &way in &ways {
        let (from, to) = (id(way.0), id(way.1));
        let [declared, measured] = paths.map(|paths| carried(paths, way));
        if declared > 0.0 || measured > 0.0 {
            all.push(Difference {
                what: format!("link from node {from} to node {to}, bytes/s"),
                declared,
                measured,
            });
        }
        let [declared, measured] =
            paths.map(|paths| paths.widest_bytes_s(way.0, way.1).min(most(way)));
        all.push(Difference {
            what: format!("way from node {from} to node {to}, bytes/s"),
            declared,
            measured,
        });
    }
    for (at, one) in ways.iter().enumerate() {
        for other in &ways[at + 1..] {
            let [declared, measured] =
                paths.map(|paths| together(paths, [*one, *other], [most(*one), most(*other)]));
            all.push(Difference {
                what: format!(
                    "ways from node {} to {} and from {} to {} at once, bytes/s",
                    id(one.0),
                    id(one.1),
                    id(other.0),
                    id(other.1)
                ),
                declared,
                measured,
            });
        }
    }
    all
}

/// The most that could go from one node to another if no link were in between: read there, or written from here, bytes/s.
fn most_shown(costs: &AccessCosts, from: usize, to: usize) -> f64 {
    if from == to {
        return 0.0;
    }
    let places = costs.places.iter().enumerate();
    let carried = places.map(|(place, of)| match of.node {
        node if node == from && costs.cores[to] > 0 => {
            bandwidth(costs, (to, place), costs.cores[to] as usize, 0.0)
        }
        node if node == to && costs.cores[from] > 0 => {
            bandwidth(costs, (from, place), costs.cores[from] as usize, 1.0)
        }
        _ => 0.0,
    });
    carried.fold(0.0, f64::max)
}

/// What two ways carry at once, as far as links are concerned, and at most so much each, bytes/s.
fn together(paths: &Paths, ways: [(usize, usize); 2], most: [f64; 2]) -> f64 {
    let capacities: Vec<f64> = paths.lanes.iter().map(|lane| lane.bytes_s).collect();
    let flow = |at: usize| Flow {
        uses: (paths.way(ways[at].0, ways[at].1).iter())
            .map(|lane| (*lane, 1.0))
            .collect(),
        most: most[at],
        weight: 1.0,
    };
    max_min_shares(&capacities, &[0, 1].map(flow)).iter().sum()
}
