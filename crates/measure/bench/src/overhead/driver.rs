//! Runs programs with a source on and off.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use egeria_harness::{Error, Result};
use egeria_machine::Machine;
use egeria_proc::task;
use egeria_stats::statistics::median;
use egeria_steward::{Scope, Steward, StewardOptions, Target};

use super::options::OverheadOptions;
use super::plan::{Case, Source, Subject, cases};
use super::report::{OverheadReport, Row};
use super::subject::{Done, FILE_BYTES};
use crate::emulated::steward_options;
use crate::programs::worker::Worker;

/// How long a program may take beyond what it is measured for.
const PATIENCE: Duration = Duration::from_secs(3600);
/// Windows that pass before a source is measured: the first of them find out what there is.
const WARM_WINDOWS: u32 = 2;
/// Windows until a steward knows which of many threads are idle.
const KNOWING_WINDOWS: u32 = 10;

/// Measures.
///
/// # Errors
/// When a program cannot be started, or a steward works here already. A source that does not work here has a row that says so.
pub fn run(options: &OverheadOptions<'_>) -> Result<OverheadReport> {
    let cases = cases(&options.directories);
    let machine = Machine::detect().map_err(Error::failed)?;
    let mut rows = Vec::with_capacity(cases.len());
    for (number, case) in cases.iter().enumerate() {
        rows.push(row(options, &machine, case, (number, cases.len()))?);
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(OverheadReport {
        window_ms: options.window.as_secs_f64() * 1e3,
        measure_ms: options.measure.as_secs_f64() * 1e3,
        rounds: options.rounds,
        threads: options.threads,
        cpus: machine.nodes.iter().map(|node| node.cpus.len()).sum(),
        kernel: kernel.trim().to_owned(),
        rows,
    })
}

/// What a program did: operations per second, and per second that it had a CPU.
#[derive(Clone, Copy)]
struct Speed {
    ops_s: f64,
    ops_cpu_s: f64,
}

/// One measurement, and the share of a core of who looked.
struct Measured {
    speed: Speed,
    core_share: f64,
}

fn row(
    options: &OverheadOptions<'_>,
    machine: &Machine,
    case: &Case,
    (number, of): (usize, usize),
) -> Result<Row> {
    let (mut running, place) = start(options, &case.subject)?;
    let mut row = Row {
        subject: name(&case.subject),
        place,
        source: case.source.name(),
        off_ops_s: None,
        on_ops_s: None,
        overhead: None,
        overhead_range: None,
        overhead_of_cpu: None,
        core_share: None,
        max: case.max,
        holds: None,
        missing: None,
    };
    // Caches and clocks of the CPU settle.
    running.measure(options.measure / 4)?;
    // What threads do without a steward is no figure: one works all the time, and knows them.
    let known = match case.subject {
        Subject::Threads => Some(begin(options, machine, case.source, &running)?),
        Subject::Reads(_) | Subject::Memory => None,
    };
    if let Some(Err(why)) = known {
        row.missing = Some(why);
        return Ok(row);
    }
    if known.is_some() {
        std::thread::sleep(options.window * (KNOWING_WINDOWS - WARM_WINDOWS));
    }
    let (mut off, mut on) = (Vec::new(), Vec::new());
    let mut done = number * options.rounds * 2;
    for round in 0..options.rounds {
        let what = format!("{} beside {}", row.subject, row.source);
        // First without the source, then with it, and in the next round the other way round.
        let pair = options.watch.in_turn(round, 2, |with| {
            options.watch.step(done, of * options.rounds * 2, &what)?;
            done += 1;
            match (with, &known) {
                (0, None) => off.push(running.measure(options.measure)?),
                (0, Some(_)) => {}
                (_, Some(_)) => on.push(beside(options, &mut running)?),
                (_, None) => match begin(options, machine, case.source, &running)? {
                    Ok(_steward) => on.push(beside(options, &mut running)?),
                    Err(why) => return Ok(Some(why)),
                },
            }
            Ok(None)
        })?;
        if let Some(why) = pair.into_iter().flatten().next() {
            row.missing = Some(why);
            return Ok(row);
        }
    }
    fill(&mut row, case, &off, &on);
    Ok(row)
}

fn fill(row: &mut Row, case: &Case, off: &[Speed], on: &[Measured]) {
    let shares: Vec<f64> = on.iter().map(|measured| measured.core_share).collect();
    let on: Vec<Speed> = on.iter().map(|measured| measured.speed).collect();
    row.core_share = median(&shares);
    let decides = match case.subject {
        Subject::Threads => row.core_share,
        Subject::Reads(_) | Subject::Memory => {
            let lost = lost(off, &on, |speed| speed.ops_s);
            let ends =
                |first: f64, fold: fn(f64, f64) -> f64| lost.iter().copied().fold(first, fold);
            row.overhead_range = Some([ends(f64::MAX, f64::min), ends(f64::MIN, f64::max)]);
            let ops_s =
                |all: &[Speed]| median(&all.iter().map(|speed| speed.ops_s).collect::<Vec<_>>());
            (row.off_ops_s, row.on_ops_s) = (ops_s(off), ops_s(&on));
            row.overhead_of_cpu = median(&self::lost(off, &on, |speed| speed.ops_cpu_s));
            row.overhead = median(&lost);
            row.overhead
        }
    };
    row.holds = decides.map(|share| share <= row.max);
}

/// What each pair lost.
fn lost(off: &[Speed], on: &[Speed], of: impl Fn(&Speed) -> f64) -> Vec<f64> {
    let pairs = on.iter().zip(off);
    pairs
        .map(|(on, off)| 1.0 - of(on) / of(off).max(1e-9))
        .collect()
}

fn name(subject: &Subject) -> &'static str {
    match subject {
        Subject::Reads(_) => "reads",
        Subject::Memory => "memory",
        Subject::Threads => "threads",
    }
}

