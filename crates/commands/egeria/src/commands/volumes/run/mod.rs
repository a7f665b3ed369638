//! `egeria run`: an unchanged program on a volume, with its reads and writes served directly.

pub(crate) mod caller;
mod child;
mod no_volume;
mod report_file;
mod summary;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use egeria_engine::{AttachMode, CreateOptions, Volume};
use egeria_machine::Machine;
use egeria_media::HUGE_PAGE_BYTES;
use egeria_mount::{MountHandle, MountOptions};
use egeria_policy::planner::System;
use egeria_steward::{Scope, Steward, Target};

use crate::commands::volumes::options::VolumeOptions;
use crate::commands::volumes::placement;
use crate::commands::volumes::sharing::BorrowedSharing;
use crate::machine_choice::{Allocation, BorrowedAllocation, MachineLabel, attach_options};
use crate::policy_choice::{self, StewardArguments};
use crate::session;
use child::{exit_status, spawn, wait};
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::signals::Signals;
use egeria_cli::sizes;
use egeria_scratch::{MountPoint, ScratchPools, check_room};
use report_file::ReportFile;
use summary::{Calls, Summary};

/// Size of the scratch volume when nothing is said.
const DEFAULT_SCRATCH: &str = "1GiB";

/// Arguments of `egeria run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria run -- sh -c 'cp -a /etc $EGERIA_MOUNT && du -sh $EGERIA_MOUNT'
  egeria run --volume /mnt/pmem0/pool --report report.json -- ./server
  egeria run --machine optane-2s --alloc random -- ./benchmark.sh
  egeria run --volume /mnt/pmem0/pool --policy full --record day.trace -- ./srv
  egeria run --no-volume --policy asymsched -- ./server

EGERIA_MOUNT names the mount inside CMD, LD_PRELOAD loads libegeria_preload.so.
EGERIA_PRELOAD_LIB names that library elsewhere; empty: work without it.
A scratch volume lives in DRAM; it is removed at the end, also after a signal.
On a --volume that others use, --alloc, --limit and --delegates hold for all of
them until the end. --policy odin means --alloc striped unless that is given.
The exit status is CMD's: 128 + signal when one killed it, 127 when it is not
found, 126 when it cannot be executed. The summary goes to stderr; with --json
it goes to stdout, and CMD's stdout to stderr.")]
pub struct Arguments {
    /// Path of any pool of the volume to run on
    #[arg(long, value_name = "POOL", conflicts_with = "scratch")]
    volume: Option<PathBuf>,
    /// Run without any volume: only threads and memory are looked after (--policy asymsched, all)
    #[arg(long, conflicts_with_all = ["volume", "scratch", "alloc", "limit", "delegates", "allow_other"])]
    no_volume: bool,
    /// Run on a volume in DRAM of this size in all, one pool per node
    #[arg(long, value_name = "SIZE", default_value = DEFAULT_SCRATCH, value_parser = sizes::parse)]
    scratch: u64,
    #[command(flatten)]
    options: VolumeOptions,
    /// What decides while CMD runs: off, NThread's rl (threads to the data they read), cpu (and off busy CPUs),
    /// nm (and off busy memory) and full (but never sharers apart), pats, odin, asymsched, or all as one
    #[arg(long, value_name = policy_choice::NAMES.as_str(), default_value = "off", value_parser = policy_choice::policy)]
    policy: System,
    #[command(flatten)]
    steward: StewardArguments,
    /// Write the summary into this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Let other users into the mount
    #[arg(long)]
    allow_other: bool,
    /// The program and its arguments
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs the command and gives its exit status.
pub fn run(arguments: Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    let machine = arguments.options.machine.resolve()?;
    // A wrong setting costs no run.
    arguments.steward.settings(arguments.policy)?;
    let report = arguments
        .report
        .as_deref()
        .map(ReportFile::create)
        .transpose()?;
    if arguments.no_volume {
        let wish = no_volume::Wish {
            command: &arguments.command,
            policy: arguments.policy,
            steward: &arguments.steward,
            machine: &machine,
            report,
        };
        return no_volume::run(wish, &signals, format);
    }
    let preload = preload::find()?;
    if preload.is_none() && std::env::var_os(preload::VARIABLE).is_none() {
        output::complain(
            "libegeria_preload.so was not found: all reads and writes go through the mount; see `egeria run --help`",
        );
    }
    let stage = Stage::set(&arguments, &machine, &signals)?;
    let summary = stage.perform(&arguments, &machine, preload, &signals, format)?;
    drop(stage);
    if let Some(report) = report {
        report.write(&summary)?;
    }
    match format {
        Format::Json => format.print(&summary, |_| String::new())?,
        Format::Human => output::remark(&summary.lines()),
    }
    Ok(ExitCode::from(summary.exit_status))
}

/// A volume in memory with one pool per node of the machine.
fn make_scratch(arguments: &Arguments, machine: &Machine) -> Outcome<ScratchPools> {
    let memory = Path::new("/dev/shm");
    let hint = "ask for less, or `mount -o remount,size=…` it";
    check_room(memory, arguments.scratch, hint)?;
    let nodes = placement::nodes_with_pools(machine);
    let share_bytes = arguments.scratch.div_ceil(nodes.len() as u64);
    let options = CreateOptions {
        force: false,
        root: Some((
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
            root_mode(arguments),
        )),
    };
    let share_bytes = share_bytes.next_multiple_of(HUGE_PAGE_BYTES);
    let scratch = ScratchPools::make(memory, &nodes, share_bytes, &options)?;
    if !machine.is_emulated() {
        placement::prefer_nodes(scratch.pools());
    }
    Ok(scratch)
}

/// The volume a command runs on and where it is mounted. Fields drop in this order.
struct Stage {
    mount: Option<MountHandle>,
    point: MountPoint,
    /// Others may use the volume too, and go on when the command has ended.
    _allocation: Option<BorrowedAllocation>,
    _sharing: BorrowedSharing,
    volume: Arc<Volume>,
    scratch: Option<ScratchPools>,
}

impl Stage {
    fn set(arguments: &Arguments, machine: &Machine, signals: &Signals) -> Outcome<Stage> {
        let scratch = match arguments.volume {
            Some(_) => None,
            None => Some(make_scratch(arguments, machine)?),
        };
        signals.check()?;
        let declared = arguments
            .options
            .machine
            .machine
            .is_some()
            .then(|| machine.clone());
        let pool = scratch
            .as_ref()
            .map(ScratchPools::first)
            .or(arguments.volume.as_deref())
            .unwrap_or(Path::new(""));
        let volume = session::attach(
            pool,
            AttachMode::CreateOrJoin,
            &attach_options(declared, &arguments.options.memory),
        )?;
        arguments.options.machine.check_made(&volume)?;
        let borrow = |allocation: Allocation| allocation.apply_for_a_while(&volume);
        // OdinFS stripes what is written; without stripes there would be nothing to delegate.
        let stripes = arguments.policy.stripes() && volume.pool_nodes().len() > 1;
        let published = stripes.then_some(Allocation::Striped);
        let allocation = arguments
            .options
            .alloc
            .or(published)
            .map(borrow)
            .transpose()?;
        let sharing = arguments.options.sharing.apply_for_a_while(&volume)?;
        signals.check()?;
        let point = MountPoint::create(arguments.allow_other)?;
        if let Some(scratch) = &scratch {
            scratch.note_mount(point.path());
        }
        let options = MountOptions {
            allow_other: arguments.allow_other,
            ..MountOptions::default()
        };
        let mount = Some(egeria_mount::spawn(volume.clone(), point.path(), &options)?);
        Ok(Stage {
            mount,
            point,
            _allocation: allocation,
            _sharing: sharing,
            volume,
            scratch,
        })
    }

