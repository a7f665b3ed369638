//! `egeria mount`: serve a volume on a directory.
//!
//! In the background it works in two processes. This one starts itself again with `--foreground
//! --ready`, and ends once that one answers requests; what the other cannot do, it says on the stderr of
//! both. The other leaves the session and the terminal, so nothing that ends a shell ends it.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use clap::Args;
use egeria_engine::{AttachMode, Volume};
use egeria_machine::NamedPath;
use egeria_mount::{MountError, MountOptions, RequestCounts};
use serde::{Deserialize, Serialize};

use crate::commands::volumes::options::VolumeOptions;
use crate::configuration::{Configuration, SettingsArgument};
use crate::machine_choice::{MachineLabel, attach_options};
use crate::session::{self, PoolLabel};
use crate::{daemon_log, paths, service};
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::output::{self, Format};
use egeria_cli::signals::Signals;
use egeria_cli::sizes;

/// Arguments of `egeria mount`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria mount /mnt/pmem0/pool /mnt
  egeria mount /dev/shm/a /mnt --machine optane-2s --alloc random
  egeria mount /mnt/pmem0/pool /srv --allow-other --foreground
  egeria mount --configured data

Returns when the mount answers. --machine and --alloc hold for everybody who
uses the volume while it is mounted; --machine is for who comes first. A mount
that was killed loses nothing: `egeria umount` the directory and mount again.
Root mounts its own pools only; those of other users their owners mount.")]
pub struct Arguments {
    /// Path of any pool of the volume
    #[arg(required_unless_present = "configured")]
    pool: Option<PathBuf>,
    /// Directory to mount on
    #[arg(required_unless_present = "configured")]
    directory: Option<PathBuf>,
    /// Mount the volume of this name in /etc/egeria/egeria.toml
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pool", "directory"])]
    configured: Option<String>,
    #[command(flatten)]
    settings: SettingsArgument,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Debug)]
struct Options {
    /// Let users other than the one who mounts in
    #[arg(long)]
    allow_other: bool,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// Stay in the foreground; SIGINT and SIGTERM unmount
    #[arg(long)]
    foreground: bool,
    /// Also write reports of damage and of stopped processes to this file
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Bytes that the kernel may keep of files that programs without the preload library only read (default: a quarter of
    /// the memory; none on an emulated machine)
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    page_cache: Option<u64>,
    #[command(flatten)]
    volume: VolumeOptions,
    /// Serve metrics for Prometheus (/metrics) on this port of the loopback, or on this unix socket
    #[arg(long, value_name = "PORT|IP:PORT|PATH", value_parser = egeria_http::Address::parse)]
    metrics: Option<egeria_http::Address>,
    /// Say on stdout when the mount answers, then let go of the terminal
    #[arg(long, hide = true)]
    ready: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    volume: String,
    directory: NamedPath,
    pid: u32,
    read_only: bool,
    machine: Option<MachineLabel>,
    pools: Vec<PoolLabel>,
}

/// What is mounted where.
struct Mount {
    pool: PathBuf,
    directory: PathBuf,
    options: Options,
}

impl Mount {
    /// As the command line or the settings say. The command line only adds to the settings.
    fn meant(arguments: Arguments) -> Outcome<Mount> {
        let mut options = arguments.options;
        let (pool, directory) = match &arguments.configured {
            Some(name) => {
                let volume = Configuration::volume(&arguments.settings.settings, name)?;
                options.allow_other |= volume.allow_other;
                options.read_only |= volume.read_only;
                options.page_cache = options.page_cache.or(volume.page_cache);
                options.volume.alloc = options.volume.alloc.or(volume.alloc);
                options.volume.sharing.limit = options.volume.sharing.limit.or(volume.limit);
                options.volume.sharing.delegates =
                    options.volume.sharing.delegates.or(volume.delegates);
                options.metrics = options.metrics.or_else(|| volume.metrics.clone());
                (volume.pool().to_path_buf(), volume.directory)
            }
            None => (
                arguments.pool.unwrap_or_default(),
                arguments.directory.unwrap_or_default(),
            ),
        };
        if let Some(log) = &options.log {
            options.log = Some(std::path::absolute(log).map_err(unknown_directory)?);
        }
        Ok(Mount {
            pool: paths::absolute(&pool)?,
            directory: egeria_mount::mount_point(&directory)?,
            options,
        })
    }
}

/// The process that serves opens the log, by this path: its links are looked at there.
fn unknown_directory(error: std::io::Error) -> Failure {
    Failure::new(format!(
        "the working directory cannot be found: {}; name the log by its path from the root",
        reason(&error)
    ))
}

/// Mounts; returns when the mount answers, or with `--foreground` when it has ended.
pub fn run(arguments: Arguments, format: Format) -> Outcome<ExitCode> {
    let mount = Mount::meant(arguments)?;
    if mount.options.foreground {
        serve(&mount, format)?;
        return Ok(ExitCode::SUCCESS);
    }
    start_in_background(&mount, format)
}

// --- the process that waits ---

fn start_in_background(mount: &Mount, format: Format) -> Outcome<ExitCode> {
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "cannot start the mount process: {}; try --foreground",
            reason(&error)
        ))
    };
    let mut child = background_command(mount).spawn().map_err(failed)?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said).map_err(failed)?;
    }
    if let Ok(document) = serde_json::from_str::<Document>(&said) {
        format.print(&document, human)?;
        return Ok(ExitCode::SUCCESS);
    }
    // It has said itself why, unless something killed it.
    match child.wait().map_err(failed)?.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code.max(1)).unwrap_or(1))),
        None => Err(Failure::new(
            "the mount process was killed before it answered; see the kernel's log",
        )),
    }
}

