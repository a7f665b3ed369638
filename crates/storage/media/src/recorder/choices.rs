//! Selects crash images to test: all possible ones if there are few, else a sample by a seed.

use std::collections::HashSet;
use std::fmt;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// One crash image among the possible ones: for each pending line, in order, how many of
/// its steps (aligned words stored, see [`super::PendingLine`]) arrived.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Choice(pub Vec<u32>);

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps: Vec<String> = self.0.iter().map(u32::to_string).collect();
        write!(out, "[{}]", steps.join(" "))
    }
}

/// What may have arrived of a line.
#[derive(Default)]
pub(super) struct PossibleSteps {
    /// The steps after which each of its stores is complete.
    pub(super) ends: Vec<u32>,
    /// Fewer are not wanted.
    pub(super) least: u32,
}

impl PossibleSteps {
    fn full(&self) -> u32 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn whole_stores(&self) -> Vec<u32> {
        let ends = self.ends.iter().copied();
        let least = (self.least == 0).then_some(0);
        let ends = ends.filter(|end| *end >= self.least);
        least.into_iter().chain(ends).collect()
    }
}

/// At most `limit` different choices; those with the fewest arrived stores come first.
///
/// All combinations if there are at most `limit`. Otherwise all that cut no store in two, if those are at most
/// `limit`, filled up with a sample of the others. Otherwise a sample.
pub(super) fn choose(lines: &[PossibleSteps], seed: u64, limit: usize) -> Vec<Choice> {
    let whole_stores: Vec<Vec<u32>> = lines.iter().map(PossibleSteps::whole_stores).collect();
    let all: Vec<Vec<u32>> = lines
        .iter()
        .map(|line| (line.least..=line.full()).collect())
        .collect();
    if let Some(choices) = combinations(&all, limit) {
        return choices;
    }
    let mut sample = Sample {
        seen: HashSet::new(),
        choices: Vec::new(),
        limit,
    };
    match combinations(&whole_stores, limit) {
        Some(choices) => choices.into_iter().for_each(|choice| sample.add(choice.0)),
        None => sample.add_single_lines(lines, seed),
    }
    sample.fill(&whole_stores, lines, seed);
    sample.choices
}

/// Every combination of one value per line, when they are at most `limit`.
fn combinations(values: &[Vec<u32>], limit: usize) -> Option<Vec<Choice>> {
    let count = values
        .iter()
        .try_fold(1usize, |count, line| count.checked_mul(line.len()))?;
    if count > limit {
        return None;
    }
    let choice = |mut number: usize| {
        let mut steps = Vec::with_capacity(values.len());
        for line in values {
            steps.push(line[number % line.len()]);
            number /= line.len();
        }
        Choice(steps)
    };
    Some((0..count).map(choice).collect())
}

struct Sample {
    seen: HashSet<Vec<u32>>,
    choices: Vec<Choice>,
    limit: usize,
}

impl Sample {
    fn add(&mut self, steps: Vec<u32>) {
        if self.choices.len() < self.limit && self.seen.insert(steps.clone()) {
            self.choices.push(Choice(steps));
        }
    }

    /// Choices: nothing arrived, everything arrived, and for some lines: only this line arrived, only this line did
    /// not. These find most bugs of missing flushes and fences.
    fn add_single_lines(&mut self, lines: &[PossibleSteps], seed: u64) {
        let least: Vec<u32> = lines.iter().map(|line| line.least).collect();
        let full: Vec<u32> = lines.iter().map(PossibleSteps::full).collect();
        self.add(least.clone());
        self.add(full.clone());
        let mut random = Random::of(seed ^ 0x51);
        for _ in 0..(self.limit / 4).min(lines.len()) {
            let line = random.below(lines.len());
            let mut alone = least.clone();
            alone[line] = full[line];
            self.add(alone);
            let mut missing = full.clone();
            missing[line] = least[line];
            self.add(missing);
        }
    }

    fn fill(&mut self, whole_stores: &[Vec<u32>], lines: &[PossibleSteps], seed: u64) {
        let mut random = Random::of(seed);
        // Choices may repeat; a bounded number of draws ends that.
        for _ in 0..self.limit.saturating_mul(4) {
            if self.choices.len() >= self.limit {
                return;
            }
            // Few, half or most of the lines arrived.
            let arrived = [2, 8, 14][random.below(3)];
            let steps = whole_stores.iter().zip(lines).map(|(whole, line)| {
                let full = line.full();
                let cut = |random: &mut Random| {
                    line.least + random.below((full - line.least) as usize + 1) as u32
                };
                match (random.below(16) < arrived, random.below(4)) {
                    (false, 0) => whole[random.below(whole.len())],
                    (false, _) => line.least,
                    (true, 0) => cut(&mut random),
                    (true, 1) => whole[random.below(whole.len())],
                    (true, _) => full,
                }
            });
            let steps = steps.collect();
            self.add(steps);
        }
    }
}

/// The same seed always gives the same sample.
struct Random(SplitMix64);

impl Random {
    fn of(seed: u64) -> Random {
        Random(SplitMix64::seed_from_u64(seed))
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }
}
