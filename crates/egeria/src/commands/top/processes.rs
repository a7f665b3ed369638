//! One window of programs on any file system.

use egeria_bpf::FileCounter;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;
use egeria_facts::{Facts, FileFacts};
use egeria_machine::Machine;
use egeria_pages::file_counts::CountedFiles;
use egeria_pages::file_io::FileIo;
use egeria_watch::LiveSource;
use egeria_watch::processes::ProcessSource;

use super::super::scope::ScopeArguments;
use super::rows::FileRow;
use super::view::{Label, View};
use super::watch;

/// How bytes were found.
const COUNTED: &str = "counted by the kernel at the end of calls that read or write, for a part of the window that stands for all of it; mappings and io_uring are not seen";
const CUT: &str = "counted by the kernel for a part of the window; more threads and files were used than can be counted (65,536), so some are missing";
pub(in crate::commands) const ESTIMATE: &str = "estimated: bytes that threads read and wrote (pipes and sockets included) are taken to be of what is cached of their process's open files";

/// Watches for one window.
pub(super) fn one_window(
    processes: &ScopeArguments,
    window_ns: u64,
    signals: &Signals,
) -> Outcome<View> {
    let machine = Machine::detect()?;
    let mut label = Label {
        machine: Some(machine.name.clone()),
        window_ns: Some(window_ns),
        ..Label::default()
    };
    let threads = ProcessSource::looking(machine.clone(), processes.scope()?);
    let (facts, files) = match FileCounter::begin_in_windows_of(window_ns) {
        Ok(counter) => {
            let mut source = CountedFiles::new(threads, counter);
            let facts = second(&mut source, window_ns, signals)?;
            let estimate = if source.is_full() { CUT } else { COUNTED };
            label.estimate = Some(estimate.to_owned());
            let row = |file: &FileFacts| {
                let path = source.path(file.file);
                FileRow::new(&facts.window, file, path)
            };
            let files = facts.files.iter().map(row).collect();
            (facts, files)
        }
        Err(error) => {
            let mut source = FileIo::new(threads);
            label.estimate = Some(format!("{ESTIMATE}; files are not counted: {error}"));
            (second(&mut source, window_ns, signals)?, Vec::new())
        }
    };
    let mut view = View::of_window(label).with_files(files);
    view.add(watch::record(&machine, &facts.window));
    Ok(view)
}

/// The first window only says from where to count.
fn second(source: &mut dyn LiveSource, window_ns: u64, signals: &Signals) -> Outcome<Facts> {
    source.start_over();
    take(source)?;
    watch::wait(window_ns as f64, signals)?;
    take(source)
}

fn take(source: &mut dyn LiveSource) -> Outcome<Facts> {
    match source.next_facts() {
        Ok(Some(facts)) => Ok(facts),
        Ok(None) => Err(Failure::new("the kernel shows no processes; mount /proc")),
        Err(never) => match never {},
    }
}
