//! What a thread does per operation, as times and as shares of resources.

use egeria_machine::fair::Flow;
use egeria_machine::{AccessKind, MemoryKind};

use crate::rates::access_time::AccessTimes;
use crate::rates::model::{Model, NS_PER_S};
use crate::workload::MediumKind;
use egeria_machine::costs::{Access, Pattern};

/// What one thread does per operation now.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Demand {
    /// Position of the node it runs on.
    pub(crate) home: usize,
    /// It waits after each operation for all others that have this number.
    pub(crate) lockstep: Option<usize>,
    /// Bytes of an operation.
    pub(crate) request_bytes: u64,
    pub(crate) pattern: Pattern,
    /// It does not wait for an access before it begins the next.
    pub(crate) at_once: bool,
    pub(crate) think_ns: f64,
    /// Waiting off the core, ns.
    pub(crate) idle_ns: f64,
    /// The lock it takes, which all that have this number share.
    pub(crate) lock: Option<usize>,
    /// Of computing and waiting, how much is under that lock, ns.
    pub(crate) serial_ns: f64,
    /// Extra bytes that reach the medium for each byte written.
    pub(crate) write_overhead: f64,
    /// Share of operations that read from each memory; what the cache serves included.
    pub(crate) reads: Vec<f64>,
    /// Share of operations that write to each memory.
    pub(crate) writes: Vec<f64>,
    /// Bytes that the threads of its node read from, all together.
    pub(crate) working_set_bytes: f64,
    /// Reads go to delegates.
    pub(crate) delegates_reads: bool,
    /// Writes go to delegates.
    pub(crate) delegates_writes: bool,
    /// Its accesses of persistent memory wait for their turn.
    pub(crate) takes_turns: bool,
    /// Requests that it makes in the time of as many without a bound, above 0 and at most 1: the CPU delays them (MBA).
    pub(crate) bound: f64,
}

impl Demand {
    /// Shares of the operations that go to each memory.
    pub(crate) fn shares(&self, kind: AccessKind) -> &[f64] {
        match kind {
            AccessKind::Read => &self.reads,
            AccessKind::Write => &self.writes,
        }
    }

    pub(crate) fn is_delegated(&self, kind: AccessKind) -> bool {
        match kind {
            AccessKind::Read => self.delegates_reads,
            AccessKind::Write => self.delegates_writes,
        }
    }
}

/// What the policies bound and what it costs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Control {
    /// Delegates of each node; 0: nothing is delegated.
    pub(crate) delegates: u32,
    /// Handing a piece over to a delegate and back, ns.
    pub(crate) handover_ns: f64,
    /// What lies on one node before the next has its turn, bytes; not 0.
    pub(crate) stripe_bytes: u64,
    /// How many may be at each memory at once.
    pub(crate) turns: Vec<Option<f64>>,
    /// Asking for a turn, ns.
    pub(crate) turn_ns: f64,
}

/// One thread's accesses of one memory.
pub(crate) struct AtMemory {
    pub(crate) place: usize,
    /// Time per operation, ns.
    pub(crate) time_ns: f64,
    /// Time per operation when no line waits in a queue, ns.
    pub(crate) unwaited_ns: f64,
    /// Most cache lines on their way during that time.
    pub(crate) lines: f64,
    /// Cache lines per operation.
    pub(crate) lines_moved: f64,
    /// Time that each is on its way without contention, ns.
    pub(crate) line_ns: f64,
    pub(crate) kind: AccessKind,
    /// Delegates that do it at once; 0: the thread itself does it.
    pub(crate) delegates: f64,
}

/// An operation of a thread in the mean.
#[derive(Default)]
pub(crate) struct Operation {
    /// Time on the core without contention, ns.
    pub(crate) busy_ns: f64,
    /// Time off the core: idle, or delegates at work, ns.
    pub(crate) away_ns: f64,
    /// Of `busy_ns`, at memories, ns.
    pub(crate) at_memory_ns: f64,
    pub(crate) at: Vec<AtMemory>,
    pub(crate) flow: Flow,
    /// Time that its delegated parts spend at each resource, waiting for others included, ns. Kept, so that no memory
    /// is allocated for the next.
    pub(crate) delegated_ns: Vec<f64>,
    /// What one delegated operation takes of each resource.
    of_one: Vec<f64>,
}

impl AtMemory {
    pub(crate) fn is_delegated(&self) -> bool {
        self.delegates > 0.0
    }
}

