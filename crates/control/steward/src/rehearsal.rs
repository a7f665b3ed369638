//! What a steward of processes would see and do, without doing it: no journal, no log, no actuator.

use std::path::Path;
use std::time::Duration;

use egeria_facts::{Facts, FileKey};
use egeria_machine::Machine;
use egeria_pages::accesses::Way;
use egeria_pages::found_files::FoundFiles;
use egeria_policy::ActionKind;
use egeria_policy::diagnosis::{Finding, Look, diagnose};
use egeria_policy::planner::System;
use egeria_proc::{LiveSource, Scope};
use egeria_trace::{StandIns, Writer};

use crate::error::Result;
use crate::files::begin_trace;
use crate::memories;
use crate::options::StewardOptions;
use crate::pace;
use crate::rivals;
use crate::target::Target;

/// Looks at processes as a steward does.
pub struct Rehearsal {
    source: Box<dyn LiveSource>,
    options: StewardOptions,
    files: Option<FoundFiles>,
    kinds: Vec<ActionKind>,
    /// CPU time that the last look took.
    looked: Duration,
    /// How facts are seen, a line each.
    pub sources: Vec<String>,
    /// What cannot be seen, and why, a line each.
    pub unseen: Vec<String>,
}

impl Rehearsal {
    /// Begins to look at processes in scope: the first window begins now. Decides as the policy `all` does.
    ///
    /// # Errors
    /// When the machine is emulated: processes run on the real one.
    pub fn begin(
        machine: Machine,
        scope: Scope,
        window_ns: u64,
        memory_source: Option<Way>,
    ) -> Result<Rehearsal> {
        let target = Target::Processes;
        target.check(&machine)?;
        let policy = System::All;
        let options = StewardOptions {
            policy: policy.to_string(),
            settings: policy.settings(),
            given: Vec::new(),
            window_ns,
            machine,
            scope,
            memory_source,
            measure_idle_pools: false,
            record: None,
            decision_log: None,
        };
        let (mut sources, mut unseen) = (Vec::new(), Vec::new());
        let source = target.source(&options, (Path::new(""), None), &mut unseen);
        let mut kinds = vec![ActionKind::ThreadMigration];
        if let Some(accesses) = &source.accesses {
            sources.push(accesses.description.clone());
            kinds.extend([ActionKind::ProcessMigration, ActionKind::MemoryMigration]);
        }
        if source.files.is_some() && options.moves_files() {
            kinds.push(ActionKind::Relocation);
        }
        let notes = (&mut sources, &mut unseen);
        let counted = memories::counted(source.facts, &options.machine, notes);
        let mut rehearsal = Rehearsal {
            source: counted,
            files: source.files,
            options,
            kinds,
            looked: Duration::ZERO,
            sources,
            unseen,
        };
        // It only says from where to count.
        rehearsal.facts();
        Ok(rehearsal)
    }

    /// The facts of the window that ends now.
    pub fn facts(&mut self) -> Option<Facts> {
        let before = pace::cpu_time();
        let facts = match self.source.next_facts() {
            Ok(facts) => facts,
            Err(never) => match never {},
        };
        self.looked = pace::cpu_time().saturating_sub(before);
        facts
    }

    /// How long the window under way should be: as asked for, or longer where looking takes long, as a steward's.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.options.window_ns).max(pace::rest_after(self.looked))
    }

    /// Begins a recording for other people, as a steward makes one with the policy `off`. The machine has no names in it;
    /// facts get theirs replaced by [`StandIns`] before they are appended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn recorder(&self, path: &Path) -> Result<Writer> {
        let options = StewardOptions {
            policy: System::Off.to_string(),
            machine: StandIns::machine(&self.options.machine),
            ..self.options.clone()
        };
        begin_trace(path, None, &options)
    }

    /// What else moves threads and memory on this machine, a line each: it is in what is seen.
    pub fn others() -> Vec<String> {
        rivals::notes(Path::new("/proc"), std::process::id())
    }

    /// What is wrong, as the planner of a steward that begins with this window has it.
    pub fn diagnose(&self, facts: &Facts) -> Vec<Finding> {
        diagnose(&Look {
            machine: &self.options.machine,
            make: System::All.make(),
            settings: &self.options.settings,
            kinds: &self.kinds,
            facts,
        })
    }

    /// The path of a file outside of volumes that was in use.
    pub fn path(&self, file: FileKey) -> Option<std::path::PathBuf> {
        self.files.as_ref()?.path(file)
    }

    /// Whether the kernel counts what is read and written of files.
    pub fn counts_files(&self) -> bool {
        self.files.is_some()
    }

    /// Whether accesses to memory, or to files, are seen at all.
    pub fn sees_anything(&self) -> bool {
        self.counts_files() || self.kinds.contains(&ActionKind::MemoryMigration)
    }

    /// The machine that is looked at.
    pub fn machine(&self) -> &Machine {
        &self.options.machine
    }
}
