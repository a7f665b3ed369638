//! `stat`, and changing attributes.

use crate::leases::{self, Asker, Epoch};
use crate::replies::convert;
use crate::state::adapter::Adapter;
use crate::state::coherence::Range;
use crate::state::known::Held;
use crate::state::merge::Keeping;
use crate::state::privilege::Caller;
use egeria_engine::{AttributeChange, Attributes, FileReference, InodeNumber, Outcome};
use fuser::FileAttr;
use std::time::Duration;

impl Adapter {
    /// Attributes, and how long the kernel may cache them.
    pub(crate) fn attributes(
        &self,
        ino: InodeNumber,
        asker: Asker,
    ) -> Outcome<(FileAttr, Duration)> {
        let held = self.known.hold(&self.volume, ino)?;
        let (attributes, granted) = self.leased_attributes(held.ino, false, asker)?;
        let validity = leases::attribute_validity(granted.is_some(), &attributes);
        Ok((
            convert::file_attributes(&self.volume, &attributes),
            validity,
        ))
    }

    /// Attributes of an inode, and whether the kernel may remember them. `is_new`: the kernel does not have it yet.
    pub(crate) fn leased_attributes(
        &self,
        ino: InodeNumber,
        is_new: bool,
        asker: Asker,
    ) -> Outcome<(Attributes, Option<Epoch>)> {
        // Grant before reading: a later change is then recalled.
        let granted = self.leases.grant_attributes(ino);
        let attributes = self.volume.attributes(ino)?;
        let granted = granted
            .filter(|_| !self.may_have_stores(ino))
            .filter(|epoch| self.leases.show(ino, *epoch, is_new, asker));
        Ok((attributes, granted))
    }

    /// Permission is checked already. A truncation is answered before pages are invalidated
    /// (module `coherence`).
    pub(crate) fn change_attributes(
        &self,
        caller: Caller,
        ino: InodeNumber,
        change: &AttributeChange,
    ) -> Outcome<FileAttr> {
        let held = self.known.hold(&self.volume, ino)?;
        let change = &AttributeChange {
            clears: self.clears(caller, &held, change)?,
            ..*change
        };
        if let Some(size_bytes) = change.size_bytes
            && self.volume.size_bytes(held.file)? != size_bytes
        {
            // The kernel does that when it gets the answer.
            self.leases.forget_all_pages(ino);
        }
        let changed = self.set_beside(&held, change);
        self.changed(ino);
        let (changed, keeping) = changed?;
        // The kernel stores these attributes even if they change in the meantime. So they must not be cached, but the
        // next ones may be. An error here is ignored, because the change was made.
        let shown = self.leased_attributes(ino, false, caller.asker());
        let attributes = shown.map_or(changed, |(attributes, _)| attributes);
        if let Some(size_bytes) = change.size_bytes {
            let from_bytes = keeping
                .as_ref()
                .map_or(size_bytes, |keeping| keeping.from_bytes);
            let range = Range {
                offset_bytes: from_bytes,
                length_bytes: 0,
            };
            self.coherence
                .changed_then(ino, held.file, range, move || drop(keeping));
        }
        Ok(convert::file_attributes(&self.volume, &attributes))
    }

    /// Change attributes. If the size changes, merge the change with stores through mappings.
    fn set_beside(
        &self,
        held: &Held<'_>,
        change: &AttributeChange,
    ) -> Outcome<(Attributes, Option<Keeping>)> {
        let set = || self.volume.set_attributes(held.ino, change);
        match change.size_bytes {
            Some(size_bytes) => {
                self.change_beside((held.ino, held.file), || Ok((size_bytes, 0)), set)
            }
            None => set().map(|attributes| (attributes, None)),
        }
    }

    /// Set-user-id and set-group-id bits to clear. A change of owner always clears them, a change of size only if the
    /// caller is not privileged. A request to change nothing is a `chown` without a new owner. (The kernel itself
    /// removes capabilities before both.)
    fn clears(&self, caller: Caller, held: &Held<'_>, change: &AttributeChange) -> Outcome<u32> {
        let owner = change.uid.is_some() || change.gid.is_some();
        let owner = owner || *change == AttributeChange::default();
        if !owner && change.size_bytes.is_none() {
            return Ok(0);
        }
        let attributes = self.volume.attributes(held.ino)?;
        Ok(if owner {
            caller.clears_with_owner(&attributes)
        } else {
            // Capabilities are read from /proc, so only if there is a bit that depends on them.
            match caller.clears_with_content(&attributes) {
                0 => 0,
                _ if caller.keeps_setid() => 0,
                clears => clears,
            }
        })
    }

    /// The content is about to change: remove capabilities, and set-user-id and set-group-id bits of callers without
    /// `CAP_FSETID`, as `is_unprivileged` reports.
    pub(crate) fn clear_privileges(
        &self,
        caller: Caller,
        file: FileReference,
        is_unprivileged: impl FnOnce() -> bool,
    ) -> Outcome<()> {
        self.volume.drop_capability(file)?;
        if !self.volume.may_have_privileges(file) || !is_unprivileged() {
            return Ok(());
        }
        let clears = caller.clears_with_content(&self.volume.attributes(file.ino())?);
        if clears != 0 {
            let change = AttributeChange {
                clears,
                ..AttributeChange::default()
            };
            self.volume.set_attributes(file.ino(), &change)?;
            // The kernel asked for a change of content, and assumes that the mode is unchanged.
            self.kernel.forget_attributes(file.ino());
        }
        Ok(())
    }
}
