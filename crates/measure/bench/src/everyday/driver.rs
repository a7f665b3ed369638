//! The measurement: sets up the places, takes turns and checks.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use egeria_harness::process::{self, Finished};
use egeria_harness::program::find_in_path;
use egeria_harness::{Error, Result};
use egeria_scratch::{check_room, memory_directory};
use egeria_stats::statistics::{median, rotated_order};

use super::check::comparable;
use super::job::{Job, Tools, repository};
use super::options::{Selection, Source};
use super::report::{EverydayReport, EverydayRow};
use crate::experiment::apart;
use crate::programs::tree::{self, Look};
use crate::subjects::{Places, PlacesOptions, SUBJECTS, Subject};

/// No job takes nearly this long.
const LIMIT: Duration = Duration::from_secs(600);
/// Room in the pool beside files and names.
const SPARE_BYTES: u64 = 256 << 20;
/// Room a name takes at most, with what its file's last block leaves empty.
const NAME_BYTES: u64 = 16 << 10;
/// Trees at a place at once: the copy, what a job makes of it, and a repository.
const TREES: u64 = 4;

pub(super) fn run(options: &PlacesOptions<'_>, selection: &Selection) -> Result<EverydayReport> {
    if options.rounds == 0 {
        return Err(Error::failed(
            "nothing to measure; ask for at least 1 round",
        ));
    }
    let (jobs, skipped) = runnable(&selection.jobs, |program| find_in_path(program).is_some());
    let mut report = EverydayReport {
        rows: Vec::new(),
        failures: Vec::new(),
        skipped,
        rounds: options.rounds,
        tree: String::new(),
    };
    if jobs.is_empty() {
        return Ok(report);
    }
    let bench = Bench::set_up(options, &selection.source, jobs)?;
    report.tree.clone_from(&bench.tree);
    bench.measure(&mut report)?;
    Ok(report)
}

/// The jobs whose program is there, and a line for each that has none.
fn runnable(jobs: &[Job], is_there: impl Fn(&str) -> bool) -> (Vec<Job>, Vec<String>) {
    let (jobs, missing): (Vec<Job>, Vec<Job>) = jobs
        .iter()
        .copied()
        .partition(|job| is_there(job.needs().0));
    let line = |job: &Job| {
        let (title, (program, package)) = (job.title(), job.needs());
        format!("{title} was left out: no {program} in PATH; apt-get install {package}")
    };
    (jobs, missing.iter().map(line).collect())
}

/// Times and verdict of one job.
#[derive(Default)]
struct Results {
    seconds: [Vec<f64>; 4],
    failure: Option<String>,
}

/// Everything ready.
struct Bench<'a> {
    options: &'a PlacesOptions<'a>,
    jobs: Vec<Job>,
    worker: PathBuf,
    python: String,
    /// What every tree must be, with link counts and without.
    prints: [String; 2],
    directories: HashSet<String>,
    /// The tree, for people.
    tree: String,
    places: Places,
}

