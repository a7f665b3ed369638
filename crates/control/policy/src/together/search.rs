//! The search for a better placement: one step after the other, each time the one that gains most.

use super::estimate::Estimate;
use super::scene::Scene;
use super::settings::Settings;
use super::state::State;
use super::steps::{Steps, Wanted};

/// Steps of one plan.
const MOST_STEPS: usize = 32;
/// Groups looked at in all placements together: a bound on the time of a search.
const MOST_WORK: usize = 100_000;
/// A process with a smaller share of remote accesses, whose memories and CPUs are not busy, is left alone.
pub(crate) const LOCAL: f64 = 0.02;
/// A process that is local already is moved for a gain that is larger by this factor.
const LOCAL_TIMES: f64 = 5.0;
/// If it is not known which threads use which memory, a gain is certain only where hardly any access crosses nodes then,
/// whichever thread makes it. Other moves of such threads must gain this part.
const CERTAIN: f64 = 0.05;
const GUESSED_GAIN: f64 = 0.1;

/// What was found.
pub(super) struct Found {
    pub(super) state: State,
    /// Of each program: what the best step that was not taken would have gained for it, and its bytes.
    pub(super) refused: Vec<Option<(f64, f64)>>,
    /// Of each program: a node that lacked room for what would have come: what would come, what it has, bytes.
    pub(super) no_room: Vec<Option<(usize, f64, f64)>>,
    /// What it gains, as [`Search::value`] says.
    value: f64,
    pub(super) now: Vec<f64>,
    pub(super) then: Vec<f64>,
}

impl Found {
    /// By what part the threads of a program become faster, in the mean.
    pub(super) fn gain(&self, scene: &Scene<'_>, program: usize) -> f64 {
        let groups = scene.programs[program].groups.iter();
        let gains = groups.map(|group| {
            let ratio = self.then[*group].max(1e-9) / self.now[*group].max(1e-9);
            scene.groups[*group].threads * ratio.ln()
        });
        (gains.sum::<f64>() / threads_of(scene, program)).exp_m1()
    }
}

struct Search<'a> {
    scene: &'a Scene<'a>,
    estimate: &'a Estimate,
    steps: Steps<'a>,
    settings: &'a Settings,
    /// What moving a byte takes, s.
    byte_s: f64,
    now: Vec<f64>,
    work: usize,
}

/// The best placement found; `held` programs stay as they are.
pub(super) fn find(
    scene: &Scene<'_>,
    estimate: &Estimate,
    settings: &Settings,
    byte_s: f64,
    held: &[bool],
) -> Found {
    let start = State::now(scene);
    let mut search = Search {
        scene,
        estimate,
        steps: Steps { scene, estimate },
        settings,
        byte_s,
        now: estimate.rates(scene, &start),
        work: 0,
    };
    let mut best = search.climb(start.clone(), held);
    for begin in search.beginnings(&start, held) {
        let other = search.climb(begin, held);
        if search.is_better(&other, &best) {
            best = Found {
                refused: best.refused,
                no_room: best.no_room,
                ..other
            };
        }
    }
    best.then = estimate.rates(scene, &best.state);
    best
}

