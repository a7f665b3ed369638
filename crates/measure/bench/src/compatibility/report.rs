//! Rows, and a table of them.

use serde::{Deserialize, Serialize};

use super::job::{Job, jobs};
use super::options::Place;
use crate::experiment::{Column, table};

/// What came of a program on a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its work was done and checked, and what was acknowledged survived the kill.
    Works,
    /// The same; most of its calls went through the mount although the preload library was loaded.
    WorksThroughTheMount,
    DoesNot,
    NotInstalled,
    /// It needs root, or a step before failed.
    NotRun,
}

impl Verdict {
    /// For people.
    pub(super) fn words(self) -> &'static str {
        match self {
            Verdict::Works => "works",
            Verdict::WorksThroughTheMount => "works through the mount",
            Verdict::DoesNot => "does not",
            Verdict::NotInstalled => "not installed",
            Verdict::NotRun => "not run",
        }
    }

    fn is_good(self) -> bool {
        matches!(self, Verdict::Works | Verdict::WorksThroughTheMount)
    }
}

/// What came of a killed program, on all places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kill {
    /// All that was acknowledged was there.
    Survives,
    Loses,
}

/// Time on tmpfs as a share of the time there: 0.5 is half as fast.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Speed {
    pub mount: Option<f64>,
    pub library: Option<f64>,
}

/// What came of a job on one place.
#[derive(Default)]
pub(super) struct Tried {
    /// Of `work`.
    pub(super) seconds: Option<f64>,
    /// Share of calls that the preload library served itself.
    pub(super) direct_share: Option<f64>,
    /// Whether everything acknowledged was there after the kill; `None`: it was not killed.
    pub(super) survived: Option<bool>,
}

/// One program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramRow {
    /// Its name, and its version where it says so.
    pub program: String,
    pub version: Option<String>,
    pub kind: String,
    /// Name of the job.
    pub job: String,
    /// `None`: not asked for.
    pub tmpfs: Option<Verdict>,
    pub mount: Option<Verdict>,
    pub library: Option<Verdict>,
    /// `None`: it was not killed.
    pub killed: Option<Kill>,
    pub speed_of_tmpfs: Speed,
    /// The timed work on tmpfs, s.
    pub tmpfs_s: Option<f64>,
    /// Of all calls with the library loaded, the share that it served itself.
    pub direct_share: Option<f64>,
    /// The consistency check, and what must survive a kill, in words.
    pub checks: String,
    pub survives: String,
    pub note: String,
    /// Something failed that is not known and documented.
    pub failed: bool,
    #[serde(skip)]
    seconds: [Option<f64>; 3],
}

impl ProgramRow {
    pub(super) fn of(job: &Job) -> ProgramRow {
        ProgramRow {
            program: job.program.clone(),
            version: None,
            kind: job.kind.clone(),
            job: job.name.clone(),
            tmpfs: None,
            mount: None,
            library: None,
            killed: None,
            speed_of_tmpfs: Speed::default(),
            tmpfs_s: None,
            direct_share: None,
            checks: job.checks.clone(),
            survives: job.survives.clone(),
            note: job.note.clone(),
            failed: false,
            seconds: [None; 3],
        }
    }

    /// It runs on none of the places.
    pub(super) fn leave_out(&mut self, places: &[Place], verdict: Verdict) {
        for place in places {
            *self.verdict(*place) = Some(verdict);
        }
        self.failed |= verdict == Verdict::DoesNot;
    }

    /// Enters what came of it on a place, and why it failed there.
    pub(super) fn enter(&mut self, place: Place, tried: &Tried, failure: Option<String>) {
        let is_served = place != Place::Library || tried.direct_share.unwrap_or(0.0) >= 0.5;
        let good = if is_served {
            Verdict::Works
        } else {
            Verdict::WorksThroughTheMount
        };
        *self.verdict(place) = Some(failure.as_ref().map_or(good, |_| Verdict::DoesNot));
        if place == Place::Library {
            self.direct_share = tried.direct_share.map(rounded);
        }
        self.seconds[place as usize] = tried.seconds;
        match tried.survived {
            Some(true) if self.killed.is_none() => self.killed = Some(Kill::Survives),
            Some(false) => self.killed = Some(Kill::Loses),
            _ => {}
        }
        if let Some(failure) = failure {
            self.failed = true;
            self.add_note(&format!("{}: {failure}", place.name()));
        }
    }

    pub(super) fn add_note(&mut self, note: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(note);
    }

    /// Compares the times, and takes what is known for what it is.
    pub(super) fn conclude(&mut self, job: &Job) {
        let tmpfs_s = self.seconds[Place::Tmpfs as usize];
        let speed =
            |place: Place| Some(rounded(tmpfs_s? / self.seconds[place as usize]?.max(1e-6)));
        self.speed_of_tmpfs = Speed {
            mount: speed(Place::Mount),
            library: speed(Place::Library),
        };
        self.tmpfs_s = tmpfs_s.map(rounded);
        let on_tmpfs = self.tmpfs.is_none_or(Verdict::is_good);
        if self.failed && on_tmpfs && !job.known.is_empty() {
            self.failed = false;
            self.note.clone_from(&job.known);
        }
    }

