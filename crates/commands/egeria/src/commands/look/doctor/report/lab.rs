//! Measurements of `egeria-lab`, where it is installed. It is a program of its own, so that code that measures is no part
//! of what every user installs; so it is started, and not linked.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use egeria_child::Group;
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::preload;
use egeria_cli::signals::Signals;

const LAB: &str = "egeria-lab";
/// A bench takes some minutes.
const AT_MOST: Duration = Duration::from_secs(30 * 60);
/// More than the table of any bench.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// What a bench prints.
///
/// # Errors
/// When the laboratory is not installed, the bench fails, or a signal asks to stop.
pub(super) fn bench(name: &str, signals: &Signals) -> Outcome<String> {
    let program = preload::beside(LAB).ok_or_else(|| {
        Failure::new(format!(
            "{LAB} is not installed next to egeria; apt-get install {LAB}, or make install LAB=1"
        ))
    })?;
    run(&program, &["bench", name], signals)
}

fn run(program: &Path, arguments: &[&str], signals: &Signals) -> Outcome<String> {
    let failed = |error: std::io::Error| {
        let why = reason(&error);
        Failure::new(format!(
            "{LAB} cannot be started: {why}; install it again, or free space in TMPDIR"
        ))
    };
    let mut output = tempfile::tempfile().map_err(failed)?;
    let mut complaints = tempfile::tempfile().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(complaints.try_clone().map_err(failed)?);
    let mut group = Group::start(&mut command).map_err(failed)?;
    let ended = group.wait(AT_MOST, Some(signals.stop_flag()));
    signals.check()?;
    match ended.map_err(Failure::new)? {
        Some(status) if status.success() => text(&mut output).map_err(failed),
        Some(_) => {
            let said = text(&mut complaints).unwrap_or_default();
            let said = egeria_child::last_words(&said);
            Err(Failure::new(format!("it failed{said}")))
        }
        None => Err(Failure::new(format!(
            "it did not end within {} minutes; run it by itself",
            AT_MOST.as_secs() / 60
        ))),
    }
}

fn text(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_bench_prints_or_why_it_fails_is_taken() {
        let signals = Signals::install().expect("handlers");
        let shell = |script| run(Path::new("/bin/sh"), &["-c", script], &signals);
        let printed = shell("echo a table; echo progress >&2").expect("it succeeds");
        assert_eq!(printed, "a table");
        for (script, words) in [
            (
                "echo half; echo 'one node only' >&2; exit 1",
                "it failed: one node only",
            ),
            ("kill -KILL $$", "it failed"),
        ] {
            match shell(script) {
                Err(Failure::Cause(line)) => assert_eq!(line, words),
                other => panic!("{other:?}"),
            }
        }
        let missing = run(Path::new("/no/such/lab"), &[], &signals);
        let Err(Failure::Cause(line)) = missing else {
            panic!("{missing:?}");
        };
        assert!(line.contains("cannot be started"), "{line}");
    }
}
