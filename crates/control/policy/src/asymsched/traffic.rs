//! What clusters get of the links in a placement: `C_bw(P)`, and when two placements are one.
//!
//! A cluster sends data between every two of its nodes, both ways, as fast as it can. There is one flow per ordered
//! pair, over the lanes between the two. Flows of all clusters share the lanes max-min fairly.
//!
//! Before shares are computed, the flows are reduced. A flow gets at most the width of its way. A lane has no effect
//! if its flows cannot fill it, or if all its flows cross another lane that is not wider. Two placements are
//! equivalent if the rest differs only in names; then they have the same shares.

use egeria_machine::Paths;
use egeria_machine::fair::{Flow, max_min_shares};

use super::bound::pairs;
use super::clusters::NodeSet;

/// Clusters on the same nodes: they get the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Part {
    pub(super) nodes: NodeSet,
    pub(super) clusters: u32,
}

/// The flows of some parts, reduced.
pub(super) struct Traffic {
    clusters: Vec<u32>,
    flows: Vec<Stream>,
    lanes: Vec<SharedLane>,
}

struct Stream {
    part: usize,
    /// What it gets at most, bytes/s: the width of its way.
    most: f64,
    /// Positions in `lanes`.
    lanes: Vec<usize>,
}

struct SharedLane {
    bytes_s: f64,
    /// Positions in `flows`, ascending.
    flows: Vec<usize>,
}

/// A placement's traffic with canonical names: equal forms have equal shares.
pub(super) struct Form {
    pub(super) key: Vec<u64>,
    /// The parts in the form's order.
    pub(super) order: Vec<usize>,
    flows: Vec<Flow>,
    part_of: Vec<usize>,
    capacities: Vec<f64>,
}

impl Traffic {
    pub(super) fn new(paths: &Paths, parts: &[Part]) -> Traffic {
        let mut flows = Vec::new();
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); paths.lanes.len()];
        for (part, each) in parts.iter().enumerate() {
            for (from, to) in pairs(each.nodes) {
                for lane in paths.way(from, to) {
                    users[*lane].push(flows.len());
                }
                let most = paths.widest_bytes_s(from, to);
                flows.push(Stream {
                    part,
                    most,
                    lanes: Vec::new(),
                });
            }
        }
        let lanes = binding_lanes(paths, &flows, users);
        for (index, lane) in lanes.iter().enumerate() {
            lane.flows
                .iter()
                .for_each(|flow| flows[*flow].lanes.push(index));
        }
        Traffic {
            clusters: parts.iter().map(|part| part.clusters).collect(),
            flows,
            lanes,
        }
    }

    /// The form, found by looking at neighbours a few times. Parts, flows or lanes that this cannot distinguish keep
    /// their original order. So two equivalent placements may have two forms, but one form never has two different
    /// shares.
    pub(super) fn form(&self) -> Form {
        let mut parts: Vec<u64> = self
            .clusters
            .iter()
            .map(|count| mix(1, u64::from(*count)))
            .collect();
        let mut flows: Vec<u64> = self
            .flows
            .iter()
            .map(|flow| mix(2, flow.most.to_bits()))
            .collect();
        let mut lanes: Vec<u64> = self
            .lanes
            .iter()
            .map(|lane| mix(3, lane.bytes_s.to_bits()))
            .collect();
        for _ in 0..ROUNDS {
            for (index, flow) in self.flows.iter().enumerate() {
                let around = flow.lanes.iter().map(|lane| lanes[*lane]);
                flows[index] = mix(mix(flows[index], parts[flow.part]), together(around));
            }
            for (index, lane) in self.lanes.iter().enumerate() {
                lanes[index] = mix(
                    lanes[index],
                    together(lane.flows.iter().map(|flow| flows[*flow])),
                );
            }
            let mut sums = vec![0u64; parts.len()];
            for (flow, color) in self.flows.iter().zip(&flows) {
                sums[flow.part] = sums[flow.part].wrapping_add(mix(4, *color));
            }
            parts
                .iter_mut()
                .zip(sums)
                .for_each(|(part, sum)| *part = mix(*part, sum));
        }
        let order = ascending(parts.len(), |part| parts[part]);
        let rank = ranks(&order);
        let flow_order = ascending(self.flows.len(), |flow| {
            (rank[self.flows[flow].part], flows[flow])
        });
        self.written_as(order, &rank, &flow_order, &lanes)
    }

    fn written_as(
        &self,
        order: Vec<usize>,
        rank: &[usize],
        flow_order: &[usize],
        colors: &[u64],
    ) -> Form {
        let flow_rank = ranks(flow_order);
        let mut key: Vec<u64> = order
            .iter()
            .map(|part| u64::from(self.clusters[*part]))
            .collect();
        let mut flows = Vec::with_capacity(self.flows.len());
        for flow in flow_order.iter().map(|flow| &self.flows[*flow]) {
            key.extend([rank[flow.part] as u64, flow.most.to_bits()]);
            let weight = f64::from(self.clusters[flow.part]);
            flows.push(Flow {
                uses: Vec::new(),
                most: flow.most,
                weight,
            });
        }
        let named = |lane: usize| {
            let mut names: Vec<usize> = self.lanes[lane]
                .flows
                .iter()
                .map(|flow| flow_rank[*flow])
                .collect();
            names.sort_unstable();
            (colors[lane], names, self.lanes[lane].bytes_s)
        };
        let mut lanes: Vec<_> = (0..self.lanes.len()).map(named).collect();
        lanes.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut capacities = Vec::with_capacity(lanes.len());
        for (index, (_, names, bytes_s)) in lanes.into_iter().enumerate() {
            key.extend([bytes_s.to_bits(), names.len() as u64]);
            key.extend(names.iter().map(|flow| *flow as u64));
            names
                .iter()
                .for_each(|flow| flows[*flow].uses.push((index, 1.0)));
            capacities.push(bytes_s);
        }
        let part_of = flow_order
            .iter()
            .map(|flow| rank[self.flows[*flow].part])
            .collect();
        Form {
            key,
            order,
            flows,
            part_of,
            capacities,
        }
    }
}

