//! `open` of a regular file or a directory without the kernel: the engine opens it, and a placeholder takes the number (`late_open`).

use super::range_locks;
use crate::description::record::{Found, Origin, Record};
use crate::description::reply::Reply;
use crate::descriptors::{late_open, placeholder, reclaim, table};
use crate::serve::path::{self, Way, on_path};
use crate::serve::{self, ownership};
use crate::system::{errno, libc_streams, raw};
use crate::thread;
use crate::trust::{Place, settings};
use crate::volumes::identity;
use egeria_engine::rights::{READ, SETID, WRITE};
use egeria_engine::{
    AttributeChange, Attributes, Errno, FileKind, FileReference, InodeNumber, NewInode, PathEnd,
    PathStop, Volume,
};
use libc::{c_char, c_int, mode_t};
use std::sync::atomic::AtomicBool;

/// Flags that change nothing here, or are done here. `O_TMPFILE` is one more with `O_DIRECTORY`.
const KNOWN: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_NOCTTY
    | libc::O_NOFOLLOW
    | libc::O_CLOEXEC
    | libc::O_DIRECTORY
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_TMPFILE
    | O_LARGEFILE;
const O_LARGEFILE: c_int = 0o100_000;
/// An opened inode.
struct Opened {
    place: Place,
    volume: &'static Volume,
    file: FileReference,
    ino: InodeNumber,
    is_directory: bool,
    origin: Origin,
}

/// Open a file; `None` when the kernel is to do it.
pub fn open(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    let access = flags & libc::O_ACCMODE;
    let is_known = match flags & libc::O_PATH {
        0 => flags & !KNOWN == 0 && access != libc::O_ACCMODE,
        _ => flags & !(late_open::PATH_STATUS | libc::O_CLOEXEC | O_LARGEFILE) == 0,
    };
    serve::look_for_signs(|| path::may_lead_inside(thread::current(), directory, path));
    // The kernel cannot make files without a name.
    if !is_known || !(late_open::is_possible() || is_unnamed(flags)) {
        if access == libc::O_RDONLY {
            return path::by_kernel_at(directory, path);
        }
        // The mount must see that this process has the volume attached, to open the file without pages.
        return on_path(directory, path, |way| {
            let _ = way.volume.note_attached();
            Err(PathStop::Elsewhere)
        });
    }
    // Streams may be over the number later, or older ones get it.
    libc_streams::use_functions();
    let creates = flags & libc::O_CREAT != 0 || is_unnamed(flags);
    let mut number = None;
    let mut made: Option<Made> = None;
    let answer = on_path(directory, path, |way| {
        if creates {
            // Before anything is made: afterwards it could only be taken back.
            number = Some(placeholder::make(flags).ok_or(PathStop::Elsewhere)?);
        }
        let opened = match open_in_engine(way, flags, mode) {
            Ok(opened) => opened,
            Err(reply) => return Ok(reply),
        };
        let Some(fd) = number.take().or_else(|| placeholder::make(flags)) else {
            way.volume.close(opened.ino);
            return Err(PathStop::Elsewhere);
        };
        let (volume, ino) = (opened.volume, opened.ino);
        let record = Record::make(opened.found(flags));
        made = Some(Made {
            volume,
            ino,
            fd,
            record,
        });
        Ok(Reply::Done(0))
    });
    if let Some(made) = made {
        return made.settle();
    }
    if let Some(number) = number {
        let error = errno::get();
        raw::close(number);
        errno::set(error);
    }
    answer
}

impl Opened {
    /// What a record keeps of it.
    fn found(self, flags: c_int) -> Found {
        Found {
            volume: self.volume,
            file: self.file,
            ino: self.ino,
            place: self.place,
            is_directory: self.is_directory,
            slot: egeria_engine::control::NO_DESCRIPTION_SLOT,
            origin: Some(self.origin),
            status: match self.is_directory {
                true if flags & libc::O_PATH != 0 => flags & late_open::PATH_STATUS,
                true => flags & late_open::DIRECTORY_STATUS,
                false => flags & late_open::STATUS,
            },
            read_only: false,
            private_offset_bytes: Some(0),
            shared: false,
        }
    }
}

/// A number, and the record of what it is to mean.
struct Made {
    volume: &'static Volume,
    ino: InodeNumber,
    fd: c_int,
    record: *mut Record,
}

