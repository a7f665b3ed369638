//! Pools of a volume: forged, then recovered, checked, repaired and used.

mod entries;
mod exercise;
mod forge;
mod layout;
mod raw;
mod samples;
mod words;

use super::subject::{Case, Observations, Subject};
use egeria_engine::*;
use egeria_stats::rng::{Rng, mix_all};
use exercise::Exercise;
use forge::Forge;
use samples::{Recipe, Sample};
use std::sync::Arc;

/// Volumes to forge, made when they are first wanted.
pub(super) struct Images {
    recipes: Vec<Recipe>,
    samples: Vec<Option<Sample>>,
    memory: PrivateMemory,
}

impl Default for Images {
    fn default() -> Images {
        let recipes = samples::recipes();
        Images {
            samples: recipes.iter().map(|_| None).collect(),
            memory: PrivateMemory::default(),
            recipes,
        }
    }
}

impl Subject for Images {
    fn samples(&self) -> usize {
        self.recipes.len()
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let sample = self.sample(case.sample as usize % self.recipes.len(), observed)?;
        for step in &case.mutation_seeds {
            Forge::new(Rng::new(*step), sample, observed).change();
        }
        let sample = self.samples[case.sample as usize % self.recipes.len()]
            .as_ref()
            .ok_or("no sample")?;
        let rng = Rng::new(mix_all(&[case.use_seed]));
        let mut exercise = Exercise::new(sample.pools(), &mut self.memory, rng, observed);
        let outcome = exercise.run(case.use_seed);
        sample.restore();
        outcome
    }
}

impl Images {
    fn sample(&mut self, number: usize, observed: &mut Observations) -> Result<&Sample, String> {
        let recipe = &self.recipes[number];
        observed.line(|| format!("volume: {recipe}"));
        let place = &mut self.samples[number];
        if place.is_none() {
            *place = Some(recipe.make()?);
        }
        place.as_ref().ok_or_else(|| "no sample".to_owned())
    }
}

/// Samples with which nothing is wrong, for who wants to use them otherwise.
pub(super) fn sound_samples() -> Vec<usize> {
    let recipes = samples::recipes();
    let sound = recipes
        .iter()
        .enumerate()
        .filter(|(_, recipe)| recipe.is_sound());
    sound.map(|(number, _)| number).collect()
}

/// A sample as it was, attached.
pub(super) fn attach_sample(
    images: &mut Images,
    number: usize,
    observed: &mut Observations,
) -> Result<Arc<Volume>, String> {
    let sample = images.sample(number, observed)?;
    sample.restore();
    let pools = sample.pools();
    let attached = Volume::attach_private(&pools, &mut images.memory, &AttachOptions::default());
    attached.map_err(|error| error.to_string())
}

/// Nothing is wrong with a sample that was used.
pub(super) fn check_sample(
    images: &mut Images,
    number: usize,
    observed: &mut Observations,
) -> Result<(), String> {
    let pools = images.sample(number, observed)?.pools();
    let report = check_private(&pools, &mut images.memory, 1, false);
    let report = report.map_err(|error| format!("cannot be checked afterwards: {error}"))?;
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("check finds afterwards: {}", finding.what)),
    }
}
