//! What is compared: where data goes, who moves threads, where threads may run.

use egeria_policy::planner::{Settings, System};

use egeria_harness::{Error, Result};

/// Where new data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// On the node of the writing thread.
    Local,
    /// On random nodes.
    Random,
    /// All on node 0: a file system that knows one node only.
    OneNode,
    /// As many such file systems as instances, the i-th on node i, each with one instance on it.
    NodeOfInstance,
}

/// Where threads may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinning {
    Free,
    /// Instance i on node i, where its data is.
    WithData,
    /// Instance i on the node after, away from its data.
    AwayFromData,
}

/// One bar of a figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// Its name in rows and charts.
    pub name: &'static str,
    /// Where new data goes.
    pub allocation: Allocation,
    /// Who moves threads.
    pub policy: System,
    /// Settings of the policy that differ from the paper's.
    pub settings: &'static [(&'static str, &'static str)],
    /// Where threads may run.
    pub pinning: Pinning,
}

const fn setup(name: &'static str, allocation: Allocation, policy: System) -> Setup {
    Setup {
        name,
        allocation,
        policy,
        settings: &[],
        pinning: Pinning::Free,
    }
}

/// A single-node file system (NThread §V-B).
pub const NOVA: Setup = setup("nova", Allocation::OneNode, System::Off);
/// One single-node file system per instance (NThread §V-B).
pub const NOVA_EACH: Setup = setup("nova", Allocation::NodeOfInstance, System::Off);
/// One file system over all nodes, blocks on random ones (NThread §II-C).
pub const NOVA_N: Setup = setup("nova_n", Allocation::Random, System::Off);
/// Threads go to their data.
pub const RL: Setup = setup("rl", Allocation::Local, System::Rl);
/// And leave nodes short of CPUs.
pub const CPU: Setup = setup("cpu", Allocation::Local, System::Cpu);
/// And leave nodes short of bandwidth.
pub const NM: Setup = setup("nm", Allocation::Local, System::Nm);
/// And sharers stay together: NThread.
pub const FULL: Setup = setup("full", Allocation::Local, System::Full);
/// All papers as one decision.
pub const ALL: Setup = setup("all", Allocation::Local, System::All);
/// Fig. 2: the best a single-node file system per instance can do.
pub const NOVA_BEST: Setup = Setup {
    pinning: Pinning::WithData,
    ..setup("nova_best", Allocation::NodeOfInstance, System::Off)
};
/// Fig. 2: the worst.
pub const NOVA_WORST: Setup = Setup {
    pinning: Pinning::AwayFromData,
    ..setup("nova_worst", Allocation::NodeOfInstance, System::Off)
};
/// Fig. 4: all threads and data on node 0.
pub const CROWDED: Setup = Setup {
    pinning: Pinning::WithData,
    ..setup("crowded", Allocation::OneNode, System::Off)
};
/// Fig. 4: CPU contention is handled by running half of the threads on node 1; data stays.
pub const SPREAD: Setup = setup("spread", Allocation::OneNode, System::Off);

/// Fig. 8: limits of Eq. 5; the last is none.
pub const CPU_LIMITS: [Setup; 6] = [
    limit("limit_80", &[("cpu_limit", "0.8")]),
    limit("limit_90", &[("cpu_limit", "0.9")]),
    limit("limit_100", &[("cpu_limit", "1.0")]),
    limit("limit_110", &[("cpu_limit", "1.1")]),
    limit("limit_130", &[("cpu_limit", "1.3")]),
    limit("limit_none", &[("cpu_limit", "1000")]),
];

const fn limit(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Setup {
    Setup {
        settings,
        ..setup(name, Allocation::Local, System::Cpu)
    }
}

impl Setup {
    /// The policy's settings.
    pub fn policy_settings(&self) -> Result<Settings> {
        let mut settings = self.policy.settings();
        for (name, value) in self.settings {
            settings.set(name, value).map_err(Error::failed)?;
        }
        Ok(settings)
    }
}
