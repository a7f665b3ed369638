//! A round: processes work, some die, and what is left is compared with what returned.

use super::ledger::{DONE, Ledger};
use super::processes::{AccessPath, Mount, Paths, Role, WorkerProcess};
use super::verify::{self, Commons, Ended, Leaked, Verdict};
use egeria_engine::*;
use egeria_harness::process::{Cancel, check_cancel, within};
use egeria_harness::{Error, Result};
use egeria_stats::rng::Rng;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Worker processes of each access path.
const PROCESSES_PER_PATH: usize = 2;
/// Of so many deaths one is the mount's.
const MOUNT_DEATHS: u64 = 8;
/// Longest pause between two deaths, us.
const PAUSE_US: u64 = 40_000;
/// How long the doomed may take to die by themselves.
const DOOM: Duration = Duration::from_millis(500);
/// What is not done in this time waits for somebody who never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a round came to.
#[derive(Default, Debug)]
pub struct Tally {
    pub kills: u64,
    pub mount_kills: u64,
    /// What is not as it must be.
    pub faults: Vec<String>,
    pub leaked: Leaked,
    pub findings: Vec<String>,
    /// Calls the preload library served itself; requests the mounts answered.
    pub direct_calls: u64,
    pub mount_requests: u64,
}

/// A round under way.
pub struct Round<'a> {
    paths: &'a Paths,
    pool: &'a Path,
    ledger: &'a Ledger,
    cancel: Cancel<'a>,
    volume: Arc<Volume>,
    commons: Commons,
    mount: Option<Mount>,
    processes: Vec<WorkerProcess>,
    /// The first worker of this round.
    first: u64,
    /// Workers of this round that were looked at.
    settled: BTreeSet<u64>,
    tally: Tally,
}

