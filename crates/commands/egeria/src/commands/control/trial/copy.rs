//! The side `volume`: a copy of a directory on a scratch volume, which the command uses in its place.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;
use egeria_cli::preload;
use egeria_cli::progress;
use egeria_cli::signals::Signals;
use egeria_cli::sizes;
use egeria_engine::{AttachOptions, Volume};
use egeria_machine::Machine;
use egeria_media::HUGE_PAGE_BYTES;
use egeria_scratch::{ScratchVolume, check_room};
use egeria_trial::program::{self, Terms};
use egeria_trial::report::Copied;
use egeria_trial::side::{Done, Treatment};

use super::tree::Tree;
use crate::commands::volumes::options::VolumeOptions;
use crate::commands::volumes::placement;
use crate::commands::volumes::run::caller;
use crate::machine_choice::{MachineArguments, MachineLabel, attach_options};

/// In the environment of the command: the directory, or its copy.
pub(super) const DIRECTORY: &str = "EGERIA_TRIAL_DIR";
/// In the arguments of the command: the same.
const PLACE: &[u8] = b"{}";
/// Where pools in DRAM are.
pub(super) const MEMORY: &str = "/dev/shm";
/// What a volume needs for itself.
const LEAST_BYTES: u64 = 64 << 20;
/// A copy that takes longer does not end.
const COPY_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A directory, and the volume that it is copied to.
#[derive(Args, Debug)]
#[command(next_help_heading = "Side volume")]
pub struct CopyArguments {
    /// Side volume: CMD uses a copy of this directory on a scratch volume; {} in CMD and in --before is DIR, or the copy
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pid", "cgroup", "unit"])]
    pub(super) volume: Option<PathBuf>,
    /// Size of the scratch volume in DRAM [default: twice the directory, and 64 MiB]
    #[arg(long, value_name = "SIZE", requires = "volume", value_parser = sizes::parse)]
    scratch: Option<u64>,
    #[command(flatten)]
    options: VolumeOptions,
}

impl CopyArguments {
    /// The machine as a steward of processes takes it. With a volume, `--machine` is that of the volume.
    pub(super) fn this_machine(&self) -> MachineArguments {
        match self.volume {
            None => self.options.machine.clone(),
            Some(_) => MachineArguments::default(),
        }
    }

    /// The directory, absolute. Options of a volume that there is not are refused.
    pub(super) fn directory(&self) -> Outcome<Option<PathBuf>> {
        let Some(named) = &self.volume else {
            if self.options.is_given() {
                return Err(Failure::Usage(
                    "--dilation, --memory, --alloc, --limit and --delegates are those of a volume; name a directory to copy to one with --volume".to_owned(),
                ));
            }
            return Ok(None);
        };
        let failed = |error: std::io::Error| {
            Failure::io("copy", named, &error, "name a directory that you may read")
        };
        let directory = named.canonicalize().map_err(failed)?;
        if !directory.is_dir() {
            return Err(failed(std::io::ErrorKind::NotADirectory.into()));
        }
        Ok(Some(directory))
    }
}

/// A verified copy. Dropping it removes the volume.
pub(super) struct Copy {
    /// What was copied.
    pub(super) original: PathBuf,
    /// Its content, as it was copied.
    tree: Tree,
    library: Option<PathBuf>,
    machine: Option<MachineLabel>,
    is_used: Rc<Cell<bool>>,
    volume: ScratchVolume,
}

impl Copy {
    /// Makes the volume, copies, and compares all of the copy with the directory.
    pub(super) fn make(
        arguments: &CopyArguments,
        original: PathBuf,
        signals: &Signals,
    ) -> Outcome<Copy> {
        let library = preload::find()?;
        if library.is_none() && std::env::var_os(preload::VARIABLE).is_none() {
            output::complain(
                "libegeria_preload.so was not found: the copy is used through the mount; see `egeria run --help`",
            );
        }
        let tree = progress::spinning("reading the directory", || Tree::read(&original, signals))?;
        let options = &arguments.options;
        let machine = options.machine.resolve()?;
        let volume = make_volume(arguments, &machine, tree.size().1)?;
        volume.volume().set_timing(false);
        let declared = options.machine.machine.is_some().then_some(&machine);
        let mut copy = Copy {
            original,
            tree,
            library,
            machine: MachineLabel::of_session(volume.volume(), declared),
            is_used: Rc::default(),
            volume,
        };
        progress::spinning("copying", || copy.fill(signals))?;
        let copied = progress::spinning("verifying the copy", || {
            Tree::read(&copy.directory(), signals)
        })?;
        if let Some(path) = copy.tree.difference(&copied) {
            return Err(Failure::new(format!(
                "{} is not the same in the copy; end the programs that change {}, and try again",
                copy.original.join(path).display(),
                copy.original.display()
            )));
        }
        copy.tree = copied;
        Ok(copy)
    }

    fn fill(&self, signals: &Signals) -> Outcome {
        let words = ["cp", "-ax", "--"].map(OsString::from).into_iter();
        let paths = [self.original.clone(), self.directory()].map(OsString::from);
        let words: Vec<OsString> = words.chain(paths).collect();
        let prepare = |command: &mut std::process::Command| caller::pass_on(command, true);
        let terms = Terms {
            at_most: COPY_LIMIT,
            cancel: Some(signals.stop_flag()),
            prepare: &prepare,
        };
        let copied = program::run(&words, &self.environment(), &terms, || ());
        copied.map_err(|error| signals.or_failure(error))?;
        Ok(())
    }

