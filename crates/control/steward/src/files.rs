//! Files that a steward writes: its log, its journal, a recording.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use egeria_actuators::JournalError;
use egeria_trace::{TraceHeader, Writer};
use uuid::Uuid;

use crate::error::{Result, StewardError};
use crate::log::LogWriter;
use crate::options::StewardOptions;

pub(crate) fn open_log(path: &Path) -> Result<LogWriter> {
    LogWriter::create(path).map_err(|error| StewardError::File {
        what: "write the decision log",
        path: path.to_owned(),
        error,
        hint: "choose a file you may write to",
    })
}

pub(crate) fn of_journal(error: JournalError) -> StewardError {
    match error {
        JournalError::Running { process_id, log } => StewardError::Running { process_id, log },
        JournalError::File { what, path, error } => StewardError::File {
            what,
            path,
            error,
            hint: "set EGERIA_RUNTIME_DIR to a directory you may write to",
        },
    }
}

pub(crate) fn begin_trace(
    path: &Path,
    volume: Option<Uuid>,
    options: &StewardOptions,
) -> Result<Writer> {
    let header = TraceHeader {
        volume,
        command: Vec::new(),
        policy: options.policy.clone(),
        started_unix_ns: unix_ns(),
    };
    Writer::create(path, &options.machine, &header)
        .map_err(|error| StewardError::Record(error.to_string()))
}

pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}
