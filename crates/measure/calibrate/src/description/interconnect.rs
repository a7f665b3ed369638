//! Links and routes of the machine that was measured.
//!
//! Where flows between nodes were measured two at once, ways that share a wire go over the same link ([`Flows`]). Else, and to nodes
//! without CPUs or memory of their own, a link stands for whatever lies between two nodes.

use std::collections::BTreeMap;

use egeria_machine::curves::{MIN_SHARE, bandwidth, rounded};
use egeria_machine::{Link, Machine, NodeId, Route};
use egeria_stats::statistics::median;

use crate::description::ways::{Both, Flows, Found, Way};
use crate::figures::{Calibration, NodeFlow, Stream};

impl Calibration {
    /// Replaces links and routes.
    pub(crate) fn describe_interconnect(&self, machine: &mut Machine) {
        let found = self.flows(machine).map(|flows| flows.find());
        machine.interconnect.links = self.links(machine, found.as_ref());
        level(&mut machine.interconnect.links);
        machine.interconnect.routes.clear();
        if machine.paths().is_err() {
            // Some node could not be measured from another: nothing is known of all ways then.
            machine.interconnect.links.clear();
        } else if let Some(found) = found {
            machine.interconnect.routes = needed_routes(machine, &found);
            if machine.paths().is_err() {
                // A route over a way that in the end has no link.
                machine.interconnect.routes.clear();
            }
            self.describe_memories(machine, &found);
        }
        self.describe_latencies(machine);
    }

    /// What the memories of nodes give all others together.
    fn describe_memories(&self, machine: &mut Machine, found: &Found) {
        for (node, bytes_s) in &found.memories {
            let node = &mut machine.nodes[*node];
            let of_node = self.memories.iter().enumerate();
            let mut of_node = of_node.filter(|(_, memory)| memory.node == node.id);
            let is_tried = |index: usize| {
                let mut flows = self.pairs.iter().flat_map(|pair| &pair.flows);
                flows.any(|flow| flow.memory == index)
            };
            let Some(position) = of_node.position(|(index, _)| is_tried(index)) else {
                continue;
            };
            if let Some(memory) = node.hardware.memories.get_mut(position) {
                let share = rounded(bytes_s / memory.read_bytes_s).clamp(MIN_SHARE, 1.0);
                let factor = &mut memory.remote_read_bandwidth_factor;
                *factor = factor.min(share);
            }
        }
    }

    /// Gives each link its part of what reads over it take longer: those parts with which all reads are right, as far as
    /// they can be. A read crosses the links to the memory and those back, which may be others.
    fn describe_latencies(&self, machine: &mut Machine) {
        let Ok(Some(paths)) = machine.paths() else {
            return;
        };
        let ids = (machine.interconnect.links.iter())
            .map(|link| (machine.index_of(link.from), machine.index_of(link.to)));
        let ids: Vec<_> = ids.collect();
        let link_of = |lane: &usize| {
            let ends = (Some(paths.lanes[*lane].from), Some(paths.lanes[*lane].to));
            (ids.iter()).position(|link| *link == ends || (link.1, link.0) == ends)
        };
        let reads = self.latencies.iter().filter_map(|far| {
            let memory = self.memories.get(far.memory)?;
            let near = self.nearest(machine, memory.node)?;
            let times = self.remote_times(machine, far.memory, false);
            let near_ns = self.latency(near, far.memory)?.read_ns * times.unwrap_or(1.0);
            let (home, node) = (
                machine.index_of(far.cpu_node)?,
                machine.index_of(memory.node)?,
            );
            let ways = paths.way(home, node).iter().chain(paths.way(node, home));
            let crossed: Vec<usize> = ways.filter_map(link_of).collect();
            let extra_ns = (far.read_ns - near_ns).max(0.0);
            (!crossed.is_empty() && far.cpu_node != near).then_some((crossed, extra_ns))
        });
        let reads: Vec<(Vec<usize>, f64)> = reads.collect();
        let found = parts(&reads, machine.interconnect.links.len());
        for (link, latency_ns) in machine.interconnect.links.iter_mut().zip(found) {
            link.latency_ns = rounded(latency_ns);
        }
    }

