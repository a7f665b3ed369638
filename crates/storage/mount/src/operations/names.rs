//! Names: finding, making, linking, renaming and removing them.

use crate::leases::{self, Asker, Epoch};
use crate::replies::convert::{self, Entry};
use crate::state::adapter::Adapter;
use crate::state::known::Held;
use crate::state::privilege::Caller;
use egeria_engine::{
    Attributes, Errno, FileKind, InodeNumber, NewInode, Outcome, RenameMode, Volume,
};
use fuser::RenameFlags;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The attributes of a new inode, from the caller's.
pub(crate) fn new_inode(caller: Caller, mode: u32, umask: u32, rdev: u32) -> NewInode {
    NewInode {
        mode: mode & !(umask & 0o777),
        uid: caller.uid,
        gid: caller.gid,
        rdev,
    }
}

/// The result of a look-up, and how long the kernel may cache it.
pub(crate) enum LookedUp {
    Found(Found),
    /// No inode, and how long that may be cached.
    Missing(Duration),
}

/// An inode found by name, and how long the kernel may cache that.
pub(crate) struct Found {
    pub entry: Entry,
    pub name_validity: Duration,
    pub attribute_validity: Duration,
}

impl Found {
    /// An answer that must not be cached.
    pub(crate) fn once(volume: &Volume, attributes: &Attributes) -> Found {
        Found {
            entry: convert::entry(volume, attributes),
            name_validity: Duration::ZERO,
            attribute_validity: Duration::ZERO,
        }
    }
}

/// A directory, and a name in it.
type Place<'n> = (InodeNumber, &'n [u8]);

/// A file that the kernel is renaming.
struct MovingFile<'n> {
    file: InodeNumber,
    from: Place<'n>,
    to: Place<'n>,
}

impl Adapter {
    pub(crate) fn look_up(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        asker: Asker,
    ) -> Outcome<LookedUp> {
        if let Some(found) = self.look_up_for_handle(parent, name, asker) {
            return found.map(LookedUp::Found);
        }
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        if self.leases.is_removing(parent.ino, asker)
            && let Ok(found) = self.volume.lookup(parent.ino, name)
            && found.kind() != FileKind::Directory
        {
            return self.entry(&found).map(LookedUp::Found);
        }
        // Grant before the look-up: a later change is then recalled.
        let granted = self.leases.grant_names(parent.ino);
        let found = match (self.volume.lookup(parent.ino, name), granted) {
            (Err(Errno(libc::ENOENT)), Some(epoch)) => {
                return match self.leases.note_missing(parent.ino, name, epoch) {
                    Duration::ZERO => Err(Errno(libc::ENOENT)),
                    validity => Ok(LookedUp::Missing(validity)),
                };
            }
            (found, _) => found?,
        };
        let is_new = self.known.add_lookup(&self.volume, &found)?;
        let place = (parent.ino, name);
        let named = self.remembered(place, granted, (&found, is_new), asker);
        let named = named.inspect_err(|_| self.known.forget(&self.volume, found.ino, 1));
        Ok(LookedUp::Found(named?))
    }

    /// How long the kernel may cache a name that was looked up under this grant, and the attributes of its inode. The
    /// inode counts as looked up.
    fn remembered(
        &self,
        (parent, name): (InodeNumber, &[u8]),
        granted: Option<Epoch>,
        (found, is_new): (&Attributes, bool),
        asker: Asker,
    ) -> Outcome<Found> {
        let (attributes, of_file) = self.leased_attributes(found.ino, is_new, asker)?;
        // Before it changes or maps a file, the kernel relies on the owner and the size from the look-up. So the name
        // is dropped together with the attributes. For directories the kernel asks for what it checks.
        let may_be_remembered = match found.kind() {
            FileKind::Directory => true,
            _ => {
                let note = |epoch| self.leases.note_file(found.ino, epoch, parent, name);
                attributes.nlink == 1 && of_file.is_some_and(note)
            }
        };
        let note = |epoch| self.leases.note_answer(parent, epoch);
        let is_granted = may_be_remembered && granted.is_some_and(note);
        Ok(Found {
            entry: convert::entry(&self.volume, &attributes),
            name_validity: leases::name_validity(is_granted),
            attribute_validity: leases::attribute_validity(of_file.is_some(), &attributes),
        })
    }

    /// The answer to a request that made an inode. The kernel remembers the inode until it forgets it, and caches its
    /// name as after a look-up.
    pub(crate) fn made(
        &self,
        parent: InodeNumber,
        name: &[u8],
        made: &Attributes,
        asker: Asker,
    ) -> Outcome<Found> {
        let is_new = self.known.add_lookup(&self.volume, made)?;
        self.leases.note_change_by_kernel(made.ino, made.ctime_ns);
        // Look up once more under the grant: the name may mean another inode by now.
        let granted = self.leases.grant_names(parent);
        let is_same =
            |found: &Attributes| (found.ino, found.generation) == (made.ino, made.generation);
        let found = granted.and_then(|_| self.volume.lookup(parent, name).ok());
        let Some(found) = found.filter(is_same) else {
            return Ok(Found::once(&self.volume, made));
        };
        self.remembered((parent, name), granted, (&found, is_new), asker)
            .or_else(|_| Ok(Found::once(&self.volume, made)))
    }

    pub(crate) fn make(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        new: &NewInode,
        asker: Asker,
    ) -> Outcome<Found> {
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        let made = self.volume.create(parent.ino, name, new);
        self.changed_names(parent.ino, &made, (asker, false));
        self.made(parent.ino, name, &made?, asker)
    }

