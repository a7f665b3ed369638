//! The roles of processes: `egeria-kill-worker` is nothing but this.

use super::engine::Engine;
use super::ledger::Ledger;
use super::posix::Posix;
use super::processes::AccessPath;
use super::snapshots;
use super::stop::{self, StatusPage};
use super::worker::{Ending, work};
use egeria_engine::{AttachMode, AttachOptions, Volume};
use egeria_mount::{LeaseTiming, MountOptions};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Steps of a worker; then another one comes, with a directory of its own.
const LIFE_STEPS: u64 = 400;
const USAGE: &str = "usage: egeria-kill-worker mount|engine|files|snapshots|stop-… LEDGER|BOARD …; `egeria-torture kill` starts it";

/// Runs the part that the command line names.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let played = match arguments[..] {
        ["mount", ledger, pool, directory] => mount(ledger, pool, directory),
        ["engine", ledger, threads, pool] => engine(ledger, threads, pool),
        ["files", ledger, threads] => files(ledger, threads),
        ["snapshots", ledger, pool] => {
            open(ledger).and_then(|ledger| snapshots::read(&attach(pool)?, &ledger))
        }
        ["stop-set-up"] => stop::set_up(&Posix),
        [part, page, number, ..] if part.starts_with("stop-") => {
            let number = number.parse().map_err(|_| USAGE.to_owned());
            number.and_then(|number| stopped(part, page, number, arguments.get(3).copied()))
        }
        _ => Err(USAGE.to_owned()),
    };
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("egeria-kill-worker: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn open(ledger: &str) -> Result<Ledger, String> {
    Ledger::open(Path::new(ledger)).map_err(|error| format!("{ledger}: {error}"))
}

fn attach(pool: &str) -> Result<Arc<Volume>, String> {
    let options = AttachOptions::default();
    Volume::attach(Path::new(pool), AttachMode::Join, &options).map_err(|error| error.to_string())
}

fn mount(ledger: &str, pool: &str, directory: &str) -> Result<(), String> {
    let ledger = open(ledger)?;
    let ready = || {
        ledger.header().mounts.fetch_add(1, Ordering::AcqRel);
    };
    let options = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    egeria_mount::serve(attach(pool)?, Path::new(directory), &options, ready)
        .map_err(|error| error.to_string())
}

fn engine(ledger: &str, threads: &str, pool: &str) -> Result<(), String> {
    let volume = attach(pool)?;
    crowd(&open(ledger)?, threads, |ledger, id| {
        let ending = work(&Engine(&volume), ledger, id, 0..LIFE_STEPS);
        volume.thread_exit();
        ending
    })
}

fn files(ledger: &str, threads: &str) -> Result<(), String> {
    crowd(&open(ledger)?, threads, |ledger, id| {
        work(&Posix, ledger, id, 0..LIFE_STEPS)
    })
}

/// The parts of workers that are stopped, and of those who look on; with a pool, on the engine.
fn stopped(part: &str, page: &str, number: usize, pool: Option<&str>) -> Result<(), String> {
    let page = StatusPage::open(Path::new(page)).map_err(|error| format!("{page}: {error}"))?;
    let volume = pool.map(attach).transpose()?;
    match (part, &volume) {
        ("stop-worker", Some(volume)) => {
            stop::work(&Engine(volume), &page, AccessPath::Engine, number)
        }
        ("stop-worker", None) => stop::work(&Posix, &page, AccessPath::Preload, number),
        (_, Some(volume)) => stop::look_on(|| Engine(volume), &page, AccessPath::Engine, number),
        ("stop-observers-mount", None) => stop::look_on(|| Posix, &page, AccessPath::Mount, number),
        _ => stop::look_on(|| Posix, &page, AccessPath::Preload, number),
    }
}

/// Threads that live one life after the other.
fn crowd(
    ledger: &Ledger,
    threads: &str,
    live: impl Fn(&Ledger, u64) -> Ending + Sync,
) -> Result<(), String> {
    let threads: u64 = threads.parse().map_err(|_| USAGE.to_owned())?;
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !ledger.is_stopped()
                    && ledger
                        .add_worker()
                        .is_some_and(|id| live(ledger, id) == Ending::Done)
                {}
            });
        }
    });
    Ok(())
}
