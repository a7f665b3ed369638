//! The machine as resources that flows share.
//!
//! ```text
//!   core of a node       thread-time/s: computing and accesses in flight occupy one
//! a memory             service time/s: a byte takes 1 / (bandwidth with that number of accessors), more from another
//!   node lane of a link       bytes/s, each way delegates of a node  thread-time/s: as many as there are turns at a
//!   memory    access time/s: as many as are admitted at once a lock               held time/s: 1
//! ```
//!
//! What one access takes is defined once, in [`egeria_machine::costs`]; here is what many get at once.

use std::iter;

use egeria_machine::costs::AccessCosts;
use egeria_machine::{AccessKind, CpuId, Machine, MemoryKind};

use crate::error::SimError;
use crate::workload::MediumKind;

pub(crate) const NS_PER_S: f64 = 1e9;

/// The machine, looked up by position.
pub(crate) struct Model {
    pub(crate) machine: Machine,
    /// What accesses take.
    pub(crate) costs: AccessCosts,
}

impl Model {
    /// The machine. Emulated nodes get CPUs of their own: a model stands on no host.
    pub(crate) fn new(machine: &Machine) -> Result<Model, SimError> {
        let mut machine = machine.clone();
        let costs = AccessCosts::of(&machine);
        let mut next = 0;
        for (node, cores) in machine.nodes.iter_mut().zip(&costs.cores) {
            if machine.emulated.is_some() {
                let end = next + *cores as u16;
                node.cpus = (next..end).map(CpuId).collect();
                next = end;
            }
        }
        let model = Model { machine, costs };
        // A node may have none, but then it has to say so, and another has some.
        let is_known = |node: usize| {
            let places = &model.costs.places;
            let has_memory = places.iter().any(|place| place.node == node);
            has_memory || (!places.is_empty() && model.machine.nodes[node].memory_bytes == 0)
        };
        if let Some(node) = (0..model.node_count()).find(|node| !is_known(*node)) {
            return Err(SimError::NoSpeeds {
                machine: model.machine.name,
                node: model.machine.nodes[node].id.0,
            });
        }
        Ok(model)
    }

    pub(crate) fn node_count(&self) -> usize {
        self.costs.cores.len()
    }

    pub(crate) fn cores(&self, node: usize) -> f64 {
        f64::from(self.costs.cores[node])
    }

    /// The memory of a node that data of this kind is kept in.
    pub(crate) fn place_of(&self, node: usize, medium: MediumKind) -> Option<usize> {
        let order = match medium {
            MediumKind::Storage => [
                MemoryKind::Persistent,
                MemoryKind::Dram,
                MemoryKind::Expander,
            ],
            MediumKind::Memory => [
                MemoryKind::Dram,
                MemoryKind::Expander,
                MemoryKind::Persistent,
            ],
        };
        let find = |kind: MemoryKind| self.costs.place_of_kind(node, kind);
        order.into_iter().find_map(find)
    }

    /// The memories that data of this kind is spread over when nothing else is said: persistent ones for storage
    /// where there are any, DRAM for memory where there is any, else one of each node.
    pub(crate) fn places_of(&self, medium: MediumKind) -> Vec<usize> {
        let wanted = match medium {
            MediumKind::Storage => MemoryKind::Persistent,
            MediumKind::Memory => MemoryKind::Dram,
        };
        let all = (0..self.node_count()).filter_map(|node| self.place_of(node, medium));
        let all: Vec<usize> = all.collect();
        let has_kind = |place: &usize| self.costs.places[*place].memory.kind == wanted;
        let of_kind: Vec<usize> = all.iter().copied().filter(has_kind).collect();
        if of_kind.is_empty() { all } else { of_kind }
    }

    /// Of [`Model::places_of`], the one nearest to a node.
    pub(crate) fn nearest_place(&self, node: usize, medium: MediumKind) -> usize {
        let distance = |place: &usize| self.machine.distances[node][self.costs.places[*place].node];
        let places = self.places_of(medium);
        // Some node has a memory (`new`), so there is one.
        places.into_iter().min_by_key(distance).unwrap_or(0)
    }

    /// Where the delegates of a node run: where it has no cores, on the nearest node that has.
    pub(crate) fn delegate_host(&self, node: usize) -> usize {
        let hosts = (0..self.node_count()).filter(|host| self.cores(*host) > 0.0);
        let distance = |host: &usize| {
            if *host == node {
                0
            } else {
                self.machine.distances[*host][node]
            }
        };
        hosts.min_by_key(distance).unwrap_or(node)
    }

    pub(crate) fn core_resource(&self, node: usize) -> usize {
        node
    }

    pub(crate) fn memory_resource(&self, place: usize) -> usize {
        self.node_count() + place
    }

    pub(crate) fn delegate_resource(&self, node: usize) -> usize {
        self.node_count() + self.costs.places.len() + self.costs.lanes().len() + node
    }

    pub(crate) fn turn_resource(&self, place: usize) -> usize {
        2 * self.node_count() + self.costs.places.len() + self.costs.lanes().len() + place
    }

    pub(crate) fn lock_resource(&self, lock: usize) -> usize {
        self.turn_resource(self.costs.places.len()) + lock
    }

    /// Capacity of every resource; delegates and turns as given, per node and per memory; and `locks` locks.
    pub(crate) fn capacities(
        &self,
        delegates: f64,
        turns: &[Option<f64>],
        locks: usize,
    ) -> Vec<f64> {
        let cores = self.costs.cores.iter().map(|cores| f64::from(*cores));
        let memories = self.costs.places.iter().map(|_| 1.0);
        let lanes = self.costs.lanes().iter().map(|lane| lane.bytes_s);
        let delegates = self.costs.cores.iter().map(|_| delegates);
        let turns = turns.iter().map(|turns| turns.unwrap_or(f64::INFINITY));
        let media = cores.chain(memories).chain(lanes);
        let locks = iter::repeat_n(1.0, locks);
        media.chain(delegates).chain(turns).chain(locks).collect()
    }

    /// Capacity of a memory, a lane, or the delegates of a node, as [`Model::capacities`] has it.
    pub(crate) fn capacity(&self, resource: usize, delegates: f64) -> f64 {
        let lane = resource.checked_sub(self.memory_resource(self.costs.places.len()));
        match lane {
            None => 1.0,
            Some(lane) => (self.costs.lanes().get(lane)).map_or(delegates, |lane| lane.bytes_s),
        }
    }

    /// The resources of [`AccessCosts::lanes_of`].
    pub(crate) fn lane_resources(
        &self,
        kind: AccessKind,
        home: usize,
        memory_node: usize,
    ) -> impl Iterator<Item = usize> + '_ {
        let first = self.node_count() + self.costs.places.len();
        let lanes = self.costs.lanes_of(kind, home, memory_node);
        lanes.map(move |lane| first + lane)
    }
}
