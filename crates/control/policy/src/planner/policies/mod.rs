//! The registry: all policies by name. A policy is an entry here. Most are settings of the planner; one with code of its
//! own has that in a file of this folder. docs/how-to/write-a-policy.md takes you through both.

use std::fmt;
use std::str::FromStr;

use egeria_machine::Machine;
use serde::{Deserialize, Serialize};

use super::Planner;
use super::policy::{Make, Policy};
use super::settings::{Settings, Stages};
use crate::nthread::{self, Configuration};
use crate::{ActionKind, SettingError};

/// What is known of a policy.
struct Entry {
    /// Its name on the command line.
    name: &'static str,
    /// What it switches on, in the words of docs/reference/settings.md.
    summary: &'static str,
    /// The paper that published it and the place there; empty for none.
    source: &'static str,
    /// Its files are striped.
    stripes: bool,
    /// Its settings as published.
    settings: fn() -> Settings,
    /// What decides.
    make: Make,
}

/// Nothing is switched on, and the planner decides. Entries say what they change.
const PRESET: Entry = Entry {
    name: "",
    summary: "",
    source: "",
    stripes: false,
    settings: Settings::nothing,
    make: planner,
};

/// Makes [`System`] of a list of entries.
macro_rules! registry {
    ($($(#[doc = $doc:literal])* $system:ident { $($entry:tt)* })*) => {
        /// A policy by name. `off`, `rl`, `cpu`, `nm` and `full` are NThread's configurations (Table II).
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum System {
            $($(#[doc = $doc])* $system,)*
        }

        impl System {
            /// All policies, in the order of the registry.
            pub const ALL: [System; [$(System::$system),*].len()] = [$(System::$system),*];

            fn entry(self) -> Entry {
                match self {
                    $(System::$system => Entry { $($entry)*, ..PRESET },)*
                }
            }
        }
    };
}

registry! {
    /// Nothing is decided.
    Off { name: "off", summary: "nothing; the steward only observes" }
    /// NThread's remote access only (Table II).
    Rl {
        name: "rl",
        summary: "`remote`",
        source: "NThread, Table II",
        settings: || nthread(Configuration::Rl)
    }
    /// NThread with contention for CPUs.
    Cpu {
        name: "cpu",
        summary: "`remote`, `cpu`",
        source: "NThread, Table II",
        settings: || nthread(Configuration::Cpu)
    }
    /// NThread with contention for CPUs and persistent memory.
    Nm {
        name: "nm",
        summary: "`remote`, `cpu`, `pm`",
        source: "NThread, Table II",
        settings: || nthread(Configuration::Nm)
    }
    /// NThread with sharing as well: all of NThread.
    Full {
        name: "full",
        summary: "`remote`, `cpu`, `pm`, `sharing`",
        source: "NThread",
        settings: || nthread(Configuration::Full)
    }
    /// PATS: limits.
    Pats {
        name: "pats",
        summary: "`stages.limits`, with `limits.always`",
        source: "PATS",
        settings: || with(Stages { limits: true, ..Stages::default() })
    }
    /// OdinFS: delegation.
    Odin {
        name: "odin",
        summary: "`stages.delegation`, with `delegation.always`",
        source: "OdinFS",
        stripes: true,
        settings: || with(Stages { delegation: true, ..Stages::default() })
    }
    /// AsymSched: clusters.
    Asymsched {
        name: "asymsched",
        summary: "`stages.clusters`",
        source: "AsymSched",
        settings: || with(Stages { clusters: true, ..Stages::default() })
    }
    /// Everything, as one decision.
    All {
        name: "all",
        summary: "everything, decided together under one budget",
        settings: Settings::everything
    }
}

fn with(stages: Stages) -> Settings {
    Settings {
        stages,
        ..Settings::nothing()
    }
}

fn nthread(configuration: Configuration) -> Settings {
    Settings {
        nthread: nthread::Settings::of(configuration),
        ..Settings::nothing()
    }
}

fn planner(machine: &Machine, settings: &Settings, kinds: &[ActionKind]) -> Box<dyn Policy> {
    Box::new(Planner::new(machine, settings.clone()).with_actuators(kinds))
}

impl System {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// What it switches on, as Markdown.
    pub fn summary(self) -> &'static str {
        self.entry().summary
    }

    /// The paper that published it and the place there; empty for none.
    pub fn source(self) -> &'static str {
        self.entry().source
    }

    /// The paper that published it; `None` for none, or for several.
    pub fn paper(self) -> Option<&'static str> {
        let paper = self.entry().source.split(',').next();
        paper.filter(|paper| !paper.is_empty())
    }

    /// Whether its files are striped over all nodes.
    pub fn stripes(self) -> bool {
        self.entry().stripes
    }

    /// Its settings. They are as in its paper, except that NThread judges persistent memory by its curve, as
    /// [`nthread::PmRule`] says.
    pub fn settings(self) -> Settings {
        self.published().by_curve()
    }

    /// Its settings as published.
    pub fn published(self) -> Settings {
        (self.entry().settings)()
    }

    /// What decides.
    pub fn make(self) -> Make {
        self.entry().make
    }

    /// The names of all policies, with this between them.
    pub fn names(between: &str) -> String {
        System::ALL.map(System::name).join(between)
    }
}

impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for System {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<System, SettingError> {
        let mut all = System::ALL.into_iter();
        all.find(|each| each.name() == text).ok_or_else(|| {
            let [first @ .., last] = System::ALL.map(System::name);
            let wanted = format!("{} or {last}", first.join(", "));
            SettingError::value("policy", text, &wanted)
        })
    }
}
