//! Charging an access: when it begins, when it ends, and waiting for that.
//!
//! All arithmetic is on given times, so that it can be proven without a clock. Times are on the machine's clock before
//! dilation, unless stated otherwise: [`EmulationState::now_ns`].

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::costs::{AccessCosts, Beside};

use super::AccessKind;
use super::access::{Access, Cost, MAX_PARTS, Part};
use super::clock;
use super::crowd::{Published, place_bit};
use super::machine::Emulation;
use super::state::{EmulatedThread, EmulationState};

/// Idle time between accesses is ignored if it is shorter than this, machine ns.
const UNNOTICED_IDLE_NS: f64 = 1_000.0;
/// How far a thread may lag behind its own time, host ns. If it lags more, the machine's clock stands still until it
/// has caught up. A core or medium keeps this much unused time for threads that lag. The invariant: it never gives out
/// more than its capacity over this time.
const MAX_LAG_NS: u64 = 1_000_000;
/// The longest time that one lag stalls the clock, host ns; a longer lag is dropped.
const MAX_STALL_NS: u64 = 1_000_000_000;
/// A remaining wait below this is skipped and carried to the next access, host ns: so every sleep really gives up the
/// CPU, and `blocked_since` can tell our sleeps from others.
const SHORTEST_SLEEP_NS: u64 = 3_000;
/// Longer computing between two accesses is charged as this, machine ns. Otherwise a program that computed for minutes
/// would seem to hang for hours at its next access.
const MAX_COMPUTING_NS: u64 = 100_000_000;
/// Longer computing than this is waited out before the medium is reserved, machine ns.
const LONG_COMPUTING_NS: f64 = 10_000.0;

/// A thread on a virtual core, about to access memory.
pub(super) struct OnCore<'a> {
    core: &'a AtomicU64,
    /// Estimated time of the access, host ns.
    estimate_ns: u64,
    /// Time at which the access begins.
    pub(super) arrival_ns: u64,
}

impl EmulationState {
    /// Called just before the real copy: the time until [`EmulationState::access`] is the access itself, not
    /// computing. Optional; without this call the copy also counts as computing.
    #[inline]
    pub fn begin_access(&self, thread: &EmulatedThread) {
        if self.is_on() {
            thread.entered_ns.store(clock::now_ns(), Relaxed);
            thread.entered_cpu_ns.store(clock::thread_cpu_ns(), Relaxed);
            thread.forget_cached();
        }
    }

    /// Runs `wait` without counting its CPU time as computing of the thread. Checking at intervals whether a wait is
    /// over takes no longer on a slower machine. Stretching it would make all threads that wait behind this one check
    /// more often.
    pub fn wait<T>(&self, thread: &EmulatedThread, wait: impl FnOnce() -> T) -> T {
        if !self.is_on() {
            return wait();
        }
        let begun_ns = clock::thread_cpu_ns();
        let outcome = wait();
        let waited_ns = clock::thread_cpu_ns().saturating_sub(begun_ns);
        thread.woke_cpu_ns.fetch_add(waited_ns, Relaxed);
        outcome
    }
}

impl Emulation {
    /// Charges an access of this thread to a memory (position in [`AccessCosts::places`]) and waits until it would have
    /// ended. Call it after the real copy and outside all locks. Memories that do not exist are free.
    #[inline]
    pub fn access(&self, thread: &EmulatedThread, place: usize, bytes: u64, kind: AccessKind) {
        if self.is_on() {
            self.access_on(thread, &mut std::iter::once((place, bytes)), kind);
        }
    }

    /// Charges an access in stripes on several memories, at most 16 (further ones are ignored), and waits for its end.
    #[inline]
    pub fn access_striped(
        &self,
        thread: &EmulatedThread,
        parts: &mut dyn Iterator<Item = (usize, u64)>,
        kind: AccessKind,
    ) {
        if self.is_on() {
            self.access_on(thread, parts, kind);
        }
    }

