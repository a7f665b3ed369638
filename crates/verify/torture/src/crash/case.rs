//! Cases: a crash state in which something is wrong, saved to be looked at again.

use super::judge::{Kind, has_stores};
use super::violation::{BadState, Crash, Violation};
use super::worker_status::{RECOVERY_TIMEOUT, WorkerStatus, does_not_end};
use super::workload::{Setup, Workload};
use super::workspace::Workspace;
use crate::case_file::{CaseFile, Replayed};
use egeria_harness::{Error, Result};
use egeria_media::recorder::{Choice, CrashImages, CrashState, Event, PendingLine, Recording};
use egeria_stats::text::message_of;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const FILE: CaseFile = CaseFile {
    word: "crash",
    version_key: "egeria_crash_case",
    version: 2,
    max_bytes: 1 << 20,
    hint: "name one that `egeria-torture crash` saved",
};

/// A saved crash state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    egeria_crash_case: u32,
    setup: Setup,
    /// Flushes and fences that were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    omitted: Option<String>,
    workload: Workload,
    crash: Place,
    /// The crash in the recovery from the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crash_in_recovery: Option<Place>,
    /// Of the image, to notice that the engine stores something else now.
    image_hash: String,
    /// What was wrong.
    reason: String,
}

/// After which event the machine stopped, and how many words of each line that was not yet durable arrived.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    point: usize,
    persisted_words: Vec<u32>,
}

impl Place {
    fn of(crash: &Crash) -> Place {
        Place {
            point: crash.point,
            persisted_words: crash.choice.0.clone(),
        }
    }

    /// The choice, if this state has such a one.
    fn choice(&self, state: &CrashState<'_>) -> Option<Choice> {
        let pending = state.pending();
        let fits = pending.len() == self.persisted_words.len()
            && pending
                .iter()
                .zip(&self.persisted_words)
                .all(|(line, arrived)| *arrived <= line.steps);
        (fits && state.point() == self.point).then(|| Choice(self.persisted_words.clone()))
    }
}

/// Save what was found; the file.
pub(super) fn save(directory: &Path, found: &Violation) -> Result<PathBuf> {
    let BadState {
        crash,
        second,
        hash,
        why,
    } = &*found.wrong;
    let case = Case {
        egeria_crash_case: FILE.version,
        setup: found.setup,
        omitted: found.omitted.clone(),
        workload: found.workload.clone(),
        crash: Place::of(crash),
        crash_in_recovery: second.as_ref().map(Place::of),
        image_hash: format!("{hash:016x}"),
        reason: why.clone(),
    };
    FILE.save(directory, "crash", &case)
}

fn load(path: &Path) -> Result<Case> {
    let case: Case = FILE.load(path)?;
    match case.setup.pools {
        1..=16 => Ok(case),
        pools => Err(FILE.no_case(path, format!("it has {pools} pools"))),
    }
}

/// Run a saved case again, and tell what happens in words.
///
/// # Errors
/// When the file is no case, or its workload cannot be run.
pub fn replay(path: &Path) -> Result<Replayed> {
    replay_within(path, RECOVERY_TIMEOUT)
}

/// As [`replay`], with this time limit for a recovery.
///
/// # Errors
/// As for [`replay`].
pub fn replay_within(path: &Path, recovery_timeout: Duration) -> Result<Replayed> {
    let case = load(path)?;
    let (path, status) = (path.to_owned(), Arc::new(WorkerStatus::default()));
    let workload = case.workload.to_string();
    let own = status.clone();
    let thread = std::thread::spawn(move || {
        own.is_me();
        replay_here(&path, case)
    });
    let mut before = status.progress();
    while !thread.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if status.hangs(&mut before, recovery_timeout) {
            let text = format!("{workload}\n{}", does_not_end(recovery_timeout));
            let reproduces = true;
            return Ok(Replayed { text, reproduces });
        }
    }
    let panicked = |panic: Box<dyn std::any::Any + Send>| Replayed {
        text: format!("panicked: {}", message_of(&*panic)),
        reproduces: true,
    };
    thread.join().unwrap_or_else(|panic| Ok(panicked(panic)))
}

