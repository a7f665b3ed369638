//! The lines that repair what is wrong.

use std::path::PathBuf;

use egeria_facts::FileKey;
use egeria_machine::{Machine, NodeId};
use egeria_policy::asymsched::MemoryAction;
use egeria_policy::diagnosis::{Finding, Verdict};
use egeria_policy::planner::Relocate;
use egeria_policy::{Action, ActionRecord, ProcessKept};
use serde::Serialize;

use super::subject::{Subject, cpu_set, cpus_of, quote};

/// Files that get a line of their own.
const MAX_FILES: usize = 3;
const MIB: u64 = 1 << 20;

/// A line for a shell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Repair {
    /// When it helps.
    pub(super) when: When,
    pub(super) line: String,
}

/// When a repair helps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    /// Now, while the program runs on.
    Now,
    /// From the next start of the program on.
    NextStart,
}

impl When {
    pub(super) fn words(self) -> &'static str {
        match self {
            When::Now => "now",
            When::NextStart => "at its next start",
        }
    }
}

/// What lines are made from.
pub(super) struct Repairs<'a> {
    pub(super) machine: &'a Machine,
    pub(super) subject: &'a Subject,
    pub(super) finding: &'a Finding,
    /// The path of a file.
    pub(super) path: &'a dyn Fn(FileKey) -> Option<PathBuf>,
    /// The kernel has weights of nodes, and it is known what memories give.
    pub(super) has_weights: bool,
    /// Root starts the command.
    pub(super) as_root: bool,
    /// Whether much of its memory on other nodes than this is mapped by other processes, too.
    pub(super) is_shared_outside: &'a dyn Fn(NodeId) -> bool,
}