impl<'a> Bench<'a> {
    fn set_up(
        options: &'a PlacesOptions<'a>,
        source: &Source,
        jobs: Vec<Job>,
    ) -> Result<Bench<'a>> {
        options.watch.step(0, 1, "copying the tree")?;
        let worker = options.find_worker()?;
        let made = memory_directory(&options.memory_directory)?;
        let name = match source {
            Source::Directory(directory) => directory.display().to_string(),
            Source::Made => "a tree made for it".to_owned(),
        };
        let source = match source {
            Source::Directory(directory) => directory.clone(),
            Source::Made => {
                let failed = |error| Error::io("cannot make a tree", error, "is the tmpfs full?");
                tree::make(&made.path().join("tree"), true).map_err(failed)?;
                made.path().join("tree")
            }
        };
        let failed = |error| {
            let doing = format!("cannot read {}", source.display());
            Error::io(doing, error, "name another directory")
        };
        let (names, bytes) = tree::extent(&source).map_err(failed)?;
        let pool_bytes = SPARE_BYTES + 2 * TREES * (bytes + names * NAME_BYTES);
        check_room(
            &options.memory_directory,
            2 * pool_bytes,
            "name a smaller directory",
        )?;
        let places = Places::set_up(options, pool_bytes)?;
        let mut bench = Bench {
            options,
            jobs,
            worker,
            python: String::new(),
            prints: Default::default(),
            directories: HashSet::new(),
            tree: format!("{name}, {names} names, {} MB", bytes.div_ceil(1_000_000)),
            places,
        };
        bench.prepare(&source)?;
        Ok(bench)
    }

    /// The original and all that is compared with it, and the tree at every place.
    fn prepare(&mut self, source: &Path) -> Result<()> {
        let original = self.original();
        self.plain("cp", &["-a"], &[source, &original])?;
        if self.jobs.contains(&Job::Tar) {
            // The usual format keeps no fractions of seconds.
            let create = ["--format=posix", "--create", "--file"];
            let archive = self.archive();
            let arguments = [archive.as_path(), "-C".as_ref(), &original, ".".as_ref()];
            self.plain("tar", &create, &arguments)?;
        }
        if self.jobs.contains(&Job::Zip) {
            let say = ["-c", "import sys; print(sys.executable)"];
            self.python = self.plain("python3", &say, &[])?.stdout.trim().to_owned();
        }
        for (print, look) in [Look::Everything, Look::NoLinkCounts]
            .into_iter()
            .enumerate()
        {
            self.prints[print] = self.print(Subject::Tmpfs, &original, look)?;
        }
        self.directories = tree::directories(&original)
            .map_err(|error| Error::io("cannot read the tree", error, "try again"))?;
        for subject in SUBJECTS {
            let what = format!("copying the tree to {}", subject.name());
            self.options.watch.step(0, 1, &what)?;
            let mut command = self.places.command(subject, "cp");
            command
                .arg("-a")
                .arg(&original)
                .arg(self.places.directory(subject).join("tree"));
            self.run(&mut command)?;
        }
        if self.jobs.iter().any(|job| job.reads()) {
            // What outputs, archives and repositories are compared with is made of the original.
            for job in self.jobs.iter().filter(|job| job.reads()) {
                let mut command = self.command(*job, Subject::Tmpfs, self.places.backstage());
                if *job == Job::GitStatus && !self.jobs.contains(&Job::GitCommit) {
                    let backstage = self.places.backstage();
                    self.run(&mut self.command(Job::GitCommit, Subject::Tmpfs, backstage))?;
                }
                self.finish(*job, &mut command)?;
            }
        }
        Ok(())
    }

    fn measure(&self, report: &mut EverydayReport) -> Result<()> {
        let mut results: Vec<Results> = self.jobs.iter().map(|_| Results::default()).collect();
        let total = self.options.rounds * self.jobs.len();
        let removes = self.jobs.iter().position(|job| *job == Job::Rm);
        for round in 0..self.options.rounds {
            for (index, &job) in self.jobs.iter().enumerate() {
                let done = round * self.jobs.len() + index;
                self.options.watch.step(done, total, job.title())?;
                for place in rotated_order(SUBJECTS.len(), round) {
                    let subject = SUBJECTS[place];
                    let is_needed = job == Job::Rm && self.jobs.iter().any(|job| job.makes_tree());
                    if is_needed {
                        continue;
                    }
                    let outcome = self.turn(job, subject, round);
                    enter(&mut results[index], place, outcome)?;
                    let made = match job {
                        Job::Rm => Some("copied"),
                        job => job.product().filter(|_| job != Job::GitCommit),
                    };
                    let removed = made.map(|made| self.remove(subject, made));
                    match (removed, removes) {
                        (Some(removed), Some(removes)) if job.makes_tree() || job == Job::Rm => {
                            enter(&mut results[removes], place, removed.map(Some))?;
                        }
                        (Some(removed), _) => drop(removed?),
                        (None, _) => {}
                    }
                }
            }
        }
        self.options
            .watch
            .step(total, total, "checking the trees")?;
        self.check_trees(&mut results)?;
        for (job, results) in self.jobs.iter().zip(results) {
            report.rows.push(row(*job, &results));
            let failure = results.failure;
            report
                .failures
                .extend(failure.map(|failure| format!("{}: {failure}", job.title())));
        }
        Ok(())
    }

    /// One job at one place, checked. `None`: there is nothing to time.
    fn turn(&self, job: Job, subject: Subject, round: usize) -> Result<Option<f64>> {
        let directory = self.places.directory(subject);
        if job == Job::Rm {
            self.run(&mut self.command(Job::Cp, subject, directory))?;
            return Ok(None);
        }
        if job == Job::Tar {
            make(&directory.join("unpacked"))?;
        }
        if job == Job::GitCommit {
            self.remove(subject, "repository")?;
        }
        if job == Job::GitStatus && !self.jobs.contains(&Job::GitCommit) && round == 0 {
            self.run(&mut self.command(Job::GitCommit, subject, directory))?;
        }
        if job.product().is_none() && round == 0 {
            self.finish(job, &mut self.command(job, subject, directory))?;
        }
        let finished = self.finish(job, &mut self.command(job, subject, directory))?;
        self.check(job, subject, &finished)?;
        if subject == Subject::Run && round + 1 == self.options.rounds && job.makes_tree() {
            // By another way than it was written.
            self.check_tree(job, Subject::Mount, directory)?;
        }
        Ok(Some(finished.elapsed.as_secs_f64()))
    }

    fn check(&self, job: Job, subject: Subject, finished: &Finished) -> Result<()> {
        let (directory, backstage) = (self.places.directory(subject), self.places.backstage());
        match job {
            Job::Tar | Job::Cp | Job::Rsync => self.check_tree(job, subject, directory),
            Job::Zip => {
                let of = |directory: &Path| {
                    let archive = directory.join("tree.zip");
                    std::fs::read(&archive).map_err(|error| {
                        Error::io("cannot read the archive", error, "see the mount")
                    })
                };
                if of(directory)? == of(backstage)? {
                    Ok(())
                } else {
                    Err(wrong(subject, "the archive has other bytes"))
                }
            }
            Job::GitCommit => {
                let git = |subject, directory: &Path, arguments: &[&str]| {
                    let mut command = self.places.command(subject, "git");
                    command.args(arguments);
                    self.run(&mut repository(command, directory))
                };
                git(subject, directory, &["fsck", "--full"])?;
                let head = |subject, directory: &Path| {
                    Ok::<_, Error>(git(subject, directory, &["rev-parse", "HEAD^{tree}"])?.stdout)
                };
                if head(subject, directory)? == head(Subject::Tmpfs, backstage)? {
                    Ok(())
                } else {
                    Err(wrong(subject, "the commit has another tree"))
                }
            }
            Job::Ls | Job::Find | Job::Du | Job::Rg | Job::GitStatus => {
                let expected =
                    self.finish(job, &mut self.command(job, Subject::Tmpfs, backstage))?;
                let of = |output: &str| comparable(job, output, &self.directories);
                match tree::difference(&of(&expected.stdout), &of(&finished.stdout)) {
                    None => Ok(()),
                    Some(difference) => Err(wrong(subject, &difference)),
                }
            }
            Job::Rm => Ok(()),
        }
    }

    fn check_tree(&self, job: Job, subject: Subject, directory: &Path) -> Result<()> {
        let look = match job {
            // It keeps hard links only with another option.
            Job::Rsync => Look::NoLinkCounts,
            _ => Look::Everything,
        };
        let product = directory.join(job.product().unwrap_or("tree"));
        let found = self.print(subject, &product, look)?;
        let expected = &self.prints[usize::from(look == Look::NoLinkCounts)];
        if *expected == found {
            return Ok(());
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let difference = tree::difference(&lines(expected), &lines(&found));
        Err(wrong(subject, &difference.unwrap_or_default()))
    }

    /// The trees that were read, in the end.
    fn check_trees(&self, results: &mut [Results]) -> Result<()> {
        for (place, subject) in SUBJECTS.into_iter().enumerate() {
            let checked = self.check_tree(Job::Ls, subject, self.places.directory(subject));
            let Err(error) = checked else { continue };
            for (job, results) in self.jobs.iter().zip(&mut *results) {
                if job.reads() {
                    let error = Error::failed(format!("the tree that was read: {error}"));
                    enter(results, place, Err(error))?;
                }
            }
        }
        Ok(())
    }

    /// Removes something in the directory of a place, and says how long that took.
    fn remove(&self, subject: Subject, what: &str) -> Result<f64> {
        let path = self.places.directory(subject).join(what);
        let mut command = self.places.command(subject, "rm");
        command.arg("-rf").arg(&path);
        let finished = self.run(&mut command)?;
        match std::fs::symlink_metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(finished.elapsed.as_secs_f64())
            }
            _ => Err(wrong(subject, &format!("rm left {what}"))),
        }
    }

    fn print(&self, subject: Subject, root: &Path, look: Look) -> Result<String> {
        let mut command = self.places.command(subject, &self.worker);
        command.arg("print").arg(root);
        if look == Look::NoLinkCounts {
            command.arg("without-link-counts");
        }
        Ok(self.run(&mut command)?.stdout)
    }

    fn command(&self, job: Job, subject: Subject, directory: &Path) -> Command {
        let tools = Tools {
            original: &self.original(),
            archive: &self.archive(),
            python: &self.python,
        };
        job.command(&self.places, subject, &tools, directory)
    }

    fn plain(&self, program: &str, arguments: &[&str], paths: &[&Path]) -> Result<Finished> {
        let mut command = self.places.command(Subject::Tmpfs, program);
        self.run(command.args(arguments).args(paths))
    }

    /// Runs a job's command; ripgrep that finds nothing is no failure.
    fn finish(&self, job: Job, command: &mut Command) -> Result<Finished> {
        if job != Job::Rg {
            return self.run(command);
        }
        let finished = process::run(command, LIMIT, self.options.watch.cancel)?;
        match finished.status.code() {
            Some(0 | 1) => Ok(finished),
            _ => {
                let said = process::last_words(&finished.stderr);
                Err(Error::failed(format!("rg failed{said}")))
            }
        }
    }

    fn run(&self, command: &mut Command) -> Result<Finished> {
        process::run_well(command, LIMIT, self.options.watch.cancel)
    }

    /// The tree on tmpfs that everything is compared with.
    fn original(&self) -> PathBuf {
        self.places.backstage().join("tree")
    }

    fn archive(&self) -> PathBuf {
        self.places.backstage().join("tree.tar")
    }
}

