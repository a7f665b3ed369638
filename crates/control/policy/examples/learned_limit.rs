//! How well the learned limit does on made-up machines: the table of docs/explanation/placement.md. It times nothing.
//! `cargo run --release -p egeria-policy --example learned_limit`

#![forbid(unsafe_code)]

#[allow(dead_code, reason = "the tests use the rest of it")]
#[path = "../tests/common/knee.rs"]
mod knee;

use egeria_policy::pats::{Because, Limiter, Settings};
use knee::{Noise, any_curve, learned, rests, run_told};

const MACHINES: u64 = 1000;
const WINDOWS: u32 = 1500;
/// Windows after which it should rest.
const SETTLED: usize = 100;

/// What became of all machines with one noise.
#[derive(Default)]
struct Row {
    /// The first window from which on each was good.
    good_after: Vec<usize>,
    worst_pm: f64,
    max_loss: f64,
    moved: u32,
    searched_again: u32,
    away: usize,
}

fn main() {
    println!(
        "| noise | good after windows: median, 99 %, all | least of the best | most loss of DRAM \
         | moved later | searched again | windows not at rest |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for deviation in [0.0, 0.01, 0.02, 0.05, 0.1] {
        let mut row = Row {
            worst_pm: 1.0,
            ..Row::default()
        };
        (0..MACHINES).for_each(|seed| row.add(seed, deviation));
        row.print(deviation);
    }
}

impl Row {
    fn add(&mut self, seed: u64, deviation: f64) {
        let settings = learned();
        let curve = any_curve(seed);
        let mut limiter = Limiter::new(&settings);
        let mut noise = Noise::new(seed, deviation);
        let steps = run_told(&mut limiter, &curve, &mut noise, WINDOWS);
        // Noise hides a loss that is near what is tolerated.
        let slack = deviation * 0.6;
        let strict = Settings {
            tolerated_loss: settings.tolerated_loss - slack,
            ..settings.clone()
        };
        let best = curve.best_pm(&strict);
        let is_good = |rest: &Option<u32>| {
            let borne = |limit| curve.bears(limit, settings.tolerated_loss + slack);
            rest.is_some_and(|limit| borne(limit) && curve.pm(limit) >= 0.9 * best)
        };
        let rests = rests(&steps);
        let last_bad = rests.iter().rposition(|rest| !is_good(rest));
        self.good_after.push(last_bad.map_or(0, |at| at + 1));
        let rest = rests[rests.len() - 1].unwrap_or(1);
        self.worst_pm = self.worst_pm.min(curve.pm(rest) / best);
        let loss = 1.0 - curve.dram(rest) / curve.dram(1);
        self.max_loss = self.max_loss.max(loss);
        self.moved += u32::from(rests[SETTLED] != rests[rests.len() - 1]);
        let changed = |(_, decision): &(u32, _)| is_change(decision);
        self.searched_again += u32::from(steps.iter().any(changed));
        let pairs = steps[SETTLED..].iter().zip(&rests[SETTLED..]);
        self.away += pairs.filter(|(step, rest)| Some(step.0) != **rest).count();
    }

    fn print(&mut self, deviation: f64) {
        self.good_after.sort_unstable();
        let after = |share: f64| {
            let count = self.good_after.len();
            let at = ((count as f64 * share).ceil() as usize).clamp(1, count) - 1;
            match self.good_after[at] {
                at if at >= WINDOWS as usize => "never".to_owned(),
                at => at.to_string(),
            }
        };
        let windows = MACHINES as f64 * (WINDOWS as usize - SETTLED) as f64;
        println!(
            "| {:.0} % | {}, {}, {} | {:.2} | {:.1} % | {} | {} | {:.1} % |",
            deviation * 100.0,
            after(0.5),
            after(0.99),
            after(1.0),
            self.worst_pm,
            self.max_loss * 100.0,
            self.moved,
            self.searched_again,
            self.away as f64 / windows * 100.0
        );
    }
}

fn is_change(decision: &egeria_policy::pats::Decision) -> bool {
    matches!(decision.because, Because::Changed { .. })
}
