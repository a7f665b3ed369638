//! Links and routes, from what flows between nodes got alone and two at once.
//!
//! ```text
//!   two flows share a wire      together they get less than alone, and than memory and CPUs of a common end give
//!   a way has no link           it shares with the way to a node in between and with the way from there, which do not
//!                               share with each other, and carries no more than both
//!   a route                     the fewest links that the way shares with
//! ```
//!
//! Flows are max-min fair, so of two that share a link which one of them fills, the sum is what the link carries. A link
//! that nothing fills is not found, nor is it missed by two flows at once.

use std::collections::{HashMap, VecDeque};

use egeria_stats::statistics::median;

/// Below this share of what two flows should get, they share something.
const SHARED: f64 = 0.9;
/// A flow that is a smaller part of both shows nothing.
const MIN_PART: f64 = 0.15;
/// So much more than the ways it consists of a way may have got.
const MAX_EXCESS: f64 = 1.15;

/// A link that carries this share of the most that was seen is full.
const FULL: f64 = 0.95;

/// From a node to another one: positions. Data goes from the memory of the first to CPUs of the second.
pub type Way = (usize, usize);

/// What two ways carry at once, bytes/s.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Both {
    pub ways: [Way; 2],
    pub bytes_s: [f64; 2],
}

/// What flows got.
#[derive(Clone, PartialEq, Debug)]
pub struct Flows {
    /// Of the memory of each node, the most that CPUs of any node get, bytes/s.
    pub memory_bytes_s: Vec<f64>,
    /// What all CPUs of each node take from any memory at most, bytes/s.
    pub cpus_bytes_s: Vec<f64>,
    pub alone: Vec<(Way, f64)>,
    /// Pairs of them at once.
    pub both: Vec<Both>,
}

/// What follows.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Ways that have a link of their own, with what it carries, bytes/s.
    pub links: Vec<(Way, f64)>,
    /// Nodes in between, of the ways that have none, in order.
    pub routes: Vec<(Way, Vec<usize>)>,
    /// Nodes whose memory gives all other nodes together no more than one of them gets, with how much that is, bytes/s.
    pub memories: Vec<(usize, f64)>,
    /// Ways that share something which neither explains.
    pub unexplained: Vec<[Way; 2]>,
}

impl Flows {
    /// Links and routes under which these flows would have got what they got.
    pub fn find(&self) -> Found {
        Known::of(self).find()
    }
}

/// Flows by their ways.
struct Known<'a> {
    flows: &'a Flows,
    alone: HashMap<Way, f64>,
    /// What two ways carried together.
    both: HashMap<[Way; 2], f64>,
}

