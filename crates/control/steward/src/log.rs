//! The decision log: one JSON object per line, for people, `explain`, `top` and scripts.
//!
//! `start`, then one `window` per window in which something happened, then `stop`. A log that ends
//! without `stop` is of a steward that runs or was killed. The format is in docs/reference/decision-log.md.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use egeria_actuators::GatherProgress;
use egeria_facts::{MemoryTraffic, ThreadKey};
use egeria_machine::NodeId;
use egeria_policy::KeptProcess;
use egeria_policy::mba::UnboundBecause;
use egeria_policy::planner::{Resting, Settings, Unavailable};
use egeria_policy::{Action, ActionRecord, ActionResult, Kept, Move};
use serde::{Deserialize, Serialize};

use crate::kinds::KindLine;

/// A log longer than this begins again, and one older file is kept.
const MAX_BYTES: u64 = 64 << 20;
/// Longest line read.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// One line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A steward began.
    Start {
        steward: u32,
        /// The volume; `None` where processes are watched without one.
        volume: Option<String>,
        /// The machine's name.
        machine: String,
        /// Figures are of an emulated machine.
        emulated: bool,
        /// The policy, as `--policy` takes it.
        policy: String,
        /// Stages of the policy that are off because there is no actuator for what they order.
        #[serde(default)]
        unavailable: Vec<Unavailable>,
        /// The same in words, each with what it needs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        off: Vec<String>,
        /// What is observed beyond threads, how, and what that cannot see.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sources: Vec<String>,
        settings: Box<Settings>,
        /// ns of machine time.
        window_ns: u64,
        /// When, ns since the epoch.
        time_unix_ns: u64,
    },
    /// A window and what was decided on it.
    Window(Box<WindowRecord>),
    /// The steward stopped in order.
    Stop {
        /// Threads that got their CPUs back.
        restored: u64,
        /// Windows looked at.
        windows: u64,
        actions: u64,
    },
}

/// One window: observations, actions, and results of earlier moves.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WindowRecord {
    /// Counts from 0.
    pub number: u64,
    /// When it began, ns of machine time since the steward did.
    pub start_ns: u64,
    /// Its length, ns of machine time.
    pub duration_ns: u64,
    /// When it ended, ns since the epoch.
    pub time_unix_ns: u64,
    /// Share of local bytes; `None` when none moved.
    pub local_share: Option<f64>,
    /// The nodes, in the machine's order.
    pub nodes: Vec<NodeRecord>,
    /// Threads that read or wrote and are left out of `threads`.
    #[serde(default)]
    pub threads_omitted: u64,
    /// The threads that read or wrote. If there are very many: those moved or kept, and the busiest.
    pub threads: Vec<ThreadRecord>,
    /// Node contended for persistent memory if all threads were with their data.
    pub pm_contended: Option<NodeId>,
    pub cpu_contended: Option<NodeId>,
    /// What was tried, in order.
    pub actions: Vec<ActionLine>,
    /// Threads that stay although there are reasons for another node.
    pub kept: Vec<Kept>,
    /// What came of earlier actions that were judged in this window.
    pub results: Vec<ResultLine>,
    /// Actions that are not repeated now, because they brought less than half of what was expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resting: Vec<Resting>,
    /// Processes that use memory heavily and are left as they are, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_processes: Vec<KeptLine>,
    /// Short-lived processes by parent, and what comes of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindLine>,
    /// Why programs that use a memory with too many threads are not bounded (MBA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unbound: Option<UnboundBecause>,
    /// Memory on its way to its threads that went on in this window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arriving: Vec<ArrivingLine>,
    /// Traffic of memories of all programs, where hardware counts it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<MemoryTraffic>,
}

/// One node in one window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    pub node: NodeId,
    pub read_bytes_s: f64,
    pub written_bytes_s: f64,
    /// `BW_N`, reads weighted, bytes/s.
    pub pm_bytes_s: f64,
    pub pm_maximum_bytes_s: Option<f64>,
    /// Share of its CPUs in use.
    pub cpu_share: f64,
    pub threads: u32,
}

/// One thread in one window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ThreadRecord {
    pub thread: ThreadKey,
    pub name: String,
    pub node: NodeId,
    /// Read per node, bytes/s.
    pub read_bytes_s: Vec<f64>,
    /// Written per node, bytes/s.
    pub written_bytes_s: Vec<f64>,
    /// Share of one CPU it used.
    pub cpu_share: f64,
    /// It used a file that another thread used.
    pub is_shared: bool,
}

