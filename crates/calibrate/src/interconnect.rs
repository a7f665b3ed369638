//! Links and routes of the machine that was measured.
//!
//! Where flows between nodes were measured two at once, ways that share a wire go over the same link ([`Flows`]). Else, and to nodes
//! without CPUs or memory of their own, a link stands for whatever lies between two nodes.

use std::collections::BTreeMap;

use egeria_machine::{Link, Machine, NodeId, Route};

use crate::describe::{bandwidth, rounded};
use crate::figures::{Calibration, NodeFlow, Stream};
use crate::ways::{Both, Flows, Found, Way};

impl Calibration {
    /// Replaces links and routes.
    pub(crate) fn describe_interconnect(&self, machine: &mut Machine) {
        let found = self.flows(machine).map(|flows| flows.find());
        machine.interconnect.links = self.links(machine, found.as_ref());
        machine.interconnect.routes.clear();
        if machine.paths().is_err() {
            // Some node could not be measured from another: nothing is known of all ways then.
            machine.interconnect.links.clear();
        } else if let Some(found) = found {
            machine.interconnect.routes = needed_routes(machine, &found);
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
            "{} pairs of ways between nodes share something that is no link of both, as {} and {}: AsymSched takes them for apart",
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
                        Some(None) => 0.0,
                        Some(Some(bytes_s)) => bytes_s.max(most),
                        None => most,
                    }
                };
                let there = carried((one, other), (from.id, to.id));
                let back = carried((other, one), (to.id, from.id));
                let (from, to, there, back) = match there > 0.0 {
                    true => (from.id, to.id, there, back),
                    false => (to.id, from.id, back, there),
                };
                if there > 0.0 && (back > 0.0 || found.is_some()) {
                    links.push(Link {
                        from,
                        to,
                        bytes_s: bandwidth(there),
                        back_bytes_s: (back > 0.0).then(|| bandwidth(back)),
                        latency_ns: rounded(self.extra_ns(machine, from, to) / 2.0),
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