impl Known<'_> {
    fn of(flows: &Flows) -> Known<'_> {
        let mut both = HashMap::new();
        for pair in &flows.both {
            let [one, other] = pair.ways;
            let sum = pair.bytes_s[0] + pair.bytes_s[1];
            both.insert([one, other], sum);
            both.insert([other, one], sum);
        }
        Known {
            flows,
            alone: flows.alone.iter().copied().collect(),
            both,
        }
    }

    fn alone(&self, way: Way) -> Option<f64> {
        self.alone.get(&way).copied()
    }

    fn both(&self, one: Way, other: Way) -> Option<f64> {
        self.both.get(&[one, other]).copied()
    }

    /// Whether two ways share a wire; `None`: that does not show.
    fn share(&self, one: Way, other: Way) -> Option<bool> {
        let (first, second) = (self.alone(one)?, self.alone(other)?);
        let mut expected = first + second;
        if first.min(second) < MIN_PART * expected {
            return None;
        }
        if one.0 == other.0 {
            expected = expected.min(self.flows.memory_bytes_s[one.0]);
        }
        if one.1 == other.1 {
            expected = expected.min(self.flows.cpus_bytes_s[one.1]);
        }
        // Where an end gives no more than one way, nothing can be lost on it.
        if SHARED * expected <= first.max(second) {
            return None;
        }
        Some(self.both(one, other)? < SHARED * expected)
    }

    fn nodes(&self) -> usize {
        self.flows.memory_bytes_s.len()
    }

    /// Whether a way goes through another node.
    fn is_composed(&self, way: Way) -> bool {
        let Some(carried) = self.alone(way) else {
            return false;
        };
        let is_between = |node: usize| {
            let (before, behind) = ((way.0, node), (node, way.1));
            let parts = self.alone(before).zip(self.alone(behind));
            parts.is_some_and(|(one, other)| carried <= MAX_EXCESS * one.min(other))
                && self.share(way, before) == Some(true)
                && self.share(way, behind) == Some(true)
                && self.share(before, behind) != Some(true)
        };
        (0..self.nodes()).any(|node| node != way.0 && node != way.1 && is_between(node))
    }

    fn find(&self) -> Found {
        let mut links = Vec::new();
        let mut composed = Vec::new();
        for (way, _) in &self.flows.alone {
            if self.is_composed(*way) {
                composed.push(*way)
            } else {
                links.push(*way)
            }
        }
        let mut routes = Vec::new();
        // Parts of a way may go elsewhere than the way does, so that no node in between shows it: a way that shares with each
        // of some links from its one end to the other goes over them. One with a link of its own shares with no other link.
        for (way, _) in &self.flows.alone {
            let others: Vec<Way> = links.iter().copied().filter(|link| link != way).collect();
            if others.len() == links.len() {
                continue;
            }
            if let Some(via) = self.route(*way, &others, |share| share == Some(true)) {
                links = others;
                routes.push((*way, via));
            }
        }
        let seen = routes.iter().map(|(way, _)| *way).collect::<Vec<Way>>();
        composed.retain(
            |way| match self.route(*way, &links, |share| share != Some(false)) {
                Some(via) => {
                    routes.push((*way, via));
                    true
                }
                None => false,
            },
        );
        composed.extend(seen);
        // A link that a route led over may have been found to be none.
        routes.retain(|route| {
            let parts = links_of(route.0, std::slice::from_ref(route));
            parts.iter().all(|part| links.contains(part))
        });
        composed.retain(|way| routes.iter().any(|(routed, _)| routed == way));
        // Where no links lead, there is one that was not seen to be its own.
        let lost: Vec<Way> = (self.flows.alone.iter())
            .map(|(way, _)| *way)
            .filter(|way| !links.contains(way) && !composed.contains(way))
            .collect();
        links.extend(lost);
        links.sort_unstable();
        let mut unexplained = self.unexplained(&links, &routes);
        let memories: Vec<(usize, f64)> = (0..self.nodes())
            .filter_map(|node| Some((node, self.given_away(node, &unexplained)?)))
            .collect();
        let is_of_memory = |[one, other]: &[Way; 2]| {
            one.0 == other.0 && memories.iter().any(|(node, _)| *node == one.0)
        };
        unexplained.retain(|ways| !is_of_memory(ways));
        let carried = links
            .iter()
            .map(|link| (*link, self.carried(*link, &routes)));
        Found {
            links: carried.collect(),
            routes,
            memories,
            unexplained,
        }
    }

    /// The fewest links with which a way shares as it must, from its one end to the other.
    fn route(
        &self,
        way: Way,
        links: &[Way],
        must: impl Fn(Option<bool>) -> bool,
    ) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; self.nodes()];
        let mut next = VecDeque::from([way.0]);
        while let Some(node) = next.pop_front() {
            for &(from, to) in links.iter().filter(|link| link.0 == node) {
                let is_new = to != way.0 && before[to].is_none();
                if is_new && must(self.share(way, (from, to))) {
                    before[to] = Some(from);
                    next.push_back(to);
                }
            }
        }
        let mut via = Vec::new();
        let mut node = before[way.1]?;
        while node != way.0 {
            via.push(node);
            node = before[node]?;
        }
        via.reverse();
        Some(via)
    }

    /// What went over a link where it was full: the middle of all that is about the most.
    fn carried(&self, link: Way, routes: &[(Way, Vec<usize>)]) -> f64 {
        let over = |way: Way| way == link || links_of(way, routes).contains(&link);
        let both = self
            .flows
            .both
            .iter()
            .filter(|both| both.ways.iter().all(|way| over(*way)));
        let both = both.map(|both| both.bytes_s[0] + both.bytes_s[1]);
        let alone = self.flows.alone.iter().filter(|(way, _)| over(*way));
        let all: Vec<f64> = both.chain(alone.map(|(_, bytes_s)| *bytes_s)).collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        let full: Vec<f64> = all
            .into_iter()
            .filter(|bytes_s| *bytes_s >= FULL * most)
            .collect();
        median(&full).unwrap_or(0.0)
    }

    /// What the memory of a node gives other nodes where ways from it share something that is no link: about what one of them
    /// gets alone.
    fn given_away(&self, node: usize, unexplained: &[[Way; 2]]) -> Option<f64> {
        let alone = self.flows.alone.iter().filter(|(way, _)| way.0 == node);
        let most = alone.map(|(_, bytes_s)| *bytes_s).fold(0.0, f64::max);
        let sums = unexplained
            .iter()
            .filter(|[one, other]| one.0 == node && other.0 == node);
        let sums: Vec<f64> = sums
            .filter_map(|[one, other]| self.both(*one, *other))
            .collect();
        let is_one_share = |sum: &f64| (SHARED * most..=MAX_EXCESS * most).contains(sum);
        let sum = median(&sums)?;
        sums.iter().all(is_one_share).then_some(sum)
    }

    fn unexplained(&self, links: &[Way], routes: &[(Way, Vec<usize>)]) -> Vec<[Way; 2]> {
        let of = |way: Way| {
            if links.contains(&way) {
                vec![way]
            } else {
                links_of(way, routes)
            }
        };
        let meet = |[one, other]: &[Way; 2]| {
            let one = of(*one);
            of(*other).iter().any(|link| one.contains(link))
        };
        let shared = self.flows.both.iter().map(|both| both.ways);
        let shared = shared.filter(|[one, other]| self.share(*one, *other) == Some(true));
        shared.filter(|ways| !meet(ways)).collect()
    }
}

fn links_of(way: Way, routes: &[(Way, Vec<usize>)]) -> Vec<Way> {
    let Some((_, via)) = routes.iter().find(|(other, _)| *other == way) else {
        return Vec::new();
    };
    let mut stops = vec![way.0];
    stops.extend(via);
    stops.push(way.1);
    stops.windows(2).map(|pair| (pair[0], pair[1])).collect()
}