impl Operation {
    /// Becomes the operation of a demand for these access times. Allocates no memory: this is done for all demands in
    /// each round of [`rates`](crate::rates::fluid::rates).
    pub(crate) fn describe(
        &mut self,
        model: &Model,
        control: &Control,
        demand: &Demand,
        times: &mut AccessTimes<'_>,
    ) {
        let cached = model
            .costs
            .cached_share(demand.home, demand.working_set_bytes);
        let reads: f64 = demand.reads.iter().sum();
        let cached_ns = reads * cached * model.costs.cached_ns(demand.home, demand.request_bytes);
        self.busy_ns = demand.think_ns + cached_ns;
        self.away_ns = demand.idle_ns;
        self.at_memory_ns = 0.0;
        self.at.clear();
        self.flow.uses.clear();
        self.delegated_ns.clear();
        self.delegated_ns.resize(model.turn_resource(0), 0.0);
        let written = 1.0 + demand.write_overhead;
        for (kind, missed) in [
            (AccessKind::Read, 1.0 - cached),
            (AccessKind::Write, written),
        ] {
            if demand.is_delegated(kind) && control.delegates > 0 {
                self.delegate(model, control, demand, (kind, missed), times);
            } else {
                self.access(model, control, demand, (kind, missed), times);
            }
        }
        self.finish(model, demand);
    }

    /// The thread goes to the memories itself.
    fn access(
        &mut self,
        model: &Model,
        control: &Control,
        demand: &Demand,
        (kind, missed): (AccessKind, f64),
        times: &mut AccessTimes<'_>,
    ) {
        let shares = demand.shares(kind).iter().enumerate();
        for (place, share) in shares.filter(|(_, share)| **share * missed > 0.0) {
            let share = share * missed;
            let access = Access {
                kind,
                home: demand.home,
                place,
                bytes: demand.request_bytes,
                pattern: demand.pattern,
                at_once: demand.at_once,
            };
            let each = times.of(&access);
            let time_ns = each.time_ns;
            self.uses(
                model.memory_resource(place),
                share * each.service_ns / NS_PER_S,
            );
            if demand.takes_turns && control.turns[place].is_some() {
                self.uses(model.turn_resource(place), share * time_ns / NS_PER_S);
                self.busy_ns += share * control.turn_ns;
            }
            let node = model.costs.places[place].node;
            for lane in model.lane_resources(kind, demand.home, node) {
                self.uses(lane, share * demand.request_bytes as f64);
            }
            self.at_memory_ns += share * time_ns;
            self.at.push(AtMemory {
                place,
                time_ns: share * time_ns,
                unwaited_ns: share * each.unwaited_ns,
                lines: each.lines,
                lines_moved: share * access.lines(),
                line_ns: each.line_ns,
                kind,
                delegates: 0.0,
            });
        }
    }

    /// Delegates of each node move the stripes that lie there, all nodes at once (OdinFS slides, "Delegation + data
    /// striping parallelize IO ops"). The thread waits for the last. Each stripe is handed over on its own.
    fn delegate(
        &mut self,
        model: &Model,
        control: &Control,
        demand: &Demand,
        (kind, missed): (AccessKind, f64),
        times: &mut AccessTimes<'_>,
    ) {
        let shares = demand.shares(kind);
        let all: f64 = shares.iter().sum();
        let stripes = demand.request_bytes.div_ceil(control.stripe_bytes) as f64;
        let mut slowest_ns: f64 = 0.0;
        let first_use = self.flow.uses.len();
        let parts = shares.iter().filter(|share| **share > 0.0);
        let at_once_at = |share: f64| {
            let stripes_there = (stripes * share / all).max(1.0);
            stripes_there.min(f64::from(control.delegates))
        };
        let at_once: f64 = parts.map(|share| at_once_at(*share)).sum();
        let at_once = at_once.min(stripes);
        for (place, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            // An operation of few stripes has a part on few nodes.
            let part = share / all;
            let chance = (stripes * part).min(1.0);
            let bytes = (demand.request_bytes as f64 * part / chance).ceil() as u64;
            let pieces = bytes.div_ceil(control.stripe_bytes) as f64;
            let node = model.costs.places[place].node;
            let host = model.delegate_host(node);
            let access = Access {
                kind,
                home: host,
                place,
                bytes,
                pattern: Pattern::Sequential,
                at_once: false,
            };
            let delegates = pieces.min(f64::from(control.delegates));
            let each = times.together(&access, delegates);
            let often = all * missed * chance;
            let buffer = (kind, host, bytes);
            let copied_ns = self.buffer(model, demand, buffer, (often, at_once), times);
            let time_ns = each.time_ns + copied_ns + model.costs.path_ns(demand.home, host);
            self.uses(
                model.memory_resource(place),
                often * each.service_ns / NS_PER_S,
            );
            // Each of its jobs asks once whether fewer delegates are at work than may be.
            let work_ns = time_ns + pieces * control.handover_ns + delegates * control.turn_ns;
            let delegate_s = often * work_ns / NS_PER_S;
            self.uses(model.delegate_resource(host), delegate_s);
            self.uses(model.core_resource(host), delegate_s);
            let between = model.lane_resources(kind, host, node);
            for lane in between.chain(model.lane_resources(kind, demand.home, host)) {
                self.uses(lane, often * bytes as f64);
            }
            // The delegates of a node share its pieces.
            slowest_ns = slowest_ns.max(work_ns / delegates);
            self.at.push(AtMemory {
                place,
                time_ns: often * time_ns,
                unwaited_ns: often * (each.unwaited_ns + copied_ns),
                // While the buffer is copied, no line of the data is on its way.
                lines: each.lines * each.time_ns / time_ns.max(1e-9),
                lines_moved: often * access.lines(),
                line_ns: each.line_ns,
                kind,
                delegates,
            });
        }
        // The thread hands its pieces over one after the other; delegates begin with the first.
        let handing_ns = stripes * control.handover_ns;
        let often = all * missed;
        let passing_ns = self.passing_ns(model, control, (first_use, often), times);
        self.away_ns += often * slowest_ns.max(handing_ns).max(passing_ns);
    }

