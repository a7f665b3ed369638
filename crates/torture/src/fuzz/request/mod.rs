//! What the kernel asks a mount, as bytes, by somebody who plays the kernel: right requests, requests with
//! absurd fields, and nonsense. Every one must be answered, and the volume must stay whole.

mod draw;
mod kernel;

use super::dice::{Dice, mix_all};
use super::image::{self, Images};
use super::target::{Case, Subject, Told};
use draw::Draw;
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

    fn attempt(&mut self, case: &Case, told: &mut Told) -> Result<(), String> {
        let samples = image::sound_samples();
        let sample = samples[case.sample as usize % samples.len()];
        let volume = image::attach_sample(&mut self.images, sample, told)?;
        let read_only = mix_all(&[case.how]).is_multiple_of(16);
        let mut kernel = Kernel::mount(volume, read_only)?;
        let mut wrong = Ok(());
        for step in &case.steps {
            let mut dice = Dice::new(*step);
            for _ in 0..=dice.below(BURST) {
                let request = Draw::new(&mut dice, &kernel).request();
                told.line(|| request.to_string());
                wrong = wrong.and_then(|()| kernel.ask(request, told));
            }
        }
        wrong = wrong.and_then(|()| kernel.settle(told));
        kernel.unmount()?;
        wrong?;
        image::check_sample(&mut self.images, sample, told)
    }
}