impl ThreadRecord {
    /// Bytes/s read and written, on all nodes.
    pub fn bytes_s(&self) -> f64 {
        self.read_bytes_s.iter().chain(&self.written_bytes_s).sum()
    }
}

/// One action, as tried.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionLine {
    /// Kind, reason and outcome.
    #[serde(flatten)]
    pub record: ActionRecord,
    /// The name of the thread, or the path of the file outside of volumes, that it is about; empty for others.
    #[serde(default)]
    pub name: String,
    /// The action in one sentence.
    pub sentence: String,
}

impl ActionLine {
    /// An action, and the name of the thread or file that it is about.
    pub fn new(record: ActionRecord, name: String) -> ActionLine {
        let mut line = ActionLine {
            record,
            name,
            sentence: String::new(),
        };
        line.write_sentence();
        line
    }

    /// Makes the sentence again from the numbers and the name.
    pub fn write_sentence(&mut self) {
        self.sentence = match &self.record.action {
            Action::Relocate(step) if !self.name.is_empty() => step.sentence(&self.name),
            action => action.to_string(),
        };
    }

    /// The migration of a single thread, if it is one.
    pub fn as_thread_move(&self) -> Option<&Move> {
        self.record.action.as_thread_move()
    }

    /// Whether it was done, or is being done.
    pub fn is_done(&self) -> bool {
        self.record.outcome.took_effect()
    }
}

/// A process that is left as it is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeptLine {
    #[serde(flatten)]
    pub kept: KeptProcess,
    /// The name of its first thread.
    #[serde(default)]
    pub name: String,
    /// Why, in one sentence.
    pub sentence: String,
}

impl KeptLine {
    /// A process and its name.
    pub fn new(kept: KeptProcess, name: String) -> KeptLine {
        let mut line = KeptLine {
            kept,
            name,
            sentence: String::new(),
        };
        line.write_sentence();
        line
    }

    /// Makes the sentence again from the numbers and the name.
    pub fn write_sentence(&mut self) {
        let (text, process) = (self.kept.to_string(), self.kept.process);
        self.sentence = match &self.name[..] {
            "" => text,
            name => text.replacen(&process.to_string(), &format!("{process} ({name})"), 1),
        };
    }
}

/// Memory of a process on its way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ArrivingLine {
    #[serde(flatten)]
    pub progress: GatherProgress,
    /// How far it is, in one sentence.
    pub sentence: String,
}

impl ArrivingLine {
    /// The sentence is made from the numbers.
    pub fn new(progress: GatherProgress) -> ArrivingLine {
        ArrivingLine {
            sentence: progress.to_string(),
            progress,
        }
    }
}

/// The result of one action.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResultLine {
    /// What was expected, what was measured, and whether that was too little.
    #[serde(flatten)]
    pub result: ActionResult,
    /// The thread's rates before and after, if the action is about one.
    #[serde(default)]
    pub thread: Option<ThreadResult>,
}

/// The rates of one thread before and after it was migrated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ThreadResult {
    /// Where it is; `None` when it is gone.
    pub node: Option<NodeId>,
    pub bytes_s_before: f64,
    /// Bytes/s now.
    pub bytes_s_after: f64,
    pub local_share_before: Option<f64>,
    /// Local share now.
    pub local_share_after: Option<f64>,
}

/// Writes a log. It contains names of its owner's programs and threads, so only this user may read it.
pub(crate) struct LogWriter {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    /// The first line: every file begins with it.
    start: String,
}

impl LogWriter {
    /// Begin a new log; an older one of this name is replaced.
    pub(crate) fn create(path: &Path) -> io::Result<LogWriter> {
        Ok(LogWriter {
            path: path.to_owned(),
            file: BufWriter::new(egeria_files::create_private(path)?),
            bytes: 0,
            start: String::new(),
        })
    }

    /// Writes one line, visible to readers at once.
    pub(crate) fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut text = serde_json::to_string(record)?;
        text.push('\n');
        if matches!(record, Record::Start { .. }) {
            self.start.clone_from(&text);
        }
        if self.bytes + text.len() as u64 > MAX_BYTES {
            self.begin_anew()?;
        }
        self.bytes += text.len() as u64;
        self.file.write_all(text.as_bytes())?;
        self.file.flush()
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        let mut older = self.path.clone().into_os_string();
        older.push(".old");
        std::fs::rename(&self.path, older)?;
        self.file = BufWriter::new(egeria_files::create_private(&self.path)?);
        self.bytes = self.start.len() as u64;
        self.file.write_all(self.start.as_bytes())
    }
}

