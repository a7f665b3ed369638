//! What `egeria explain` and `egeria top` share: finding the decision log meant, reading it while it
//! grows, and knowing whether its steward still works. The format: docs/reference/decision-log.md.

use std::fs::{self, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use egeria_engine::{AttachMode, AttachOptions};
use egeria_policy::planner::{Settings, Unavailable};
use egeria_proc::task;
use egeria_steward::{
    LogReader, Record, decision_log_path, runtime_directory, trusted_runtime_directory,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::control;
use crate::session;
use egeria_cli::failure::{Failure, Outcome};

const LOG_SUFFIX: &str = ".decisions.jsonl";
const JOURNAL_SUFFIX: &str = ".journal.jsonl";
/// More files than this are not looked at.
const MAX_FILES: usize = 10_000;
/// Longest first line of a journal.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// Longest text out of a log that is shown.
const MAX_SHOWN_CHARS: usize = 200;

/// What a log says of its steward before anything else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Head {
    /// The steward's process.
    pub(super) process_id: u32,
    pub(super) volume: Option<String>,
    pub(super) machine: String,
    pub(super) emulated: bool,
    pub(super) policy: String,
    pub(super) unavailable: Vec<Unavailable>,
    /// The same in words, each with what it needs.
    pub(super) off: Vec<String>,
    /// What is observed beyond threads, and how.
    pub(super) sources: Vec<String>,
    pub(super) settings: Box<Settings>,
    pub(super) window_ns: u64,
    pub(super) time_unix_ns: u64,
}

impl Head {
    /// Of a `start` line.
    pub(super) fn of(record: Record) -> Option<Head> {
        let Record::Start {
            steward,
            volume,
            machine,
            emulated,
            policy,
            unavailable,
            off,
            sources,
            settings,
            window_ns,
            time_unix_ns,
        } = record
        else {
            return None;
        };
        Some(Head {
            process_id: steward,
            volume: volume.as_deref().map(printable),
            machine: printable(&machine),
            emulated,
            policy: printable(&policy),
            unavailable,
            off: off.iter().map(|line| printable(line)).collect(),
            sources: sources.iter().map(|line| printable(line)).collect(),
            settings,
            window_ns,
            time_unix_ns,
        })
    }

    fn lives(&self) -> bool {
        lives(self.process_id, self.time_unix_ns)
    }
}

/// What has become of the steward that wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum Fate {
    /// Its process lives.
    Working,
    /// It stopped in order.
    Stopped {
        /// Threads that got their CPUs back.
        restored: u64,
        /// Windows looked at.
        windows: u64,
        actions: u64,
    },
    /// It did not stop in order and its process is gone.
    Killed,
    /// The log does not say which process wrote it.
    Unknown,
}

impl Fate {
    /// By what the log says at its beginning and at its end.
    pub(super) fn of(head: Option<&Head>, stop: Option<Fate>) -> Fate {
        match (stop, head) {
            (Some(stop), _) => stop,
            (None, None) => Fate::Unknown,
            (None, Some(head)) if head.lives() => Fate::Working,
            (None, Some(_)) => Fate::Killed,
        }
    }

    /// Of a `stop` line.
    pub(super) fn stopped(record: &Record) -> Option<Fate> {
        match *record {
            Record::Stop {
                restored,
                windows,
                actions,
            } => Some(Fate::Stopped {
                restored,
                windows,
                actions,
            }),
            _ => None,
        }
    }
}

/// A log open for reading, also while a steward writes it.
pub(super) struct DecisionLog {
    path: PathBuf,
    reader: LogReader,
    file: FileState,
    lines: u64,
}

#[derive(Clone, Copy, PartialEq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
}