    /// Ways between nodes that share what links do not say, in words.
    pub(crate) fn unexplained(&self, machine: &Machine) -> Option<String> {
        let found = self.flows(machine)?.find();
        let [one, other] = *found.unexplained.first()?;
        let name = |(from, to): Way| {
            let id = |node: usize| machine.nodes[node].id.0;
            format!("{} to {}", id(from), id(to))
        };
        Some(format!(
            "traffic between nodes slows each other on {} pairs of ways that have no link in common, as {} and {}; AsymSched will not account for that: repeat on an idle machine",
            found.unexplained.len(),
            name(one),
            name(other)
        ))
    }

    /// What flows got, by positions of nodes; `None` where no pairs were measured.
    fn flows(&self, machine: &Machine) -> Option<Flows> {
        let way = |flow: &NodeFlow| {
            let from = machine.index_of(self.memories.get(flow.memory)?.node)?;
            Some((from, machine.index_of(flow.cpu_node)?))
        };
        let pair = |pair: &crate::figures::Pair| {
            let [one, other] = &pair.flows;
            Some(Both {
                ways: [way(one)?, way(other)?],
                bytes_s: pair.read_bytes_s,
            })
        };
        let both: Vec<Both> = self.pairs.iter().filter_map(pair).collect();
        let mut alone: BTreeMap<Way, f64> = BTreeMap::new();
        for flow in self.pairs.iter().flat_map(|pair| &pair.flows) {
            let is_this = |stream: &&Stream| {
                (stream.cpu_node, stream.memory, stream.threads)
                    == (flow.cpu_node, flow.memory, flow.threads)
            };
            let stream = self.streams.iter().find(is_this);
            if let Some((way, stream)) = way(flow).zip(stream) {
                alone.insert(way, stream.read_bytes_s);
            }
        }
        let most = |is_this: &dyn Fn(&Stream) -> bool| {
            let streams = self.streams.iter().filter(|stream| is_this(stream));
            streams
                .map(|stream| stream.read_bytes_s)
                .fold(0.0, f64::max)
        };
        let ids: Vec<NodeId> = machine.nodes.iter().map(|node| node.id).collect();
        let memory = |id: &NodeId| {
            most(&|stream| {
                self.memories
                    .get(stream.memory)
                    .is_some_and(|each| each.node == *id)
            })
        };
        (!both.is_empty()).then(|| Flows {
            memory_bytes_s: ids.iter().map(memory).collect(),
            cpus_bytes_s: ids
                .iter()
                .map(|id| most(&|stream| stream.cpu_node == *id))
                .collect(),
            alone: alone.into_iter().collect(),
            both,
        })
    }

    /// Links that were found, and one between every two nodes of which nothing was found and one could try.
    fn links(&self, machine: &Machine, found: Option<&Found>) -> Vec<Link> {
        let mut links = Vec::new();
        for (one, from) in machine.nodes.iter().enumerate() {
            for (other, to) in machine.nodes.iter().enumerate().skip(one + 1) {
                let carried = |way: Way, ends: (NodeId, NodeId)| {
                    let most = self.lane_bytes_s(ends.0, ends.1);
                    match found.and_then(|found| found.knows(way)) {
                        Some(carried) => carried.unwrap_or(0.0),
                        None => most,
                    }
                };
                let there = carried((one, other), (from.id, to.id));
                let back = carried((other, one), (to.id, from.id));
                let (from, to, there, back) = if there > 0.0 {
                    (from.id, to.id, there, back)
                } else {
                    (to.id, from.id, back, there)
                };
                if there > 0.0 && (back > 0.0 || found.is_some()) {
                    links.push(Link {
                        from,
                        to,
                        bytes_s: bandwidth(there),
                        back_bytes_s: (back > 0.0).then(|| bandwidth(back)),
                        latency_ns: 0.0,
                    });
                }
            }
        }
        links
    }
}

impl Found {
    /// What the link of a way carries; `Some(None)`: it has none of its own; `None`: nothing was found.
    fn knows(&self, way: Way) -> Option<Option<f64>> {
        let mut links = self.links.iter();
        let mut routes = self.routes.iter();
        match links.find(|(link, _)| *link == way) {
            Some((_, bytes_s)) => Some(Some(*bytes_s)),
            None => routes.any(|(other, _)| *other == way).then_some(None),
        }
    }
}

