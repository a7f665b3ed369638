//! Running cases in a directory, and the report.

use crate::call;
use crate::case::Case;
use crate::process::{Child, Ending};
use serde::Serialize;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// How long a case may take; most take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// How one case went.
#[derive(Serialize)]
pub struct Outcome {
    /// `family::name`.
    pub name: String,
    /// `passed`, `failed` or `skipped`.
    pub outcome: &'static str,
    /// What did not hold, or why it was not run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// How all went.
#[derive(Serialize)]
pub struct Report {
    /// Where they ran.
    pub directory: String,
    /// Each, in order.
    pub cases: Vec<Outcome>,
    /// How many kept what is promised.
    pub passed: usize,
    /// How many did not.
    pub failed: usize,
    /// How many could not be run here.
    pub skipped: usize,
    /// What could not be removed afterwards, and why; nothing when all is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Run cases below a directory, telling of each; what they made is removed. It ends, without that case, when
/// `tell` does not want more.
pub fn run<'c>(
    directory: &Path,
    cases: impl Iterator<Item = &'c Case>,
    mut tell: impl FnMut(&Outcome) -> bool,
) -> io::Result<Report> {
    call::umask(0o022);
    let place = fs::canonicalize(directory)?.join(format!("conformance-{}", std::process::id()));
    fs::create_dir(&place)?;
    let mut report = Report {
        directory: directory.display().to_string(),
        cases: Vec::new(),
        passed: 0,
        failed: 0,
        skipped: 0,
        left: None,
    };
    for case in cases {
        let outcome = run_one(&place, case);
        if !tell(&outcome) {
            break;
        }
        *match outcome.outcome {
            "passed" => &mut report.passed,
            "failed" => &mut report.failed,
            _ => &mut report.skipped,
        } += 1;
        report.cases.push(outcome);
    }
    // What the cases showed is told in any case.
    report.left = clear(&place);
    Ok(report)
}

/// Remove what cases made, not waiting for ever; what could not be removed, and why.
pub(crate) fn clear(place: &Path) -> Option<String> {
    let child = Child::begin(|| {
        let_go_of_output();
        let removed = fs::remove_dir_all(place).or_else(|_| {
            open_up(place);
            fs::remove_dir_all(place)
        });
        if let Err(error) = removed {
            panic!("{error}");
        }
    });
    match child.ending(LIMIT) {
        Ending::Well => None,
        Ending::Skipped(why) | Ending::Badly(why) => Some(format!("{}: {why}", place.display())),
    }
}

/// Whoever reads our output must not wait for a process that cannot be killed.
pub(crate) fn let_go_of_output() {
    let nowhere = call::open(c"/dev/null", libc::O_RDWR, 0).expect("/dev/null");
    for number in 0..3 {
        call::dup2(nowhere.0, number).expect("a standard descriptor");
    }
}

/// Cases leave directories that their owner may not enter.
fn open_up(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

fn run_one(place: &Path, case: &Case) -> Outcome {
    let name = case.full_name();
    let own = place.join(name.replace("::", "-"));
    let path = CString::new(own.as_os_str().as_bytes()).expect("a path without NUL");
    let child = Child::begin(|| {
        let_go_of_output();
        call::mkdir(&path, 0o755).expect("a directory for the case");
        call::chdir(&path).expect("into the directory of the case");
        (case.run)();
    });
    let (outcome, message) = match child.ending(LIMIT) {
        Ending::Well => ("passed", String::new()),
        Ending::Skipped(why) => ("skipped", why),
        Ending::Badly(words) => ("failed", words),
    };
    if outcome == "failed" {
        // What it leaves must not fail later cases, which may need the room. What cannot be removed is reported
        // at the end, when the whole place is cleared.
        let _ = clear(&own);
    }
    Outcome {
        name,
        outcome,
        message,
    }
}