impl Form {
    /// What each part gets, in the form's order, bytes/s.
    pub(super) fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.order.len()];
        let rates = max_min_shares(&self.capacities, &self.flows);
        for (part, rate) in self.part_of.iter().zip(rates) {
            shares[*part] += rate;
        }
        shares
    }
}

/// How often neighbours are looked at: as far as effects on machines of a few nodes reach.
const ROUNDS: usize = 3;

/// Lanes that can bound what flows get.
fn binding_lanes(paths: &Paths, flows: &[Stream], users: Vec<Vec<usize>>) -> Vec<SharedLane> {
    let lanes = paths.lanes.iter().zip(users);
    let can_fill = |lane: &SharedLane| {
        lane.flows.iter().map(|flow| flows[*flow].most).sum::<f64>() > lane.bytes_s
    };
    let lanes = lanes.map(|(lane, flows)| SharedLane {
        bytes_s: lane.bytes_s,
        flows,
    });
    let mut lanes: Vec<SharedLane> = lanes.filter(can_fill).collect();
    // Most flows first: a lane whose flows are all flows of another lane comes after it.
    lanes.sort_by(|a, b| {
        let by_flows = b.flows.len().cmp(&a.flows.len());
        by_flows.then(a.bytes_s.total_cmp(&b.bytes_s))
    });
    let mut kept: Vec<SharedLane> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let implies = |wider: &SharedLane| {
            wider.bytes_s <= lane.bytes_s
                && lane
                    .flows
                    .iter()
                    .all(|flow| wider.flows.binary_search(flow).is_ok())
        };
        if !kept.iter().any(implies) {
            kept.push(lane);
        }
    }
    kept
}

fn ascending<K: Ord>(count: usize, key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|index| key(*index));
    order
}

/// The position of each in an order.
fn ranks(order: &[usize]) -> Vec<usize> {
    let mut ranks = vec![0; order.len()];
    order
        .iter()
        .enumerate()
        .for_each(|(rank, index)| ranks[*index] = rank);
    ranks
}

/// Combines colours, independently of their order.
fn together(colors: impl Iterator<Item = u64>) -> u64 {
    colors.fold(0, |sum, color| sum.wrapping_add(mix(5, color)))
}

/// A hash step: multiply and fold.
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15)
        * u128::from(b.rotate_left(29) ^ 0xd6e8_feb8_6659_fd93);
    (product as u64) ^ (product >> 64) as u64 ^ b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs of nodes, each node with a link of its own to one of two hubs, and one between the hubs.
    fn dumbbell(between_bytes_s: f64) -> Paths {
        let nodes = (0..6).map(|id| format!("[[nodes]]\nid = {id}\ncpus = \"{id}\"\n"));
        let links = [
            (0, 4, 4e9),
            (1, 4, 4e9),
            (2, 5, 4e9),
            (3, 5, 4e9),
            (4, 5, between_bytes_s),
        ];
        let links = links.map(|(from, to, width)| {
            format!("[[links]]\nfrom = {from}\nto = {to}\nbytes_s = {width:?}\nback_bytes_s = {width:?}\n")
        });
        let text = format!(
            "name = \"dumbbell\"\n{}{}",
            nodes.collect::<String>(),
            links.concat()
        );
        let machine = egeria_machine::Machine::from_toml(&text, "dumbbell.toml".as_ref());
        machine.unwrap().paths().unwrap().unwrap()
    }

    fn form(between_bytes_s: f64, parts: [u64; 2]) -> Form {
        let part = |nodes| Part { nodes, clusters: 1 };
        Traffic::new(&dumbbell(between_bytes_s), &parts.map(part)).form()
    }

    #[test]
    fn forms_are_one_for_mirrors_and_two_for_other_widths() {
        let (narrow, wide) = (form(5e9, [0b0101, 0b1010]), form(7e9, [0b0101, 0b1010]));
        assert_eq!(
            (narrow.shares(), wide.shares()),
            (vec![5e9; 2], vec![7e9; 2])
        );
        assert!(narrow.key != wide.key);
        assert_eq!(form(5e9, [0b1001, 0b0110]).key, narrow.key);
        // Pairs at one hub each share nothing, so the width between the hubs does not matter.
        let (apart, far) = (form(5e9, [0b0011, 0b1100]), form(7e9, [0b0011, 0b1100]));
        assert_eq!(apart.shares(), [8e9; 2]);
        assert_eq!(apart.key, far.key);
    }
}
