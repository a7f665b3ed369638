//! Where programs run: on the scratch volume with the preload library, or on tmpfs without.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use egeria_engine::{Counters, Volume};
use tempfile::TempDir;

use super::options::DemoOptions;
use super::report::{DemoRow, Throughput};
use egeria_harness::process::{self, Finished};
use egeria_harness::{Error, Result};
use egeria_scratch::{ScratchVolume, check_room, memory_directory};

/// Size of each pool; a file in memory that takes only what is written.
const POOL_BYTES: u64 = 2 << 30;
/// The same when short runs were asked for.
const QUICK_POOL_BYTES: u64 = 512 << 20;
/// Room the programs' files take in all, on Egeria and on tmpfs.
const ROOM_BYTES: u64 = 3 << 30;
/// The same for short runs.
const QUICK_ROOM_BYTES: u64 = 1 << 30;
/// All programs together may take this long; what has not run by then is reported as failed.
const BUDGET: Duration = Duration::from_secs(600);

/// Our own walks through the mount, which may hang, take no longer.
pub(super) const FILES_LIMIT: Duration = Duration::from_secs(30);

/// On what, and at whose speed, a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Egeria, at the speed of the emulated machine.
    Emulated,
    /// Egeria, at this machine's speed.
    Egeria,
    Tmpfs,
}

impl Place {
    /// The same files without emulated timing: while data is prepared and checked.
    pub(super) fn untimed(self) -> Place {
        match self {
            Place::Emulated => Place::Egeria,
            place => place,
        }
    }
}

/// Everything programs need to run.
pub(super) struct Stage<'a> {
    options: &'a DemoOptions<'a>,
    scratch: ScratchVolume,
    peers: TempDir,
    /// The preload library.
    library: PathBuf,
    /// Host time per machine time; `None` when timing is not emulated.
    dilation: Option<f64>,
    end: Instant,
}