impl Search<'_> {
    /// The best placement that steps lead to from here.
    fn climb(&mut self, start: State, held: &[bool]) -> Found {
        let count = self.scene.programs.len();
        let mut found = Found {
            value: self.value(&start),
            state: start,
            refused: vec![None; count],
            no_room: vec![None; count],
            now: self.now.clone(),
            then: Vec::new(),
        };
        self.work = 0;
        for _ in 0..MOST_STEPS {
            found.refused.fill(None);
            let value = found.value;
            let Some((state, better)) = self.best_step(&mut found, value, held) else {
                break;
            };
            (found.state, found.value) = (state, better);
        }
        found
    }

    /// Placements that single steps do not reach: what all programs have moves at once.
    fn beginnings(&self, now: &State, held: &[bool]) -> Vec<State> {
        let free = || (0..self.scene.programs.len()).filter(|program| !held[*program]);
        if free().count() < 2 || free().all(|program| !self.is_worth(now, program)) {
            return Vec::new();
        }
        let mut all = Vec::new();
        for wanted in Wanted::ALL {
            let mut state = now.clone();
            for part in free().flat_map(|program| &self.scene.programs[program].parts) {
                if let Some(shares) = self.steps.wanted(now, *part, wanted) {
                    state.parts[*part] = Some(shares);
                }
            }
            all.push(state);
        }
        all.extend(self.packed(now, free()));
        all.retain(|state| state.without_room(self.scene).is_none());
        all
    }

    /// Whether a placement gains so much more than another that what is different is worth it: as much as a step has to
    /// gain, for each thread of the programs that are placed otherwise.
    fn is_better(&self, found: &Found, than: &Found) -> bool {
        let (one, other) = (&found.state, &than.state);
        let is_other = |program: &usize| {
            let own = &self.scene.programs[*program];
            let moves = |group: &usize| one.nodes[*group] != other.nodes[*group];
            let goes = |part: &usize| one.parts[*part] != other.parts[*part];
            own.groups.iter().any(moves) || own.parts.iter().any(goes)
        };
        let programs: Vec<usize> = (0..self.scene.programs.len()).filter(is_other).collect();
        let threads = programs
            .iter()
            .map(|program| threads_of(self.scene, *program));
        let gain = ((found.value - than.value) / threads.sum::<f64>().max(1.0)).exp_m1();
        let is_guess = |program: &usize| self.is_guess(other, one, *program);
        let least = if programs.iter().any(is_guess) {
            self.settings.min_gain.max(GUESSED_GAIN)
        } else {
            self.settings.min_gain
        };
        gain >= least
    }

    /// Each program on a node of its own with its memory, the largest first, on the node with the least work.
    fn packed(&self, now: &State, free: impl Iterator<Item = usize>) -> Option<State> {
        let mut state = now.clone();
        let mut programs: Vec<usize> = free
            .filter(|program| self.scene.programs[*program].is_known)
            .collect();
        let accesses_s = |program: &usize| self.scene.programs[*program].accesses_s;
        programs.sort_by(|one, other| accesses_s(other).total_cmp(&accesses_s(one)));
        let nodes = self.scene.machine.nodes.len();
        let mut load = vec![0.0; nodes];
        for program in programs {
            let own = &self.scene.programs[program];
            let may = |node: &usize| self.steps.all_on(&state, program, *node).is_some();
            let share = |node: usize| load[node] / self.estimate.weight_of(node);
            let best = (0..nodes)
                .filter(may)
                .min_by(|one, other| share(*one).total_cmp(&share(*other)))?;
            load[best] += own.accesses_s;
            state = self.steps.all_on(&state, program, best)?;
            state.gather(self.scene, program, best);
        }
        Some(state)
    }

    /// The step from here that gains most, and the value after it.
    fn best_step(&mut self, found: &mut Found, value: f64, held: &[bool]) -> Option<(State, f64)> {
        let mut best: Option<(State, f64)> = None;
        for program in (0..self.scene.programs.len()).filter(|program| !held[*program]) {
            if !self.is_worth(&found.state, program) {
                continue;
            }
            for state in self.steps.around(&found.state, program, held) {
                if self.work > MOST_WORK {
                    return best;
                }
                let gained = self.value(&state) - value;
                let threads = threads_of(self.scene, program);
                if gained <= 0.0 {
                    continue;
                }
                if let Some(full) = state.without_room(self.scene) {
                    found.no_room[program].get_or_insert(full);
                    continue;
                }
                let gain = (gained / threads).exp_m1();
                let is_local = found.state.remote_share(self.scene, program) <= LOCAL;
                let times = if is_local { LOCAL_TIMES } else { 1.0 };
                let mut least = self.settings.min_gain * times;
                if self.is_guess(&found.state, &state, program) {
                    least = least.max(GUESSED_GAIN);
                }
                if gain < least {
                    let bytes = bytes_of(self.scene, &state, program);
                    let known = found.refused[program].get_or_insert((0.0, 0.0));
                    if gain > known.0 {
                        *known = (gain, bytes);
                    }
                    continue;
                }
                if best.as_ref().is_none_or(|(_, best)| value + gained > *best) {
                    best = Some((state, value + gained));
                }
            }
        }
        best
    }

    /// Whether threads of unknown accesses move, and what that brings depends on which of them access what.
    fn is_guess(&self, from: &State, to: &State, program: usize) -> bool {
        let own = &self.scene.programs[program];
        let moves = own.groups.iter();
        let mut moves = moves.map(|group| from.nodes[*group] != to.nodes[*group]);
        !own.is_known && to.remote_share(self.scene, program) > CERTAIN && moves.any(|moves| moves)
    }

    /// Whether something speaks for another place of a program.
    fn is_worth(&self, state: &State, program: usize) -> bool {
        state.remote_share(self.scene, program) > LOCAL
            || self.estimate.is_busy(self.scene, state, program)
    }

    /// What all groups gain, as a sum of logarithms by thread, less what the move takes.
    fn value(&mut self, state: &State) -> f64 {
        self.work += self.scene.groups.len();
        let rates = self.estimate.rates(self.scene, state);
        let mut value = 0.0;
        for ((group, now), then) in self.scene.groups.iter().zip(&self.now).zip(rates) {
            value += group.threads * (then.max(1e-9) / now.max(1e-9)).ln();
        }
        let horizon_s = self.settings.repaid_ms as f64 / 1e3;
        for program in 0..self.scene.programs.len() {
            let bytes = bytes_of(self.scene, state, program);
            value -= threads_of(self.scene, program) * bytes * self.byte_s / horizon_s;
        }
        // Of two placements as good, the one with fewer moves.
        let moved = self.scene.groups.iter().zip(&state.nodes);
        let moved = moved.filter(|(group, node)| group.node != **node);
        value - 1e-6 * moved.map(|(group, _)| group.threads).sum::<f64>()
    }
}

/// Threads of a program, at least one.
pub(super) fn threads_of(scene: &Scene<'_>, program: usize) -> f64 {
    let groups = scene.programs[program].groups.iter();
    let threads: f64 = groups.map(|group| scene.groups[*group].threads).sum();
    threads.max(1.0)
}

/// What moves of a program's memory, bytes.
pub(super) fn bytes_of(scene: &Scene<'_>, state: &State, program: usize) -> f64 {
    let copies = state.copies(scene, program);
    copies.iter().map(|copy| copy.2).sum()
}
