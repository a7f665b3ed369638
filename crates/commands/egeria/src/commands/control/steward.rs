//! `egeria steward`: look after the threads that use a volume, those of processes, or all of the machine.

use std::path::{Path, PathBuf};

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions};
use egeria_machine::{Machine, format_bytes};
use egeria_policy::planner::System;
use egeria_steward::{Summary, Target};
use serde::Serialize;

use crate::commands::one_node;
use crate::commands::scope::{Presence, ScopeArguments};
use crate::configuration::{Configuration, SettingsArgument};
use crate::daemon_log::{self, Attached};
use crate::machine_choice::MachineArguments;
use crate::owner;
use crate::policy_choice::{self, StewardArguments};
use crate::{service, session};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::signals::Signals;

/// Arguments of `egeria steward`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria steward /mnt/pmem0/pool
  egeria steward /mnt/pmem0/pool --policy nm --set cpu_limit=0.8 --window 500
  egeria steward /mnt/pmem0/pool --policy off --record yesterday.trace
  egeria steward --pid 4711 4712 --policy asymsched
  sudo egeria steward --cgroup /system.slice/mongod.service
  sudo egeria steward --all

Works until SIGINT or SIGTERM, then gives all threads the CPUs their owners gave
them. With POOL: the threads that use that volume, which must be in use.
Without, those of your own processes, for root those of all users: some and
their descendants (--pid), those of a control group, or --all, which takes the
volumes that you mounted as well and follows mounts that come and go. With --pid
and --cgroup it sees what they read of such volumes and changes no volume. It
ends by itself when the processes, or for 3 seconds the group, are gone. What
they read and write of files is counted by the kernel, on any file system, and
threads follow it (policies rl, cpu, nm, full and all); that needs root, or
CAP_BPF and CAP_PERFMON. What they access in memory (asymsched, all) is sampled
by the processor's PMU where it can (PEBS, IBS; root or CAP_PERFMON), else found
in the page tables, else by page faults; their memory follows them. One steward
works on a volume at a time, and one on processes; --all leaves volumes to
stewards that work on them already. Killed, a steward leaves a journal, and the
next start puts everything back first. Stages of a policy that nothing here can
act on are named at the start and are off.
`egeria top` and `egeria explain` show what it does and why.")]
pub struct Arguments {
    /// Path of any pool of the volume; without one, processes are watched
    pool: Option<PathBuf>,
    #[command(flatten)]
    processes: ScopeArguments,
    /// What decides: off (only watch), NThread's rl, cpu, nm and full, pats, odin, asymsched, or all as one
    /// [default: all, or what the settings say]
    #[arg(long, value_name = policy_choice::NAMES.as_str(), value_parser = policy_choice::policy)]
    policy: Option<System>,
    /// Look after the volume of this name in /etc/egeria/egeria.toml; without NAME, after the processes that its [steward] names
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with_all = ["pool", "pid", "cgroup", "all"])]
    configured: Option<Option<String>>,
    /// Serve metrics for Prometheus (/metrics) on this port of the loopback, or on this unix socket
    #[arg(long, value_name = "PORT|IP:PORT|PATH", value_parser = egeria_http::Address::parse)]
    metrics: Option<egeria_http::Address>,
    #[command(flatten)]
    settings: SettingsArgument,
    #[command(flatten)]
    steward: StewardArguments,
    #[command(flatten)]
    machine: MachineArguments,
}

#[derive(Serialize)]
struct Document {
    volume: Option<String>,
    policy: String,
    steward: Summary,
}

