//! One window of programs on any file system.

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;
use egeria_facts::FactSource;
use egeria_machine::Machine;
use egeria_pages::file_io::FileIo;
use egeria_watch::processes::ProcessSource;

use super::super::scope::ScopeArguments;
use super::view::{Label, View};
use super::watch;

/// How bytes were found.
pub(in crate::commands) const ESTIMATE: &str = "estimated: bytes that threads read and wrote (pipes and sockets included) are taken to be of what is cached of their process's open files";

/// Watches for one window.
pub(super) fn one_window(
    processes: &ScopeArguments,
    window_ns: u64,
    signals: &Signals,
) -> Outcome<View> {
    let machine = Machine::detect()?;
    let mut view = View::of_window(Label {
        machine: Some(machine.name.clone()),
        window_ns: Some(window_ns),
        estimate: Some(ESTIMATE),
        ..Label::default()
    });
    let threads = ProcessSource::looking(machine.clone(), processes.scope()?);
    let mut source = FileIo::new(threads);
    // The first window only says from where to count.
    take(&mut source)?;
    watch::wait(window_ns as f64, signals)?;
    let facts = take(&mut source)?;
    view.add(watch::record(&machine, &facts.window));
    Ok(view)
}

fn take(source: &mut FileIo<ProcessSource>) -> Outcome<egeria_facts::Facts> {
    match source.next_facts() {
        Ok(Some(facts)) => Ok(facts),
        Ok(None) => Err(Failure::new("the kernel shows no processes; mount /proc")),
        Err(never) => match never {},
    }
}