    /// Delegates move all pieces of one operation at once, line by line in turn. So it takes no less than the memory, link
    /// or delegates that take longest for all of them, and for the operations of other threads that are there before it,
    /// ns. Uses from `first_use` on are those of `often` operations.
    fn passing_ns(
        &mut self,
        model: &Model,
        control: &Control,
        (first_use, often): (usize, f64),
        times: &AccessTimes<'_>,
    ) -> f64 {
        self.of_one.clear();
        self.of_one.resize(times.delegated.len(), 0.0);
        for (resource, amount) in &self.flow.uses[first_use..] {
            if let Some(of_one) = self.of_one.get_mut(*resource) {
                *of_one += amount / often.max(1e-12);
            }
        }
        let mut longest_ns: f64 = 0.0;
        let delegates = f64::from(control.delegates);
        let resources = self.of_one.iter().enumerate();
        for (resource, amount) in resources.skip(model.memory_resource(0)) {
            let alone_ns = amount / model.capacity(resource, delegates) * NS_PER_S;
            let passing_ns = alone_ns * (1.0 + times.delegated[resource].found());
            self.delegated_ns[resource] += often * passing_ns;
            longest_ns = longest_ns.max(passing_ns);
        }
        longest_ns
    }

    /// The other end of a delegate's copy: the buffer of the thread that asked, in DRAM of its node, which `at_once`
    /// delegates copy at once. Time that it adds per access, ns.
    fn buffer(
        &mut self,
        model: &Model,
        demand: &Demand,
        (kind, host, bytes): (AccessKind, usize, u64),
        (often, at_once): (f64, f64),
        times: &mut AccessTimes<'_>,
    ) -> f64 {
        let Some(place) = model.place_of(demand.home, MediumKind::Memory) else {
            return 0.0;
        };
        // Without DRAM, the buffer is not distinguished from the data.
        if model.costs.places[place].memory.kind != MemoryKind::Dram {
            return 0.0;
        }
        let access = Access {
            kind: kind.other(),
            home: host,
            place,
            bytes,
            pattern: Pattern::Sequential,
            at_once: true,
        };
        let each = times.together(&access, at_once);
        self.uses(
            model.memory_resource(place),
            often * each.service_ns / NS_PER_S,
        );
        each.time_ns
    }

    fn uses(&mut self, resource: usize, amount: f64) {
        self.flow.uses.push((resource, amount));
    }

    /// Reads and writes of a thread that waits for neither pass each other: stores leave, loads arrive. Their times add
    /// up as the sides of a right angle do (OptaneStudy, 17-numa, one thread).
    fn pass_each_other(&mut self) {
        let of = |kind: AccessKind| -> f64 {
            let own = self
                .at
                .iter()
                .filter(|at| at.kind == kind && !at.is_delegated());
            own.map(|at| at.time_ns).sum()
        };
        let both_ns = of(AccessKind::Read).hypot(of(AccessKind::Write));
        let part = both_ns / self.at_memory_ns.max(1e-12);
        for at in self.at.iter_mut().filter(|at| !at.is_delegated()) {
            at.time_ns *= part;
            at.unwaited_ns *= part;
        }
        self.at_memory_ns = both_ns;
    }

    fn finish(&mut self, model: &Model, demand: &Demand) {
        if demand.at_once {
            self.pass_each_other();
        }
        // Delays pass on the core, and not at a memory.
        let direct = self.at.iter().filter(|at| !at.is_delegated());
        let unwaited_ns: f64 = direct.map(|at| at.unwaited_ns).sum();
        self.busy_ns += self.at_memory_ns + unwaited_ns * (1.0 / demand.bound - 1.0);
        let core = model.core_resource(demand.home);
        self.uses(core, self.busy_ns / NS_PER_S);
        if let Some(lock) = demand.lock {
            self.uses(model.lock_resource(lock), demand.serial_ns / NS_PER_S);
        }
        self.flow.most = NS_PER_S / (self.busy_ns + self.away_ns).max(1e-3);
        // Weight by bytes: a thread that asks for more at once gets no more.
        self.flow.weight = 1.0 / demand.request_bytes as f64;
    }
}