impl DecisionLog {
    pub(super) fn open(path: &Path) -> Outcome<DecisionLog> {
        let failed = |error| {
            let hint = "check the path; `egeria steward --help` says where decisions go";
            Failure::io("read the decision log", path, &error, hint)
        };
        let metadata = fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(Failure::new(format!(
                "{} is no file; give a decision log that a steward wrote",
                path.display()
            )));
        }
        Ok(DecisionLog {
            path: path.to_owned(),
            reader: LogReader::open(path).map_err(failed)?,
            file: FileState::of(&metadata),
            lines: 0,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The next line; `None` when there is none yet.
    pub(super) fn next(&mut self) -> Outcome<Option<Record>> {
        let record = self.reader.next_record();
        self.lines += u64::from(!matches!(record, Ok(None)));
        record.map_err(|error| {
            let cause = error.to_string();
            // The position within the line is of no use, and it looks like a line of the file.
            let cause = cause.split(" at line ").next().unwrap_or_default();
            Failure::new(format!(
                "{} is no decision log: line {}: {}; give one that a steward wrote",
                self.path.display(),
                self.lines,
                printable(cause)
            ))
        })
    }

    /// Whether the file was replaced or truncated: what follows must be read with a new [`DecisionLog`].
    pub(super) fn is_replaced(&mut self) -> bool {
        let Ok(metadata) = fs::metadata(&self.path) else {
            return false;
        };
        let (before, now) = (self.file, FileState::of(&metadata));
        self.file = now;
        (now.device, now.inode) != (before.device, before.inode) || now.bytes < before.bytes
    }
}

impl FileState {
    fn of(metadata: &Metadata) -> FileState {
        FileState {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
        }
    }
}

/// The log meant: this file, the one of this volume, or else that of the steward that works, or the newest.
pub(super) fn choose(log: Option<&Path>, volume: Option<&Path>) -> Outcome<PathBuf> {
    match (log, volume) {
        (Some(log), _) => Ok(log.to_owned()),
        (None, Some(path)) => of_volume(path),
        (None, None) => only_one(candidates()),
    }
}

fn of_volume(path: &Path) -> Outcome<PathBuf> {
    let (volume, _) = volume_of(path)?;
    let log = working_log(volume).unwrap_or_else(|| decision_log_path(Some(volume)));
    // A steward of the machine may have looked after the volume.
    let logs = [log.clone(), decision_log_path(None)];
    if let Some(log) = logs.into_iter().find(|log| log.exists()) {
        return Ok(log);
    }
    Err(Failure::new(format!(
        "no steward has looked after the volume of {}: there is no {}; start one with `egeria steward POOL`, or give its log with --log",
        path.display(),
        log.display()
    )))
}

/// The volume of a pool, or of the mount that a path is on, and the path of a pool. This process has the rights
/// of their owner from here on.
pub(super) fn volume_of(path: &Path) -> Outcome<(Uuid, PathBuf)> {
    if let Some(identity) = control::identify_mounted(path)? {
        return Ok((identity.volume, identity.pool));
    }
    let pool = control::pool_of(path)?;
    let options = AttachOptions::default();
    let volume = session::attach(&pool, AttachMode::ReadOnly, &options)?;
    Ok((volume.uuid(), pool))
}

/// The log that the steward at work on a volume writes, wherever that is.
pub(super) fn working_log(volume: Uuid) -> Option<PathBuf> {
    log_of_journal(&trusted_runtime_directory()?.join(format!("{volume}{JOURNAL_SUFFIX}")))
}

/// The first line of a journal.
#[derive(Deserialize)]
struct JournalHead {
    steward: u32,
    log: PathBuf,
}

fn log_of_journal(path: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
    let mut line = Vec::new();
    let file = fs::File::open(path).ok()?;
    BufReader::new(file.take(MAX_HEAD_BYTES))
        .read_until(b'\n', &mut line)
        .ok()?;
    let head: JournalHead = serde_json::from_slice(&line).ok()?;
    // The steward wrote the file after it began.
    if !lives(head.steward, unix_ns(metadata.modified().ok()?)) {
        return None;
    }
    let directory = || fs::read_link(format!("/proc/{}/cwd", head.steward)).ok();
    if head.log.is_relative() {
        Some(directory()?.join(head.log))
    } else {
        Some(head.log)
    }
}

/// A log that the user may mean.
struct Candidate {
    log: PathBuf,
    modified: SystemTime,
    head: Option<Head>,
}

fn candidates() -> Vec<Candidate> {
    let entries = trusted_runtime_directory().and_then(|directory| fs::read_dir(directory).ok());
    let mut found: Vec<Candidate> = Vec::new();
    for entry in entries.into_iter().flatten().flatten().take(MAX_FILES) {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let log = match name.ends_with(LOG_SUFFIX) {
            true => Some(path),
            false if name.ends_with(JOURNAL_SUFFIX) => log_of_journal(&path),
            false => None,
        };
        let known = |log: &PathBuf| found.iter().any(|other| other.log == *log);
        if let Some(log) = log.filter(|log| !known(log)) {
            found.extend(candidate(log));
        }
    }
    found
}

fn candidate(log: PathBuf) -> Option<Candidate> {
    let modified = fs::metadata(&log).ok()?.modified().ok()?;
    let first = DecisionLog::open(&log).ok()?.next().ok()?;
    Some(Candidate {
        log,
        modified,
        head: first.and_then(Head::of),
    })
}

fn only_one(mut found: Vec<Candidate>) -> Outcome<PathBuf> {
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.modified));
    let lives = |candidate: &&Candidate| candidate.head.as_ref().is_some_and(Head::lives);
    let working: Vec<&Candidate> = found.iter().filter(lives).collect();
    match (working.as_slice(), found.first()) {
        ([one], _) => Ok(one.log.clone()),
        ([], Some(newest)) => Ok(newest.log.clone()),
        ([], None) => Err(Failure::new(format!(
            "no steward has written decisions in {}; start one with `egeria steward POOL` or `egeria run --policy full`, or give its log with --log",
            runtime_directory().display()
        ))),
        (several, _) => {
            const NAMED: usize = 4;
            let names = several.iter().take(NAMED).map(|one| one.log.display());
            let names: Vec<String> = names.map(|name| name.to_string()).collect();
            let more = if several.len() > NAMED { ", …" } else { "" };
            Err(Failure::new(format!(
                "{} stewards are at work; choose one by its volume's pool or with --log: {}{more}",
                several.len(),
                names.join(", ")
            )))
        }
    }
}

