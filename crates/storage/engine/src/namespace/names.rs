//! Names: create, link, unlink. Locks are taken from the directory to the inode of a name.

use crate::data::Reading;
use crate::format::*;
use crate::log::checksums::NewSums;
use crate::log::mapping::Mapping;
use crate::log::staging::Staged;
use crate::log::{Log, NameTable};
use crate::namespace::Naming;
use crate::session::inode::Locked;
use crate::session::{Quotas, Stamps, Uses};
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::space::{InodeNumbers, Placing};
use crate::types::*;
use std::sync::atomic::Ordering;

/// Whether a name may be created; `.`, `..` and the empty name may not.
pub(super) fn check_new_name(name: &[u8]) -> Outcome<()> {
    match name {
        _ if name.len() > MAX_NAME_BYTES => Err(Errno(libc::ENAMETOOLONG)),
        b"" => Err(Errno(libc::ENOENT)),
        b"." | b".." => Err(Errno(libc::EEXIST)),
        _ if !is_name(name) => Err(Errno(libc::EINVAL)),
        _ => Ok(()),
    }
}

/// Whether a name may be removed.
pub(crate) fn check_old_name(name: &[u8]) -> Outcome<()> {
    match name {
        b"." => Err(Errno(libc::EINVAL)),
        b".." => Err(Errno(libc::ENOTEMPTY)),
        _ if name.len() > MAX_NAME_BYTES => Err(Errno(libc::ENAMETOOLONG)),
        _ => Ok(()),
    }
}

/// How `create_inode` leaves the new inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth<'a> {
    Closed,
    Open,
    Symlink(&'a [u8]),
}