    pub(crate) fn make_symlink(
        &self,
        caller: Caller,
        parent: InodeNumber,
        name: &OsStr,
        target: &Path,
    ) -> Outcome<Found> {
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        let target = target.as_os_str().as_bytes();
        let (uid, gid) = (caller.uid, caller.gid);
        let made = self.volume.symlink(parent.ino, name, target, uid, gid);
        self.changed_names(parent.ino, &made, (caller.asker(), false));
        self.made(parent.ino, name, &made?, caller.asker())
    }

    pub(crate) fn symlink_target(&self, ino: InodeNumber) -> Outcome<Vec<u8>> {
        let held = self.known.hold(&self.volume, ino)?;
        self.volume.read_link(held.ino)
    }

    pub(crate) fn make_link(
        &self,
        ino: InodeNumber,
        parent: InodeNumber,
        name: &OsStr,
    ) -> Outcome<Found> {
        let held = self.known.hold(&self.volume, ino)?;
        let parent = self.known.hold(&self.volume, parent)?;
        let linked = self.volume.link(held.ino, parent.ino, convert::name(name)?);
        self.changed(parent.ino);
        self.changed(held.ino);
        self.entry(&linked?)
    }

    pub(crate) fn remove_name(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        asker: Asker,
    ) -> Outcome<()> {
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        let going = self.used_unseen(parent.ino, name);
        let removed = self.volume.unlink(parent.ino, name);
        self.changed_names(parent.ino, &removed, (asker, true));
        removed?;
        if let Some(held) = going {
            self.known.hold_until_forgotten(held);
        }
        Ok(())
    }

    pub(crate) fn remove_directory(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        asker: Asker,
    ) -> Outcome<()> {
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        let going = self.used_unseen(parent.ino, name);
        let removed = self.volume.remove_directory(parent.ino, name);
        self.changed_names(parent.ino, &removed, (asker, true));
        removed?;
        if let Some(held) = going {
            self.known.hold_until_forgotten(held);
        }
        Ok(())
    }

    /// The inode with this name, if the kernel remembers it and programs may use it without a request: a working
    /// directory, an open fifo. (Not files: their space must be freed at once.)
    fn used_unseen(&self, parent: InodeNumber, name: &[u8]) -> Option<Held<'_>> {
        let attributes = self.volume.lookup(parent, name).ok()?;
        match attributes.kind() {
            FileKind::Regular => None,
            _ => self.known.hold(&self.volume, attributes.ino).ok(),
        }
    }

    pub(crate) fn move_name(
        &self,
        from: (InodeNumber, &OsStr),
        to: (InodeNumber, &OsStr),
        flags: RenameFlags,
        asker: Asker,
    ) -> Outcome<()> {
        let mode = rename_mode(flags)?;
        let (name, new_name) = (convert::name(from.1)?, convert::name(to.1)?);
        let parent = self.known.hold(&self.volume, from.0)?;
        let new_parent = self.known.hold(&self.volume, to.0)?;
        let replaced = match mode {
            RenameMode::Replace => self.used_unseen(new_parent.ino, new_name),
            _ => None,
        };
        // The kernel moves its cache entry of the name too.
        let (from, to) = ((parent.ino, name), (new_parent.ino, new_name));
        let mut moves = vec![self.begin_move(from, to)];
        if mode == RenameMode::Exchange {
            moves.push(self.begin_move(to, from));
        }
        let moved = self
            .volume
            .rename(parent.ino, name, new_parent.ino, new_name, mode);
        for moving in moves.into_iter().flatten() {
            let left = match moved {
                Ok(()) => moving.from,
                Err(_) => moving.to,
            };
            self.leases.end_move_of_file(moving.file, left);
        }
        self.changed_names(parent.ino, &moved, (asker, false));
        self.changed_names(new_parent.ino, &moved, (asker, false));
        // The replaced inode; after an exchange, both inodes.
        for (directory, name) in [(new_parent.ino, new_name), (parent.ino, name)] {
            if let Ok(found) = self.volume.lookup(directory, name) {
                self.changed(found.ino);
            }
        }
        moved?;
        if let Some(held) = replaced {
            self.known.hold_until_forgotten(held);
        }
        Ok(())
    }

    /// The kernel is about to get the answer to its change of the inode.
    pub(crate) fn changed(&self, ino: InodeNumber) {
        self.leases.changed_by_kernel(ino, &self.kernel);
    }

    /// As `changed`, of names in a directory. After an error the kernel keeps what it has.
    pub(crate) fn changed_names<T>(
        &self,
        directory: InodeNumber,
        outcome: &Outcome<T>,
        by: (Asker, bool),
    ) {
        match outcome {
            Ok(_) => self
                .leases
                .names_changed_by_kernel(directory, by, &self.kernel),
            Err(_) => self.changed(directory),
        }
    }

    /// `None`: it is no file.
    fn begin_move<'n>(&self, from: Place<'n>, to: Place<'n>) -> Option<MovingFile<'n>> {
        self.leases.note_moved_name(to.0);
        let moved = self.volume.lookup(from.0, from.1).ok();
        let file = moved
            .filter(|moved| moved.kind() != FileKind::Directory)?
            .ino;
        self.leases.begin_move_of_file(file, from, to);
        Some(MovingFile { file, from, to })
    }

    /// The answer about an inode that the kernel now remembers until it forgets it.
    fn entry(&self, attributes: &Attributes) -> Outcome<Found> {
        self.known.add_lookup(&self.volume, attributes)?;
        Ok(Found::once(&self.volume, attributes))
    }
}

/// Whiteouts and unknown flags are refused.
fn rename_mode(flags: RenameFlags) -> Outcome<RenameMode> {
    if flags.is_empty() {
        Ok(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Ok(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Ok(RenameMode::Exchange)
    } else {
        Err(Errno(libc::EINVAL))
    }
}
