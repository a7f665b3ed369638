//! Two actors do the steps of a program in turn, in a directory of its own.

use super::actor::{Mistake, State};
use super::board::Board;
use super::names;
use super::outcome::Outcome;
use super::program::{Actors, Program};
use super::touch;
use crate::call;
use crate::process::{Child, Ending};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How one run went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What each step answered, as far as it came.
    pub outcomes: Vec<Outcome>,
    /// Why it did not come to its end.
    pub broken: Option<String>,
}

/// Where and how a program runs.
pub struct Stage<'s> {
    /// Below this directory.
    pub place: &'s Path,
    /// What is told between the two, and to us.
    pub board: &'s Board,
    /// Whether it decides how long steps may be, or takes what is on the board.
    pub decides: bool,
    /// How long until it counts as hanging.
    pub limit: Duration,
    /// What goes wrong here on purpose.
    pub mistake: Option<Mistake>,
}

impl Stage<'_> {
    /// Run it, from an empty directory to none.
    pub fn run(&self, program: &Program) -> Trace {
        self.board.clear();
        let ending = self.apart(|| {
            touch::survive_faults();
            let state = State {
                looks: self.decides,
                mistake: self.mistake,
                ..State::default()
            };
            self.play(program, state);
        });
        let turn = self.board.turn().min(program.steps.len());
        Trace {
            outcomes: (0..turn).map(|step| self.board.outcome(step)).collect(),
            broken: ending,
        }
    }

    /// Run something in an empty directory, in a process of its own; what went wrong.
    pub fn apart(&self, body: impl FnOnce()) -> Option<String> {
        // A new name each time: what broke is left as it is.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = names::path(&self.place.join(format!("program{count}")));
        let child = Child::begin(|| {
            crate::run::let_go_of_output();
            call::mkdir(&own, 0o755).expect("a directory for the program");
            call::chdir(&own).expect("into the directory of the program");
            body();
            names::remove_all();
            call::chdir(c"..").expect("out of the directory");
            call::rmdir(&own).expect("an empty directory in the end");
        });
        match child.ending(self.limit) {
            Ending::Well => None,
            Ending::Skipped(words) | Ending::Badly(words) => Some(words),
        }
    }

    fn play(&self, program: &Program, state: State) {
        match program.actors {
            Actors::Threads => {
                let state = Mutex::new(state);
                std::thread::scope(|scope| {
                    let other = scope.spawn(|| self.act(program, 1, 0, &state, || false));
                    self.act(program, 0, 0, &state, || other.is_finished());
                });
            }
            Actors::ProcessesFrom(step) => {
                let by_other = program.steps.iter().position(|step| step.actor == 1);
                let fork = step.min(by_other.unwrap_or(program.steps.len()));
                let state = Mutex::new(state);
                self.act_until(program, fork, &state);
                let other = Child::begin(|| self.act(program, 1, fork, &state, || false));
                self.act(program, 0, fork, &state, || other.has_ended());
                other.join();
            }
        }
    }

    /// The first alone, before there is a second.
    fn act_until(&self, program: &Program, end: usize, state: &Mutex<State>) {
        for step in 0..end {
            self.take(program, step, state);
        }
    }

    fn act(
        &self,
        program: &Program,
        actor: usize,
        from: usize,
        state: &Mutex<State>,
        is_alone: impl Fn() -> bool,
    ) {
        for step in from..program.steps.len() {
            if program.steps[step].actor != actor {
                continue;
            }
            if !self.board.wait(step, &is_alone) {
                // Whoever waits for the other says what became of it.
                return;
            }
            self.take(program, step, state);
        }
        // Nobody leaves before the end: with a process its descriptors go.
        self.board.wait(program.steps.len(), &is_alone);
    }

    fn take(&self, program: &Program, step: usize, state: &Mutex<State>) {
        let mut state = state.lock().unwrap_or_else(|poison| poison.into_inner());
        let action = program.steps[step].action;
        let limit = self.board.limit(step);
        if self.decides {
            limit.store(state.limit(action) as u64, Ordering::Relaxed);
        }
        let seed = program
            .seed
            .wrapping_add(step as u64 + 1)
            .wrapping_mul(0xd6e8_feb8_6659_fd93);
        let limit = limit.load(Ordering::Relaxed) as usize;
        let outcome = state.perform(action, limit, seed);
        drop(state);
        self.board.note(step, outcome);
    }
}
