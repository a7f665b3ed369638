//! `egeria top`: nodes and threads under a steward, as its decision log grows.

mod draw;
pub(in crate::commands::look) mod processes;
pub(in crate::commands::look) mod rows;
mod screen;
#[cfg(test)]
mod tests;
mod text;
pub(in crate::commands::look) mod view;
pub(in crate::commands::look) mod watch;

use std::io::IsTerminal;

use clap::Args;

use super::decision_log::{self, DecisionLog};
use super::watched::Watched;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::signals::Signals;
use rows::Sort;
use view::View;

/// Arguments of `egeria top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria top
  egeria top /mnt/pmem0/pool
  egeria top --once --sort local /mnt/pmem0/pool
  sudo egeria top --all
  egeria top --pid 4711 --json
  egeria top --json | jq '.threads[] | select(.local_share < 0.5)'

Keys: q quit, s sort by the next column, p pause, up and down scroll. Reads
the decision log of a steward (`egeria steward`, `egeria run --policy`);
without POOL and --log that of the one at work, else the newest. With --once
or --json and no steward on the volume of POOL it watches by itself for one
window. With --pid, --cgroup or --all it shows one window of programs on any
file system, and their files, without a volume or a steward. As root, the kernel
counts for a part of the window what each thread reads and writes of each file.
Others get an estimate: bytes per thread, pipes and sockets included, are taken
to be of what is cached of the files that its process has open. On an emulated
machine all figures are in that machine's own time. The
fields: docs/reference/decision-log.md.")]
pub struct Arguments {
    #[command(flatten)]
    watched: Watched,
    /// Print one frame as text (--json: one document) and end
    #[arg(long)]
    once: bool,
    /// Order of the threads
    #[arg(long, value_name = "COLUMN", default_value = "bytes")]
    sort: Sort,
}

/// Shows one frame, or frames until the user has seen enough.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let signals = Signals::install()?;
    let watched = &arguments.watched;
    watched.check()?;
    if watched.processes.is_any() {
        let view = processes::one_window(&watched.processes, watched.window_ns, &signals)?;
        let frame = view.frame(arguments.sort);
        return format.print(&frame, text::human);
    }
    if arguments.once || format == Format::Json {
        let view = one_view(watched, &signals)?;
        let frame = view.frame(arguments.sort);
        return format.print(&frame, text::human);
    }
    if !(std::io::stdout().is_terminal() && std::io::stdin().is_terminal()) {
        return Err(Failure::new(
            "egeria top needs a terminal; use --once for one frame as text, or --json",
        ));
    }
    let log = match &watched.pool {
        None => decision_log::choose(watched.log.as_deref(), None)?,
        Some(pool) => {
            let (volume, _) = decision_log::volume_of(pool)?;
            decision_log::working_log(volume).ok_or_else(|| {
                Failure::new(format!(
                    "no steward works on the volume of {0}; start one with `egeria steward {0}`, or look once with `egeria top --once {0}`",
                    pool.display()
                ))
            })?
        }
    };
    screen::run(DecisionLog::open(&log)?, arguments.sort, &signals)
}

/// Of a log; where no steward works on the volume asked for, of what is seen now.
fn one_view(watched: &Watched, signals: &Signals) -> Outcome<View> {
    let Some(pool) = &watched.pool else {
        return of_log(&decision_log::choose(watched.log.as_deref(), None)?);
    };
    let (volume, pool) = decision_log::volume_of(pool)?;
    match decision_log::working_log(volume) {
        Some(log) => of_log(&log),
        None => watch::one_window(&pool, watched.window_ns, signals),
    }
}

fn of_log(path: &std::path::Path) -> Outcome<View> {
    let mut log = DecisionLog::open(path)?;
    let mut view = View::of_log(path);
    match view.read(&mut log)? {
        0 => Err(decision_log::empty(path)),
        _ => Ok(view),
    }
}
