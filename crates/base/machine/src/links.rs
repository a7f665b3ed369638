//! What lies between the nodes: links, and the way that data takes over them.
//!
//! Links differ in width and direction, some carry data one way only, and most are shared by the
//! traffic of several pairs of nodes (AsymSched §1, Fig. 1). A read moves data from the memory's node to
//! the CPU's, a write the other way, and the two may take different ways.

use crate::check::values::{self, Fault, fault};
use crate::{Link, Machine, MachineError, NodeId, Route};

/// One direction of a link: what flows share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Lane {
    /// Position in `nodes` of where it begins.
    pub from: usize,
    /// Position in `nodes` of where it ends.
    pub to: usize,
    /// What it carries, bytes/s.
    pub bytes_s: f64,
    /// What crossing it takes, ns.
    pub latency_ns: f64,
}

/// The lanes of a machine, and which of them lie between any two nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Paths {
    pub lanes: Vec<Lane>,
    /// `ways[from * nodes + to]`: positions in `lanes`, in order.
    ways: Vec<Vec<usize>>,
    nodes: usize,
}

impl Paths {
    /// The lanes that data crosses from one node to another (positions in `nodes`); none to itself.
    pub fn way(&self, from: usize, to: usize) -> &[usize] {
        &self.ways[from * self.nodes + to]
    }

    /// What one flow alone gets from one node to another, bytes/s; infinite to itself.
    pub fn widest_bytes_s(&self, from: usize, to: usize) -> f64 {
        let lanes = self.way(from, to).iter();
        lanes.fold(f64::INFINITY, |least, lane| {
            least.min(self.lanes[*lane].bytes_s)
        })
    }

    /// What the way from one node to another adds to a latency, ns.
    pub fn latency_ns(&self, from: usize, to: usize) -> f64 {
        let lanes = self.way(from, to).iter();
        lanes.map(|lane| self.lanes[*lane].latency_ns).sum()
    }
}

impl Machine {
    /// The lanes between the nodes and the ways over them; `None` where nothing is known of links.
    ///
    /// # Errors
    /// When links or routes make no sense: a file's have been looked at when it was read.
    pub fn paths(&self) -> Result<Option<Paths>, MachineError> {
        let origin = match &self.source {
            crate::Source::File(path) | crate::Source::Sysfs(path) => path.to_path_buf(),
            crate::Source::Profile(name) => format!("profile {name}").into(),
        };
        find_paths(self).map_err(|fault| fault.of(&origin))
    }
}

/// The paths, or what is wrong with links and routes.
pub(crate) fn find_paths(machine: &Machine) -> Result<Option<Paths>, Fault> {
    let interconnect = &machine.interconnect;
    if interconnect.links.is_empty() {
        return if interconnect.routes.is_empty() {
            Ok(None)
        } else {
            Err(fault(
                "routes",
                "there are no links for them",
                "add [[links]], or remove the routes",
            ))
        };
    }
    let lanes = lanes(machine)?;
    let nodes = machine.nodes.len();
    let mut ways: Vec<Option<Vec<usize>>> = vec![None; nodes * nodes];
    for (index, route) in interconnect.routes.iter().enumerate() {
        let key = format!("routes[{index}]");
        let (from, to, way) = follow(machine, &lanes, &key, route)?;
        if ways[from * nodes + to].replace(way).is_some() {
            let problem = format!("a second route from {} to {}", route.from.0, route.to.0);
            return Err(fault(key, problem, "keep one of them"));
        }
    }
    for from in 0..nodes {
        let shortest = shortest_ways(&lanes, nodes, from);
        for (to, way) in shortest.into_iter().enumerate() {
            if ways[from * nodes + to].is_none() {
                ways[from * nodes + to] = Some(way.ok_or_else(|| unreachable(machine, from, to))?);
            }
        }
    }
    let ways = ways.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Some(Paths { lanes, ways, nodes }))
}

fn unreachable(machine: &Machine, from: usize, to: usize) -> Fault {
    let (from, to) = (machine.nodes[from].id.0, machine.nodes[to].id.0);
    let problem = format!("no way leads from node {from} to node {to}");
    let hint = "add a link (back_bytes_s makes one carry both ways)";
    fault("links", problem, hint)
}

fn lanes(machine: &Machine) -> Result<Vec<Lane>, Fault> {
    let mut lanes: Vec<Lane> = Vec::new();
    for (index, link) in machine.interconnect.links.iter().enumerate() {
        let key = format!("links[{index}]");
        check_link(&key, link)?;
        let (from, to) = ends(machine, &key, link.from, link.to)?;
        let directions = [
            Some((from, to, link.bytes_s)),
            link.back_bytes_s.map(|bytes_s| (to, from, bytes_s)),
        ];
        for (from, to, bytes_s) in directions.into_iter().flatten() {
            if lanes.iter().any(|lane| (lane.from, lane.to) == (from, to)) {
                let (from, to) = (machine.nodes[from].id.0, machine.nodes[to].id.0);
                let problem = format!("a second link from {from} to {to}");
                return Err(fault(key, problem, "add their bandwidths to one link"));
            }
            let latency_ns = link.latency_ns;
            lanes.push(Lane {
                from,
                to,
                bytes_s,
                latency_ns,
            });
        }
    }
    Ok(lanes)
}