    #[cold]
    fn access_on(
        &self,
        thread: &EmulatedThread,
        parts: &mut dyn Iterator<Item = (usize, u64)>,
        kind: AccessKind,
    ) {
        let (host_ns, cpu_ns) = match thread.entered_ns.swap(0, Relaxed) {
            0 => (clock::now_ns(), clock::thread_cpu_ns()),
            entered_ns => (entered_ns, thread.entered_cpu_ns.load(Relaxed)),
        };
        let between_ns = cpu_ns.saturating_sub(thread.woke_cpu_ns.load(Relaxed));
        let computed_ns = between_ns
            .saturating_sub(self.own_cpu_cost_ns.load(Relaxed))
            .min(host_ns.saturating_sub(thread.woke_host_ns.load(Relaxed)))
            .min(MAX_COMPUTING_NS);
        let Some(costs) = self.costs() else {
            return;
        };
        let existing = parts.filter_map(|(place, bytes)| {
            let memory_node = costs.places.get(place)?.node;
            Some(Part {
                place,
                bytes,
                cached_bytes: thread.take_cached(memory_node).min(bytes),
                is_buffer: false,
            })
        });
        let mut all = [Part::NONE; MAX_PARTS];
        let mut count = 0;
        for (slot, part) in all.iter_mut().zip(existing) {
            *slot = part;
            count += 1;
        }
        let [first, rest @ ..] = &all[..count] else {
            return;
        };
        let access = Access {
            place: first.place,
            bytes: first.bytes,
            kind,
            cached_bytes: first.cached_bytes,
            computed_ns,
            owed_ns: thread.owed_ns.swap(0, Relaxed),
            pattern: thread.take_pattern(),
            at_once: false,
            in_burst: false,
            rest,
        };
        self.charge(thread, host_ns, access);
        thread.woke_cpu_ns.store(clock::thread_cpu_ns(), Relaxed);
    }

    /// Charges and waits, with a given computing time.
    pub(super) fn charge(&self, thread: &EmulatedThread, host_ns: u64, mut access: Access<'_>) {
        let Some(costs) = self.costs() else {
            return;
        };
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        if thread.precise_thread.swap(own, Relaxed) != own {
            clock::wake_precisely();
        }
        let home = self.node_of_thread(thread);
        if self.restart(thread, host_ns) {
            access.computed_ns = 0;
            blocked(thread);
        }
        let on_core = self.take_core(costs, thread, home, host_ns, access, || blocked(thread));
        let mut asked_ns = self.at_ns(host_ns);
        if on_core.arrival_ns as f64 - asked_ns as f64 > LONG_COMPUTING_NS * self.dilation() {
            self.sleep(thread, on_core.arrival_ns);
            asked_ns = on_core.arrival_ns;
        }
        let ended_ns = self.use_memory(costs, thread, home, &on_core, asked_ns, access);
        if ended_ns > self.now_ns() + SHORTEST_SLEEP_NS {
            self.sleep(thread, ended_ns);
        }
        self.wake(thread, clock::now_ns());
    }
}

impl EmulationState {
    /// Sleeps until the machine's clock shows `until_ns`, also if the clock stands still during the sleep.
    fn sleep(&self, thread: &EmulatedThread, until_ns: u64) {
        loop {
            let stalled_ns = self.stalled_ns();
            sleep(thread, until_ns.saturating_add(stalled_ns));
            if self.stalled_ns() == stalled_ns {
                return;
            }
        }
    }

    /// Drops what the thread recorded before timing was switched on.
    pub(super) fn restart(&self, thread: &EmulatedThread, host_ns: u64) -> bool {
        let epoch = self.epoch();
        if thread.epoch.swap(epoch, Relaxed) == epoch {
            return false;
        }
        thread.ended_ns.store(self.at_ns(host_ns), Relaxed);
        thread.waited_ns.store(0, Relaxed);
        self.wake(thread, host_ns);
        true
    }

