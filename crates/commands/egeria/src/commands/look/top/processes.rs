//! One window of programs on any file system.

use egeria_bpf::FileCounter;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;
use egeria_facts::{Facts, FileFacts};
use egeria_machine::Machine;
use egeria_pages::file_counts::CountedFiles;
use egeria_pages::file_io::FileIo;
use egeria_proc::LiveSource;
use egeria_proc::processes::ProcessSource;
use egeria_steward::{KeptLine, KindLine, Record, WindowRecord};

use super::super::decision_log::{self, DecisionLog};
use super::super::programs::Contents;
use super::rows::FileRow;
use super::view::{Label, View};
use super::watch;
use crate::commands::one_node;
use crate::commands::scope::ScopeArguments;

/// How bytes were found.
const COUNTED: &str = "counted by the kernel at the end of calls that read or write, for a part of the window that stands for all of it; mappings and io_uring are not seen";
const CUT: &str = "counted by the kernel for a part of the window; more threads and files were used than can be counted (65,536), so some are missing";
const ESTIMATE: &str = "estimated: bytes that threads read and wrote (pipes and sockets included) are taken to be of what is cached of their process's open files";

/// Programs on any file system, window by window.
pub(in crate::commands::look) struct Programs {
    machine: Machine,
    window_ns: u64,
    source: Source,
    steward: Option<Said>,
    contents: Contents,
}

/// What the steward of this machine's processes said last, if one works.
struct Said {
    log: DecisionLog,
    kept: Vec<KeptLine>,
}

impl Said {
    fn begin() -> Option<Said> {
        let log = DecisionLog::open(&decision_log::of_processes()?).ok()?;
        let kept = Vec::new();
        Some(Said { log, kept })
    }

    /// The processes that it leaves as they are.
    fn kept(&mut self) -> Vec<KeptLine> {
        // A log that begins again is that of later windows: what was said is old then.
        while let Ok(Some(record)) = self.log.next() {
            match record {
                Record::Window(window) => self.kept = window.kept_processes,
                _ => self.kept.clear(),
            }
        }
        self.kept.clone()
    }
}

enum Source {
    Counted(Box<CountedFiles<ProcessSource, FileCounter>>),
    /// Why files are not counted.
    Estimated(Box<FileIo<ProcessSource>>, String),
}

impl Programs {
    /// Begins to look: the first window is from now on.
    pub(in crate::commands::look) fn begin(
        processes: &ScopeArguments,
        window_ns: u64,
    ) -> Outcome<Programs> {
        let machine = Machine::detect()?;
        let threads = ProcessSource::looking(machine.clone(), processes.scope()?);
        let mut source = match FileCounter::begin_in_windows_of(window_ns) {
            Ok(counter) => Source::Counted(Box::new(CountedFiles::new(threads, counter))),
            Err(error) => Source::Estimated(
                Box::new(FileIo::new(threads)),
                format!("{ESTIMATE}; files are not counted: {error}"),
            ),
        };
        // It only says from where to count.
        source.as_live().start_over();
        take(source.as_live())?;
        Ok(Programs {
            machine,
            window_ns,
            source,
            steward: Said::begin(),
            contents: Contents::default(),
        })
    }

    /// A view of no window yet.
    pub(in crate::commands::look) fn view(&self) -> View {
        View::of_window(Label {
            machine: Some(self.machine.name.clone()),
            window_ns: Some(self.window_ns),
            note: one_node::line(&self.machine),
            ..Label::default()
        })
    }

    /// The window that is over, and its files, go into the view.
    pub(in crate::commands::look) fn look(&mut self, view: &mut View) -> Outcome<WindowRecord> {
        let facts = take(self.source.as_live())?;
        match &self.source {
            Source::Counted(source) => {
                let files = source.files();
                let row = |file: &FileFacts| {
                    let path = files.path(file.file);
                    FileRow::new(&facts.window, file, path.as_deref())
                };
                let estimate = if source.is_full() { CUT } else { COUNTED };
                view.set_files(facts.files.iter().map(row).collect(), estimate);
            }
            Source::Estimated(_, estimate) => view.set_files(Vec::new(), estimate),
        }
        view.set_programs(self.contents.rows(&self.machine, &facts));
        let mut record = WindowRecord {
            local_share: facts.local_share(&self.machine),
            kinds: KindLine::of_window(&self.machine, &facts, None),
            ..watch::record(&self.machine, &facts.window)
        };
        if let Some(steward) = &mut self.steward {
            record.kept_processes = steward.kept();
        }
        view.add(record.clone());
        Ok(record)
    }
}

impl Source {
    fn as_live(&mut self) -> &mut dyn LiveSource {
        match self {
            Source::Counted(source) => source.as_mut(),
            Source::Estimated(source, _) => source.as_mut(),
        }
    }
}

/// Watches for one window.
pub(super) fn one_window(
    processes: &ScopeArguments,
    window_ns: u64,
    signals: &Signals,
) -> Outcome<View> {
    let mut programs = Programs::begin(processes, window_ns)?;
    let mut view = programs.view();
    watch::wait(window_ns as f64, signals)?;
    programs.look(&mut view)?;
    Ok(view)
}

fn take(source: &mut dyn LiveSource) -> Outcome<Facts> {
    match source.next_facts() {
        Ok(Some(facts)) => Ok(facts),
        Ok(None) => Err(Failure::new(
            "the kernel shows no processes any more; mount /proc",
        )),
        Err(never) => match never {},
    }
}
