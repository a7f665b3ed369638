//! Open files and directories.

use crate::leases::Asker;
use crate::operations::names::Found;
use crate::replies::convert;
use crate::state::adapter::Adapter;
use crate::state::coherence::Mark;
use crate::state::known::Held;
use crate::state::open_files::OpenFile;
use crate::state::privilege::Caller;
use egeria_engine::control::NumberTicket;
use egeria_engine::{Errno, FileKind, InodeNumber, NewInode, Outcome};
use fuser::FopenFlags;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicU64;

/// Read and written directly, several at a time: the engine has its own locks.
const DIRECT: FopenFlags =
    FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

fn keeping_pages(flags: FopenFlags, keeps_pages: bool) -> FopenFlags {
    if keeps_pages {
        flags | FopenFlags::FOPEN_KEEP_CACHE
    } else {
        flags
    }
}

fn may_write(flags: i32) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Whether a handle with these flags may read and write through the page cache. One that only writes has no use for it.
/// An append lands at the end that the engine knows, and the kernel's pages may begin elsewhere. Temporary files, which
/// are made with `O_EXCL`, are rarely read again.
fn may_use_pages(flags: i32) -> bool {
    match flags & libc::O_ACCMODE {
        libc::O_RDONLY => true,
        libc::O_RDWR => flags & (libc::O_APPEND | libc::O_DIRECT | libc::O_EXCL) == 0,
        _ => false,
    }
}