impl Made {
    /// The number means the file from now on.
    fn settle(self) -> Option<c_int> {
        let Made {
            volume,
            ino,
            fd,
            record,
        } = self;
        while table::place_made(fd).is_some() && ownership::owns_tables() {
            let before = table::load(fd);
            if table::open(fd, before, record) {
                reclaim::drop_reference(before);
                if before.is_ours() {
                    // It was closed without a hook.
                    serve::expect_bare_calls();
                }
                range_locks::settle(volume, ino, fd);
                if fd <= 2 || !late_open::is_possible() {
                    // Streams of libc, or calls past the library, read and write it.
                    serve::publish(fd);
                }
                return Some(fd);
            }
            if settings::is_off() {
                break;
            }
        }
        // The library has left its volumes since, or the number is beyond its table.
        reclaim::retire(record);
        raw::close(fd);
        None
    }
}

fn open_in_engine(way: &Way<'_>, flags: c_int, mode: mode_t) -> Result<Opened, Reply> {
    const NEW: c_int = libc::O_CREAT | libc::O_EXCL;
    // The kernel makes no files without a name: they are made here also where names are watched.
    if way.volume.are_names_watched() && !is_unnamed(flags) {
        return Err(Reply::Pass);
    }
    if flags & libc::O_PATH != 0 && flags & libc::O_DIRECTORY == 0 {
        return Err(Reply::Pass);
    }
    if is_unnamed(flags) {
        return Ok(create_unnamed(way, flags, mode)?);
    }
    if flags & libc::O_DIRECTORY != 0 {
        let found = way.find(flags & libc::O_NOFOLLOW == 0)?;
        return match found.kind() {
            FileKind::Regular if flags & libc::O_CREAT == 0 => Err(Reply::Fails(libc::ENOTDIR)),
            _ => Ok(open_directory(way, &found, flags)?),
        };
    }
    let end = way.find_end()?;
    if end.wants_directory {
        return Err(Reply::Pass);
    }
    let opened = match way.named(&end) {
        Ok(_) if flags & NEW == NEW => return Err(Reply::Fails(libc::EEXIST)),
        Ok(named) if named.kind() == FileKind::Directory => open_directory(way, &named, flags),
        Ok(named) => open_existing(way, end, &named, flags),
        Err(PathStop::Missing) if flags & libc::O_CREAT != 0 => create_named(way, end, mode),
        Err(stop) => Err(stop),
    };
    Ok(opened?)
}

fn open_existing(
    way: &Way<'_>,
    end: PathEnd,
    named: &Attributes,
    flags: c_int,
) -> Result<Opened, PathStop> {
    // Links at the end are rare; the kernel follows them. What it has open may be leased, or be a running program.
    if named.kind() != FileKind::Regular || way.volume.is_open_in_kernel(named.ino) {
        return Err(PathStop::Elsewhere);
    }
    let credentials = &way.identity.credentials;
    let truncates = flags & libc::O_TRUNC != 0;
    let mut wanted = match flags & libc::O_ACCMODE {
        libc::O_RDONLY => READ,
        libc::O_WRONLY => WRITE,
        _ => READ | WRITE,
    };
    if truncates {
        wanted |= WRITE;
    }
    let writes = wanted & WRITE != 0;
    // `fs.protected_regular`
    let is_protected = flags & libc::O_CREAT != 0
        && end.directory.mode & libc::S_ISVTX != 0
        && named.uid != credentials.uid;
    let clears = truncates && named.mode & SETID != 0;
    let is_writable = !writes || way.usage.is_writable();
    if is_protected || clears || !is_writable || !credentials.may(named, wanted) {
        return Err(PathStop::Elsewhere);
    }
    let volume = way.volume;
    let file = volume.open(named.ino, Some(named.generation));
    let file = file.or(Err(PathStop::Elsewhere))?;
    let truncated = if truncates {
        truncate(way, file, named)
    } else {
        Ok(())
    };
    if truncated.is_err() || volume.is_kernel_cached(file) {
        volume.close(named.ino);
        return Err(PathStop::Elsewhere);
    }
    Ok(Opened {
        place: way.mount.place(),
        volume,
        file,
        ino: named.ino,
        is_directory: false,
        origin: origin(way, end, named.generation),
    })
}

