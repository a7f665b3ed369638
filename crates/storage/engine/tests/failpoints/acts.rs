//! Every operation that takes something, on a tree that has a bit of everything.

use crate::common::*;
use egeria_engine::failpoint::{Resource, with_failures};
use egeria_engine::*;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// One operation.
pub struct Act {
    pub name: &'static str,
    /// What must be there before, beside the usual tree.
    pub prepare: fn(&Volume),
    pub run: fn(&Volume) -> Outcome<usize>,
    /// Bytes it moves when nothing is refused.
    pub bytes: usize,
    /// Refused, it may keep blocks that it reserved: zeros, and no change of size.
    pub reserves: bool,
}

impl Act {
    const fn new(name: &'static str, run: fn(&Volume) -> Outcome<usize>) -> Act {
        Act {
            name,
            prepare: |_| {},
            run,
            bytes: 0,
            reserves: false,
        }
    }

    const fn after(self, prepare: fn(&Volume)) -> Act {
        Act { prepare, ..self }
    }

    const fn bytes(self, bytes: usize) -> Act {
        Act { bytes, ..self }
    }

    const fn reserves(self) -> Act {
        Act {
            reserves: true,
            ..self
        }
    }
}

pub fn data(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed | 1)
        .collect()
}

fn find(volume: &Volume, path: &str) -> Outcome<InodeNumber> {
    path.split('/').try_fold(ROOT, |at, part| {
        volume.lookup(at, part.as_bytes()).map(|found| found.ino)
    })
}

fn opened<T>(
    volume: &Volume,
    path: &str,
    body: impl FnOnce(FileReference) -> Outcome<T>,
) -> Outcome<T> {
    let ino = find(volume, path)?;
    let file = volume.open(ino, None)?;
    let result = body(file);
    volume.close(ino);
    result
}

fn write(volume: &Volume, path: &str, at: u64, bytes: usize) -> Outcome<usize> {
    opened(volume, path, |file| volume.write(file, at, &data(9, bytes)))
}

fn append(volume: &Volume, path: &str, bytes: usize) -> Outcome<usize> {
    let append = |file| volume.append(file, &data(9, bytes));
    opened(volume, path, append).map(|(_, bytes)| bytes)
}

fn allocate(volume: &Volume, at: u64, bytes: u64, mode: AllocateMode) -> Outcome<usize> {
    let allocate = |file| volume.allocate(file, at, bytes, mode);
    opened(volume, "f", allocate).map(|()| 0)
}

fn change(volume: &Volume, path: &str, change: AttributeChange) -> Outcome<usize> {
    let changed = volume.set_attributes(find(volume, path)?, &change);
    changed.map(|_| 0)
}

fn resize(volume: &Volume, path: &str, bytes: u64) -> Outcome<usize> {
    let size = AttributeChange {
        size_bytes: Some(bytes),
        ..Default::default()
    };
    change(volume, path, size)
}

fn chmod(volume: &Volume, path: &str, permissions: u32) -> Outcome<usize> {
    let mode = AttributeChange {
        permissions: Some(permissions),
        ..Default::default()
    };
    change(volume, path, mode)
}

fn make(volume: &Volume, directory: &str, name: &str, new: &NewInode) -> Outcome<usize> {
    let directory = match directory {
        "" => ROOT,
        path => find(volume, path)?,
    };
    volume.create(directory, name.as_bytes(), new).map(|_| 0)
}

fn rename(volume: &Volume, from: &str, to: &str, mode: RenameMode) -> Outcome<usize> {
    let place = |path: &str| -> Outcome<(InodeNumber, Vec<u8>)> {
        match path.rsplit_once('/') {
            None => Ok((ROOT, path.into())),
            Some((above, name)) => Ok((find(volume, above)?, name.into())),
        }
    };
    let ((from, name), (to, new_name)) = (place(from)?, place(to)?);
    volume.rename(from, &name, to, &new_name, mode).map(|()| 0)
}

/// The usual tree.
pub fn prepare(volume: &Volume) {
    let made = || -> Outcome<()> {
        for directory in ["d", "e"] {
            make(volume, "", directory, &DIRECTORY)?;
        }
        make(volume, "d", "sub", &DIRECTORY)?;
        for (directory, name, bytes) in [("", "f", 30_000), ("", "g", 100), ("d", "x", 9000)] {
            make(volume, directory, name, &FILE)?;
            let path = format!("{directory}/{name}");
            write(volume, path.trim_start_matches('/'), 0, bytes)?;
        }
        volume.link(find(volume, "g")?, find(volume, "e")?, b"twin")?;
        volume.symlink(ROOT, b"s", b"f", 0, 0)?;
        volume.set_xattr(find(volume, "f")?, b"user.a", b"b", XattrMode::Any)
    };
    made().expect("the usual tree");
}

/// The next change of the inode's attributes needs room in its log.
fn fill_log(volume: &Volume, path: &str) {
    for turn in 0..10_000 {
        let (outcome, asked) = with_failures(Resource::Blocks, 0..u64::MAX, || {
            chmod(volume, path, 0o600 | (turn & 7))
        });
        if asked > 0 {
            return;
        }
        outcome.expect("chmod");
    }
    panic!("no end of the log of {path}");
}

/// So many names in `d` that its table is nearly full.
fn crowd(volume: &Volume) {
    for number in 0..382 {
        make(volume, "d", &format!("n{number}"), &FILE).expect("a name");
    }
}