/// Begins to look at the program with this source, until it is dropped. `Err`: why there is no such source here.
fn begin(
    options: &OverheadOptions<'_>,
    machine: &Machine,
    source: Source,
    running: &Running,
) -> Result<std::result::Result<Steward, String>> {
    let policy = source.policy();
    let chosen = StewardOptions {
        window_ns: u64::try_from(options.window.as_nanos()).unwrap_or(u64::MAX),
        scope: Scope::Tree(running.worker.process_id),
        memory_source: source.way(),
        decision_log: Some(running.folder.path().join("decisions.jsonl")),
        ..steward_options(machine, policy)
    };
    let steward = Steward::start(Target::Processes, chosen).map_err(Error::failed)?;
    let marks = match source {
        Source::Threads => None,
        Source::Files => Some("what threads read"),
        Source::Memory(_) => Some("what programs access in memory"),
    };
    let unseen = steward.summary().unseen;
    let missing = unseen
        .into_iter()
        .find(|line| marks.is_some_and(|mark| line.contains(mark)));
    if let Some(why) = missing {
        return Ok(Err(why));
    }
    std::thread::sleep(options.window * WARM_WINDOWS);
    Ok(Ok(steward))
}

/// What the program does while a steward looks, and what that takes.
fn beside(options: &OverheadOptions<'_>, running: &mut Running) -> Result<Measured> {
    let (before_ns, begin) = (looking_ns(), Instant::now());
    let speed = running.measure(options.measure)?;
    let (spent_ns, took_ns) = (looking_ns() - before_ns, begin.elapsed().as_nanos());
    Ok(Measured {
        speed,
        core_share: spent_ns as f64 / took_ns.max(1) as f64,
    })
}

/// CPU time of the threads that look.
fn looking_ns() -> u64 {
    let own = std::process::id();
    let looks = |thread: &u32| task::name(own, *thread).starts_with("egeria-");
    let threads = task::threads(own).into_iter().filter(looks);
    let clocks = threads.filter_map(|thread| task::CpuClock::open(own, thread).ok()?.read_ns());
    clocks.sum()
}

/// A program that is measured; ends when dropped, and its file with it.
struct Running {
    worker: Worker,
    folder: tempfile::TempDir,
}

fn start(options: &OverheadOptions<'_>, subject: &Subject) -> Result<(Running, Option<String>)> {
    let memory = PathBuf::from("/dev/shm");
    let directory = match subject {
        Subject::Reads(directory) => directory,
        Subject::Memory | Subject::Threads => &memory,
    };
    let folder = tempfile::Builder::new()
        .prefix("egeria-overhead-")
        .tempdir_in(directory);
    let folder = folder.map_err(|error| {
        let doing = format!("cannot make a directory in {}", directory.display());
        Error::io(doing, error, "name another with --directory")
    })?;
    let file = folder.path().join("blocks").to_string_lossy().into_owned();
    let (arguments, place) = match subject {
        Subject::Reads(directory) => {
            fill_file(&file)?;
            let place = format!("{} ({})", directory.display(), file_system(directory));
            (vec!["reads".to_owned(), file], Some(place))
        }
        Subject::Memory => (
            vec!["memory".to_owned(), options.memory_bytes.to_string()],
            None,
        ),
        Subject::Threads => {
            fill_file(&file)?;
            (
                vec!["threads".to_owned(), options.threads.to_string(), file],
                None,
            )
        }
    };
    let (program, before) = &options.program;
    let mut command = Command::new(program);
    command.args(before).args(arguments);
    let worker = Worker::start(&mut command, name(subject), PATIENCE)?;
    Ok((Running { worker, folder }, place))
}

fn fill_file(path: &str) -> Result<()> {
    let write = || {
        let mut file = File::create(path)?;
        let block = vec![1_u8; 1 << 20];
        for _ in 0..FILE_BYTES / block.len() as u64 {
            file.write_all(&block)?;
        }
        file.sync_all()
    };
    write().map_err(|error| {
        Error::io(
            format!("cannot write {path}"),
            error,
            "make room there, or name another --directory",
        )
    })
}

/// As the kernel calls it.
fn file_system(directory: &Path) -> &'static str {
    let kind = rustix::fs::statfs(directory).map_or(0, |found| found.f_type);
    match kind {
        libc::TMPFS_MAGIC => "tmpfs",
        libc::EXT4_SUPER_MAGIC => "ext4",
        libc::XFS_SUPER_MAGIC => "xfs",
        libc::BTRFS_SUPER_MAGIC => "btrfs",
        libc::OVERLAYFS_SUPER_MAGIC => "overlayfs",
        _ => "another file system",
    }
}

impl Running {
    fn measure(&mut self, length: Duration) -> Result<Speed> {
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let Done { count, ns, cpu_ns } = self.worker.ask(&length_ms, None)?;
        Ok(Speed {
            ops_s: count * 1e9 / ns.max(1.0),
            ops_cpu_s: count * 1e9 / cpu_ns.max(1.0),
        })
    }
}