    /// Where the copy is.
    pub(super) fn directory(&self) -> PathBuf {
        // The root directory has no name.
        let name = self.original.file_name().unwrap_or(OsStr::new("root"));
        self.volume.mount_directory().join(name)
    }

    /// What a command that uses the copy gets.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        let directory = (DIRECTORY.into(), self.directory().into());
        let mount = ("EGERIA_MOUNT".into(), self.volume.mount_directory().into());
        let library = self.library.as_deref().map(|library| {
            let all = preload::with(std::env::var_os("LD_PRELOAD"), library);
            ("LD_PRELOAD".into(), all)
        });
        [directory, mount].into_iter().chain(library).collect()
    }

    /// For a steward.
    pub(super) fn volume(&self) -> &Arc<Volume> {
        self.volume.shared()
    }

    /// What accompanies a run that uses the copy: emulated times are in force during it, and what it does is counted.
    pub(super) fn treatment(&self) -> Box<dyn Treatment> {
        let volume = self.volume().clone();
        volume.set_timing(true);
        Box::new(OnCopy {
            before: Used::of(&volume),
            is_used: self.is_used.clone(),
            volume,
        })
    }

    /// Fails if no run has used the copy.
    pub(super) fn check_used(&self) -> Outcome {
        if self.is_used.get() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the command did not use the copy of {}; write {{}} where it takes the directory, or have it use ${DIRECTORY}",
            self.original.display()
        )))
    }

    /// Reads what the command has not changed again.
    pub(super) fn verify(&self, signals: &Signals) -> Outcome<Copied> {
        let directory = self.directory();
        let kept = progress::spinning("verifying the copy", || {
            self.tree.check(&directory, signals)
        })?;
        let (files, bytes) = self.tree.size();
        Ok(Copied {
            directory: self.original.to_string_lossy().into_owned(),
            files,
            bytes,
            unchanged_files: kept.unchanged,
            changed_files: kept.changed,
            machine: self.machine.as_ref().and_then(MachineLabel::remark),
        })
    }
}

fn make_volume(
    arguments: &CopyArguments,
    machine: &Machine,
    data_bytes: u64,
) -> Outcome<ScratchVolume> {
    let usual_bytes = data_bytes.saturating_mul(2).saturating_add(LEAST_BYTES);
    let bytes = arguments.scratch.unwrap_or(usual_bytes);
    let hint = "free some, choose a smaller --scratch, or a smaller directory";
    check_room(Path::new(MEMORY), bytes, hint)?;
    let nodes = placement::nodes_with_pools(machine);
    let options = &arguments.options;
    let declared = options.machine.machine.is_some().then(|| machine.clone());
    let attach: AttachOptions = attach_options(declared, &options.memory);
    // Each pool has room for all: where the copy goes is the allocation's choice. Pages are taken when they are written.
    let pool_bytes = bytes.next_multiple_of(HUGE_PAGE_BYTES);
    let volume = ScratchVolume::make_with(Path::new(MEMORY), &nodes, pool_bytes, &attach)?;
    if !machine.is_emulated() {
        placement::prefer_nodes(volume.pools());
    }
    if let Some(allocation) = options.alloc {
        allocation.apply(volume.volume())?;
    }
    options.sharing.apply(volume.volume())?;
    Ok(volume)
}

/// A run that uses the copy.
struct OnCopy {
    before: Used,
    is_used: Rc<Cell<bool>>,
    volume: Arc<Volume>,
}

/// What was done on the volume so far.
#[derive(Clone, Copy)]
struct Used {
    calls: u64,
    local_bytes: u64,
    remote_bytes: u64,
}

impl Used {
    fn of(volume: &Volume) -> Used {
        let counters = volume.counters();
        Used {
            calls: counters.direct_calls + counters.passed_calls + counters.mount_requests,
            local_bytes: counters.local_bytes,
            remote_bytes: counters.remote_bytes,
        }
    }
}

impl Treatment for OnCopy {
    fn machine_s(&self) -> Option<f64> {
        let emulation = self.volume.emulation();
        let now_s = || emulation.machine_now_ns() as f64 / 1e9;
        emulation.is_configured().then(now_s)
    }

    fn end(self: Box<Self>) -> Done {
        let now = Used::of(&self.volume);
        if now.calls > self.before.calls {
            self.is_used.set(true);
        }
        Done {
            local_bytes: now.local_bytes.saturating_sub(self.before.local_bytes),
            remote_bytes: now.remote_bytes.saturating_sub(self.before.remote_bytes),
            ..Done::default()
        }
    }
}

impl Drop for OnCopy {
    fn drop(&mut self) {
        self.volume.set_timing(false);
    }
}

/// Words in which `{}` is a directory.
pub(super) fn with_directory(words: &[OsString], directory: &Path) -> Vec<OsString> {
    let directory = directory.as_os_str().as_bytes();
    let put = |word: &OsString| {
        let mut rest = word.as_bytes();
        let mut put = Vec::with_capacity(rest.len());
        while let Some(at) = rest.windows(PLACE.len()).position(|part| part == PLACE) {
            put.extend_from_slice(&rest[..at]);
            put.extend_from_slice(directory);
            rest = &rest[at + PLACE.len()..];
        }
        put.extend_from_slice(rest);
        OsString::from_vec(put)
    };
    words.iter().map(put).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_become_the_directory_wherever_they_are() {
        let words = ["cat", "{}/a", "--of={}:{}", "{ }"].map(OsString::from);
        let put = with_directory(&words, Path::new("/data"));
        assert_eq!(put, ["cat", "/data/a", "--of=/data:/data", "{ }"]);
    }
}