    /// The thread goes on with its own work.
    pub(super) fn wake(&self, thread: &EmulatedThread, host_ns: u64) {
        thread.woke_host_ns.store(host_ns, Relaxed);
        thread.woke_ns.store(self.at_ns(host_ns), Relaxed);
    }

    /// Step 1: the thread's computing, on the core of its node that is free first.
    pub(super) fn take_core(
        &self,
        costs: &AccessCosts,
        thread: &EmulatedThread,
        home: usize,
        host_ns: u64,
        access: Access<'_>,
        blocked: impl FnOnce() -> bool,
    ) -> OnCore<'_> {
        let dilation = self.dilation();
        let computing_ns = (access.computed_ns + access.owed_ns) as f64 * dilation;
        let ready_ns = self.ready_ns(thread, host_ns, computing_ns, blocked);
        let alone = |part| {
            self.cost(costs, home, part, (Beside::ALONE, 0.0))
                .undisturbed_ns
        };
        let estimate_ns = (access.parts().map(alone).sum::<f64>() * dilation) as u64;
        let cores = self.nodes()[home.min(self.node_count() - 1)].cores();
        loop {
            let (core, free_ns) = first_free(cores);
            let begin_ns = ready_ns.max(free_ns);
            let arrival_ns = begin_ns + computing_ns as u64;
            let until_ns = with_credit(free_ns, ready_ns) + computing_ns as u64 + estimate_ns;
            if core
                .compare_exchange_weak(free_ns, until_ns, Relaxed, Relaxed)
                .is_ok()
            {
                let queued_ns = (begin_ns - ready_ns) as f64 / dilation;
                thread.queued_ns.fetch_add(queued_ns as u64, Relaxed);
                return OnCore {
                    core,
                    estimate_ns,
                    arrival_ns,
                };
            }
        }
    }

    /// Time at which the thread began to compute: the time at which its last access should have ended, plus the time
    /// it was blocked since then. Time during which the host ran other threads does not count on the emulated machine.
    fn ready_ns(
        &self,
        thread: &EmulatedThread,
        host_ns: u64,
        computing_ns: f64,
        blocked: impl FnOnce() -> bool,
    ) -> u64 {
        let ended_ns = thread.ended_ns.load(Relaxed);
        let waited_ns = thread.waited_ns.swap(0, Relaxed);
        let since_ns = self
            .at_ns(host_ns)
            .saturating_sub(thread.woke_ns.load(Relaxed) + waited_ns);
        let idle_ns = since_ns as f64 - computing_ns;
        let idle_ns = if idle_ns > UNNOTICED_IDLE_NS * self.dilation() && blocked() {
            idle_ns as u64
        } else {
            0
        };
        let ready_ns = ended_ns + waited_ns + idle_ns;
        if computing_ns >= MAX_COMPUTING_NS as f64 * self.dilation() {
            // It computed for longer than is charged, so this is not lag.
            return ready_ns.max(self.at_ns(host_ns).saturating_sub(computing_ns as u64));
        }
        ready_ns + self.stall(ready_ns + computing_ns as u64, host_ns)
    }

    /// A thread did at `host_ns` what was due at `due_ns` of the machine's clock. If it lags far behind, the clock
    /// stands still for the excess. So all threads of the machine are equally late, and load by other programs makes
    /// the machine neither slower nor less parallel. Returns the dropped part of the lag, ns.
    fn stall(&self, due_ns: u64, host_ns: u64) -> u64 {
        loop {
            let stalled_ns = self.stalled_ns.load(Relaxed);
            let lag_ns = host_ns.saturating_sub(stalled_ns).saturating_sub(due_ns);
            let excess_ns = lag_ns.saturating_sub(MAX_LAG_NS);
            if excess_ns == 0 {
                return 0;
            }
            let stall_ns = excess_ns.min(MAX_STALL_NS);
            let next_ns = stalled_ns + stall_ns;
            let word = &self.stalled_ns;
            if word
                .compare_exchange(stalled_ns, next_ns, Relaxed, Relaxed)
                .is_ok()
            {
                return excess_ns - stall_ns;
            }
        }
    }

    /// Steps 2 and 3: the memory, then the latency; or the cache, which skips both. Returns the end time.
    pub(super) fn use_memory(
        &self,
        costs: &AccessCosts,
        thread: &EmulatedThread,
        home: usize,
        on_core: &OnCore<'_>,
        asked_ns: u64,
        access: Access<'_>,
    ) -> u64 {
        match access.rest {
            [] => self.use_one(costs, thread, home, on_core, asked_ns, access),
            _ => self.use_several(costs, thread, home, on_core, asked_ns, access),
        }
    }

    /// Several memories: the thread's own time is the sum; any of them, or a link, may delay it.
    fn use_several(
        &self,
        costs: &AccessCosts,
        thread: &EmulatedThread,
        home: usize,
        on_core: &OnCore<'_>,
        asked_ns: u64,
        access: Access<'_>,
    ) -> u64 {
        let (arrival_ns, dilation) = (on_core.arrival_ns, self.dilation());
        let are_buffers =
            std::iter::once(false).chain(access.rest.iter().map(|part| part.is_buffer));
        let memories = are_buffers.clone().filter(|is_buffer| !is_buffer).count();
        let cost_of = |part: Access<'_>| {
            let found = self.crowd(costs, thread, (part.place, memories), arrival_ns);
            self.cost(costs, home, part, (found.beside, found.wait_ns))
        };
        let mut whole = Cost {
            service_ns: 0.0,
            medium_written_bytes: 0.0,
            undisturbed_ns: 0.0,
            unwaited_ns: 0.0,
        };
        let mut of_parts = [whole; MAX_PARTS];
        let mut of_buffer_ns = 0.0;
        let parts = access.parts().zip(are_buffers.clone());
        for ((part, is_buffer), of_part) in parts.zip(&mut of_parts) {
            let cost = cost_of(part);
            if is_buffer {
                of_buffer_ns = cost.undisturbed_ns;
            }
            whole.undisturbed_ns += cost.undisturbed_ns;
            whole.unwaited_ns += cost.unwaited_ns;
            *of_part = cost;
        }
        // While the buffer is copied, no line of the data is on its way.
        let of_time = 1.0 - of_buffer_ns / whole.undisturbed_ns.max(1e-9);
        let work = Work {
            arrival_ns,
            entered_ns: arrival_ns.min(asked_ns),
            undisturbed_ns: whole.undisturbed_ns * dilation,
            in_burst: access.in_burst,
        };
        let mut ended_ns = arrival_ns + work.undisturbed_ns.round() as u64;
        // Others see it at each memory for its part of the time. If it were shown at one memory after the other, many
        // threads in step would seem to be at one memory together.
        let mut shown = Published {
            places: 0,
            kind: access.kind,
            from_ns: arrival_ns,
            until_ns: ended_ns,
            lines: 0.0,
            lines_moved: 0.0,
            line_ns: 0.0,
            unwaited_ns: whole.unwaited_ns,
        };
        for ((part, is_buffer), cost) in access.parts().zip(are_buffers).zip(of_parts) {
            if !part.is_cached() {
                ended_ns = ended_ns.max(self.occupy(costs, home, part, work, cost));
            }
            if is_buffer {
                // Stores leave by themselves, and loads were prefetched: no line of it is waited for.
                continue;
            }
            let of_memory = part.of_memory(home);
            shown.places |= place_bit(part.place);
            shown.lines += costs.lines_on_their_way(&of_memory) * of_time / memories as f64;
            shown.lines_moved += of_memory.lines();
            shown.line_ns += costs.line_ns(&of_memory) / memories as f64;
        }
        shown.until_ns = ended_ns;
        self.publish(thread, shown);
        self.end_at(thread, on_core, access, ended_ns);
        ended_ns
    }

    /// Occupies the memory and the links of an access; returns when the access ends on them.
    fn occupy(
        &self,
        costs: &AccessCosts,
        home: usize,
        access: Access<'_>,
        work: Work,
        cost: Cost,
    ) -> u64 {
        let dilation = self.dilation();
        let service_ns = cost.service_ns * dilation;
        let mut ended_ns = work.occupy(&self.memory_free_ns[access.place], service_ns);
        let written_bytes = cost.medium_written_bytes as u64;
        self.written_bytes[access.place].fetch_add(written_bytes, Relaxed);
        let bytes = access.of_memory(home).bytes;
        self.moved_bytes[access.place].fetch_add(bytes, Relaxed);
        let bytes = bytes as f64;
        let memory_node = costs.places[access.place].node;
        for lane in costs.lanes_of(access.kind, home, memory_node) {
            let service_ns = bytes / costs.lanes()[lane].bytes_s * 1e9 * dilation;
            ended_ns = ended_ns.max(work.occupy(&self.lane_free_ns[lane], service_ns));
        }
        ended_ns
    }

    fn end_at(
        &self,
        thread: &EmulatedThread,
        on_core: &OnCore<'_>,
        access: Access<'_>,
        ended_ns: u64,
    ) {
        let longer_ns = (ended_ns - on_core.arrival_ns).saturating_sub(on_core.estimate_ns);
        on_core.core.fetch_add(longer_ns, Relaxed);
        self.count(thread, access, ended_ns - on_core.arrival_ns);
        thread.ended_ns.store(ended_ns, Relaxed);
    }

    fn use_one(
        &self,
        costs: &AccessCosts,
        thread: &EmulatedThread,
        home: usize,
        on_core: &OnCore<'_>,
        asked_ns: u64,
        access: Access<'_>,
    ) -> u64 {
        let (arrival_ns, dilation) = (on_core.arrival_ns, self.dilation());
        let found = self.crowd(costs, thread, (access.place, 1), arrival_ns);
        let cost = self.cost(costs, home, access, (found.beside, found.wait_ns));
        let ended_ns = if access.is_cached() {
            arrival_ns + (cost.undisturbed_ns * dilation).round() as u64
        } else {
            let work = Work {
                arrival_ns,
                entered_ns: arrival_ns.min(asked_ns),
                undisturbed_ns: cost.undisturbed_ns * dilation,
                in_burst: access.in_burst,
            };
            let ended_ns = self.occupy(costs, home, access, work, cost);
            let of_memory = access.of_memory(home);
            self.publish(
                thread,
                Published {
                    places: place_bit(access.place),
                    kind: access.kind,
                    from_ns: arrival_ns,
                    until_ns: ended_ns,
                    lines: costs.lines_on_their_way(&of_memory),
                    lines_moved: of_memory.lines(),
                    line_ns: costs.line_ns(&of_memory),
                    unwaited_ns: cost.unwaited_ns,
                },
            );
            ended_ns
        };
        self.end_at(thread, on_core, access, ended_ns);
        ended_ns
    }

    /// Cost of the access with this crowd of threads: cached bytes come from the cache, the rest from the memory.
    pub(super) fn cost(
        &self,
        costs: &AccessCosts,
        home: usize,
        access: Access<'_>,
        (beside, wait_ns): (Beside, f64),
    ) -> Cost {
        let cache = &self.caches()[home.min(self.node_count() - 1)];
        let cached_ns = cache.stream_ns(access.cached_bytes);
        if access.is_cached() {
            let all_ns = cache.latency_ns() + cached_ns;
            return Cost {
                service_ns: 0.0,
                medium_written_bytes: 0.0,
                undisturbed_ns: all_ns,
                unwaited_ns: all_ns,
            };
        }
        let of_memory = access.of_memory(home);
        let unwaited_ns = costs.access_ns(&of_memory, beside.accessors, 0.0);
        let access_ns = if wait_ns > 0.0 {
            costs.access_ns(&of_memory, beside.accessors, wait_ns)
        } else {
            unwaited_ns
        };
        let service_ns = costs.service_ns(&of_memory, beside);
        Cost {
            service_ns,
            medium_written_bytes: costs.medium_written_bytes(&of_memory, beside),
            undisturbed_ns: access_ns.max(service_ns) + cached_ns,
            unwaited_ns: unwaited_ns + cached_ns,
        }
    }

    /// Into the thread's counters.
    fn count(&self, thread: &EmulatedThread, access: Access<'_>, host_ns: u64) {
        let access_ns = (host_ns as f64 / self.dilation()) as u64;
        let add = |counter: &AtomicU64, value| counter.fetch_add(value, Relaxed);
        add(
            &thread.busy_ns,
            access.computed_ns + access.owed_ns + access_ns,
        );
        add(&thread.computed_ns, access.computed_ns);
        let cached = access.parts().map(|part| part.cached_bytes);
        add(&thread.cached_bytes, cached.sum());
        add(&thread.accesses, 1);
    }
}