fn open_directory(way: &Way<'_>, named: &Attributes, flags: c_int) -> Result<Opened, PathStop> {
    const CHANGING: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;
    let is_plain = flags & CHANGING == 0 && named.kind() == FileKind::Directory;
    let is_path = flags & libc::O_PATH != 0;
    if !is_plain || !is_path && !way.identity.credentials.may(named, READ) {
        return Err(PathStop::Elsewhere);
    }
    let file = way.volume.open(named.ino, Some(named.generation));
    Ok(Opened {
        place: way.mount.place(),
        volume: way.volume,
        file: file.or(Err(PathStop::Elsewhere))?,
        ino: named.ino,
        is_directory: true,
        origin: Origin {
            point: way.mount.point(),
            mount: way.mount.id(),
            generation: named.generation,
            // Its place is known from itself.
            parent: named.ino,
            name: Vec::new(),
            is_new: false,
            may_be_named: AtomicBool::new(false),
        },
    })
}

fn truncate(way: &Way<'_>, file: FileReference, named: &Attributes) -> Result<(), Errno> {
    way.volume.drop_capability(file)?;
    let change = AttributeChange {
        size_bytes: Some(0),
        ..AttributeChange::default()
    };
    way.volume.set_attributes_direct(named, &change)
}

/// Make a file, with the engine's `make`, in the directory where a way ends.
fn create(
    way: &Way<'_>,
    end: PathEnd,
    mode: mode_t,
    make: impl FnOnce(&PathEnd, &NewInode) -> egeria_engine::Outcome<Attributes>,
) -> Result<Opened, PathStop> {
    let credentials = &way.identity.credentials;
    if !way.usage.is_writable() || !credentials.may_add(&end.directory) {
        return Err(PathStop::Elsewhere);
    }
    let mode = credentials.mode_of_new(&end.directory, mode & 0o7777);
    let permissions = identity::without_umask(mode).ok_or(PathStop::Elsewhere)?;
    let new = NewInode {
        mode: libc::S_IFREG | permissions,
        uid: credentials.uid,
        gid: credentials.gid,
        rdev: 0,
    };
    let created = make(&end, &new).or(Err(PathStop::Elsewhere))?;
    let Ok(file) = way.volume.file(created.ino) else {
        way.volume.close(created.ino);
        return Err(PathStop::Elsewhere);
    };
    Ok(Opened {
        place: way.mount.place(),
        volume: way.volume,
        file,
        ino: created.ino,
        is_directory: false,
        origin: origin(way, end, created.generation),
    })
}

fn create_named(way: &Way<'_>, end: PathEnd, mode: mode_t) -> Result<Opened, PathStop> {
    let mut created = create(way, end, mode, |end, new| {
        way.volume.create_open(&end.directory, &end.name, new)
    })?;
    created.origin.is_new = true;
    Ok(created)
}

/// Whether a file without a name is to be made.
fn is_unnamed(flags: c_int) -> bool {
    flags & libc::O_TMPFILE == libc::O_TMPFILE
}

/// `O_TMPFILE`, which the mount does not know. The kernel finds the file by its number later, for who may make names in
/// the root.
fn create_unnamed(way: &Way<'_>, flags: c_int, mode: mode_t) -> Result<Opened, PathStop> {
    let is_valid = flags & libc::O_ACCMODE != libc::O_RDONLY && flags & libc::O_CREAT == 0;
    if !is_valid || !way.may_open_by_number() {
        return Err(PathStop::Elsewhere);
    }
    let directory = way.find(flags & libc::O_NOFOLLOW == 0)?;
    if directory.kind() != FileKind::Directory {
        return Err(PathStop::Elsewhere);
    }
    let end = PathEnd {
        directory,
        name: Vec::new(),
        wants_directory: false,
    };
    let mut opened = create(way, end, mode, |end, new| {
        way.volume.create_unnamed(&end.directory, new)
    })?;
    *opened.origin.may_be_named.get_mut() = flags & libc::O_EXCL == 0;
    Ok(opened)
}

fn origin(way: &Way<'_>, end: PathEnd, generation: u32) -> Origin {
    Origin {
        point: way.mount.point(),
        mount: way.mount.id(),
        generation,
        parent: end.directory.ino,
        name: end.name,
        is_new: false,
        may_be_named: AtomicBool::new(false),
    }
}
