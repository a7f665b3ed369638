//! What callers ask of recovery; and, for threads without space and new attachments, lower floors.

use crate::recovery::check::{check_contents, superblock_findings};
use crate::recovery::reap::REAPER_PATIENCE;
use crate::recovery::scrub::{Pause, Scrub, ScrubProgress, ScrubReport};
use crate::recovery::{Reaper, Recovery};
use crate::requests::*;
use crate::session::volume::{FileReference, Origin, Volume};
use crate::session::{Amounts, Quotas};
use crate::space::Space;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Volume {
    /// Verify the content of this private volume, as [`crate::check_volume`] does.
    ///
    /// # Errors
    /// `EIO` when a pool cannot be read.
    pub fn check_contents(self: &Arc<Volume>) -> Result<CheckReport, VolumeError> {
        check_contents(self, false, CheckReport::default(), &[], &mut |_, _| {})
    }

    /// Verify the checksums of all metadata while others use the volume. With `data`, verify also that every written
    /// block can be read and matches its checksum, if it has one. Findings name paths. Repairs nothing.
    ///
    /// # Errors
    /// `ENOMEM` and `EAGAIN` when the session has no room. Damage is no error but a finding.
    pub fn scrub(&self, data: bool, pause: Pause<'_>) -> Result<ScrubReport, VolumeError> {
        let space = self.space(None);
        let mut scrub = Scrub {
            volume: self,
            pause,
            progress: ScrubProgress {
                all_inodes: space.inodes - space.free_inodes,
                ..ScrubProgress::default()
            },
            report: ScrubReport::default(),
            damaged: Vec::new(),
        };
        scrub.report.findings = superblock_findings(&self.paths)?;
        Recovery::of(self).collect_findings(true);
        scrub.report.complete = scrub.all_inodes(data).is_ok();
        Recovery::of(self).collect_findings(false);
        scrub.name_findings();
        Ok(scrub.report)
    }

    /// Reap dead processes now (the mount calls it twice a second): their locks, slots, opens, space. Never waits
    /// long: what a possibly stopped thread holds is left to the next call.
    pub fn reap(&self) {
        self.look_for_added_pools();
        self.session.arena().trim();
        Reaper::of(self).reap_within(Duration::ZERO);
    }

    /// Called when there was no space, by a thread without locks: returns whether reaping dead processes has freed
    /// some.
    #[cold]
    pub(crate) fn reap_for_space(&self) -> bool {
        let free = || self.space(None).free_blocks;
        let before = free();
        self.look_for_added_pools();
        Reaper::of(self).reap_within(REAPER_PATIENCE);
        Space::of(self).end_snapshot_for_space();
        free() > before
    }

    /// Called when a limit was reached, by a thread without locks: returns whether reaping dead processes has lowered
    /// the usage of the file's tree.
    #[cold]
    pub(crate) fn reap_for_quota(&self, file: FileReference) -> bool {
        let quotas = Quotas::of(self);
        let used = || {
            quotas
                .tree_in_force(file.inode())
                .map(|tree| quotas.usage(tree))
        };
        let before = used();
        Reaper::of(self).reap_within(REAPER_PATIENCE);
        let is_less = |before: Amounts, now: Amounts| now.blocks < before.blocks;
        before
            .zip(used())
            .is_some_and(|(before, now)| is_less(before, now))
    }

    /// Recover the volume into its fresh session. `is_after_death`: all processes of the previous session died.
    pub(crate) fn recover(
        &self,
        options: &AttachOptions,
        is_after_death: bool,
    ) -> Result<(), VolumeError> {
        let began = Instant::now();
        let mut report = RecoveryReport {
            is_after_death,
            ..RecoveryReport::default()
        };
        // A check takes the lines itself.
        let collected_here = self.origin != Origin::Private;
        if collected_here {
            Recovery::of(self).collect_findings(true);
        }
        let recovered = Recovery::of(self).recover_into(options, &mut report);
        if collected_here {
            let mut damage = Recovery::of(self).collect_findings(false);
            let mut known = HashSet::new();
            damage.retain(|line| known.insert(line.clone()));
            let kept = damage.len().min(RecoveryReport::MAX_DAMAGE);
            report.more_damage = (damage.len() - kept) as u64;
            damage.truncate(kept);
            report.damage = damage;
        }
        report.duration = began.elapsed();
        let _ = self.recovery.set(report);
        recovered
    }
}