impl Repairs<'_> {
    /// The lines; none where nothing is wrong.
    pub(super) fn lines(&self) -> Vec<Repair> {
        let finding = self.finding;
        match finding.verdict {
            Verdict::Apart => self.apart(),
            Verdict::PageCacheElsewhere => self.page_cache(),
            Verdict::Crowded | Verdict::NarrowLinks => vec![self.steward()],
            Verdict::MemoryBusy => vec![self.steward(), self.over_all_nodes()],
            Verdict::Bound => self.bound(),
            Verdict::NoRoom => self.no_room(),
            Verdict::Outgrown => {
                let now = if finding.would_do.is_empty() {
                    self.now(&format!("egeria move --pid {} --spread", self.id()))
                } else {
                    self.steward()
                };
                vec![now, self.over_all_nodes()]
            }
            // The kernel sees which threads use which memory.
            Verdict::AccessorsUnknown if !self.is_left_to_kernel() => {
                vec![self.now("sysctl -w kernel.numa_balancing=1")]
            }
            Verdict::AccessorsUnknown
            | Verdict::NotWorthIt
            | Verdict::Shared
            | Verdict::Fixed
            | Verdict::Local
            | Verdict::Quiet => Vec::new(),
        }
    }

    fn is_left_to_kernel(&self) -> bool {
        let kept = self.finding.kept.as_ref();
        kept.is_some_and(|kept| kept.because == ProcessKept::LeftToKernel)
    }

    fn id(&self) -> u32 {
        self.subject.process_id
    }

    fn now(&self, line: &str) -> Repair {
        let sudo = if self.as_root { "sudo " } else { "" };
        Repair {
            when: When::Now,
            line: format!("{sudo}{line}"),
        }
    }

    /// A steward does whatever the planner says, and goes on.
    fn steward(&self) -> Repair {
        self.now(&format!("egeria steward --pid {}", self.id()))
    }

    fn apart(&self) -> Vec<Repair> {
        let would_do = &self.finding.would_do;
        let threads = targets(would_do, |action| match action {
            Action::MigrateProcess { step, .. } => vec![step.to],
            Action::MigrateThread(step) => vec![step.to],
            _ => Vec::new(),
        });
        let memory = memory_targets(would_do);
        match (&threads[..], &memory[..]) {
            ([], [node]) => {
                let mut lines = vec![self.move_to(*node)];
                lines.extend(self.start_on(*node));
                lines
            }
            ([node], []) => {
                let mut lines = vec![self.steward()];
                lines.extend(self.start_on(*node));
                lines
            }
            _ => vec![self.steward()],
        }
    }

    /// Without `--mapped`, memory that other processes have mapped stays; with it, root is needed.
    fn move_to(&self, node: NodeId) -> Repair {
        let line = format!("egeria move --pid {} --node {}", self.id(), node.0);
        if (self.is_shared_outside)(node) {
            Repair {
                when: When::Now,
                line: format!("sudo {line} --mapped"),
            }
        } else {
            self.now(&line)
        }
    }

    /// Begins the program on a node, with its memory: by its unit, or by hand.
    fn start_on(&self, node: NodeId) -> Option<Repair> {
        let cpus = cpus_of(self.machine, node)?;
        let node = node.0;
        let line = match &self.subject.unit {
            Some(unit) => drop_in(
                unit,
                &format!("CPUAffinity={cpus}\\nNUMAPolicy=preferred\\nNUMAMask={node}"),
            ),
            None => format!(
                "numactl --cpunodebind={node} --preferred={node} {}",
                self.subject.command
            ),
        };
        Some(Repair {
            when: When::NextStart,
            line,
        })
    }

    /// New memory over all nodes: by what they give where the kernel can, else in turn.
    fn over_all_nodes(&self) -> Repair {
        let nodes = self.machine.nodes.iter();
        let with_memory = nodes.filter(|node| node.memory() != Some(0));
        let nodes = with_memory.map(|node| node.id.0.to_string());
        let nodes = nodes.collect::<Vec<String>>().join(",");
        let command = &self.subject.command;
        let line = match &self.subject.unit {
            Some(unit) => drop_in(unit, &format!("NUMAPolicy=interleave\\nNUMAMask={nodes}")),
            None if self.has_weights => format!(
                "sudo egeria weights set && numactl --weighted-interleave={nodes} {command}"
            ),
            None => format!("numactl --interleave={nodes} {command}"),
        };
        Repair {
            when: When::NextStart,
            line,
        }
    }

    fn page_cache(&self) -> Vec<Repair> {
        let mut lines = Vec::new();
        for record in &self.finding.would_do {
            let Action::Relocate(step) = &record.action else {
                continue;
            };
            let (Relocate::Move { to, .. }, Some(path)) = (step.action, (self.path)(step.file))
            else {
                continue;
            };
            let path = quote(&path.to_string_lossy());
            lines.push(self.now(&format!("egeria warm {path} --node {}", to.0)));
        }
        lines.truncate(MAX_FILES);
        if lines.is_empty() {
            lines.push(self.steward());
        }
        lines
    }

    fn bound(&self) -> Vec<Repair> {
        let freed = &self.finding.if_it_could;
        let to = targets(freed, |action| match action {
            Action::MigrateProcess { step, .. } => vec![step.to],
            Action::MigrateThread(step) => vec![step.to],
            _ => Vec::new(),
        });
        let wanted = self.finding.kept_thread.as_ref();
        let wanted = wanted.and_then(|kept| kept.wanted);
        let Some(node) = to.first().copied().or(wanted) else {
            return Vec::new();
        };
        let Some(cpus) = cpus_of(self.machine, node) else {
            return Vec::new();
        };
        let unit = self.subject.unit.as_deref();
        let is_shut_out = (self.subject.group_cpus.as_ref())
            .is_some_and(|allowed| !allowed.intersects(&cpu_set(self.machine, node)));
        if let (true, Some(unit)) = (is_shut_out, unit) {
            let unit = quote(unit);
            let line = format!("sudo systemctl set-property {unit} AllowedCPUs={cpus}");
            return vec![Repair {
                when: When::Now,
                line,
            }];
        }
        let id = self.id();
        let now = self.now(&format!("taskset --all-tasks --cpu-list --pid {cpus} {id}"));
        let later = unit.map(|unit| Repair {
            when: When::NextStart,
            line: drop_in(unit, &format!("CPUAffinity=\\nCPUAffinity={cpus}")),
        });
        [now].into_iter().chain(later).collect()
    }

    fn no_room(&self) -> Vec<Repair> {
        let kept = self.finding.kept.as_ref().map(|kept| &kept.because);
        let Some(ProcessKept::NoRoom {
            node, free_bytes, ..
        }) = kept
        else {
            return vec![self.steward()];
        };
        let free_mib = free_bytes / MIB;
        let now = if free_mib == 0 {
            self.now(&format!("egeria move --pid {} --spread", self.id()))
        } else {
            let Repair { when, line } = self.move_to(*node);
            let line = format!("{line} --max {free_mib}MiB");
            Repair { when, line }
        };
        vec![now, self.over_all_nodes()]
    }
}

/// A file that adds settings to a unit.
fn drop_in(unit: &str, settings: &str) -> String {
    let directory = quote(&format!("/etc/systemd/system/{unit}.d"));
    format!(
        "sudo mkdir -p {directory} && printf '[Service]\\n{settings}\\n' | sudo tee {directory}/placement.conf && sudo systemctl daemon-reload"
    )
}

/// The nodes that something goes to, each once.
fn targets(records: &[ActionRecord], of: impl Fn(&Action) -> Vec<NodeId>) -> Vec<NodeId> {
    let mut all: Vec<NodeId> = records
        .iter()
        .flat_map(|record| of(&record.action))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn memory_targets(records: &[ActionRecord]) -> Vec<NodeId> {
    targets(records, |action| match action {
        Action::MigrateMemory(step) => match &step.action {
            MemoryAction::Gather { copies, .. } => copies.iter().map(|copy| copy.1).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    })
}