/// Notes a time or a failure; only an interruption ends everything.
fn enter(results: &mut Results, place: usize, outcome: Result<Option<f64>>) -> Result<()> {
    match outcome {
        Ok(seconds) => results.seconds[place].extend(seconds),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            let failure = format!("{}: {error}", SUBJECTS[place].name());
            results.failure.get_or_insert(failure);
        }
    }
    Ok(())
}

fn row(job: Job, results: &Results) -> EverydayRow {
    let middle = |place: usize| {
        let seconds = median(&results.seconds[place])?;
        Some((seconds * 1e5).round() / 1e5)
    };
    EverydayRow {
        job: job.title().to_owned(),
        tmpfs_s: middle(0),
        run_s: middle(1),
        mount_s: middle(2),
        loopback_s: middle(3),
        spread: apart(results.seconds.iter().cloned()),
        verified: results.failure.is_none(),
    }
}

fn wrong(subject: Subject, what: &str) -> Error {
    Error::failed(format!("wrong on {}: {what}", subject.name()))
}

fn make(directory: &Path) -> Result<()> {
    let failed = |error| {
        let doing = format!("cannot make {}", directory.display());
        Error::io(doing, error, "see the mount")
    };
    std::fs::create_dir(directory).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_program_is_missing_is_left_out() {
        let (jobs, skipped) = runnable(&[Job::Cp, Job::Rg, Job::Zip], |program| program != "rg");
        assert_eq!(jobs, [Job::Cp, Job::Zip]);
        assert_eq!(
            skipped,
            ["rg -c was left out: no rg in PATH; apt-get install ripgrep"]
        );
    }
}
