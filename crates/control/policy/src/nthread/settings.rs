//! The settings of NThread, with the paper's defaults.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::SettingError;

/// Which of NThread's features are on (NThread Table II).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Configuration {
    Off,
    /// Threads go to the data they read.
    Rl,
    /// And leave nodes short of CPUs.
    Cpu,
    /// And leave nodes short of bandwidth to persistent memory.
    Nm,
    /// And threads that share files are never torn apart.
    Full,
}

impl Configuration {
    /// All of them, from nothing to everything.
    pub const ALL: [Configuration; 5] = [
        Configuration::Off,
        Configuration::Rl,
        Configuration::Cpu,
        Configuration::Nm,
        Configuration::Full,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Configuration::Off => "off",
            Configuration::Rl => "rl",
            Configuration::Cpu => "cpu",
            Configuration::Nm => "nm",
            Configuration::Full => "full",
        }
    }

    /// What it switches on.
    pub fn stages(self) -> Stages {
        Stages {
            remote: self != Configuration::Off,
            cpu: !matches!(self, Configuration::Off | Configuration::Rl),
            pm: matches!(self, Configuration::Nm | Configuration::Full),
            sharing: self == Configuration::Full,
        }
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Configuration {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Configuration, SettingError> {
        let mut all = Configuration::ALL.into_iter();
        all.find(|each| each.name() == text)
            .ok_or_else(|| SettingError::value("policy", text, "off, rl, cpu, nm or full"))
    }
}

/// The stages of a plan, each on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stages {
    /// Initial targets (NThread §III-A).
    pub remote: bool,
    /// CPU contention (§III-C2).
    pub cpu: bool,
    /// Contention for persistent memory (§III-C1).
    pub pm: bool,
    /// Sharing threads never leave for contention (§III-D).
    pub sharing: bool,
}

/// By what the load of persistent memory is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PmRule {
    /// By the most that it gives at any concurrency (§III-C1: 80 % of the peak). Memory that collapsed under too many
    /// threads looks idle then.
    #[default]
    Peak,
    /// By what it gives at the concurrency there is, where the machine's curves say that; by the peak otherwise (ours).
    Curve,
}

impl PmRule {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            PmRule::Peak => "peak",
            PmRule::Curve => "curve",
        }
    }
}

/// Everything NThread leaves to be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Which stages run.
    pub stages: Stages,
    /// By how much a node must lead in what a thread reads, bytes/s (§III-A: 200 MB per 1 s).
    pub read_margin_bytes_s: f64,
    /// Weight of a byte read compared with a byte written (Eq. 1: 1/3).
    pub read_weight: f64,
    /// By what that share is judged (§III-C1: `peak`).
    pub pm_rule: PmRule,
    /// Share of a node's maximum above which its persistent memory is contended (§III-C1: 0.8).
    pub pm_limit: f64,
    /// It must also have more than this many times the `BW` of every other node (§III-C1: 2).
    pub pm_ratio: f64,
    /// Share of a node's maximum up to which displaced threads come back (ours: 0.5).
    pub pm_return: f64,
    /// Share of a node's CPUs above which they are contended, and up to which a node may take
    /// threads (Eq. 5: 0.9).
    pub cpu_limit: f64,
    /// It must also be at least this many times as busy as every other node (§III-C2: 2).
    pub cpu_ratio: f64,
    /// Share of a node's CPUs up to which displaced threads come back (ours: 0.75).
    pub cpu_return: f64,
    /// Threads that read and write less than this are left alone, bytes/s (§IV says "fewer data";
    /// ours: 1 MB/s, a two-hundredth of the margin).
    pub min_io_bytes_s: f64,
    /// What one DIMM reads at most, bytes/s; instead of what the machine says.
    pub dimm_read_bytes_s: Option<f64>,
    /// What one DIMM writes at most, bytes/s; instead of what the machine says.
    pub dimm_write_bytes_s: Option<f64>,
    /// DIMMs of every node, for the two above; instead of what the machine says.
    pub dimms: Option<u32>,
}

impl Settings {
    /// The window of the paper, ns (§III: 1 s). Plans work with rates, so any other will do.
    pub const WINDOW_NS: u64 = 1_000_000_000;

    /// The defaults with the stages of a configuration.
    pub fn of(configuration: Configuration) -> Settings {
        Settings {
            stages: configuration.stages(),
            read_margin_bytes_s: 200e6,
            read_weight: 1.0 / 3.0,
            pm_rule: PmRule::Peak,
            pm_limit: 0.8,
            pm_ratio: 2.0,
            pm_return: 0.5,
            cpu_limit: 0.9,
            cpu_ratio: 2.0,
            cpu_return: 0.75,
            min_io_bytes_s: 1e6,
            dimm_read_bytes_s: None,
            dimm_write_bytes_s: None,
            dimms: None,
        }
    }
}

impl Default for Settings {
    /// The configuration `full`.
    fn default() -> Settings {
        Settings::of(Configuration::Full)
    }
}

impl Default for Stages {
    fn default() -> Stages {
        Configuration::Full.stages()
    }
}