    fn verdict(&mut self, place: Place) -> &mut Option<Verdict> {
        match place {
            Place::Tmpfs => &mut self.tmpfs,
            Place::Mount => &mut self.mount,
            Place::Library => &mut self.library,
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// What `egeria-lab programs` found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompatibilityReport {
    /// Processor, CPUs and kernel.
    pub host: String,
    /// How long programs worked before they were killed, s.
    pub load_s: f64,
    pub rows: Vec<ProgramRow>,
}

impl CompatibilityReport {
    /// Adds the rows of an earlier run for programs that this one left out, in the usual order.
    pub fn complete(&mut self, earlier: CompatibilityReport) {
        let is_missing = |row: &ProgramRow| self.rows.iter().all(|own| own.job != row.job);
        let others: Vec<ProgramRow> = earlier.rows.into_iter().filter(is_missing).collect();
        self.rows.extend(others);
        let all = jobs();
        let place = |row: &ProgramRow| all.iter().position(|job| job.name == row.job);
        self.rows.sort_by_key(|row| place(row).unwrap_or(all.len()));
    }

    /// For people.
    pub fn table(&self) -> String {
        fn of(verdict: Option<Verdict>) -> String {
            verdict.map_or("", Verdict::words).to_owned()
        }
        let columns: &[Column<'_, ProgramRow>] = &[
            ("program", |row| row.program.clone()),
            ("tmpfs", |row| of(row.tmpfs)),
            ("mount", |row| of(row.mount)),
            ("library", |row| of(row.library)),
            ("killed", |row| killed(row).to_owned()),
            (">speed, mount", |row| share(row.speed_of_tmpfs.mount)),
            (">library", |row| share(row.speed_of_tmpfs.library)),
            ("note", |row| row.note.clone()),
        ];
        table(columns, &self.rows, &self.summary())
    }

    /// In one sentence.
    pub fn summary(&self) -> String {
        let count = |which: fn(&&ProgramRow) -> bool| self.rows.iter().filter(which).count();
        let works = count(|row| {
            let verdicts = [row.tmpfs, row.mount, row.library];
            verdicts.iter().flatten().all(|verdict| verdict.is_good())
        });
        let killed = count(|row| row.killed.is_some());
        let lost = count(|row| row.killed == Some(Kill::Loses));
        let left_out = count(|row| row.is_left_out());
        format!(
            "Of {} programs, {works} work on all places that were tried, {left_out} were not run. \
             {killed} were killed in the middle of their work; {lost} of them lost something acknowledged.",
            self.rows.len()
        )
    }
}

impl ProgramRow {
    /// Whether it ran on none of the places.
    pub fn is_left_out(&self) -> bool {
        let verdicts = [self.tmpfs, self.mount, self.library];
        let mut tried = verdicts.iter().flatten();
        tried.all(|verdict| matches!(verdict, Verdict::NotInstalled | Verdict::NotRun))
    }
}

pub(super) fn killed(row: &ProgramRow) -> &'static str {
    match row.killed {
        Some(Kill::Survives) => "survives",
        Some(Kill::Loses) => "loses",
        None => "",
    }
}

pub(super) fn share(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(seconds: f64, direct_share: Option<f64>, survived: Option<bool>) -> Tried {
        Tried {
            seconds: Some(seconds),
            direct_share,
            survived,
        }
    }

    #[test]
    fn speed_is_the_time_on_tmpfs_by_the_time_there() {
        let job = Job::default();
        let mut row = ProgramRow::of(&job);
        row.enter(Place::Tmpfs, &tried(1.0, None, None), None);
        row.enter(Place::Mount, &tried(4.0, Some(0.0), None), None);
        row.enter(Place::Library, &tried(2.0, Some(0.9), None), None);
        row.conclude(&job);
        assert_eq!(row.speed_of_tmpfs.mount, Some(0.25));
        assert_eq!(row.speed_of_tmpfs.library, Some(0.5));
        assert_eq!(row.library, Some(Verdict::Works));
        assert!(!row.failed);
    }

    #[test]
    fn a_library_that_serves_little_is_said() {
        let mut row = ProgramRow::of(&Job::default());
        row.enter(Place::Library, &tried(1.0, Some(0.1), None), None);
        assert_eq!(row.library, Some(Verdict::WorksThroughTheMount));
    }

    #[test]
    fn earlier_rows_fill_gaps_and_replace_nothing() {
        let row = |name: &str, note: &str| {
            let mut row = ProgramRow::of(&Job::default());
            (row.job, row.note) = (name.to_owned(), note.to_owned());
            row
        };
        let report = |rows| CompatibilityReport {
            host: String::new(),
            load_s: 1.0,
            rows,
        };
        let mut now = report(vec![row("git", "now")]);
        now.complete(report(vec![row("git", "before"), row("sqlite", "before")]));
        let found: Vec<_> = (now.rows.iter())
            .map(|row| (row.job.as_str(), row.note.as_str()))
            .collect();
        assert_eq!(found, [("sqlite", "before"), ("git", "now")]);
    }

    #[test]
    fn a_loss_on_any_place_is_a_loss() {
        let mut row = ProgramRow::of(&Job::default());
        row.enter(
            Place::Mount,
            &tried(1.0, None, Some(false)),
            Some("gone".to_owned()),
        );
        row.enter(Place::Library, &tried(1.0, None, Some(true)), None);
        assert_eq!(row.killed, Some(Kill::Loses));
        assert!(row.failed && row.note == "mount: gone");
    }

    #[test]
    fn what_is_known_fails_nothing_but_only_if_tmpfs_works() {
        let job = Job {
            known: "it needs overlayfs".to_owned(),
            ..Job::default()
        };
        let failed = |places: &[Place]| {
            let mut row = ProgramRow::of(&job);
            for place in Place::ALL {
                let failure = places.contains(&place).then(|| "no".to_owned());
                row.enter(place, &Tried::default(), failure);
            }
            row.conclude(&job);
            row
        };
        let row = failed(&[Place::Mount]);
        assert!(!row.failed && row.note == job.known && row.mount == Some(Verdict::DoesNot));
        assert!(failed(&[Place::Tmpfs, Place::Mount]).failed);
    }
}
