//! What the kernel asks a mount, as bytes, by somebody who plays the kernel: right requests, requests with
//! absurd fields, and nonsense. Every one must be answered, and the volume must stay whole.

mod draw;
mod kernel;

use super::image::{self, Images};
use super::subject::{Case, Observations, Subject};
use draw::Draw;
use egeria_stats::rng::{Rng, mix_all};
use kernel::Kernel;

/// Requests of one step.
const BURST: u64 = 6;

/// Mounts of sound volumes.
#[derive(Default)]
pub(super) struct Requests {
    images: Images,
}

impl Subject for Requests {
    fn samples(&self) -> usize {
        image::sound_samples().len()
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let samples = image::sound_samples();
        let sample = samples[case.sample as usize % samples.len()];
        let volume = image::attach_sample(&mut self.images, sample, observed)?;
        let read_only = mix_all(&[case.use_seed]).is_multiple_of(16);
        let mut kernel = Kernel::mount(volume, read_only)?;
        let mut wrong = Ok(());
        for step in &case.mutation_seeds {
            let mut rng = Rng::new(*step);
            for _ in 0..=rng.below(BURST) {
                let request = Draw::new(&mut rng, &kernel).request();
                observed.line(|| request.to_string());
                wrong = wrong.and_then(|()| kernel.ask(request, observed));
            }
        }
        wrong = wrong.and_then(|()| kernel.settle(observed));
        kernel.unmount()?;
        wrong?;
        image::check_sample(&mut self.images, sample, observed)
    }
}
