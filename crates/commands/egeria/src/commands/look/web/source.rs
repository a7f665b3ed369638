//! Where windows come from.

use std::path::Path;
use std::time::{Duration, Instant};

use egeria_engine::{AttachMode, AttachOptions};
use egeria_session::SessionSource;
use egeria_steward::{Scope, WindowRecord};

use super::super::decision_log::{self, DecisionLog};
use super::super::top::processes::Programs;
use super::super::top::view::{Label, View};
use super::super::top::watch;
use crate::commands::look::watched::Watched;
use crate::session;
use egeria_cli::failure::Outcome;

/// Windows, and the view of them.
pub(super) struct Source {
    pub(super) view: View,
    from: From,
}

enum From {
    /// A steward's log, as it grows.
    Log(DecisionLog),
    /// A volume's counters.
    Volume(Box<SessionSource>, Timer),
    /// The kernel's counts of programs.
    Processes(Box<Programs>, Timer),
}

/// When the next window is over.
struct Timer {
    length: Duration,
    next: Instant,
}

impl Timer {
    fn of(host_ns: f64) -> Timer {
        let length = Duration::from_nanos(host_ns as u64);
        Timer {
            length,
            next: Instant::now() + length,
        }
    }

    fn is_over(&mut self) -> bool {
        let now = Instant::now();
        let is_over = now >= self.next;
        if is_over {
            self.next = now + self.length;
        }
        is_over
    }
}

impl Source {
    pub(super) fn of(watched: &Watched) -> Outcome<Source> {
        if watched.processes.is_any() {
            return processes(watched);
        }
        let Some(pool) = &watched.pool else {
            return of_log(&decision_log::choose(watched.log.as_deref(), None)?);
        };
        let (volume, pool) = decision_log::volume_of(pool)?;
        match decision_log::working_log(volume) {
            Some(log) => of_log(&log),
            None => of_volume(&pool, watched.window_ns),
        }
    }

    /// Takes in what is new, and shows each window; how many windows or lines that were.
    pub(super) fn advance(&mut self, show: &mut dyn FnMut(&WindowRecord)) -> Outcome<usize> {
        match &mut self.from {
            From::Log(log) => {
                let read = if log.is_replaced() {
                    None
                } else {
                    self.view.read_with(log, show).ok()
                };
                if let Some(lines) = read {
                    return Ok(lines);
                }
                // Another steward's log, or it began again and grew past the last position between two looks.
                let path = log.path().to_owned();
                *log = DecisionLog::open(&path)?;
                self.view = View::of_log(&path);
                self.view.read_with(log, show)
            }
            From::Volume(session, timer) => {
                if !timer.is_over() {
                    return Ok(0);
                }
                let window = session.take();
                let record = watch::record(session.machine(), &window);
                show(&record);
                self.view.add(record);
                Ok(1)
            }
            From::Processes(programs, timer) => {
                if !timer.is_over() {
                    return Ok(0);
                }
                show(&programs.look(&mut self.view)?);
                Ok(1)
            }
        }
    }
}

fn of_log(path: &Path) -> Outcome<Source> {
    Ok(Source {
        view: View::of_log(path),
        from: From::Log(DecisionLog::open(path)?),
    })
}

fn of_volume(pool: &Path, window_ns: u64) -> Outcome<Source> {
    let volume = session::attach(pool, AttachMode::Join, &AttachOptions::default())?;
    volume.works_on_behalf();
    let machine = watch::machine_of(&volume)?;
    let view = View::of_window(Label {
        volume: Some(volume.uuid().to_string()),
        machine: Some(machine.name.clone()),
        emulated: machine.is_emulated(),
        window_ns: Some(window_ns),
        ..Label::default()
    });
    let session = Box::new(SessionSource::begin(volume, machine, Scope::All));
    let timer = Timer::of(window_ns as f64 * session.dilation());
    Ok(Source {
        view,
        from: From::Volume(session, timer),
    })
}

fn processes(watched: &Watched) -> Outcome<Source> {
    let programs = Box::new(Programs::begin(&watched.processes, watched.window_ns)?);
    Ok(Source {
        view: programs.view(),
        from: From::Processes(programs, Timer::of(watched.window_ns as f64)),
    })
}