pub const ACTS: &[Act] = &[
    Act::new("create", |v| make(v, "d", "new", &FILE)),
    Act::new("mkdir", |v| make(v, "d", "new", &DIRECTORY)),
    Act::new("create in a crowded directory", |v| {
        make(v, "d", "new", &FILE)
    })
    .after(crowd),
    Act::new("create where the log is full", |v| {
        make(v, "d", "new", &FILE)
    })
    .after(|v| fill_log(v, "d")),
    Act::new("create unnamed", |v| {
        let made = v.create_unnamed(find(v, "d")?, &FILE)?;
        v.close(made.ino);
        Ok(0)
    }),
    Act::new("symlink", |v| {
        let made = v.symlink(find(v, "d")?, b"new", &[b't'; 3000], 0, 0);
        made.map(|_| 0)
    }),
    Act::new("link", |v| {
        v.link(find(v, "f")?, find(v, "e")?, b"new").map(|_| 0)
    }),
    Act::new("link where the log is full", |v| {
        v.link(find(v, "f")?, find(v, "e")?, b"new").map(|_| 0)
    })
    .after(|v| fill_log(v, "f")),
    Act::new("unlink", |v| v.unlink(ROOT, b"f").map(|()| 0)),
    Act::new("unlink where the log is full", |v| {
        v.unlink(find(v, "e")?, b"twin").map(|()| 0)
    })
    .after(|v| {
        fill_log(v, "e");
        fill_log(v, "g");
    }),
    Act::new("rmdir", |v| {
        v.remove_directory(find(v, "d")?, b"sub").map(|()| 0)
    }),
    Act::new("rmdir where the log is full", |v| {
        v.remove_directory(find(v, "d")?, b"sub").map(|()| 0)
    })
    .after(|v| fill_log(v, "d")),
    Act::new("rename", |v| rename(v, "f", "d/new", RenameMode::NoReplace)),
    Act::new("rename over a file", |v| {
        rename(v, "f", "d/x", RenameMode::Replace)
    }),
    Act::new("rename of a directory", |v| {
        rename(v, "d/sub", "e/new", RenameMode::Replace)
    }),
    Act::new("rename where logs are full", |v| {
        rename(v, "d/x", "e/new", RenameMode::Replace)
    })
    .after(|v| {
        fill_log(v, "d");
        fill_log(v, "e");
        fill_log(v, "d/x");
    }),
    Act::new("exchange", |v| {
        rename(v, "d/sub", "e/twin", RenameMode::Exchange)
    })
    .after(|v| {
        fill_log(v, "d");
        fill_log(v, "e");
    }),
    Act::new("overwrite of a block", |v| write(v, "f", 4096, 4096)).bytes(4096),
    Act::new("overwrite of edges", |v| write(v, "f", 5000, 7000)).bytes(7000),
    Act::new("overwrite where the log is full", |v| {
        write(v, "f", 4096, 4096)
    })
    .after(|v| fill_log(v, "f"))
    .bytes(4096),
    Act::new("write beyond the end", |v| write(v, "f", 100_000, 9000)).bytes(9000),
    Act::new("write far beyond the end", |v| {
        write(v, "f", 5_000_000_000, 9000)
    })
    .bytes(9000),
    Act::new("append", |v| append(v, "f", 9000)).bytes(9000),
    Act::new("append in place where the log is full", |v| {
        append(v, "g", 100)
    })
    .after(|v| fill_log(v, "g"))
    .bytes(100),
    Act::new("truncate", |v| resize(v, "f", 5000)),
    Act::new("truncate where the log is full", |v| resize(v, "f", 5000))
        .after(|v| fill_log(v, "f")),
    Act::new("truncate up", |v| resize(v, "f", 500_000)),
    Act::new("punch", |v| {
        allocate(v, 5000, 15_000, AllocateMode::PunchHole)
    }),
    Act::new("allocate", |v| {
        allocate(v, 0, 200_000, AllocateMode::Extend)
    })
    .reserves(),
    Act::new("allocate beyond the end", |v| {
        allocate(v, 40_000, 200_000, AllocateMode::KeepSize)
    })
    .reserves(),
    Act::new("zero", |v| {
        allocate(v, 5000, 100_000, AllocateMode::ZeroRange)
    }),
    Act::new("zero inside", |v| {
        allocate(v, 5000, 15_000, AllocateMode::ZeroRangeKeepSize)
    }),
    Act::new("chmod where the log is full", |v| chmod(v, "f", 0o4711)).after(|v| fill_log(v, "f")),
    Act::new("setxattr", |v| {
        v.set_xattr(find(v, "f")?, b"user.b", &[b'x'; 2000], XattrMode::Any)?;
        Ok(0)
    }),
    Act::new("removexattr where the log is full", |v| {
        v.remove_xattr(find(v, "f")?, b"user.a").map(|()| 0)
    })
    .after(|v| fill_log(v, "f")),
    Act::new("read", |v| {
        let mut bytes = vec![0; 30_000];
        opened(v, "f", |file| v.read(file, 0, &mut bytes))
    })
    .bytes(30_000),
    Act::new("lookup, list and look", |v| {
        let d = find(v, "d")?;
        v.read_directory(d, 0, &mut |_| true)?;
        v.read_link(find(v, "s")?)?;
        v.list_xattr(find(v, "f")?)?;
        v.extents(find(v, "f")?)?;
        v.attributes(find(v, "d/x")?).map(|_| 0)
    })
    .after(crowd),
    Act::new("open of many", |v| {
        let name = |number: u64| format!("d/n{number}");
        let mut open = Vec::new();
        for number in 0..300 {
            match find(v, &name(number)).and_then(|ino| v.open(ino, None)) {
                Ok(file) => open.push(file.ino()),
                Err(errno) => {
                    open.into_iter().for_each(|ino| v.close(ino));
                    return Err(errno);
                }
            }
        }
        open.into_iter().for_each(|ino| v.close(ino));
        Ok(0)
    })
    .after(crowd),
];
