//! Programs observed as a steward observes them, and recorded with stand-ins for their names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use egeria_facts::FileKey;
use egeria_machine::Machine;
use egeria_pages::accesses::Way;
use egeria_proc::task;
use egeria_steward::{Rehearsal, Scope};
use egeria_trace::{StandIns, Writer};

use crate::commands::look::top::watch;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// A steward's usual window.
const WINDOW: Duration = Duration::from_secs(1);

/// What is to be observed.
pub(super) struct Wish {
    pub(super) length: Duration,
    /// Whether it is wanted what the stand-ins are for.
    pub(super) names: bool,
    /// How accesses to memory are seen; `None`: the first way that works.
    pub(super) memory_source: Option<Way>,
}

/// What was seen besides what the recording has.
pub(super) struct Observed {
    /// How facts were seen.
    pub(super) sources: Vec<String>,
    /// What could not be seen, and why.
    pub(super) unseen: Vec<String>,
    /// What else moves threads and memory, as it did then.
    pub(super) others: Vec<String>,
    /// What the stand-ins are for, if that is asked for.
    pub(super) names: Option<Names>,
}

/// What the stand-ins are for.
pub(super) struct Names {
    pub(super) stand_ins: StandIns,
    /// Files outside of volumes by their stand-ins.
    pub(super) files: BTreeMap<FileKey, PathBuf>,
}

impl Observed {
    /// Observes, and writes the recording; without it where that fails or a signal asks to stop.
    pub(super) fn take(
        machine: &Machine,
        trace: &Path,
        wish: &Wish,
        signals: &Signals,
    ) -> Outcome<Observed> {
        task::keep_many_open();
        let window = WINDOW.min(wish.length);
        let window_ns = window.as_nanos() as u64;
        let failed = |error: egeria_steward::StewardError| Failure::new(error.to_string());
        let rehearsal =
            Rehearsal::begin(machine.clone(), Scope::All, window_ns, wish.memory_source);
        let mut rehearsal = rehearsal.map_err(failed)?;
        let recorder = rehearsal.recorder(trace).map_err(failed)?;
        let names = record(&mut rehearsal, recorder, wish, signals);
        if names.is_err() {
            let _ = fs::remove_file(trace);
        }
        let names = names?;
        Ok(Observed {
            sources: rehearsal.sources,
            unseen: rehearsal.unseen,
            others: Rehearsal::others(),
            names: wish.names.then_some(names),
        })
    }
}

fn record(
    rehearsal: &mut Rehearsal,
    mut recorder: Writer,
    wish: &Wish,
    signals: &Signals,
) -> Outcome<Names> {
    let mut names = Names {
        stand_ins: StandIns::default(),
        files: BTreeMap::new(),
    };
    let progress = Progress::bar("observing programs");
    let begin = Instant::now();
    loop {
        let window = rehearsal.window();
        let left = wish.length.saturating_sub(begin.elapsed());
        // What is left may be no whole window.
        if recorder.windows() > 0 && left < window / 2 {
            break;
        }
        let [done, all] = [begin.elapsed(), wish.length].map(|time| time.as_millis() as u64);
        progress.advance(done, all);
        watch::wait(window.as_nanos() as f64, signals)?;
        let facts = rehearsal
            .facts()
            .ok_or_else(|| Failure::new("the kernel shows no processes any more; mount /proc"))?;
        let recorded = recorder.append(&names.stand_ins.facts(&facts));
        recorded.map_err(Failure::new)?;
        if wish.names {
            names.find_files(rehearsal);
        }
    }
    recorder.finish().map_err(Failure::new)?;
    Ok(names)
}

impl Names {
    /// Takes the paths of files that are new. The source remembers a file for some windows only.
    fn find_files(&mut self, rehearsal: &Rehearsal) {
        let all = self.stand_ins.files().into_iter();
        let new = all.filter(|(_, stand_in)| !self.files.contains_key(stand_in));
        let found = new.filter_map(|(file, stand_in)| Some((stand_in, rehearsal.path(file)?)));
        let found: Vec<(FileKey, PathBuf)> = found.collect();
        self.files.extend(found);
    }
}
