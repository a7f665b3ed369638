//! The exit status of commands that print a score.

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_stats::aims::{Aim, missed};

/// What commands that print a score are given.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Aims {
    /// Exit with status 1 when an aim is missed
    #[arg(long)]
    require_aims: bool,
}

impl Aims {
    /// The end of a command that has printed its score.
    pub fn end(&self, aims: &[Aim]) -> Outcome {
        match missed(aims).filter(|_| self.require_aims) {
            Some(missed) => Err(Failure::new(format!(
                "{missed}; docs/explanation/model.md says what would settle it"
            ))),
            None => Ok(()),
        }
    }
}
