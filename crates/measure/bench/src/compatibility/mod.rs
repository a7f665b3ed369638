//! Unmodified programs on tmpfs, on a volume's mount, and on a volume under the preload library.
//!
//! Each program is a *job*: a shell script with sections ([`jobs`](Job)). Its steps, on each place in turn:
//!
//! 1. `prepare` makes the input, once for all places, on tmpfs.
//! 2. `work` does a fixed amount of work in an empty directory of the place. It is timed.
//! 3. `check` has the program's own consistency check look at the result.
//! 4. `load` works until all of its processes are killed with SIGKILL at once. It notes what was acknowledged.
//! 5. `survived` starts again on what is left, and fails if anything acknowledged is missing.
//! 6. On a volume, `egeria check` looks at the volume.
//!
//! Each job and place has a volume of its own, which `egeria run` mounts. Nothing of Egeria runs in this process.

mod find;
mod install;
mod job;
mod options;
mod page;
mod place;
mod report;
mod section;
mod user;

use std::path::{Path, PathBuf};

use egeria_harness::{Error, Result};

use crate::programs::host;
use find::Tools;
pub use job::{Job, jobs};
pub use options::{CompatibilityOptions, Place};
pub use page::page;
use place::{Ground, Scratch, remove};
use report::Tried;
pub use report::{CompatibilityReport, Kill, ProgramRow, Speed, Verdict};
use section::{Limits, adopt_orphans};
use user::User;

/// Runs every job on every place. What fails there is in the rows.
///
/// # Errors
/// What concerns all jobs: no build of Egeria, no room, a failed installation, or a stop.
pub fn run(options: &CompatibilityOptions<'_>) -> Result<CompatibilityReport> {
    let tools = Tools::at(options.tools_directory.as_deref())?;
    if options.install {
        install::missing(&options.jobs, &tools, options.watch)?;
    }
    adopt_orphans()?;
    let scratch = Scratch::make(options)?;
    let mut rows = Vec::new();
    for (done, job) in options.jobs.iter().enumerate() {
        let what = format!("{} ({})", job.program, job.name);
        options.watch.step(done, options.jobs.len(), &what)?;
        rows.push(row_of(job, options, &tools, &scratch)?);
    }
    Ok(CompatibilityReport {
        host: host::host(),
        load_s: options.load.as_secs_f64(),
        rows,
    })
}

/// Runs a job on all places.
fn row_of(
    job: &Job,
    options: &CompatibilityOptions<'_>,
    tools: &Tools,
    scratch: &Scratch,
) -> Result<ProgramRow> {
    let mut row = ProgramRow::of(job);
    let missing = tools.missing(job);
    if !missing.is_empty() {
        row.leave_out(&options.places, Verdict::NotInstalled);
        row.add_note(&format!("not found: {}", missing.join(", ")));
        return Ok(row);
    }
    let Some(user) = User::of(job) else {
        row.leave_out(&options.places, Verdict::NotRun);
        row.add_note("needs root");
        return Ok(row);
    };
    let limits = Limits {
        load: options.load,
        cancel: options.watch.cancel,
        trace: options.trace,
    };
    let bench = Bench {
        job,
        tools,
        scratch,
        user,
        limits,
    };
    match bench.prepare() {
        Ok(input) => {
            row.version = bench.version(&input);
            for place in &options.places {
                bench.try_on(*place, &input, &mut row)?;
            }
            remove(&input);
        }
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            row.leave_out(&options.places, Verdict::DoesNot);
            row.add_note(&format!("prepare: {error}"));
        }
    }
    row.conclude(job);
    Ok(row)
}

/// A job and what it runs with.
struct Bench<'a> {
    job: &'a Job,
    tools: &'a Tools,
    scratch: &'a Scratch,
    user: User,
    limits: Limits<'a>,
}

impl Bench<'_> {
    /// The input of a job, in a directory on tmpfs.
    fn prepare(&self) -> Result<PathBuf> {
        let input = self
            .scratch
            .directory(&format!("{}-input", self.job.name), self.user)?;
        let ground = Ground::tmpfs(self.scratch, self.job, "prepare", self.user)?;
        if self.job.has("prepare") {
            self.script(&ground, &input)?
                .run("prepare", &input, self.limits)?;
        }
        ground.end(self.limits.cancel)?;
        Ok(input)
    }

    /// What the program says of itself, if it says something.
    fn version(&self, input: &Path) -> Option<String> {
        if !self.job.has("version") {
            return None;
        }
        let ground = Ground::tmpfs(self.scratch, self.job, "version", self.user).ok()?;
        let script = self.script(&ground, input).ok()?;
        let said = script.run("version", input, self.limits).ok()?.stdout;
        ground.end(self.limits.cancel).ok()?;
        let line = said.lines().next()?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Runs the job on one place and enters what came of it.
    fn try_on(&self, place: Place, input: &Path, row: &mut ProgramRow) -> Result<()> {
        let mut tried = Tried::default();
        let outcome = self.perform(place, input, &mut tried);
        if matches!(outcome, Err(Error::Interrupted)) {
            return Err(Error::Interrupted);
        }
        row.enter(place, &tried, outcome.err().map(|error| error.to_string()));
        Ok(())
    }

    fn perform(&self, place: Place, input: &Path, tried: &mut Tried) -> Result<()> {
        let ground = Ground::make(place, self.scratch, self.job, self.user, self.limits.cancel)?;
        let outcome = self.steps(&ground, input, tried);
        // A volume that is damaged says more than the program that met the damage.
        let end = ground.end(self.limits.cancel);
        if let Ok(Some(counts)) = &end {
            tried.direct_share = counts.direct_share();
        }
        outcome.and(end.map(|_| ()))
    }

    fn steps(&self, ground: &Ground, input: &Path, tried: &mut Tried) -> Result<()> {
        let script = self.script(ground, input)?;
        let directory = ground.directory("work");
        let ended = script.run("work", &directory, self.limits)?;
        tried.seconds = Some(ended.elapsed.as_secs_f64());
        if self.job.has("check") {
            script.run("check", &directory, self.limits)?;
        }
        if self.job.has("load") {
            let directory = ground.directory("load");
            script.run_until_killed("load", &directory, self.limits)?;
            tried.survived = Some(false);
            script.run("survived", &directory, self.limits)?;
            tried.survived = Some(true);
        }
        Ok(())
    }

    fn script<'a>(&'a self, ground: &'a Ground, input: &Path) -> Result<section::Script<'a>> {
        section::Script::write(self.job, self.tools, ground, input, self.user)
    }
}