impl<'a> Stage<'a> {
    /// Makes the volume, one pool for each node of the machine, and mounts it.
    pub(super) fn set_up(options: &'a DemoOptions<'a>) -> Result<Stage<'a>> {
        let (pool_bytes, room_bytes) = if options.quick {
            (QUICK_POOL_BYTES, QUICK_ROOM_BYTES)
        } else {
            (POOL_BYTES, ROOM_BYTES)
        };
        check_room(&options.memory_directory, room_bytes, "free some")?;
        let peers = memory_directory(&options.memory_directory)?;
        let library = egeria_harness::program::loadable(&options.preload_library, peers.path())?;
        let nodes: Vec<u16> = options.machine.nodes.iter().map(|node| node.id.0).collect();
        let machine = Some(options.machine.clone());
        let scratch = ScratchVolume::make(&options.memory_directory, &nodes, pool_bytes, machine)?;
        let emulates = scratch.volume().set_timing(true);
        scratch.volume().set_timing(false);
        let declared = options.machine.emulated.as_ref();
        Ok(Stage {
            options,
            scratch,
            peers,
            library,
            dilation: declared
                .filter(|machine| emulates && machine.timing)
                .map(|machine| machine.dilation),
            end: Instant::now() + BUDGET,
        })
    }

    /// Whether short runs were asked for.
    pub(super) fn is_quick(&self) -> bool {
        self.options.quick
    }

    /// Whether [`Place::Emulated`] means anything.
    pub(super) fn emulates(&self) -> bool {
        self.dilation.is_some()
    }

    /// The places a measured program runs at.
    pub(super) fn places(&self) -> Vec<Place> {
        let mut places = vec![Place::Egeria, Place::Tmpfs];
        if self.emulates() {
            places.insert(0, Place::Emulated);
        }
        places
    }

    /// A directory of this name at a place, made when missing.
    pub(super) fn directory(&self, place: Place, name: &str) -> Result<PathBuf> {
        let directory = match place {
            Place::Tmpfs => self.peers.path().join(name),
            _ => self.scratch.mount_directory().join(name),
        };
        let failed = |error| {
            let doing = format!("cannot make {}", directory.display());
            Error::io(doing, error, "see the mount")
        };
        let wanted = directory.clone();
        process::within(FILES_LIMIT, "making a directory", || {
            std::fs::create_dir_all(wanted)
        })?
        .map_err(failed)?;
        Ok(directory)
    }

    /// Removes the directory of this name at all places.
    pub(super) fn clear(&self, name: &str) {
        for root in [self.peers.path(), self.scratch.mount_directory()] {
            let directory = root.join(name);
            // What is in the way of somebody later shows there.
            let _ = process::within(FILES_LIMIT, "removing files", || {
                std::fs::remove_dir_all(directory)
            });
        }
    }

    /// A command that runs at a place: with the preload library on Egeria.
    pub(super) fn command(&self, place: Place, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.plain_command(program);
        if place != Place::Tmpfs {
            command.env("LD_PRELOAD", &self.library);
            command.env("EGERIA_MOUNT", self.scratch.mount_directory());
        }
        command
    }

    /// A command without the preload library: on Egeria it sees what the mount shows.
    pub(super) fn plain_command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        // Some programs drop files where they run.
        command
            .current_dir(self.peers.path())
            .env_remove("LD_PRELOAD");
        command
    }

    /// Runs a program to its end, with emulated timing where the place wants it.
    ///
    /// # Errors
    /// When it fails, or does not end in time.
    pub(super) fn run(
        &self,
        place: Place,
        command: &mut Command,
        limit: Duration,
    ) -> Result<Finished> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let minutes = BUDGET.as_secs() / 60;
            return Err(Error::failed(format!(
                "not run: all programs together took over {minutes} minutes"
            )));
        }
        self.scratch.volume().set_timing(place == Place::Emulated);
        let finished = process::run_well(command, limit.min(left), self.options.watch.cancel);
        self.scratch.volume().set_timing(false);
        finished
    }

    /// Runs a measured program and enters its throughput, and on Egeria what moved, in `row`; the
    /// counters are those of the emulated run when there is one.
    pub(super) fn measure(
        &self,
        place: Place,
        row: &mut DemoRow,
        run: impl FnOnce() -> Result<Throughput>,
    ) -> Result<()> {
        let before = self.volume().counters();
        let machine_now_ns = || self.volume().emulation().machine_now_ns();
        let (started, machine_started_ns) = (Instant::now(), machine_now_ns());
        let throughput = run()?;
        match place {
            Place::Emulated => {
                // The machine's clock stands still while the host cannot keep up.
                let machine_ns = machine_now_ns().saturating_sub(machine_started_ns);
                let dilation = started.elapsed().as_nanos() as f64 / machine_ns.max(1) as f64;
                row.egeria_emulated = Some(throughput.times(dilation));
            }
            Place::Egeria => row.egeria = Some(throughput),
            Place::Tmpfs => row.tmpfs = Some(throughput),
        }
        if place == Place::Emulated || (place == Place::Egeria && row.egeria_emulated.is_none()) {
            enter_moved(row, &before, &self.volume().counters());
        }
        Ok(())
    }

    /// Says what is going on.
    pub(super) fn tell(&self, done: usize, total: usize, what: &str) -> Result<()> {
        self.options.watch.step(done, total, what)
    }

    fn volume(&self) -> &Volume {
        self.scratch.volume()
    }

    /// A place for files that belong to neither side: sources to copy from.
    pub(super) fn backstage(&self) -> &Path {
        self.peers.path()
    }
}

fn enter_moved(row: &mut DemoRow, before: &Counters, after: &Counters) {
    row.local_bytes = after.local_bytes.saturating_sub(before.local_bytes);
    row.remote_bytes = after.remote_bytes.saturating_sub(before.remote_bytes);
    row.direct_calls = after.direct_calls.saturating_sub(before.direct_calls);
    row.passed_calls = after.passed_calls.saturating_sub(before.passed_calls);
    row.mount_requests = after.mount_requests.saturating_sub(before.mount_requests);
}

/// Runs one row; what goes wrong in it is entered there, only an interruption ends everything.
pub(super) fn attempt(
    mut row: DemoRow,
    run: impl FnOnce(&mut DemoRow) -> Result<()>,
) -> Result<DemoRow> {
    match run(&mut row) {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            row.verified = false;
            row.failure = Some(error.to_string());
        }
        Ok(()) => row.verified = true,
    }
    Ok(row)
}