/// Works until a signal, then says what was done.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let signals = Signals::install()?;
    egeria_proc::task::keep_many_open();
    daemon_log::begin(true, None)?;
    let configured = Configured::read(arguments)?;
    let policy = configured.policy.unwrap_or(System::All);
    arguments.steward.settings(policy)?;
    let scope = configured.processes.scope()?;
    configured.processes.check_own("steward")?;
    let pool = configured.pool.as_deref();
    if pool.is_none() && !configured.processes.is_any() {
        return Err(Failure::Usage(
            "nothing to look after; name a POOL, processes (--pid), a control group (--cgroup), or --all of yours"
                .to_owned(),
        ));
    }
    let (target, machine, attached) = match pool {
        Some(pool) => of_volume(pool, arguments)?,
        None => {
            let target = if configured.processes.are_all() {
                Target::Machine
            } else {
                Target::Processes
            };
            (target, arguments.machine.resolve()?, None)
        }
    };
    let volume = match &target {
        Target::Volume(volume) => Some(volume.uuid().to_string()),
        Target::Processes | Target::Machine => None,
    };
    let mut presence = Presence::of(&scope);
    let steward = arguments.steward.start(target, &machine, policy, scope)?;
    let metrics = configured.metrics.as_ref().map(|address| {
        let of_steward = Box::new(egeria_metrics::StewardMetrics::of(steward.shared_summary()));
        egeria_http::Server::start(
            address,
            ("metrics", "--metrics"),
            Box::new(egeria_metrics::MetricsSite::of(of_steward)),
        )
    });
    let metrics = metrics.transpose()?;
    if let Some(attached) = &attached {
        attached.report();
    }
    let begun = steward.summary();
    if begun.restored_at_start > 0 {
        tracing::warn!(
            "a steward was killed here; {} threads have their CPUs back",
            begun.restored_at_start
        );
    }
    for line in machine.warnings.iter().chain(&begun.unseen) {
        tracing::warn!("{line}");
    }
    // With `all`, the user did not ask for each of its stages.
    let (expected, missed): (&[String], &[String]) = match policy {
        System::All => (&begun.unavailable, &[]),
        _ => (&[], &begun.unavailable),
    };
    missed.iter().for_each(|line| tracing::warn!("{line}"));
    let without_volume = volume.is_none();
    match one_node::line(&machine).filter(|_| without_volume) {
        // Stages are off for no other reason.
        Some(line) => tracing::info!("{line}"),
        None => expected.iter().for_each(|line| tracing::info!("{line}")),
    }
    for line in &begun.sources {
        tracing::info!("{line}");
    }
    tracing::info!("looking after threads, policy {policy}");
    service::ready(&format!("looking after threads, policy {policy}"));
    // A window may be longer than the interval in which a service manager wants to hear of it.
    service::keep_telling(steward.pulse());
    if let Some(gone) = signals.wait_or(|| presence.gone()) {
        tracing::warn!("{gone}; nothing is left to look after");
    }
    service::stopping();
    drop(metrics);
    let document = Document {
        volume,
        policy: policy.to_string(),
        steward: steward.stop(),
    };
    if let Some(attached) = &attached {
        attached.report_end();
    }
    format.print(&document, |document| {
        let done = &document.steward;
        format!(
            "{} moves of {} threads in {} windows, {} brought too little; {} threads have their CPUs back\n{}",
            done.moves,
            done.moved_threads,
            done.windows,
            done.missed,
            done.restored,
            of_processes(done) + &why_nothing_moved(done)
        )
    })
}

/// Why no thread was migrated, if none was.
fn why_nothing_moved(done: &Summary) -> String {
    let because = done.no_moves_because.as_ref();
    because.map_or_else(String::new, |because| {
        format!("no thread was migrated: {because}\n")
    })
}

/// What the arguments say, or the settings that they name.
struct Configured {
    pool: Option<PathBuf>,
    processes: ScopeArguments,
    policy: Option<System>,
    metrics: Option<egeria_http::Address>,
}

impl Configured {
    fn read(arguments: &Arguments) -> Outcome<Configured> {
        let settings = &arguments.settings.settings;
        let configured = match &arguments.configured {
            None => Configured {
                pool: arguments.pool.clone(),
                processes: arguments.processes.clone(),
                policy: None,
                metrics: None,
            },
            Some(Some(name)) => {
                let volume = Configuration::volume(settings, name)?;
                Configured {
                    pool: Some(volume.pool().to_owned()),
                    processes: arguments.processes.clone(),
                    policy: volume.steward,
                    metrics: volume.steward_metrics,
                }
            }
            Some(None) => {
                let steward = Configuration::steward(settings)?;
                Configured {
                    pool: None,
                    processes: ScopeArguments::configured(steward.cgroup.as_deref(), steward.all),
                    policy: steward.policy,
                    metrics: steward.metrics,
                }
            }
        };
        Ok(Configured {
            policy: arguments.policy.or(configured.policy),
            metrics: arguments.metrics.clone().or(configured.metrics),
            ..configured
        })
    }
}

fn of_volume(pool: &Path, arguments: &Arguments) -> Outcome<(Target, Machine, Option<Attached>)> {
    owner::run_as_owner(pool)?;
    let volume = session::attach(pool, AttachMode::Join, &AttachOptions::default())?;
    let attached = daemon_log::follow(&volume);
    volume.works_on_behalf();
    let machine = match (volume.declared_machine(), &arguments.machine.machine) {
        (Some(machine), None) => machine,
        _ => arguments.machine.resolve()?,
    };
    Ok((Target::Volume(volume), machine, Some(attached)))
}

/// What was done to whole processes and their memory, if anything.
fn of_processes(done: &Summary) -> String {
    if done.process_moves == 0 && done.memory_moved_bytes == 0 {
        return String::new();
    }
    format!(
        "{} moves of processes; {} of memory followed them\n",
        done.process_moves,
        format_bytes(done.memory_moved_bytes)
    )
}
