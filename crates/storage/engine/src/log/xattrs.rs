//! Extended attributes, as a log keeps them.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::{Log, checksums};
use crate::session::inode::Record;
use crate::session::layout::SessionInode;
use crate::space::striping;
use crate::types::*;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Values by names.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The attributes that an inode has from its creation: for a directory, those that it passes on.
pub(crate) fn inborn_xattrs(born: &Certificate) -> Xattrs {
    if FileKind::from_mode(born.mode) != Some(FileKind::Directory) {
        return Xattrs::new();
    }
    let sums = born
        .checksums
        .then(|| (checksums::ATTRIBUTE.to_vec(), checksums::ON.to_vec()));
    let layout = striping::value_of(born.layout);
    let layout = layout.map(|value| (striping::ATTRIBUTE.to_vec(), value));
    sums.into_iter().chain(layout).collect()
}

/// What an entry makes of them.
pub(crate) fn apply_xattr(all: &mut Xattrs, entry: &Entry<'_>) {
    match *entry {
        Entry::XattrSet { name, value } => {
            all.insert(name.to_vec(), value.to_vec());
        }
        Entry::XattrRemove { name } => {
            all.remove(name);
        }
        _ => {}
    }
}

impl Log<'_> {
    /// All extended attributes of a loaded inode. The inode is locked, or the caller checks for changes afterwards.
    pub(crate) fn xattrs(self, inode: &SessionInode, place: LogPlace) -> Outcome<Xattrs> {
        if inode.has_xattr.load(Ordering::Relaxed) == 0 {
            return Ok(Xattrs::new());
        }
        let mut all = inborn_xattrs(&self.volume.read_record(place.ino)?.certificate);
        self.walk_log(
            place,
            inode.commit(place.ino)?,
            LogPosition::NONE,
            &mut |_| Ok(()),
            &mut |_, entry, _| {
                apply_xattr(&mut all, entry);
                Ok(())
            },
        )?;
        Ok(all)
    }

    /// Extended attributes according to the log that belongs to a record.
    pub(crate) fn xattrs_of_record(self, place: LogPlace, record: &Record) -> Outcome<Xattrs> {
        let begin = inborn_xattrs(&record.certificate);
        let fold = |all: &mut Xattrs, _, entry: &Entry<'_>, _| apply_xattr(all, entry);
        Ok(self.fold_record(place, record, begin, fold)?.0)
    }

    /// Extended attributes according to the log, and the inode's certificate.
    pub(crate) fn committed_xattrs(self, ino: u64) -> Outcome<(Xattrs, Certificate)> {
        let begin = |certificate: &Certificate| (inborn_xattrs(certificate), *certificate);
        let fold = |(all, _): &mut (Xattrs, Certificate), _, entry: &Entry<'_>, _| {
            apply_xattr(all, entry);
        };
        Ok(self.fold_log(ino, begin, fold)?.0)
    }
}
