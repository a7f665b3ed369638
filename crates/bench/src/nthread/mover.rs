//! Who moves threads while programs run: the steward, or nobody.

use std::path::Path;
use std::sync::Arc;

use egeria_fs::Volume;
use egeria_machine::Machine;
use egeria_policy::nthread::Configuration;
use egeria_steward::{Scope, Steward, StewardOptions};

use super::setup::Setup;
use crate::error::{BenchError, Result};

/// What moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Moves {
    /// Threads, each time counted.
    pub(super) all: u64,
    /// Of the thread that moved most.
    pub(super) of_one_thread: u64,
}

/// A steward at work, or none.
pub(super) struct Mover(Option<Steward>);

impl Mover {
    /// Looks after the threads of this process's descendants, unless the policy is off.
    pub(super) fn start(
        volume: &Arc<Volume>,
        machine: &Machine,
        setup: &Setup,
        window_ns: u64,
        log: &Path,
    ) -> Result<Mover> {
        if setup.policy == Configuration::Off {
            return Ok(Mover(None));
        }
        let options = StewardOptions {
            configuration: setup.policy,
            settings: setup.policy_settings()?,
            window_ns,
            machine: machine.clone(),
            scope: Scope::Tree(std::process::id()),
            record: None,
            decision_log: Some(log.to_owned()),
        };
        let steward = Steward::start(Arc::clone(volume), options).map_err(BenchError::failed)?;
        Ok(Mover(Some(steward)))
    }

    /// Ends it; threads get their CPUs back.
    pub(super) fn stop(self) -> Moves {
        let summary = self.0.map(Steward::stop).unwrap_or_default();
        Moves {
            all: summary.moves,
            of_one_thread: summary.moves_per_thread_most,
        }
    }
}
