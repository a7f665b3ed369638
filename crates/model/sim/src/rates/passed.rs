//! What went on: bytes at memories and over lanes, operations of threads.

use egeria_machine::AccessKind;

use crate::rates::demand::Demand;
use crate::rates::model::Model;

/// What went on in a step, or a window.
#[derive(Clone, Default)]
pub(crate) struct Passed {
    /// Bytes from and to each memory; not what caches served.
    pub(crate) read_bytes: Vec<f64>,
    pub(crate) written_bytes: Vec<f64>,
    /// Bytes over each lane.
    pub(crate) lane_bytes: Vec<f64>,
    pub(crate) local_bytes: f64,
    /// Operations and bytes of each group of threads, and time of its threads, s.
    pub(crate) groups: Vec<GroupPassed>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct GroupPassed {
    pub(crate) operations: f64,
    pub(crate) bytes: f64,
    pub(crate) thread_s: f64,
}

impl Passed {
    pub(crate) fn none(model: &Model, groups: usize) -> Passed {
        Passed {
            read_bytes: vec![0.0; model.costs.places.len()],
            written_bytes: vec![0.0; model.costs.places.len()],
            lane_bytes: vec![0.0; model.costs.lanes().len()],
            local_bytes: 0.0,
            groups: vec![GroupPassed::default(); groups],
        }
    }

    pub(crate) fn add(&mut self, other: &Passed) {
        let sum = |mine: &mut Vec<f64>, more: &[f64]| {
            for (mine, more) in mine.iter_mut().zip(more) {
                *mine += more;
            }
        };
        sum(&mut self.read_bytes, &other.read_bytes);
        sum(&mut self.written_bytes, &other.written_bytes);
        sum(&mut self.lane_bytes, &other.lane_bytes);
        self.local_bytes += other.local_bytes;
        for (mine, more) in self.groups.iter_mut().zip(&other.groups) {
            mine.operations += more.operations;
            mine.bytes += more.bytes;
            mine.thread_s += more.thread_s;
        }
    }

    /// Read and written, from caches too.
    pub(crate) fn bytes(&self) -> f64 {
        self.groups.iter().map(|group| group.bytes).sum()
    }

    /// Adds bytes that were moved by copies, and not by a thread.
    pub(crate) fn add_moved(&mut self, model: &Model, demand: &Demand, operations: f64) {
        let bytes = operations * demand.request_bytes as f64;
        for kind in [AccessKind::Read, AccessKind::Write] {
            let shares = demand.shares(kind).iter().enumerate();
            for (place, share) in shares.filter(|(_, share)| **share > 0.0) {
                self.count(kind, place, bytes * share);
                self.cross(model, (kind, demand.home, place), bytes * share);
            }
        }
    }

    pub(crate) fn cross(&mut self, model: &Model, access: (AccessKind, usize, usize), bytes: f64) {
        let (kind, home, place) = access;
        let first = model.memory_resource(model.costs.places.len());
        for lane in model.lane_resources(kind, home, model.costs.places[place].node) {
            self.lane_bytes[lane - first] += bytes;
        }
    }

    pub(crate) fn operations(&self) -> f64 {
        self.groups.iter().map(|group| group.operations).sum()
    }
}

impl Passed {
    pub(crate) fn count(&mut self, kind: AccessKind, place: usize, bytes: f64) {
        match kind {
            AccessKind::Read => self.read_bytes[place] += bytes,
            AccessKind::Write => self.written_bytes[place] += bytes,
        }
    }
}