fn is_own_user(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

impl Adapter {
    /// Open a regular file. Permission is checked already.
    pub(crate) fn open_file(
        &self,
        ino: InodeNumber,
        flags: i32,
        asker: Asker,
    ) -> Outcome<(u64, FopenFlags)> {
        let held = self.known.hold(&self.volume, ino)?;
        let mark = Mark::default();
        let open_flags = self.flags_of_handle(ino, flags, asker, &mark);
        Ok((self.keep_open(held, flags, mark, open_flags), open_flags))
    }

    /// Flags of a handle: through the page cache, if no process has the file open past it. The handle is marked before
    /// the kernel has pages.
    ///
    /// Without `FOPEN_KEEP_CACHE`, the kernel drops the file's pages, and waits for those that a write through another
    /// handle has locked. That write may wait for a stopped process, and an open must not. So pages that another handle
    /// uses stay: this handle is direct, or they are valid for it too.
    fn flags_of_handle(
        &self,
        ino: InodeNumber,
        flags: i32,
        Asker(thread_id): Asker,
        mark: &Mark,
    ) -> FopenFlags {
        let writes = may_write(flags);
        // For programs with the library the kernel opens some files, but their writes are to be direct: they are slow on
        // marked files.
        let may_use_pages = may_use_pages(flags)
            && !(writes && self.has_library(thread_id))
            && self.leases.may_use_pages(ino, writes)
            && self.coherence.mark(ino, mark).is_ok();
        let are_used = self.coherence.are_pages_used_by_others(ino, mark);
        if may_use_pages {
            keeping_pages(
                FopenFlags::empty(),
                self.leases.are_pages_valid(ino, are_used),
            )
        } else {
            keeping_pages(DIRECT, are_used)
        }
    }

    /// Open a directory. The flags say whether the kernel may keep its listing.
    pub(crate) fn open_directory(&self, ino: InodeNumber) -> Outcome<(u64, FopenFlags)> {
        let held = self.known.hold(&self.volume, ino)?;
        let end = self.volume.directory_end(ino)?;
        let (may_keep, is_good) = self.leases.grant_listing(ino);
        let mut flags = FopenFlags::empty();
        flags.set(FopenFlags::FOPEN_CACHE_DIR, may_keep);
        flags.set(FopenFlags::FOPEN_KEEP_CACHE, may_keep && is_good);
        Ok((self.keep_directory_open(held, end, may_keep), flags))
    }

    /// Make and open a regular file. If another process made it since the kernel's look-up, the kernel must look
    /// again, because the kernel checks permissions on existing files, and the mount does not.
    pub(crate) fn create_file(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        new: &NewInode,
        (flags, asker): (i32, Asker),
    ) -> Outcome<(Found, u64, FopenFlags)> {
        if let Some(number) = self.number_to_open(parent, name, new) {
            return self.open_number(number, flags);
        }
        let parent = self.known.hold(&self.volume, parent)?;
        let name = convert::name(name)?;
        let created = self.volume.create_open(parent.ino, name, new);
        self.changed_names(parent.ino, &created, (asker, false));
        let attributes = created.map_err(|error| match error.0 {
            libc::EEXIST if flags & libc::O_EXCL == 0 => Errno(libc::ESTALE),
            _ => error,
        })?;
        let made = self.made(parent.ino, name, &attributes, asker);
        let made = made.and_then(|found| {
            let held = self.known.hold(&self.volume, attributes.ino);
            let held = held.inspect_err(|_| self.known.forget(&self.volume, attributes.ino, 1));
            Ok((found, held?))
        });
        self.volume.close(attributes.ino);
        let (found, held) = made?;
        let mark = Mark::default();
        let open_flags = self.flags_of_handle(held.ino, flags, asker, &mark);
        let handle = self.keep_open(held, flags, mark, open_flags);
        Ok((found, handle, open_flags))
    }

    /// The inode of a ticket, which is a name in the root ([`Tickets`](crate::state::tickets::Tickets)).
    fn number_to_open(
        &self,
        parent: InodeNumber,
        name: &OsStr,
        new: &NewInode,
    ) -> Option<(InodeNumber, u32)> {
        let may_be_one = parent == InodeNumber::ROOT && is_own_user(new.uid);
        may_be_one.then(|| self.tickets.take(name.as_bytes()))?
    }

    /// A name by which an inode is opened once, independently of its own names. Only for root and the mount's own
    /// user, which may open the pools and so every file.
    pub(crate) fn issue_ticket(
        &self,
        caller: Caller,
        handle: u64,
        ticket: NumberTicket,
    ) -> Outcome<[u8; size_of::<NumberTicket>()]> {
        self.files.get(handle)?;
        if !is_own_user(caller.uid) {
            return Err(Errno(libc::EPERM));
        }
        let of = (InodeNumber(ticket.ino), ticket.generation);
        Ok(ticket.answer(self.tickets.issue(handle, of)?))
    }

    fn open_number(
        &self,
        (ino, generation): (InodeNumber, u32),
        flags: i32,
    ) -> Outcome<(Found, u64, FopenFlags)> {
        self.volume.open(ino, Some(generation))?;
        let attributes = self.volume.attributes(ino);
        let added = attributes.and_then(|attributes| match attributes.kind() {
            FileKind::Regular => {
                self.known.add_lookup(&self.volume, &attributes)?;
                let held = self.known.hold(&self.volume, ino);
                let held = held.inspect_err(|_| self.known.forget(&self.volume, ino, 1))?;
                Ok((held, attributes))
            }
            _ => Err(Errno(libc::ENOENT)),
        });
        self.volume.close(ino);
        let (held, attributes) = added?;
        let mark = Mark::default();
        let are_used = self.coherence.are_pages_used_by_others(ino, &mark);
        let open_flags = keeping_pages(DIRECT, are_used);
        let handle = self.keep_open(held, flags, mark, open_flags);
        let found = Found::once(&self.volume, &attributes);
        Ok((found, handle, open_flags))
    }

    /// The kernel let go of an open directory.
    pub(crate) fn release_directory(&self, handle: u64) {
        self.tickets.forget(handle);
        self.release(handle);
    }

    /// The kernel let go of an open description.
    pub(crate) fn release(&self, handle: u64) {
        if let Some(open) = self.files.remove(handle) {
            self.give_back(&open);
        }
    }

    /// The mount ends: close what the kernel did not release.
    pub(crate) fn release_all(&self) {
        for open in self.files.drain() {
            self.give_back(&open);
        }
        self.known.forget_all(&self.volume);
    }

    fn give_back(&self, open: &OpenFile) {
        if let Some(slot) = open.slot {
            self.volume.description_free(slot);
        }
        if open.writes {
            self.leases.end_writing(open.ino, !open.keeps_pages);
        }
        let keeps_pages = || open.keeps_pages && self.leases.may_keep_pages(open.ino);
        self.coherence.retire(open.ino, &open.mark, keeps_pages);
    }

    fn keep_open(&self, held: Held<'_>, flags: i32, mark: Mark, open_flags: FopenFlags) -> u64 {
        let writes = may_write(flags);
        let keeps_pages = !open_flags.contains(FopenFlags::FOPEN_DIRECT_IO);
        if writes {
            self.leases.begin_writing(held.ino, open_flags);
            if self.coherence.has_given_holes(held.ino) {
                // The handle may store into holes of the file.
                self.leases.changed_by_kernel(held.ino, &self.kernel);
            }
        }
        self.files.insert(OpenFile {
            ino: held.ino,
            file: held.keep(),
            slot: self.volume.description_allocate(),
            mark,
            writes,
            keeps_pages,
            end_cookie: AtomicU64::new(u64::MAX),
            keeps_listing: false,
        })
    }

    fn keep_directory_open(&self, held: Held<'_>, end_cookie: u64, keeps_listing: bool) -> u64 {
        self.files.insert(OpenFile {
            ino: held.ino,
            file: held.keep(),
            slot: None,
            mark: Mark::default(),
            writes: false,
            keeps_pages: false,
            end_cookie: AtomicU64::new(end_cookie),
            keeps_listing,
        })
    }
}