impl<'a> Round<'a> {
    /// Everybody at work.
    pub fn start(
        paths: &'a Paths,
        pool: &'a Path,
        ledger: &'a Ledger,
        cancel: Cancel<'a>,
    ) -> Result<Round<'a>> {
        ledger.stop(false);
        let first = ledger.worker_count();
        let options = AttachOptions::default();
        let volume =
            Volume::attach(pool, AttachMode::CreateOrJoin, &options).map_err(Error::failed)?;
        volume.set_reporter(Box::new(|_, line| eprintln!("{line}")));
        let commons = Commons::make(&volume).map_err(Error::failed)?;
        let mount = Mount::start(paths, pool, ledger, cancel)?;
        let workers = (0..PROCESSES_PER_PATH * AccessPath::ALL.len())
            .map(|at| Role::Work(AccessPath::ALL[at % AccessPath::ALL.len()]));
        let processes = workers
            .chain([Role::Snapshots])
            .map(|role| WorkerProcess::start(role, paths, pool));
        Ok(Round {
            paths,
            pool,
            ledger,
            cancel,
            volume,
            commons,
            mount: Some(mount),
            processes: processes.collect::<Result<_>>()?,
            first,
            settled: BTreeSet::new(),
            tally: Tally::default(),
        })
    }

    /// The volume, attached by this process.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Kills so many processes, or until the deadline, and tells of each.
    pub fn kill(
        &mut self,
        kills: u64,
        deadline: Option<Instant>,
        rng: &mut Rng,
        tell: &dyn Fn(u64),
    ) -> Result<()> {
        while self.tally.kills < kills && deadline.is_none_or(|end| Instant::now() < end) {
            check_cancel(self.cancel)?;
            if self.ledger.is_full() {
                let why = "there were more workers than can be noted; ask for fewer --kills";
                return Err(Error::failed(why));
            }
            std::thread::sleep(Duration::from_micros(rng.below(PAUSE_US)));
            self.note_waits();
            // The first death is the mount's, so that each round has one.
            let mount = self.tally.kills == 0 || rng.below(MOUNT_DEATHS) == 0;
            if mount {
                self.kill_mount()?
            } else {
                let at = rng.below(self.processes.len() as u64) as usize;
                self.kill_workers(at, rng.below(2) == 0)?;
            }
            self.replace_ended()?;
            self.settle()?;
            tell(self.tally.kills);
        }
        Ok(())
    }

    /// Who waits and dies of it waited too.
    fn note_waits(&mut self) {
        let living = self.living();
        for id in (self.first..self.ledger.worker_count()).filter(|id| !self.settled.contains(id)) {
            let process = self.ledger.page(id).process.load(Ordering::Acquire);
            if living.contains(&process) {
                self.ledger.page(id).time.note();
            }
        }
    }

    /// Processes of workers.
    fn living(&mut self) -> Vec<u64> {
        self.processes
            .iter_mut()
            .map(|process| process.member.id().into())
            .collect()
    }

    fn kill_mount(&mut self) -> Result<()> {
        if let Some(mount) = self.mount.take() {
            mount.kill();
        }
        self.tally.kills += 1;
        self.tally.mount_kills += 1;
        self.mount = Some(Mount::start(
            self.paths,
            self.pool,
            self.ledger,
            self.cancel,
        )?);
        Ok(())
    }

    /// Every second one dies in the middle of a step, by its own timer; where the others are is chance.
    fn kill_workers(&mut self, at: usize, in_step: bool) -> Result<()> {
        let process = &mut self.processes[at];
        let in_step = in_step && process.role != Role::Snapshots;
        let ended = match (process.member.ended(Duration::ZERO)?, in_step) {
            (None, true) => {
                self.ledger.mark_to_die(process.member.id());
                let status = process.member.ended(DOOM)?;
                self.ledger.mark_to_die(0);
                status.filter(|status| status.signal() != Some(libc::SIGKILL))
            }
            (ended, _) => ended,
        };
        self.tally.kills += u64::from(ended.is_none());
        self.tally
            .faults
            .extend(ended.and_then(|status| process.fault(status)));
        // Dropped, the old one is killed and waited for.
        self.processes[at] = WorkerProcess::start(self.processes[at].role, self.paths, self.pool)?;
        Ok(())
    }

    /// New processes for those whose mount died.
    fn replace_ended(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.member.ended(Duration::ZERO)? {
                self.tally.faults.extend(process.fault(status));
                *process = WorkerProcess::start(process.role, self.paths, self.pool)?;
            }
        }
        Ok(())
    }

    /// Looks at the homes of workers that are no more, and removes them.
    fn settle(&mut self) -> Result<()> {
        let living = self.living();
        let ended: Vec<Ended> = (self.first..self.ledger.worker_count())
            .filter(|id| !self.settled.contains(id))
            .filter(|id| {
                let page = self.ledger.page(*id);
                let process = page.process.load(Ordering::Acquire);
                page.state.load(Ordering::Acquire) == DONE
                    || (process != 0 && !living.contains(&process))
            })
            .map(|id| Ended::of(self.ledger, id))
            .collect();
        self.settled.extend(ended.iter().map(|worker| worker.id));
        let volume = self.volume.clone();
        let judge = move || -> Vec<String> {
            let verdicts = ended.into_iter().map(|worker| settle(&volume, worker));
            verdicts.filter_map(Verdict::err).collect()
        };
        self.tally
            .faults
            .extend(within(PATIENCE, "looking at files of the dead", judge)?);
        Ok(())
    }

    /// Everybody stops; what is there is judged, and the volume emptied and checked.
    pub fn end(mut self) -> Result<Tally> {
        self.ledger.stop(true);
        for process in &mut self.processes {
            match process.member.ended(PATIENCE)? {
                Some(status) => self.tally.faults.extend(process.fault(status)),
                None => self.tally.faults.push(format!(
                    "a process ({:?}) waits for what never comes",
                    process.role
                )),
            }
        }
        self.processes.clear();
        if let Some(mount) = self.mount.take() {
            mount.end()?;
        }
        self.settle()?;
        self.judge()?;
        let counters = self.volume.counters();
        self.tally.direct_calls = counters.direct_calls;
        self.tally.mount_requests = counters.mount_requests;
        let pool = self.pool.to_owned();
        let volume = self.volume;
        let look = move || verify::leaked(volume, &pool);
        match within(PATIENCE, "checking", look)? {
            Ok((leaked, report)) => {
                self.tally.leaked = leaked;
                let findings = report.findings.into_iter();
                self.tally
                    .findings
                    .extend(findings.map(|finding| finding.what));
            }
            Err(fault) => self.tally.faults.push(fault),
        }
        Ok(self.tally)
    }

    fn judge(&mut self) -> Result<()> {
        let all = self.first..self.ledger.worker_count();
        let ended: Vec<Ended> = all.map(|id| Ended::of(self.ledger, id)).collect();
        let (volume, commons) = (self.volume.clone(), self.commons);
        let judge = move || {
            volume.reap();
            let verdicts = [
                verify::verify_names(&volume, &commons, &ended),
                verify::verify_log(&volume, &commons, &ended),
                verify::verify_commons(&volume, &commons),
                verify::verify_table(&volume, &commons, &ended),
                verify::empty(&volume, InodeNumber::ROOT),
            ];
            volume.reap();
            verdicts
                .into_iter()
                .filter_map(Verdict::err)
                .collect::<Vec<_>>()
        };
        self.tally
            .faults
            .extend(within(PATIENCE, "looking at what everybody used", judge)?);
        Ok(())
    }
}

fn settle(volume: &Volume, ended: Ended) -> Verdict {
    verify::verify_home(volume, ended)?;
    if let Some((name, ino)) = verify::home(volume, ended)? {
        verify::empty(volume, ino)?;
        volume
            .remove_directory(InodeNumber::ROOT, name.as_bytes())
            .map_err(|errno| format!("rmdir of {name}: {errno}"))?;
    }
    Ok(())
}