impl Naming<'_> {
    pub(super) fn create_named(
        self,
        parent: InodeHandle,
        name: &[u8],
        new: &NewInode,
        birth: Birth<'_>,
    ) -> Outcome<Attributes> {
        self.volume.writable()?;
        check_new_name(name)?;
        let kind = FileKind::from_mode(new.mode).ok_or(Errno(libc::EINVAL))?;
        let directory = self.lock_for_change(parent)?;
        if NameTable::of(self.volume)
            .find_name(&directory, name)?
            .is_some()
        {
            return Err(Errno(libc::EEXIST));
        }
        if kind == FileKind::Directory {
            directory.check_subdirectory_fits()?;
        }
        NameTable::of(self.volume).reserve_names(&directory, 1)?;
        let mut operation = Operation::new(self.volume, directory.me);
        let certificate = self.certify(&mut operation, &directory, new)?;
        let blocks = matches!(birth, Birth::Symlink(_)).into();
        let counted = Quotas::of(self.volume).count_new(&directory, certificate.ino, blocks);
        let result = counted.and_then(|()| {
            self.create_certified(&directory, &mut operation, name, kind, &certificate, birth)
        });
        // After a commit the number belongs to the inode, whatever failed later.
        if result.is_err() && operation.commits() == 0 {
            self.volume.free_inode(directory.me.slot, certificate.ino);
        }
        result
    }

    pub(super) fn certify(
        self,
        operation: &mut Operation<'_>,
        directory: &Locked<'_>,
        new: &NewInode,
    ) -> Outcome<Certificate> {
        let ino = InodeNumbers::of(self.volume).take_inode(
            operation,
            Placing::of(self.volume).pool_for_new_inode(directory.me),
        )?;
        let inherits = directory.inode.mode.load(Ordering::Relaxed) & libc::S_ISGID != 0;
        let is_directory = new.mode & libc::S_IFMT == libc::S_IFDIR;
        Ok(Certificate {
            ino,
            generation: InodeNumbers::of(self.volume).next_generation(ino)?,
            mode: new.mode
                | if inherits && is_directory {
                    libc::S_ISGID
                } else {
                    0
                },
            uid: new.uid,
            gid: if inherits {
                directory.inode.gid.load(Ordering::Relaxed)
            } else {
                new.gid
            },
            rdev: new.rdev,
            nlink: 1,
            birth_ns: Stamps::of(self.volume).stamp_ns(directory.inode),
            parent: directory.ino,
            checksums: directory.inode.checksums.load(Ordering::Relaxed) != 0
                && keeps_checksums(new.mode),
            layout: Log::of(self.volume).layout_of_new(directory, new.mode),
        })
    }

    fn create_certified(
        self,
        directory: &Locked<'_>,
        operation: &mut Operation<'_>,
        name: &[u8],
        kind: FileKind,
        certificate: &Certificate,
        birth: Birth<'_>,
    ) -> Outcome<Attributes> {
        InodeNumbers::of(self.volume).write_certificate(certificate)?;
        let ino = certificate.ino;
        let commit = CommitWord {
            tail: LogPosition::NONE,
            head_index: 0,
            orphan: false,
        };
        let mut child = Staged::fresh(self.volume, ino, certificate.generation, commit)?;
        if let Birth::Symlink(target) = birth {
            let sums = NewSums::new(certificate.checksums);
            self.stage_target(operation, &mut child, target, sums, certificate.birth_ns)?;
        }
        let mut staged = Staged::begin(directory, Need::Ordinary)?;
        let entry = Entry::NameAdd {
            ino,
            kind: kind as u8,
            cookie: directory.next_cookie(),
            name,
        };
        let position = staged.add(operation, &entry, certificate.birth_ns)?;
        if birth == Birth::Open {
            Uses::of(self.volume).note_open(ino)?;
        }
        if let Err(errno) = operation.commit(&[&staged, &child]) {
            if birth == Birth::Open {
                Uses::of(self.volume).note_close(ino);
            }
            return Err(errno);
        }
        directory.me.inode_settled();
        Log::of(self.volume).apply_commit(directory, &staged, || {
            Log::of(self.volume).apply_entry(
                directory,
                operation,
                position,
                &entry,
                certificate.birth_ns,
                false,
            )
        })?;
        operation.finish();
        let size_bytes = match birth {
            Birth::Symlink(target) => target.len() as u64,
            _ => {
                if kind == FileKind::Directory {
                    BLOCK as u64
                } else {
                    0
                }
            }
        };
        Ok(newborn(certificate, size_bytes))
    }

    fn stage_target(
        self,
        operation: &mut Operation<'_>,
        child: &mut Staged,
        target: &[u8],
        mut sums: NewSums,
        time_ns: i64,
    ) -> Outcome<()> {
        let block = operation.take(
            child.ino,
            0,
            1,
            Placing::of(self.volume).pool_for_new_inode(operation.me),
            Need::Ordinary,
        )?;
        let mut bytes = [0u8; BLOCK];
        bytes[..target.len()].copy_from_slice(target);
        sums.store_block(self.volume, (block.pool, block.block), &bytes)?;
        let mapping = Mapping::to(block, 0, 0);
        let size_bytes = target.len() as u64;
        child.add_mapping(operation, &mapping, sums.of(&mapping), size_bytes, time_ns)
    }

    /// Target of a symbolic link, under its lock.
    pub(crate) fn read_link_locked(self, ino: InodeNumber) -> Outcome<Vec<u8>> {
        let locked = self.volume.lock(ino.0)?;
        if locked.kind() != FileKind::Symlink {
            return Err(Errno(libc::EINVAL));
        }
        let bytes = (locked.size_bytes() as usize).min(MAX_TARGET_BYTES);
        let word = locked.index().load(0);
        if !word.has_data() || bytes == 0 {
            return Err(self.volume.damaged(ino.0, "target of a symbolic link"));
        }
        let mut target = [0u8; BLOCK];
        Reading::of(self.volume).old_block(&locked, 0, word, &mut target)?;
        Ok(target[..bytes].to_vec())
    }

    pub(super) fn link_once(
        self,
        inode: InodeHandle,
        parent: InodeHandle,
        name: &[u8],
    ) -> Outcome<Attributes> {
        let directory = self.lock_for_change(parent)?;
        if NameTable::of(self.volume)
            .find_name(&directory, name)?
            .is_some()
        {
            return Err(Errno(libc::EEXIST));
        }
        if inode.ino == parent.ino {
            return Err(Errno(libc::EPERM));
        }
        let child = self.lock_leaf(inode.ino.0)?.same(inode)?;
        Quotas::of(self.volume).check_same_tree(directory.inode, child.inode)?;
        let nlink = child.inode.nlink.load(Ordering::Relaxed);
        if nlink >= MAX_LINKS {
            return Err(Errno(libc::EMLINK));
        }
        NameTable::of(self.volume).reserve_names(&directory, 1)?;
        let mut operation = Operation::new(self.volume, directory.me);
        Log::of(self.volume).compact_if_due(&child, &mut operation);
        let time_ns = Stamps::of(self.volume).stamp_all_ns(&[&directory, &child]);
        let mut staged = Staged::begin(&directory, Need::Ordinary)?;
        let entry = Entry::NameAdd {
            ino: inode.ino.0,
            kind: child.kind() as u8,
            cookie: directory.next_cookie(),
            name,
        };
        let position = staged.add(&mut operation, &entry, time_ns)?;
        let mut staged_child = Staged::begin(&child, Need::Ordinary)?;
        staged_child.commit.orphan = false;
        let state = AttributeState {
            nlink: nlink + 1,
            ..child.attribute_state()
        };
        let attributes = Entry::Attributes(state);
        let at = staged_child.add(&mut operation, &attributes, time_ns)?;
        operation.commit(&[&staged, &staged_child])?;
        let applied = Log::of(self.volume)
            .apply_commit(&directory, &staged, || {
                Log::of(self.volume).apply_entry(
                    &directory,
                    &mut operation,
                    position,
                    &entry,
                    time_ns,
                    false,
                )
            })
            .and_then(|()| {
                Log::of(self.volume).apply_commit(&child, &staged_child, || {
                    Log::of(self.volume).apply_entry(
                        &child,
                        &mut operation,
                        at,
                        &attributes,
                        time_ns,
                        false,
                    )
                })
            });
        Log::of(self.volume).or_forget(&[&directory, &child], applied)?;
        operation.finish();
        Ok(child.attributes())
    }

    pub(super) fn remove_name(
        self,
        directory: &Locked<'_>,
        child: &Locked<'_>,
        position: LogPosition,
    ) -> Outcome<()> {
        let outcome = self.remove_name_noted(directory, child, position);
        // Deleted, or open in some process and then not deleted here.
        directory.me.inode_settled();
        outcome
    }

    fn remove_name_noted(
        self,
        directory: &Locked<'_>,
        child: &Locked<'_>,
        position: LogPosition,
    ) -> Outcome<()> {
        let mut operation = Operation::new(self.volume, directory.me);
        let time_ns = Stamps::of(self.volume).stamp_all_ns(&[directory, child]);
        let mut staged = Staged::begin(directory, Need::Freeing)?;
        let entry = Entry::NameRemove { added: position };
        let at = staged.add(&mut operation, &entry, time_ns)?;
        let dropped = self.stage_drop(&mut operation, child, time_ns)?;
        operation.commit(&[&staged, &dropped.staged])?;
        let applied = Log::of(self.volume)
            .apply_commit(directory, &staged, || {
                Log::of(self.volume).apply_entry(
                    directory,
                    &mut operation,
                    at,
                    &entry,
                    time_ns,
                    false,
                )
            })
            .and_then(|()| self.apply_drop(&mut operation, child, &dropped, time_ns));
        Log::of(self.volume).or_forget(&[directory, child], applied)?;
        operation.finish();
        drop(operation);
        self.volume.delete_if_unused(child)
    }

    /// Stage the loss of one name. The last name needs no log entry, only the orphan mark, so this works on a full
    /// volume.
    pub(crate) fn stage_drop(
        self,
        operation: &mut Operation<'_>,
        child: &Locked<'_>,
        time_ns: i64,
    ) -> Outcome<Dropped> {
        let mut staged = Staged::begin(child, Need::Freeing)?;
        let nlink = child.inode.nlink.load(Ordering::Relaxed);
        let position = if nlink <= 1 || child.kind() == FileKind::Directory {
            staged.commit.orphan = true;
            // If this thread dies, the process that reaps it finishes the deletion.
            operation.me.inode_losing(child.ino);
            None
        } else {
            let state = AttributeState {
                nlink: nlink - 1,
                ..child.attribute_state()
            };
            Some((
                staged.add(operation, &Entry::Attributes(state), time_ns)?,
                state,
            ))
        };
        Ok(Dropped { staged, position })
    }

    pub(crate) fn apply_drop(
        self,
        operation: &mut Operation<'_>,
        child: &Locked<'_>,
        dropped: &Dropped,
        time_ns: i64,
    ) -> Outcome<()> {
        Log::of(self.volume).apply_commit(child, &dropped.staged, || match dropped.position {
            Some((at, state)) => Log::of(self.volume).apply_entry(
                child,
                operation,
                at,
                &Entry::Attributes(state),
                time_ns,
                false,
            ),
            None => {
                child.inode.nlink.store(0, Ordering::Relaxed);
                child
                    .inode
                    .ctime_ns
                    .store(time_ns as u64, Ordering::Relaxed);
                Ok(())
            }
        })
    }
}

/// A staged loss of a name.
pub(crate) struct Dropped {
    pub(crate) staged: Staged,
    position: Option<(LogPosition, AttributeState)>,
}

/// Whether an inode with this mode has data with checksums, or passes the attribute on.
fn keeps_checksums(mode: u32) -> bool {
    let kinds = [libc::S_IFREG, libc::S_IFLNK, libc::S_IFDIR];
    kinds.contains(&(mode & libc::S_IFMT))
}

/// Attributes of an inode just made.
pub(super) fn newborn(certificate: &Certificate, size_bytes: u64) -> Attributes {
    let directory = certificate.mode & libc::S_IFMT == libc::S_IFDIR;
    Attributes {
        ino: InodeNumber(certificate.ino),
        generation: certificate.generation,
        mode: certificate.mode,
        nlink: if directory { 2 } else { certificate.nlink },
        uid: certificate.uid,
        gid: certificate.gid,
        rdev: certificate.rdev,
        size_bytes,
        blocks: u64::from(matches!(
            certificate.mode & libc::S_IFMT,
            libc::S_IFLNK | libc::S_IFDIR
        )),
        atime_ns: certificate.birth_ns,
        mtime_ns: certificate.birth_ns,
        ctime_ns: certificate.birth_ns,
    }
}