fn background_command(mount: &Mount) -> Command {
    let mut command = Command::new("/proc/self/exe");
    std::os::unix::process::CommandExt::arg0(&mut command, "egeria");
    command.arg("mount").arg("--foreground").arg("--ready");
    if mount.options.allow_other {
        command.arg("--allow-other");
    }
    if mount.options.read_only {
        command.arg("--read-only");
    }
    if let Some(machine) = &mount.options.volume.machine.machine {
        command.arg(format!("--machine={machine}"));
        if let Some(dilation) = mount.options.volume.machine.dilation {
            command.arg(format!("--dilation={dilation}"));
        }
        if let Some(memory) = mount.options.volume.memory.memory {
            command.arg(format!("--memory={}", memory.name()));
        }
        if let Some(name) = &mount.options.volume.memory.share_machine {
            command.arg(format!("--share-machine={name}"));
        }
    }
    if let Some(allocation) = mount.options.volume.alloc {
        command.arg(format!("--alloc={}", allocation.name()));
    }
    if let Some(limit) = mount.options.volume.sharing.limit {
        command.arg(format!("--limit={limit}"));
    }
    if let Some(delegates) = mount.options.volume.sharing.delegates {
        command.arg(format!("--delegates={delegates}"));
    }
    if let Some(log) = &mount.options.log {
        command.arg("--log").arg(log);
    }
    if let Some(bytes) = mount.options.page_cache {
        command.arg(format!("--page-cache={bytes}"));
    }
    if let Some(address) = &mount.options.metrics {
        command.arg(format!("--metrics={address}"));
    }
    command.arg("--").arg(&mount.pool).arg(&mount.directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

// --- the process that serves ---

fn serve(mount: &Mount, format: Format) -> Outcome {
    if mount.options.ready {
        // It fails only for a group leader, which a spawned child is not.
        let _ = rustix::process::setsid();
        // It was started as `exe`.
        let _ = rustix::thread::set_name(c"egeria");
    }
    daemon_log::begin(!mount.options.ready, mount.options.log.as_deref())?;
    let signals = Signals::install()?;
    let machine = mount.options.volume.machine.declared()?;
    let mode = if mount.options.read_only {
        AttachMode::ReadOnly
    } else {
        AttachMode::CreateOrJoin
    };
    let volume = session::attach(
        &mount.pool,
        mode,
        &attach_options(machine.clone(), &mount.options.volume.memory),
    )?;
    let attached = daemon_log::follow(&volume);
    mount.options.volume.machine.check_made(&volume)?;
    let label = MachineLabel::of_session(&volume, machine.as_ref());
    if let Some(allocation) = mount.options.volume.alloc {
        allocation.apply(&volume)?;
    }
    mount.options.volume.sharing.apply(&volume)?;
    let requests = Arc::new(RequestCounts::default());
    let metrics = mount.options.metrics.as_ref().map(|address| {
        let of_volume = Box::new(egeria_metrics::VolumeMetrics::of(
            &volume,
            &requests,
            attached.reports(),
        ));
        egeria_http::Server::start(
            address,
            ("metrics", "--metrics"),
            Box::new(egeria_metrics::MetricsSite::of(of_volume)),
        )
    });
    let metrics = metrics.transpose()?;
    signals.check()?;
    let options = MountOptions {
        allow_other: mount.options.allow_other,
        read_only: mount.options.read_only,
        page_cache_bytes: mount.options.page_cache,
        ..MountOptions::default()
    };
    let document = document_of(mount, &volume, label);
    unmount_on_signal(&signals, mount.directory.clone());
    let mut said = Ok(());
    let served = egeria_mount::serve_counted(volume, &mount.directory, &options, requests, || {
        // A signal before this found nothing to unmount.
        said = signals
            .check()
            .and_then(|()| announce(mount, &document, format));
        attached.report();
        tracing::info!(target: daemon_log::SAID, "{}", human(&document));
        if said.is_ok() && !mount.options.ready {
            service::ready(&human(&document));
            let directory = mount.directory.clone();
            service::keep_telling(move || egeria_mount::answers(&directory));
        }
        if said.is_err() {
            let _ = egeria_mount::unmount_lazily(&mount.directory);
        }
    });
    // Before the end is reported: an answer under way holds the volume.
    drop(metrics);
    match &served {
        Ok(()) => tracing::info!("volume {} unmounted and closed", document.volume),
        // In the foreground it is the command's own error.
        Err(error) if mount.options.ready => tracing::error!("volume {}: {error}", document.volume),
        Err(_) => {}
    }
    // Serving gave the last reference back.
    if served.is_ok() {
        attached.report_end();
    }
    served?;
    said
}

/// A signal unmounts; a mount that is busy is detached all the same, because its process was asked to end.
fn unmount_on_signal(signals: &Signals, directory: PathBuf) {
    signals.call(move |_| {
        service::stopping();
        match egeria_mount::unmount(&directory) {
            Err(busy @ MountError::Busy { .. }) => {
                tracing::warn!("{busy}; it is detached now because this process was asked to end");
                let _ = egeria_mount::unmount_lazily(&directory);
            }
            Err(MountError::NotMounted(_)) | Ok(()) => {}
            Err(other) => tracing::error!("{other}"),
        }
    });
}

/// Notifies the process that waits that the mount answers.
fn announce(mount: &Mount, document: &Document, format: Format) -> Outcome {
    if !mount.options.ready {
        return format.print(document, human);
    }
    output::print(output::to_json(document)?.as_bytes())?;
    let _ = std::io::stdout().flush();
    let _ = std::env::set_current_dir("/");
    leave_terminal()
}

/// The terminal, and the pipe to the process that waits, are let go of.
fn leave_terminal() -> Outcome {
    let failed = |error| {
        Failure::new(format!(
            "cannot let go of the terminal: {error}; try --foreground"
        ))
    };
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| failed(reason(&error)))?;
    let said = |error: rustix::io::Errno| failed(error.to_string());
    rustix::stdio::dup2_stdin(&null).map_err(said)?;
    rustix::stdio::dup2_stderr(&null).map_err(said)?;
    rustix::stdio::dup2_stdout(&null).map_err(said)
}

fn document_of(mount: &Mount, volume: &Volume, machine: Option<MachineLabel>) -> Document {
    Document {
        volume: volume.uuid().to_string(),
        directory: mount.directory.clone().into(),
        pid: std::process::id(),
        read_only: mount.options.read_only || volume.is_read_only(),
        machine,
        pools: session::pool_labels(volume),
    }
}

fn human(document: &Document) -> String {
    let remark = document.machine.as_ref().and_then(MachineLabel::remark);
    format!(
        "volume {} mounted on {}{}{} (process {})",
        document.volume,
        document.directory,
        if document.read_only { " read-only" } else { "" },
        remark.map_or(String::new(), |remark| format!(", {remark}")),
        document.pid
    )
}