/// Of the routes that were found, those that data would not take of itself.
fn needed_routes(machine: &Machine, found: &Found) -> Vec<Route> {
    let Ok(Some(paths)) = machine.paths() else {
        return Vec::new();
    };
    let id = |node: usize| machine.nodes[node].id;
    let differs = |(way, via): &&(Way, Vec<usize>)| {
        let lanes = paths
            .way(way.0, way.1)
            .iter()
            .map(|lane| paths.lanes[*lane].to);
        !lanes.eq(via.iter().copied().chain([way.1]))
    };
    let routes = found.routes.iter().filter(differs);
    let route = |(way, via): &(Way, Vec<usize>)| Route {
        from: id(way.0),
        to: id(way.1),
        via: via.iter().map(|node| id(*node)).collect(),
    };
    routes.map(route).collect()
}

/// Links that carry about as much are of one kind: measuring them tells them no closer apart, and placements that are as
/// good as each other must not seem to differ.
fn level(links: &mut [Link]) {
    const SAME: f64 = 1.03;
    let mut widths: Vec<&mut f64> = links
        .iter_mut()
        .flat_map(|link| [Some(&mut link.bytes_s), link.back_bytes_s.as_mut()])
        .flatten()
        .collect();
    widths.sort_by(|one, other| one.total_cmp(other));
    let mut rest = &mut widths[..];
    while let Some(least) = rest.first().map(|width| **width) {
        let alike = rest.partition_point(|width| **width <= SAME * least);
        let (kind, others) = rest.split_at_mut(alike);
        let values: Vec<f64> = kind.iter().map(|width| **width).collect();
        let middle = bandwidth(median(&values).unwrap_or(least));
        kind.iter_mut().for_each(|width| **width = middle);
        rest = others;
    }
}

/// Parts, none below 0, whose sums come next to what was measured: of each sum the parts in it, and how much it was.
/// Coordinate descent on the squares.
fn parts(sums: &[(Vec<usize>, f64)], count: usize) -> Vec<f64> {
    const SWEEPS: usize = 500;
    let mut found = vec![0.0; count];
    let times =
        |parts: &[usize], part: usize| parts.iter().filter(|other| **other == part).count() as f64;
    for _ in 0..SWEEPS {
        for part in 0..found.len() {
            let (mut pull, mut weight) = (0.0, 0.0);
            for (parts, measured) in sums {
                let times = times(parts, part);
                if times > 0.0 {
                    let sum: f64 = parts.iter().map(|part| found[*part]).sum();
                    pull += times * (measured - sum);
                    weight += times * times;
                }
            }
            if weight > 0.0 {
                found[part] = (found[part] + pull / weight).max(0.0);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_one_kind_carry_the_same() {
        let link = |bytes_s: f64, back_bytes_s: Option<f64>| Link {
            from: NodeId(0),
            to: NodeId(1),
            bytes_s,
            back_bytes_s,
            latency_ns: 0.0,
        };
        let mut links = [
            link(4.01e9, Some(1.98e9)),
            link(2.0e9, None),
            link(3.97e9, Some(4.0e9)),
            link(3.0e9, Some(2.01e9)),
        ];
        level(&mut links);
        let widths = links
            .iter()
            .flat_map(|link| [Some(link.bytes_s), link.back_bytes_s]);
        let expected = [4e9, 2e9, 2e9, 4e9, 4e9, 3e9, 2e9];
        assert_eq!(widths.flatten().collect::<Vec<f64>>(), expected);
    }

    #[test]
    fn parts_add_up_to_what_was_measured() {
        let sums = [
            (vec![0, 0], 70.0),
            (vec![1, 1], 100.0),
            (vec![0, 1, 2], 95.0),
            (vec![2, 2], 20.0),
            // One that nothing was measured of, and one that would be below 0.
            (vec![4, 0], 30.0),
        ];
        let found = parts(&sums, 5);
        for (part, expected) in [(1, 50.0), (2, 10.0), (3, 0.0), (4, 0.0)] {
            assert!((found[part] - expected).abs() < 1.0, "{found:?}");
        }
        assert!((found[0] - 35.0).abs() < 3.0, "{found:?}");
    }
}