    fn perform(
        &self,
        arguments: &Arguments,
        machine: &Machine,
        preload: Option<PathBuf>,
        signals: &Signals,
        format: Format,
    ) -> Outcome<Summary> {
        let steward = self.look_after(arguments, machine)?;
        let before = self.volume.counters();
        let started = Instant::now();
        let machine_started_ns = self.volume.emulation().machine_now_ns();
        let child = spawn(
            &arguments.command,
            Some(self.point.path()),
            preload.as_deref(),
            format,
        )?;
        let status = wait(child, signals)?;
        let steward = steward.map(Steward::stop);
        let elapsed_s = started.elapsed().as_secs_f64();
        let counters = summary::difference(&before, &self.volume.counters());
        // Its clock stands still while the host cannot keep up.
        let machine_ns = self
            .volume
            .emulation()
            .machine_now_ns()
            .saturating_sub(machine_started_ns);
        let machine_elapsed_s = machine_ns as f64 / 1e9;
        let declared = arguments
            .options
            .machine
            .machine
            .is_some()
            .then_some(machine);
        let label = MachineLabel::of_session(&self.volume, declared);
        let allocation = Allocation::of(self.volume.allocation(), &self.volume.pool_nodes());
        Ok(Summary {
            command: arguments
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            exit_status: exit_status(status),
            elapsed_s,
            machine_elapsed_s,
            volume: self.volume.uuid().to_string(),
            mount: self.point.path().into(),
            scratch: self.scratch.is_some(),
            machine: label.unwrap_or_else(|| MachineLabel::of(machine)),
            allocation: allocation.name(),
            policy: arguments.policy.to_string(),
            steward,
            preload: preload.map(Into::into),
            local_bytes: counters.local_bytes,
            remote_bytes: counters.remote_bytes,
            delegated_bytes: counters.delegated_bytes,
            pools: summary::traffic(
                session::pool_labels(&self.volume),
                &counters,
                machine_elapsed_s,
            ),
            calls: Calls {
                direct: counters.direct_calls,
                passed: counters.passed_calls,
            },
            mount_requests: counters.mount_requests,
            checksum_failures: counters.checksum_failures,
        })
    }
}

impl Stage {
    /// A steward for the command and what it starts, when one is wanted.
    fn look_after(&self, arguments: &Arguments, machine: &Machine) -> Outcome<Option<Steward>> {
        let wanted = arguments.policy != System::Off || arguments.steward.watches();
        // Only the command uses a scratch volume, even if its processes are no longer its descendants.
        let scope = match self.scratch {
            Some(_) => Scope::All,
            None => Scope::Tree(std::process::id()),
        };
        let declared = self.volume.declared_machine();
        let machine = declared.as_ref().unwrap_or(machine);
        let start = || {
            let steward = &arguments.steward;
            let target = Target::Volume(Arc::clone(&self.volume));
            steward.start(target, machine, arguments.policy, scope)
        };
        wanted.then(start).transpose()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(mount) = self.mount.take() else {
            return;
        };
        // Processes that still use the mount lose it: its server ends with this process.
        if let Err(error) = mount.unmount() {
            output::complain(&format!(
                "{error}; the command has ended, so the mount is taken away"
            ));
        }
    }
}

/// With others let in, they may make files in a scratch volume as in `/tmp`.
fn root_mode(arguments: &Arguments) -> u32 {
    if arguments.allow_other { 0o1777 } else { 0o755 }
}
