//! Two attachments at once, as two processes have them: each on a thread of its own, one going on only
//! where the other was made to wait. Who goes on when is decided by what is stored, so a run can be repeated.
//!
//! ```text
//!  first   ──store──store──flush──╎ waits                          ╎──fence──store── …
//!  second                         ╎──store──fence── … ends, or waits for a lock of the first
//! ```

use super::actor::{Actor, as_looked_up, look_up};
use super::instant::end_snapshot;
use super::judge::{Kind, LegalState};
use super::operation::Operation;
use super::workspace::{Recorded, Workspace};
use egeria_engine::Volume;
use egeria_media::recorder::Gate;
use procfs::FromRead;
use procfs::process::Stat;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long is waited between looks at a thread that may wait for a lock.
const LOOK: Duration = Duration::from_micros(30);
/// Looks that must find it asleep.
const LOOKS: u32 = 3;

/// Marks: the first returned, the second returned, the second began.
const FIRST_RETURNED: u64 = 1;
const SECOND_RETURNED: u64 = 2;
const SECOND_BEGAN: u64 = 4;

/// Whose turn it is.
#[derive(Default)]
struct Turn {
    second: Mutex<bool>,
    changed: Condvar,
}

impl Turn {
    fn give(&self, second: bool) {
        *self.second.lock().unwrap_or_else(PoisonError::into_inner) = second;
        self.changed.notify_all();
    }

    fn wait_for(&self, second: bool) {
        let turn = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = self.changed.wait_while(turn, |turn| *turn != second);
        drop(mine.unwrap_or_else(PoisonError::into_inner));
    }
}

thread_local! {
    /// Which of the two the thread is, and its events so far.
    static PART: Cell<Option<(bool, usize)>> = const { Cell::new(None) };
}

fn gate(turn: Arc<Turn>, switch: usize) -> Gate {
    Arc::new(move || {
        let Some((second, events)) = PART.get() else {
            return;
        };
        PART.set(Some((second, events + 1)));
        if !second && events + 1 == switch {
            turn.give(true);
        }
        turn.wait_for(second);
    })
}

impl Workspace {
    /// Run `first`, and `second` after so many events of it (none: before its first; more than it has:
    /// after its end). `None` when the run ended before the switch.
    pub(super) fn record_pair(
        &mut self,
        operations: &[Operation; 2],
        switch: usize,
    ) -> Result<Option<Recorded>, String> {
        let legal = match self.pair.take() {
            Some((known, legal)) if known == *operations => legal,
            _ => self.legal_of_pair(operations)?,
        };
        self.pair = Some((operations.clone(), legal.clone()));
        let volume = self.attach()?;
        let other = volume.join_private();
        let snapshot = self.begin_snapshot(&volume, &self.before)?;
        let (turn, recorder) = (Arc::new(Turn::default()), self.recorder.clone());
        recorder.set_gate(Some(gate(turn.clone(), switch)));
        let mark = |mark| recorder.mark(mark);
        let switched = run_both([&volume, &other], operations, &turn, switch, &mark);
        recorder.set_gate(None);
        let events = recorder.drain();
        end_snapshot(snapshot);
        let stored = events.len() > 3;
        Ok((switched? && stored).then(|| Recorded {
            kind: Kind::Pair,
            recording: events.into(),
            from: 0,
            legal,
        }))
    }

