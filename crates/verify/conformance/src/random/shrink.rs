//! Make a program that differs shorter, while it differs.

use super::compare::{Pair, Stages};
use super::program::{Actors, Program, Step};
use std::time::Instant;

/// The shortest program found until then, and how it differs; at first it differs like this.
pub(crate) fn shrink(
    stages: &Stages,
    program: Program,
    pair: Pair,
    until: Instant,
) -> (Program, Pair) {
    let mut search = Search {
        stages,
        until,
        program,
        pair,
    };
    search.cut_the_end();
    let mut count = search.program.steps.len().div_ceil(2);
    while count > 0 {
        let is_shorter = search.drop_runs(count);
        if count == 1 && is_shorter {
            continue;
        }
        count /= 2;
    }
    search.try_simpler_actors();
    (search.program, search.pair)
}

struct Search<'s> {
    stages: &'s Stages<'s>,
    until: Instant,
    program: Program,
    pair: Pair,
}

impl Search<'_> {
    /// Keep it if it differs too.
    fn attempt(&mut self, steps: Vec<Step>, actors: Actors) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        let program = Program {
            seed: self.program.seed,
            actors,
            steps,
        };
        let pair = self.stages.compare(&program);
        let differs = pair.differs();
        if differs {
            (self.program, self.pair) = (program, pair);
        }
        differs
    }

    /// Nothing after the first difference matters.
    fn cut_the_end(&mut self) {
        let seen = self.pair.tested.outcomes.len();
        let last = self.pair.first().unwrap_or(seen);
        let steps = self.program.steps.iter().take(last + 1).copied().collect();
        self.attempt(steps, self.program.actors);
    }

    /// Leave out so many steps at once, everywhere; whether that ever left a difference.
    fn drop_runs(&mut self, count: usize) -> bool {
        let (mut at, mut is_shorter) = (0, false);
        while at < self.program.steps.len() {
            let mut steps = self.program.steps.clone();
            steps.drain(at..(at + count).min(steps.len()));
            if self.attempt(steps, self.program.actors) {
                is_shorter = true;
            } else {
                at += count;
            }
        }
        is_shorter
    }

    fn try_simpler_actors(&mut self) {
        let alone = |step: &Step| Step { actor: 0, ..*step };
        let steps = self.program.steps.iter().map(alone).collect();
        self.attempt(steps, Actors::Threads);
        for actors in [Actors::Threads, Actors::ProcessesFrom(0)] {
            if self.program.actors != Actors::Threads {
                self.attempt(self.program.steps.clone(), actors);
            }
        }
    }
}
