//! What accesses take next to one crowd. Each is computed once: threads of a node share most of theirs.

use egeria_machine::costs::{Access, Beside, Crowd, Place};

use crate::rates::model::Model;

/// What one access takes next to a crowd.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct AccessTime {
    /// Time of the access, ns.
    pub(crate) time_ns: f64,
    /// Time of the access when no line waits in a queue, ns.
    pub(crate) unwaited_ns: f64,
    /// Time for which it occupies the memory, ns.
    pub(crate) service_ns: f64,
    /// Most cache lines on their way during that time.
    pub(crate) lines: f64,
    /// Time that each is on its way without contention, ns.
    pub(crate) line_ns: f64,
}

/// Delegated operations at a resource: a memory, a link, or the delegates of a node.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Delegated {
    /// In the mean at once.
    pub(crate) present: f64,
    /// Threads whose operations use it.
    pub(crate) callers: f64,
}

impl Delegated {
    /// Operations that one of the callers finds there: as many as the others have there in the mean (Schweitzer's
    /// approximation of mean value analysis).
    pub(crate) fn found(self) -> f64 {
        if self.callers > 1.0 {
            self.present * (self.callers - 1.0) / self.callers
        } else {
            0.0
        }
    }
}

/// What accesses of a model's memories take next to one crowd.
pub(crate) struct AccessTimes<'a> {
    model: &'a Model,
    crowd: Crowd,
    /// [`AccessCosts::path_ns`](egeria_machine::costs::AccessCosts::path_ns) by node of the thread and by memory.
    paths_ns: Vec<f64>,
    /// Delegated operations at each resource.
    pub(crate) delegated: Vec<Delegated>,
    /// What is known by now, by memory.
    known: Vec<Vec<(Way, Access, AccessTime)>>,
}

/// What the node of a thread makes of its accesses: all that are the same in it take the same.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Way {
    is_remote: bool,
    path_ns: f64,
    /// Threads at the memory, itself included.
    accessors: f64,
}

impl<'a> AccessTimes<'a> {
    /// Nothing is known yet.
    pub(crate) fn new(model: &'a Model, crowd: Crowd) -> AccessTimes<'a> {
        let (costs, nodes) = (&model.costs, model.node_count());
        let path_ns = |(home, place): (usize, &Place)| costs.path_ns(home, place.node);
        let pairs = (0..nodes).flat_map(|home| costs.places.iter().map(move |at| (home, at)));
        AccessTimes {
            model,
            crowd,
            paths_ns: pairs.map(path_ns).collect(),
            delegated: vec![Delegated::default(); model.turn_resource(0)],
            known: vec![Vec::new(); costs.places.len()],
        }
    }

    /// The crowd that accesses meet.
    pub(crate) fn crowd(&self) -> &Crowd {
        &self.crowd
    }

    /// Changes the crowd; access times of the old one are dropped.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut Crowd) -> T) -> T {
        self.known.iter_mut().for_each(Vec::clear);
        change(&mut self.crowd)
    }

    /// What an access takes.
    pub(crate) fn of(&mut self, access: &Access) -> AccessTime {
        self.together(access, 1.0)
    }

    /// What an access takes that is one of this number at once.
    pub(crate) fn together(&mut self, access: &Access, accesses: f64) -> AccessTime {
        let places = &self.model.costs.places;
        let accessors = self.crowd.accessors[access.place].max(accesses);
        let way = Way {
            is_remote: access.home != places[access.place].node,
            path_ns: self.paths_ns[access.home * places.len() + access.place],
            accessors,
        };
        let known = &mut self.known[access.place];
        let is_same = |other: &Access| {
            let home = access.home;
            Access { home, ..*other } == *access
        };
        let mut same = known.iter();
        if let Some((_, _, time)) = same.find(|known| known.0 == way && is_same(&known.1)) {
            return *time;
        }
        let (costs, crowd) = (&self.model.costs, &self.crowd);
        let wait_ns = crowd.wait_ns(&costs.places[access.place].queues);
        let beside = Beside {
            accessors,
            ..crowd.beside(access.place)
        };
        let unwaited_ns = costs.access_ns(access, accessors, 0.0);
        let time = AccessTime {
            time_ns: if wait_ns > 0.0 {
                costs.access_ns(access, accessors, wait_ns)
            } else {
                unwaited_ns
            },
            unwaited_ns,
            service_ns: costs.service_ns(access, beside),
            lines: costs.lines_on_their_way(access),
            line_ns: costs.line_ns(access),
        };
        known.push((way, *access, time));
        time
    }
}
