//! Where each setting acts: with which stages, and whether live or in the model only. A setting that would change nothing in
//! the way it was given is refused.

use super::availability::Unavailable;
use super::settings::Settings;
use crate::SettingError;
use crate::pats::Controller;

/// What settings are given to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A steward (`run`, `steward`).
    Live,
    /// Decisions about a recording (`replay`).
    Replay,
    /// A prediction (`sim`).
    Model,
}

impl Place {
    pub const ALL: [Place; 3] = [Place::Live, Place::Replay, Place::Model];
}

/// One setting.
struct Acts {
    name: &'static str,
    /// What it acts with: a condition, also in words.
    needs: (fn(&Settings) -> bool, &'static str),
    places: &'static [Place],
}

type Needs = (fn(&Settings) -> bool, &'static str);

const NOTHING: Needs = (|_| true, "");
const ANY_STAGE: Needs = (Settings::decides, "any other stage on");
const MOVES: Needs = (
    Settings::moves,
    "threads, memory or files that move (remote, cpu, pm, stages.together, stages.clusters or stages.relocation)",
);
const THREADS: Needs = (Settings::moves_threads, "remote, cpu or pm");
const REMOTE: Needs = (|all| all.nthread.stages.remote, "remote");
const CPU: Needs = (|all| all.nthread.stages.cpu, "cpu");
const PM: Needs = (|all| all.nthread.stages.pm, "pm");
const CONTENTION: Needs = (
    |all| all.nthread.stages.cpu || all.nthread.stages.pm,
    "cpu or pm",
);
const CPU_OR_DATA: Needs = (
    |all| CONTENTION.0(all) || RELOCATION.0(all),
    "cpu, pm or stages.relocation",
);
const PM_OR_DATA: Needs = (
    |all| PM.0(all) || RELOCATION.0(all),
    "pm or stages.relocation",
);
const MAXIMUM: Needs = (
    |all| {
        let own = &all.nthread;
        PM_OR_DATA.0(all) && (own.dimm_read_bytes_s.is_some() || own.dimm_write_bytes_s.is_some())
    },
    "pm or stages.relocation, and dimm_read_bytes_s or dimm_write_bytes_s",
);
const TOGETHER: Needs = (|all| all.stages.together, "stages.together");
const TIERS: Needs = (
    |all| all.stages.together && all.together.tiers,
    "stages.together and together.tiers",
);
const CLUSTERS: Needs = (|all| all.stages.clusters, "stages.clusters");
const PLACED: Needs = (
    |all| all.stages.clusters && all.asymsched.threads,
    "stages.clusters and asymsched.threads",
);
const OWN_BUDGET: Needs = (
    |all| all.stages.clusters && !all.stages.budget,
    "stages.clusters, and without stages.budget (then budget.share counts)",
);
const FOLLOWS: Needs = (
    |all| all.stages.clusters && (all.asymsched.dynamic_memory || all.asymsched.full_memory),
    "stages.clusters and asymsched.dynamic_memory or asymsched.full_memory",
);
const FULL_MEMORY: Needs = (
    |all| all.stages.clusters && all.asymsched.full_memory,
    "stages.clusters and asymsched.full_memory",
);
const RELOCATION: Needs = (|all| all.stages.relocation, "stages.relocation");
const LIMITS: Needs = (|all| all.stages.limits, "stages.limits");
const SOME_LIMITS: Needs = (
    |all| all.stages.limits && !all.limits.always,
    "stages.limits and limits.always=off",
);
const LEARNED: Needs = (
    |all| all.stages.limits && all.pats.controller == Controller::Learned,
    "stages.limits and pats.controller=learned",
);
const DELEGATION: Needs = (|all| all.stages.delegation, "stages.delegation");
const SOME_DELEGATION: Needs = (
    |all| all.stages.delegation && !all.delegation.always,
    "stages.delegation and delegation.always=off",
);
const MBA: Needs = (|all| all.stages.mba, "stages.mba");
const BUDGET: Needs = (
    |all| all.stages.budget && all.moves(),
    "stages.budget and something that moves",
);
const FEEDBACK: Needs = (
    |all| all.stages.feedback && all.decides(),
    "stages.feedback",
);
const TRIALS: Needs = (
    |all| all.stages.feedback && (SOME_LIMITS.0(all) || SOME_DELEGATION.0(all)),
    "stages.feedback, and stages.limits or stages.delegation without their `always`",
);

const fn acts(name: &'static str, needs: Needs) -> Acts {
    Acts {
        name,
        needs,
        places: &Place::ALL,
    }
}

/// One that no steward and no replay has a use for.
const fn in_model(name: &'static str, needs: Needs) -> Acts {
    Acts {
        places: &[Place::Model],
        ..acts(name, needs)
    }
}

/// All settings. Live, every thread asks for admission by the engine's own rule (256 bytes), files have their own stripes, and
/// neither volumes nor the page cache keep copies of files.
const ALL: [Acts; 75] = [
    acts("stages.together", NOTHING),
    acts("stages.clusters", NOTHING),
    acts("stages.bandwidth", THREADS),
    acts("stages.relocation", NOTHING),
    acts("stages.limits", NOTHING),
    acts("stages.delegation", NOTHING),
    acts("stages.mba", NOTHING),
    acts("stages.budget", MOVES),
    acts("stages.feedback", ANY_STAGE),
    acts("nthread.remote", NOTHING),
    acts("nthread.cpu", NOTHING),
    acts("nthread.pm", NOTHING),
    acts("nthread.sharing", CONTENTION),
    acts("nthread.read_margin_bytes_s", REMOTE),
    acts("nthread.read_weight", PM_OR_DATA),
    acts("nthread.pm_rule", PM_OR_DATA),
    acts("nthread.pm_limit", PM_OR_DATA),
    acts("nthread.pm_ratio", PM),
    acts("nthread.pm_return", PM),
    acts("nthread.cpu_limit", CPU_OR_DATA),
    acts("nthread.cpu_ratio", CPU),
    acts("nthread.cpu_return", CPU),
    acts("nthread.min_io_bytes_s", THREADS),
    acts("nthread.dimm_read_bytes_s", PM_OR_DATA),
    acts("nthread.dimm_write_bytes_s", PM_OR_DATA),
    acts("nthread.dimms", MAXIMUM),
    acts("pats.controller", LIMITS),
    acts("pats.tolerated_loss", LIMITS),
    acts("pats.dimms", LIMITS),
    in_model("pats.bypass_bytes", LIMITS),
    in_model("pats.paper_bypass", LIMITS),
    acts("pats.max_threads", LIMITS),
    acts("pats.min_gain", LEARNED),
    acts("pats.probe_windows", LEARNED),
    acts("asymsched.threads", CLUSTERS),
    acts("asymsched.dynamic_memory", CLUSTERS),
    acts("asymsched.full_memory", CLUSTERS),
    acts("asymsched.sharing_accesses_s", CLUSTERS),
    acts("asymsched.filter", PLACED),
    acts("asymsched.cost_s_per_gb", CLUSTERS),
    acts("asymsched.budget", OWN_BUDGET),
    acts("asymsched.full_after_ms", FOLLOWS),
    acts("asymsched.old_share", FULL_MEMORY),
    acts("asymsched.chunk_pages", FULL_MEMORY),
    acts("asymsched.max_placements", PLACED),
    acts("together.min_gain", TOGETHER),
    acts("together.repaid_ms", TOGETHER),
    acts("together.rest_windows", TOGETHER),
    acts("together.tiers", TOGETHER),
    acts("together.tier_low", TIERS),
    acts("together.tier_high", TIERS),
    acts("together.tier_rest_windows", TIERS),
    acts("limits.always", LIMITS),
    acts("limits.rest_windows", SOME_LIMITS),
    acts("delegation.always", DELEGATION),
    in_model("delegation.stripe_bytes", DELEGATION),
    acts("delegation.min_read_bytes", DELEGATION),
    acts("delegation.min_write_bytes", DELEGATION),
    acts("delegation.delegates_per_node", DELEGATION),
    acts("delegation.remote_limit", SOME_DELEGATION),
    acts("delegation.rest_windows", SOME_DELEGATION),
    acts("relocation.horizon_ms", RELOCATION),
    acts("relocation.max_written_share", RELOCATION),
    acts("relocation.min_read_bytes_s", RELOCATION),
    acts("relocation.copy_share", RELOCATION),
    acts("relocation.max_steps", RELOCATION),
    acts("relocation.cold_bytes_s", RELOCATION),
    Acts {
        places: &[Place::Replay, Place::Model],
        ..acts("relocation.replicas", RELOCATION)
    },
    acts("relocation.rest_windows", RELOCATION),
    acts("mba.rest_windows", MBA),
    acts("budget.share", BUDGET),
    acts("budget.thread_move_ns", BUDGET),
    acts("feedback.rest_windows", FEEDBACK),
    acts("feedback.trial_windows", TRIALS),
    acts("feedback.retry_windows", FEEDBACK),
];

impl Settings {
    /// Whether any stage decides something.
    fn decides(&self) -> bool {
        self.moves() || self.stages.limits || self.stages.delegation || self.stages.mba
    }

    /// Whether anything may move.
    fn moves(&self) -> bool {
        let stages = self.stages;
        self.moves_threads() || stages.together || stages.clusters || stages.relocation
    }

    /// These settings without stages that are off because nothing carries out their actions.
    pub fn without(&self, unavailable: &[Unavailable]) -> Settings {
        let mut settings = self.clone();
        for each in unavailable {
            each.stage.switch_off(&mut settings);
        }
        settings
    }

    /// Why a setting changes nothing there, if it does not.
    ///
    /// # Errors
    /// With a name that [`Settings::set`] knows: where, or with what, it acts.
    pub fn check_acts(&self, name: &str, place: Place) -> Result<(), SettingError> {
        let acts = |acts: &&Acts| {
            let own = acts.name.strip_prefix("nthread.");
            acts.name == name || own == Some(name)
        };
        let Some(acts) = ALL.iter().find(acts) else {
            return Ok(());
        };
        let idle = |needs: &str| {
            Err(SettingError::Idle {
                name: name.to_owned(),
                needs: needs.to_owned(),
            })
        };
        if !acts.places.contains(&place) {
            return idle(acts.only());
        }
        let (holds, needs) = acts.needs;
        if holds(self) { Ok(()) } else { idle(needs) }
    }
}

impl Acts {
    fn only(&self) -> &'static str {
        if self.places.contains(&Place::Replay) {
            "`egeria replay` and `egeria sim`"
        } else {
            "`egeria sim`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_says_where_it_acts() {
        let names: Vec<String> = Settings::names().into_iter().map(|each| each.0).collect();
        let known: Vec<&str> = ALL.iter().map(|acts| acts.name).collect();
        assert_eq!(known, names);
    }

    #[test]
    fn all_settings_of_all_act_and_none_of_off() {
        let mut all = Settings::default();
        for (name, value) in [
            ("pats.controller", "learned"),
            ("dimm_read_bytes_s", "1e9"),
            ("stages.mba", "on"),
        ] {
            all.set(name, value).unwrap();
        }
        for acts in &ALL {
            let acts_in =
                |settings: &Settings| settings.check_acts(acts.name, Place::Model).is_ok();
            // The budget of all moves takes the place of AsymSched's own.
            assert_eq!(
                acts_in(&all),
                acts.name != "asymsched.budget",
                "{}",
                acts.name
            );
            assert_eq!(
                acts_in(&Settings::nothing()),
                acts.needs.1.is_empty(),
                "{}",
                acts.name
            );
        }
    }

    #[test]
    fn a_setting_that_changes_nothing_says_what_it_acts_with() {
        let pats = crate::planner::System::Pats.settings();
        let said = |name: &str, place| {
            pats.check_acts(name, place)
                .map_err(|error| error.to_string())
        };
        for (name, place, needs) in [
            (
                "pats.min_gain",
                Place::Live,
                "stages.limits and pats.controller=learned",
            ),
            ("pats.bypass_bytes", Place::Live, "`egeria sim`"),
            (
                "relocation.replicas",
                Place::Live,
                "`egeria replay` and `egeria sim`",
            ),
            ("cpu_ratio", Place::Model, "cpu"),
        ] {
            let expected = format!("{name} changes nothing here; it acts with {needs}");
            assert_eq!(said(name, place), Err(expected));
        }
        assert_eq!(said("pats.tolerated_loss", Place::Live), Ok(()));
        assert_eq!(said("pats.bypass_bytes", Place::Model), Ok(()));
    }
}
