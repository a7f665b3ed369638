//! Samples that are known already: of a test, or a recording.

use std::collections::VecDeque;

use egeria_facts::ProcessKey;

use super::sampler::{Sample, Sampler};

/// Gives one list of samples after the other, and then none; processes that are not asked for are left out.
#[derive(Clone, Debug, Default)]
pub struct Recorded(pub VecDeque<Vec<Sample>>);

impl Sampler for Recorded {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        let mut samples = self.0.pop_front().unwrap_or_default();
        samples.retain(|sample| processes.contains(&sample.process));
        samples
    }
}