    /// What each order leaves, and so what may be found when.
    fn legal_of_pair(
        &mut self,
        [first, second]: &[Operation; 2],
    ) -> Result<Vec<Vec<LegalState>>, String> {
        let mut in_order = |steps: &[usize], looks_first: bool| {
            let volume = self.attach()?;
            let other = volume.join_private();
            let mut actors = [Actor::new(&volume), Actor::new(&other)];
            let seen = if looks_first {
                look_up(&other, second)
            } else {
                HashMap::new()
            };
            for &step in steps {
                let known = if step == 1 {
                    seen.clone()
                } else {
                    HashMap::new()
                };
                let _ = as_looked_up(known, || actors[step].run([first, second][step], step));
            }
            LegalState::of(&volume, Kind::Pair)
        };
        let mut plain = |steps: &[usize]| in_order(steps, false);
        let (none, one, two) = (plain(&[])?, plain(&[0])?, plain(&[1])?);
        let (one_two, two_one) = (plain(&[0, 1])?, plain(&[1, 0])?);
        // Names are looked up without waiting for the first, which may change them before the second goes on.
        let looked_up = in_order(&[0, 1], true)?;
        let both = [one_two.clone(), two_one.clone(), looked_up];
        let alone = vec![
            vec![none.clone(), one.clone()],
            vec![one.clone()],
            vec![],
            vec![],
        ];
        let with = |more: &[LegalState]| [more, &both].concat();
        let together = vec![
            with(&[none, one.clone(), two.clone()]),
            with(&[one]),
            with(&[two]),
            both.to_vec(),
        ];
        Ok([alone, together].concat())
    }
}

/// How far one of the two is.
#[derive(Default)]
struct Part {
    thread_id: AtomicU32,
    ended: AtomicBool,
}

/// Run both, handing over the turn. Whether the second began before the first had ended, or was to begin
/// after it.
fn run_both(
    volumes: [&Volume; 2],
    operations: &[Operation; 2],
    turn: &Turn,
    switch: usize,
    mark: &(dyn Fn(u64) + Sync),
) -> Result<bool, String> {
    let parts = [Part::default(), Part::default()];
    let ahead = AtomicBool::new(switch == usize::MAX);
    let both_ended = Barrier::new(2);
    let panicked = AtomicBool::new(false);
    turn.give(switch == 0);
    std::thread::scope(|scope| {
        for second in [false, true] {
            let (parts, ahead, both_ended) = (&parts, &ahead, &both_ended);
            let panicked = &panicked;
            scope.spawn(move || {
                let part = &parts[usize::from(second)];
                let own = rustix::thread::gettid().as_raw_pid() as u32;
                part.thread_id.store(own, Ordering::Release);
                turn.wait_for(second);
                if second {
                    ahead.fetch_or(!parts[0].ended.load(Ordering::Acquire), Ordering::Relaxed);
                    mark(SECOND_BEGAN);
                }
                PART.set(Some((second, 0)));
                let step = usize::from(second);
                // A panic must not leave the other waiting; it is no outcome that can be.
                let run = || Actor::new(volumes[step]).run(&operations[step], step);
                let ran = catch_unwind(AssertUnwindSafe(run));
                panicked.fetch_or(ran.is_err(), Ordering::Relaxed);
                mark(if second {
                    SECOND_RETURNED
                } else {
                    FIRST_RETURNED
                });
                PART.set(None);
                part.ended.store(true, Ordering::Release);
                // What a thread gives back at its end would change what the other finds.
                both_ended.wait();
                volumes[step].thread_exit();
            });
        }
        scope.spawn(|| hand_over(&parts, turn));
    });
    // Both ended; here it does not leave anybody waiting.
    assert!(
        !panicked.into_inner(),
        "{}; {}",
        operations[0],
        operations[1]
    );
    Ok(ahead.into_inner())
}

/// Until both ended: who has the turn and ended, or waits for a lock of the other, gives it away.
fn hand_over(parts: &[Part; 2], turn: &Turn) {
    let mut asleep = 0;
    while !parts.iter().all(|part| part.ended.load(Ordering::Acquire)) {
        let second = *turn.second.lock().unwrap_or_else(PoisonError::into_inner);
        let part = &parts[usize::from(second)];
        let ended = part.ended.load(Ordering::Acquire);
        asleep = if !ended && is_asleep(part.thread_id.load(Ordering::Acquire)) {
            asleep + 1
        } else {
            0
        };
        if ended || asleep == LOOKS {
            asleep = 0;
            turn.give(!second);
        }
        std::thread::sleep(LOOK);
    }
}

/// Whether a thread of this process sleeps.
fn is_asleep(thread_id: u32) -> bool {
    let stat = Stat::from_file(format!("/proc/self/task/{thread_id}/stat"));
    stat.is_ok_and(|stat| stat.state == 'S')
}