fn replay_here(path: &Path, case: Case) -> Result<Replayed> {
    let unlike = || {
        let path = path.display();
        Error::failed(format!(
            "{path}: this engine runs the workload otherwise, there is no such crash; explore anew"
        ))
    };
    let mut workspace = Workspace::new(case.setup).map_err(Error::failed)?;
    let recorded = workspace.record(&case.workload).map_err(Error::failed)?;
    let recorded = recorded
        .ok_or_else(unlike)?
        .without(case.omitted.as_deref());
    let (kind, legal) = (recorded.kind, recorded.legal);
    let Setup {
        initial_state,
        pools,
        delegated,
        snapshot,
    } = case.setup;
    let by_delegates = if delegated { ", by delegates" } else { "" };
    let under_way = if snapshot {
        ", a snapshot under way"
    } else {
        ""
    };
    let mut text = format!(
        "{initial_state:?} on {pools} pools{by_delegates}{under_way}: {}\n",
        case.workload
    );
    if let Some(without) = &case.omitted {
        let _ = writeln!(
            text,
            "had the engine no flush or fence with \"{without}\" in its place:"
        );
    }
    let Workspace {
        images,
        second,
        judge,
        ..
    } = &mut workspace;
    images.restart(recorded.recording);
    let marks: u64 = images.recording().marks_before(case.crash.point).sum();
    let legal = legal.get(marks as usize).ok_or_else(unlike)?;
    let kind = if marks > 0 { kind.returned() } else { kind };
    tell_crash(&mut text, "crash", images, &case.crash);
    let mut state = images.state_at(case.crash.point);
    let choice = case.crash.choice(&state).ok_or_else(unlike)?;
    tell_lines(&mut text, &state.pending(), &choice);
    let image = state.image(&choice);
    let mut hash = image.hash();
    let mut verdict = judge.look(&image, kind, legal);
    if let (Some(place), Ok(recovered)) = (&case.crash_in_recovery, &verdict) {
        if !has_stores(&recovered.stores) {
            return Err(unlike());
        }
        let found = [recovered.found.clone()];
        second.restart_from(&image, recovered.stores.clone());
        drop(image);
        tell_crash(&mut text, "crash in the recovery from that", second, place);
        (hash, verdict) =
            look_again(&mut text, second, judge, kind, &found, place).ok_or_else(unlike)?;
    }
    if format!("{hash:016x}") != case.image_hash {
        text += "the image is another one than was saved: the engine stores otherwise now\n";
    }
    let reproduces = verdict.is_err();
    match verdict {
        Ok(_) => text += "recovery: nothing is wrong",
        Err(why) => _ = write!(text, "recovery: {why}"),
    }
    Ok(Replayed { text, reproduces })
}

fn look_again(
    text: &mut String,
    images: &mut CrashImages,
    judge: &mut super::judge::Judge,
    kind: Kind,
    legal: &[super::judge::LegalState],
    place: &Place,
) -> Option<(u64, Result<super::judge::Recovered, String>)> {
    let mut state = images.state_at(place.point);
    let choice = place.choice(&state)?;
    tell_lines(text, &state.pending(), &choice);
    let image = state.image(&choice);
    Some((image.hash(), judge.look(&image, kind, legal)))
}

fn tell_crash(text: &mut String, what: &str, images: &CrashImages, place: &Place) {
    let recording: &Recording = images.recording();
    let events = recording.events();
    let count = events.len();
    let _ = writeln!(text, "{what}: after event {} of {count}", place.point);
    let last = place.point.checked_sub(1).and_then(|last| events.get(last));
    let told = match last {
        Some(Event::Store {
            pool, at, bytes, ..
        }) => {
            format!(
                "a store of {} bytes to pool {} at {:#x}",
                bytes.len(),
                pool.0,
                at.0
            )
        }
        Some(Event::Flush { caller, .. }) => format!("a flush at {caller}"),
        Some(Event::Fence { caller, .. }) => format!("a fence at {caller}"),
        Some(Event::Mark(_)) => "an operation returned".to_owned(),
        None => return,
    };
    let _ = writeln!(text, "  the last event: {told}");
}

fn tell_lines(text: &mut String, pending: &[PendingLine], choice: &Choice) {
    for (line, arrived) in pending.iter().zip(&choice.0) {
        let told = match *arrived {
            0 => "did not arrive".to_owned(),
            all if all == line.steps => "arrived".to_owned(),
            part => format!("arrived as far as word {part} of {}", line.steps),
        };
        let _ = writeln!(
            text,
            "  line {:#x} of pool {}: {told}",
            line.at.0, line.pool.0
        );
    }
}