/// Positions of two different nodes.
fn ends(machine: &Machine, key: &str, from: NodeId, to: NodeId) -> Result<(usize, usize), Fault> {
    let find = |end: &str, id: NodeId| find_node(machine, &format!("{key}.{end}"), id);
    let ends = (find("from", from)?, find("to", to)?);
    if ends.0 == ends.1 {
        let problem = format!("it leads from node {} to itself", from.0);
        Err(fault(key, problem, "name two nodes"))
    } else {
        Ok(ends)
    }
}

fn find_node(machine: &Machine, key: &str, id: NodeId) -> Result<usize, Fault> {
    machine.index_of(id).ok_or_else(|| {
        let problem = format!("there is no node {}", id.0);
        fault(key, problem, "name a node of this file")
    })
}

/// The lanes of a route; every step needs one, and no node comes twice.
fn follow(
    machine: &Machine,
    lanes: &[Lane],
    key: &str,
    route: &Route,
) -> Result<(usize, usize, Vec<usize>), Fault> {
    let (from, to) = ends(machine, key, route.from, route.to)?;
    let mut stops = vec![route.from];
    stops.extend(route.via.iter().chain([&route.to]));
    let position = |id: NodeId| find_node(machine, &format!("{key}.via"), id);
    let mut way = Vec::new();
    for (index, pair) in stops.windows(2).enumerate() {
        if stops[..=index].contains(&pair[1]) {
            let problem = format!("it comes to node {} twice", pair[1].0);
            return Err(fault(key, problem, "name every node once"));
        }
        let (here, there) = (position(pair[0])?, position(pair[1])?);
        let lane = lanes
            .iter()
            .position(|lane| (lane.from, lane.to) == (here, there))
            .ok_or_else(|| {
                let problem = format!("no link leads from node {} to {}", pair[0].0, pair[1].0);
                fault(key, problem, "add the link, or take another way")
            })?;
        way.push(lane);
    }
    Ok((from, to, way))
}

/// For each node: the fewest links to it, and the bandwidth of the widest way with this number of links, bytes/s.
type Reach = Vec<Option<(usize, f64)>>;

/// The default way from one node to each: the fewest links, then the widest, then the nodes that come first.
fn shortest_ways(lanes: &[Lane], nodes: usize, from: usize) -> Vec<Option<Vec<usize>>> {
    let reach = reach(lanes, nodes, from);
    (0..nodes)
        .map(|to| first_way(lanes, &reach, from, to))
        .collect()
}

fn reach(lanes: &[Lane], nodes: usize, from: usize) -> Reach {
    let mut reach: Reach = vec![None; nodes];
    reach[from] = Some((0, f64::INFINITY));
    for links in 1..nodes {
        let before = reach.clone();
        for lane in lanes {
            let Some((_, widest)) = before[lane.from].filter(|(far, _)| far + 1 == links) else {
                continue;
            };
            let bytes_s = widest.min(lane.bytes_s);
            match &mut reach[lane.to] {
                Some((far, known)) if *far == links => *known = known.max(bytes_s),
                Some(_) => {}
                new => *new = Some((links, bytes_s)),
            }
        }
    }
    reach
}

/// The first, by order of its nodes, of the ways with the fewest links that carry the most. A way that is wider before
/// the narrowest link is no better.
fn first_way(lanes: &[Lane], reach: &Reach, from: usize, to: usize) -> Option<Vec<usize>> {
    let (links, width) = reach[to]?;
    let far = |node: usize| reach[node].map(|(far, _)| far);
    let leads_on =
        |lane: &Lane| lane.bytes_s >= width && far(lane.to) == far(lane.from).map(|far| far + 1);
    let mut leads_there = vec![false; reach.len()];
    leads_there[to] = true;
    for at in (0..links).rev() {
        for lane in lanes.iter().filter(|lane| leads_on(lane)) {
            leads_there[lane.from] |= far(lane.from) == Some(at) && leads_there[lane.to];
        }
    }
    let (mut here, mut way) = (from, Vec::with_capacity(links));
    while here != to {
        let onwards = lanes.iter().enumerate();
        let onwards =
            onwards.filter(|(_, lane)| lane.from == here && leads_on(lane) && leads_there[lane.to]);
        let (index, lane) = onwards.min_by_key(|(_, lane)| lane.to)?;
        way.push(index);
        here = lane.to;
    }
    Some(way)
}

/// What a link carries, and how fast.
fn check_link(key: &str, link: &Link) -> Result<(), Fault> {
    values::bandwidth(format!("{key}.bytes_s"), link.bytes_s)?;
    let back = link.back_bytes_s;
    back.map_or(Ok(()), |back| {
        values::bandwidth(format!("{key}.back_bytes_s"), back)
    })?;
    values::latency(format!("{key}.latency_ns"), link.latency_ns)
}