/// The log of the steward at work on the processes of this machine, if there is one.
pub(super) fn of_processes() -> Option<PathBuf> {
    let of_processes = |one: &Candidate| {
        let head = one.head.as_ref();
        head.is_some_and(|head| head.volume.is_none() && head.lives())
    };
    let found = candidates().into_iter().filter(of_processes);
    found.max_by_key(|one| one.modified).map(|one| one.log)
}

/// Whether a process lives that was there at this time, ns since the epoch.
fn lives(process_id: u32, at_unix_ns: u64) -> bool {
    /// Clocks are read one after the other, and ticks are coarse.
    const SLACK: Duration = Duration::from_secs(2);
    let Some(start_ticks) = task::start_ticks(process_id, process_id) else {
        return false;
    };
    let ticks_s = rustix::param::clock_ticks_per_second().max(1);
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let boot = Duration::new(boot.tv_sec.max(0) as u64, boot.tv_nsec.max(0) as u32);
    let age = boot.saturating_sub(Duration::from_millis(
        start_ticks.saturating_mul(1000) / ticks_s,
    ));
    let started = SystemTime::now().checked_sub(age);
    started.is_some_and(|started| {
        unix_ns(started) <= at_unix_ns.saturating_add(SLACK.as_nanos() as u64)
    })
}

/// ns since the epoch.
pub(super) fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// The part of a log that was put aside when the log grew too long, if it is of the same steward.
pub(super) fn older_part(path: &Path, head: Option<&Head>) -> Option<PathBuf> {
    let mut older = path.as_os_str().to_owned();
    older.push(".old");
    let older = PathBuf::from(older);
    let written = fs::metadata(&older).and_then(|metadata| metadata.modified());
    let since = head.map_or(0, |head| head.time_unix_ns);
    written
        .is_ok_and(|time: SystemTime| unix_ns(time) >= since)
        .then_some(older)
}

/// Text out of a log as it may be shown: another user may have written it, and some bytes control terminals.
pub(super) fn printable(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    egeria_cli::output::printable(&cut)
}

/// The failure of a log without a single whole line.
pub(super) fn empty(path: &Path) -> Failure {
    let error = io::Error::other("there is no whole line in it yet");
    let hint = "wait for its steward's first one, or give another with --log";
    Failure::io("read the decision log", path, &error, hint)
}
