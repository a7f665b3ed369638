//! One run of a command: in a process group of its own, with a limit, and what it printed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use egeria_child::{Cancel, Group, last_words};
use egeria_files::{Error, Result};
use procfs::process::{Process, Stat};

/// A command that prints more is refused: its output would fill the disk run by run.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// How often the size of the output is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How long a command that is ended may take to clean up.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// How a command is run.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    /// A run that takes longer ends the trial.
    pub at_most: Duration,
    /// Set to end the trial.
    pub cancel: Cancel<'a>,
    /// Called for every command before it starts, as to give it the signals and limits of the caller.
    pub prepare: &'a dyn Fn(&mut Command),
}

/// What a run that ended well left.
#[derive(Debug)]
pub struct Ran {
    /// From its start to its end, s.
    pub elapsed_s: f64,
    pub stdout: String,
    pub stderr: String,
}

/// From now on processes that a command leaves behind become children of this one, so that they are found.
pub fn adopt_orphans() {
    let _ = rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1));
}

/// Runs a command to its end, with these variables in its environment; its standard input is empty. `ended` is called once it has ended or is to end, before
/// processes that it left are looked for: what this process started since then must have ended.
///
/// # Errors
/// When it cannot be started, fails, takes too long, prints too much, or leaves processes behind.
pub fn run(
    words: &[OsString],
    environment: &[(OsString, OsString)],
    terms: &Terms<'_>,
    ended: impl FnOnce(),
) -> Result<Ran> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::failed("there is no command; name one behind `--`"));
    };
    let failed = |error| Error::io("cannot keep the output", error, "make room in TMPDIR");
    let (mut stdout, mut stderr) = (
        tempfile::tempfile().map_err(failed)?,
        tempfile::tempfile().map_err(failed)?,
    );
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(failed)?)
        .stderr(stderr.try_clone().map_err(failed)?);
    (terms.prepare)(&mut command);
    let name = program.to_string_lossy().into_owned();
    let mut known = children();
    let begin = Instant::now();
    let mut group = Group::start(&mut command).map_err(|error| {
        let doing = format!("cannot run {name}");
        Error::io(doing, error, "check its name, PATH and mode")
    })?;
    let waited = wait(&group, &name, terms, [&stdout, &stderr]);
    let elapsed_s = begin.elapsed().as_secs_f64();
    ended();
    if let Err(error) = waited {
        group.ask_to_end(END_PATIENCE);
        drop(group);
        reap_orphans();
        let said = last_words(&text(&mut stderr));
        return Err(match error {
            Error::Failed(cause) => Error::Failed(cause + &said),
            other => other,
        });
    }
    known.extend(i32::try_from(group.child().id()));
    let left = left_behind(&known);
    let status = group.finish()?;
    reap_orphans();
    let ran = Ran {
        elapsed_s,
        stdout: text(&mut stdout),
        stderr: text(&mut stderr),
    };
    check(&name, status, &ran)?;
    if let Some(left) = left {
        return Err(Error::failed(format!(
            "{name} ended and left a process behind ({left}); keep it in the foreground, or end it in the command"
        )));
    }
    Ok(ran)
}

fn wait(group: &Group, name: &str, terms: &Terms<'_>, output: [&File; 2]) -> Result<()> {
    let deadline = Instant::now() + terms.at_most;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if group.ends_within(left.min(LOOK), terms.cancel)? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(Error::failed(format!(
                "{name} did not end within {} s; raise --run-at-most, or choose a command that ends",
                terms.at_most.as_secs_f64()
            )));
        }
        let bytes = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
        if output.into_iter().map(bytes).sum::<u64>() > MAX_OUTPUT_BYTES {
            return Err(Error::failed(format!(
                "{name} prints more than {} MiB; redirect its output in the command",
                MAX_OUTPUT_BYTES >> 20
            )));
        }
    }
}

fn check(name: &str, status: ExitStatus, ran: &Ran) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended badly".to_owned(),
    };
    let said = match ran.stderr.trim() {
        "" => last_words(&ran.stdout),
        _ => last_words(&ran.stderr),
    };
    Err(Error::failed(format!(
        "{name} {how}{said}; a trial needs a command that ends with status 0"
    )))
}

/// A living child of this process other than those known, in words.
fn left_behind(known: &[i32]) -> Option<String> {
    children().into_iter().find_map(|child| {
        let stat = stat(child).filter(is_of_command)?;
        let is_other = !known.contains(&child) && stat.state != 'Z';
        is_other.then(|| format!("{}, process {child}", stat.comm))
    })
}

fn stat(process: i32) -> Option<Stat> {
    let process = Process::new(process).ok()?;
    process.stat().ok()
}

/// Commands run in groups of their own. What is in the group of this process is a helper that it started itself. The
/// number of that group is 0 in a container whose starter is outside.
fn is_of_command(child: &Stat) -> bool {
    let own = Process::myself().and_then(|own| own.stat());
    own.is_ok_and(|own| own.pgrp != child.pgrp)
}

fn children() -> Vec<i32> {
    let tasks = Process::myself().and_then(|own| own.tasks());
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| std::fs::read_to_string(children_of(task.tid)).ok());
    let numbers = |text: String| -> Vec<i32> {
        let words = text.split_whitespace();
        words.flat_map(str::parse).collect()
    };
    children.flat_map(numbers).collect()
}

fn children_of(thread: i32) -> String {
    format!("/proc/self/task/{thread}/children")
}

/// Takes the statuses of orphans that have ended; nothing else waits for them.
fn reap_orphans() {
    let adopted = children().into_iter();
    for child in adopted.filter(|child| stat(*child).is_some_and(|stat| is_of_command(&stat))) {
        let Some(child) = rustix::process::Pid::from_raw(child) else {
            continue;
        };
        let options = rustix::process::WaitOptions::NOHANG;
        let _ = rustix::process::waitpid(Some(child), options);
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind();
    let read = read.and_then(|()| file.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes));
    // What cannot be read back is as good as never said.
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
