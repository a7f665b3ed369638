//! Window by window, how many threads may access persistent memory at once.

use egeria_facts::Measured;

use super::decision::{Because, Decision};
use super::learned::Learner;
use super::model;
use super::settings::{Controller, Settings};

/// Sets `T_S`, by Eq. 1 or by what it learned.
#[derive(Clone, Debug)]
pub struct Limiter {
    settings: Settings,
    formula: u32,
    learner: Option<Learner>,
    /// `learned` needs the throughput of DRAM: without it, the formula decides.
    learns_now: bool,
}

impl Limiter {
    /// Nothing known yet: what Eq. 1 allows for the heaviest requests.
    pub fn new(settings: &Settings) -> Limiter {
        let formula = model::cautious_limit(settings);
        let learns = settings.controller == Controller::Learned;
        Limiter {
            learner: learns.then(|| Learner::new(settings, formula)),
            learns_now: true,
            settings: settings.clone(),
            formula,
        }
    }

    pub fn limit(&self) -> u32 {
        let learner = self.learner.as_ref().filter(|_| self.learns_now);
        let learned = learner.map(Learner::limit);
        learned.unwrap_or(self.formula)
    }

    /// The limit for the next window. Numbers that are none count as an idle window.
    pub fn next(&mut self, measured: &Measured) -> Decision {
        let by_formula = model::limit_for(&measured.mix, &self.settings);
        self.formula = by_formula.unwrap_or(self.formula);
        if measured.mix.requests > 0 {
            self.learns_now = measured.dram_bytes_s.is_some();
        }
        if let Some(learner) = &mut self.learner
            && self.learns_now
        {
            return learner.next(measured, self.formula);
        }
        let because = match by_formula {
            Some(_) => Because::Formula { mix: measured.mix },
            None => Because::Idle,
        };
        Decision {
            limit: self.formula,
            because,
            tried: None,
        }
    }
}