/// Whether the thread gave up its CPU other than in our sleeps since the last call.
pub(super) fn blocked(thread: &EmulatedThread) -> bool {
    let switches = clock::voluntary_switches();
    let before = thread.switches.swap(switches, Relaxed);
    let own = thread.own_switches.swap(0, Relaxed);
    switches.saturating_sub(before) > own
}

pub(super) fn sleep(thread: &EmulatedThread, until_ns: u64) {
    thread
        .own_switches
        .fetch_add(clock::sleep_until(until_ns), Relaxed);
}

fn first_free(cores: &[AtomicU64]) -> (&AtomicU64, u64) {
    let mut first = (&cores[0], cores[0].load(Relaxed));
    for core in &cores[1..] {
        let free_ns = core.load(Relaxed);
        if free_ns < first.1 {
            first = (core, free_ns);
        }
    }
    first
}

/// An access that occupies memory and links, host ns.
#[derive(Clone, Copy)]
struct Work {
    arrival_ns: u64,
    /// Work is entered when it is requested, though it arrives later (the computing in between is known but not over).
    /// So others can use the capacity before its arrival.
    entered_ns: u64,
    undisturbed_ns: f64,
    /// Several begin at once: their lines are served in turn, so none waits for another and then begins.
    in_burst: bool,
}

impl Work {
    /// Occupies a core or medium for a service time; returns when the access ends on it.
    fn occupy(self, free_ns: &AtomicU64, service_ns: f64) -> u64 {
        let latency_ns = (self.undisturbed_ns - service_ns).max(0.0).round() as u64;
        let service_ns = service_ns.round() as u64;
        let serve = |free_ns: u64| Some(with_credit(free_ns, self.entered_ns) + service_ns);
        let before_ns = match free_ns.fetch_update(Relaxed, Relaxed, serve) {
            Ok(free_ns) | Err(free_ns) => free_ns,
        };
        let served_ns = with_credit(before_ns, self.entered_ns) + service_ns;
        let alone_ns = self.arrival_ns + service_ns + latency_ns;
        if self.in_burst {
            served_ns.max(alone_ns)
        } else {
            alone_ns.max(served_ns + latency_ns)
        }
    }
}

/// From which time to count work that begins at `begin_ns` on a core or medium that is free at `free_ns`. Threads may
/// arrive late and out of order. Unused time must not be lost to them; otherwise a slow host would reduce the
/// machine's capacity.
fn with_credit(free_ns: u64, begin_ns: u64) -> u64 {
    free_ns.max(begin_ns.saturating_sub(MAX_LAG_NS))
}