/// Reads a log, also one that is being written: an incomplete last line is left for later.
pub struct LogReader {
    lines: BufReader<File>,
    partial: Vec<u8>,
}

impl LogReader {
    /// # Errors
    /// When the file cannot be opened, or is no plain file.
    pub fn open(path: &Path) -> io::Result<LogReader> {
        // Opening a pipe must not block until another process writes to it.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is no plain file",
            ));
        }
        Ok(LogReader {
            lines: BufReader::new(file),
            partial: Vec::new(),
        })
    }

    /// The next record; `None` when there is none yet.
    ///
    /// # Errors
    /// When the file cannot be read, and `InvalidData` for a line that is no record.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        use std::io::Read;
        let room = MAX_LINE_BYTES.saturating_sub(self.partial.len() as u64);
        (&mut self.lines)
            .take(room)
            .read_until(b'\n', &mut self.partial)?;
        if self.partial.last() != Some(&b'\n') {
            return if self.partial.len() as u64 >= MAX_LINE_BYTES {
                Err(io::Error::new(ErrorKind::InvalidData, "a line without end"))
            } else {
                Ok(None)
            };
        }
        let line = std::mem::take(&mut self.partial);
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::FileKey;
    use egeria_machine::NodeId;
    use egeria_policy::ActionOutcome;
    use egeria_policy::planner::{Relocate, RelocationReason, RelocationStep};

    fn start() -> Record {
        Record::Start {
            steward: 1,
            volume: Some("v".to_owned()),
            machine: "m".to_owned(),
            emulated: false,
            policy: "full".to_owned(),
            unavailable: Vec::new(),
            off: Vec::new(),
            sources: Vec::new(),
            settings: Box::default(),
            window_ns: 1,
            time_unix_ns: 1,
        }
    }

    fn long_window(number: u64) -> Record {
        Record::Window(Box::new(WindowRecord {
            number,
            duration_ns: 1,
            time_unix_ns: 1,
            threads: vec![ThreadRecord {
                thread: ThreadKey::default(),
                name: "n".repeat(MAX_BYTES as usize / 3),
                node: NodeId(0),
                read_bytes_s: Vec::new(),
                written_bytes_s: Vec::new(),
                cpu_share: 0.0,
                is_shared: false,
            }],
            ..WindowRecord::default()
        }))
    }

    #[test]
    fn a_log_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "an older one").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let mut log = LogWriter::create(&path).unwrap();
        log.write(&start()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let mut reader = LogReader::open(&path).unwrap();
        assert_eq!(reader.next_record().unwrap(), Some(start()));
        assert!(LogReader::open(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn a_log_that_begins_anew_says_whose_it_is() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("log");
        let mut log = LogWriter::create(&path).unwrap();
        log.write(&start()).unwrap();
        for number in 0..3 {
            log.write(&long_window(number)).unwrap();
        }
        let mut reader = LogReader::open(&path).unwrap();
        assert_eq!(reader.next_record().unwrap(), Some(start()));
        assert_eq!(reader.next_record().unwrap(), Some(long_window(2)));
        assert_eq!(reader.next_record().unwrap(), None);
        let mut older = LogReader::open(&directory.path().join("log.old")).unwrap();
        assert_eq!(older.next_record().unwrap(), Some(start()));
        assert_eq!(older.next_record().unwrap(), Some(long_window(0)));
    }

    #[test]
    fn files_outside_of_volumes_are_called_by_their_paths() {
        let step = RelocationStep {
            file: FileKey::default(),
            action: Relocate::Move {
                from: NodeId(0),
                to: NodeId(1),
            },
            bytes: 1,
            bytes_s: 1.0,
            cost_ns: 0,
            loss_thread_s: 0.0,
            gain_threads: 0.0,
            horizon_ns: 0,
            why: RelocationReason::Unread { windows: 1 },
        };
        let sentence = |name: &str| {
            let record = ActionRecord {
                action: Action::Relocate(step.clone()),
                expected: None,
                outcome: ActionOutcome::Done,
            };
            ActionLine::new(record, name.to_owned()).sentence
        };
        assert!(sentence("/srv/a").starts_with("/srv/a goes from node 0 to node 1"));
        assert!(sentence("").starts_with("file 0 of volume 0 goes from node 0"));
    }
}
