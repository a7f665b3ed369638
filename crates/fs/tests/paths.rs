//! Paths mean the same as in the kernel, for everybody: random trees, users and paths, on a volume and on tmpfs.

mod common;
use common::*;
use egeria_fs::rights::{Credentials, EXECUTE, READ, WRITE};
use egeria_fs::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::sync::Arc;

const USERS: [u32; 3] = [0, 1000, 1001];
const GROUPS: [u32; 2] = [2000, 2001];
const NAMES: [&str; 3] = ["a", "b", "c"];
const MODES: [u32; 8] = [0o777, 0o755, 0o700, 0o070, 0o007, 0o1777, 0o444, 0o333];
/// What root can do with files; another `fsuid` is without it.
const ALL_CAPABILITIES: u64 = u64::MAX;

#[derive(Clone, Debug)]
enum Kind {
    Directory,
    File,
    Link(String),
}

/// Made where the path leads, when it leads to nothing yet.
#[derive(Clone, Debug)]
struct New {
    at: Vec<&'static str>,
    kind: Kind,
    mode: u32,
    uid: u32,
    gid: u32,
}

fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "c", "a", "b", "c", ".", "..", ""]);
    let end = prop::sample::select(vec!["", "", "", "/"]);
    (prop::collection::vec(part, 1..6), end).prop_map(|(parts, end)| {
        let path = parts.join("/") + end;
        match path.starts_with('/') {
            true => format!(".{path}"),
            false => path,
        }
    })
}

fn new() -> impl Strategy<Value = New> {
    let target = prop_oneof![
        5 => path().prop_filter("no empty targets", |path| !path.is_empty()),
        1 => Just("/nowhere".to_owned())
    ];
    let kind = prop_oneof![
        4 => Just(Kind::Directory),
        2 => Just(Kind::File),
        3 => target.prop_map(Kind::Link)
    ];
    (
        prop::collection::vec(prop::sample::select(NAMES.to_vec()), 1..4),
        kind,
        prop::sample::select(MODES.to_vec()),
        prop::sample::select(USERS.to_vec()),
        prop::sample::select(GROUPS.to_vec()),
    )
        .prop_map(|(at, kind, mode, uid, gid)| New {
            at,
            kind,
            mode,
            uid,
            gid,
        })
}

#[derive(Clone, Debug)]
enum Act {
    Find { follows: bool },
    May(u32),
    Remove,
    MakeDirectory,
}

fn act() -> impl Strategy<Value = (Act, String, u32, Vec<u32>)> {
    let act = prop_oneof![
        4 => any::<bool>().prop_map(|follows| Act::Find { follows }),
        2 => prop::sample::select(vec![READ, WRITE, EXECUTE, READ | WRITE, 7]).prop_map(Act::May),
        1 => Just(Act::Remove),
        1 => Just(Act::MakeDirectory),
    ];
    let groups = prop::sample::subsequence(GROUPS.to_vec(), 0..=2);
    (act, path(), prop::sample::select(USERS.to_vec()), groups)
}

fn failed(answer: i64) -> Result<(), i32> {
    match answer {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
    }
}

/// Run `body` in a thread that is somebody else towards file systems.
fn act_as<T: Send>(uid: u32, groups: &[u32], body: impl FnOnce() -> T + Send) -> T {
    let act = || {
        // SAFETY: of this thread alone; the list is as long as it says.
        unsafe {
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
            libc::syscall(libc::SYS_setfsgid, uid);
            libc::syscall(libc::SYS_setfsuid, uid);
        }
        body()
    };
    std::thread::scope(|scope| scope.spawn(act).join().expect("a thread"))
}

struct Twins {
    volume: Arc<Volume>,
    base: std::fs::File,
    /// Inode of the tmpfs to inode of the volume.
    same: HashMap<u64, InodeNumber>,
    protects_symlinks: bool,
}

impl Twins {
    fn stat(&self, path: &CString, flags: i32) -> Result<libc::stat, i32> {
        // SAFETY: all-zero is a valid stat, which the call fills.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            let base = self.base.as_raw_fd();
            failed(libc::fstatat(base, path.as_ptr(), &raw mut stat, flags).into()).map(|()| stat)
        }
    }

    fn ino_at(&self, path: &CString) -> u64 {
        let stat = self.stat(path, libc::AT_SYMLINK_NOFOLLOW);
        stat.expect("just made").st_ino
    }

    /// Make the same in both; nothing where the way there is none.
    fn make(&mut self, new: &New) {
        let mut parent = InodeNumber::ROOT;
        let (name, above) = new.at.split_last().expect("not empty");
        for step in above {
            match self.volume.lookup(parent, step.as_bytes()) {
                Ok(found) if found.kind() == FileKind::Directory => parent = found.ino,
                _ => return,
            }
        }
        let path = CString::new(new.at.join("/")).expect("no NUL");
        let (base, uid, gid) = (self.base.as_raw_fd(), new.uid, new.gid);
        let inode = |kind| NewInode {
            mode: kind | new.mode,
            uid,
            gid,
            rdev: 0,
        };
        let name = name.as_bytes();
        // SAFETY: terminated strings and a descriptor of ours.
        let (twin, made) = unsafe {
            match &new.kind {
                Kind::Directory => (
                    failed(libc::mkdirat(base, path.as_ptr(), 0o700).into()),
                    self.volume.create(parent, name, &inode(libc::S_IFDIR)),
                ),
                Kind::File => (
                    failed(libc::mknodat(base, path.as_ptr(), libc::S_IFREG | 0o600, 0).into()),
                    self.volume.create(parent, name, &inode(libc::S_IFREG)),
                ),
                Kind::Link(target) => {
                    let c_target = CString::new(target.as_str()).expect("no NUL");
                    (
                        failed(libc::symlinkat(c_target.as_ptr(), base, path.as_ptr()).into()),
                        self.volume
                            .symlink(parent, name, target.as_bytes(), uid, gid),
                    )
                }
            }
        };
        assert_eq!(twin, made.map(drop).map_err(|errno| errno.0), "{new:?}");
        let Ok(made) = made else { return };
        // SAFETY: as above.
        unsafe {
            let flags = libc::AT_SYMLINK_NOFOLLOW;
            failed(libc::fchownat(base, path.as_ptr(), uid, gid, flags).into()).expect("chown");
            if !matches!(new.kind, Kind::Link(_)) {
                failed(libc::fchmodat(base, path.as_ptr(), new.mode, 0).into()).expect("chmod");
            }
        }
        self.same.insert(self.ino_at(&path), made.ino);
    }

    fn check(
        &mut self,
        act: &Act,
        path: &str,
        uid: u32,
        groups: &[u32],
    ) -> Result<(), TestCaseError> {
        let credentials = Credentials {
            uid,
            gid: uid,
            groups: groups.to_vec(),
            capabilities: if uid == 0 { ALL_CAPABILITIES } else { 0 },
        };
        let volume = self.volume.clone();
        let walker = PathWalker {
            volume: &volume,
            credentials: &credentials,
            protects_symlinks: self.protects_symlinks,
        };
        let root = walker.directory(InodeNumber::ROOT).expect("the root");
        let c_path = CString::new(path).expect("no NUL");
        let base = self.base.as_raw_fd();
        match *act {
            Act::Find { follows } => {
                let flags = if follows {
                    0
                } else {
                    libc::AT_SYMLINK_NOFOLLOW
                };
                let twin = act_as(uid, groups, || self.stat(&c_path, flags));
                match walker.find(root, path.as_bytes(), follows) {
                    Ok(found) => {
                        let twin = twin.map(|stat| self.same.get(&stat.st_ino));
                        prop_assert_eq!(twin, Ok(Some(&found.ino)));
                    }
                    Err(PathStop::Missing) => prop_assert_eq!(twin.err(), Some(libc::ENOENT)),
                    // Nothing is left to the kernel without a reason.
                    Err(PathStop::Elsewhere) => {
                        let inside = |stat: libc::stat| self.same.contains_key(&stat.st_ino);
                        prop_assert!(!twin.is_ok_and(inside) || path.contains(".."));
                    }
                }
            }
            Act::May(wanted) => {
                let Ok(found) = walker.find(root, path.as_bytes(), true) else {
                    return Ok(());
                };
                let twin = act_as(uid, groups, || {
                    // SAFETY: a terminated string and a descriptor of ours.
                    failed(unsafe {
                        let flags = libc::AT_EACCESS;
                        libc::syscall(libc::SYS_faccessat2, base, c_path.as_ptr(), wanted, flags)
                    })
                });
                prop_assert_eq!(twin.is_ok(), credentials.may(&found, wanted));
            }
            Act::Remove => {
                let Ok(end) = walker.find_end(root, path.as_bytes()) else {
                    return Ok(());
                };
                let Ok(named) = walker.named(&end) else {
                    return Ok(());
                };
                let is_plain = named.kind() != FileKind::Directory && !end.wants_directory;
                let is_allowed = is_plain && credentials.may_remove(&end.directory, &named);
                // SAFETY: as above.
                let remove = || failed(unsafe { libc::unlinkat(base, c_path.as_ptr(), 0) }.into());
                let twin = act_as(uid, groups, remove);
                prop_assert_eq!(twin.is_ok(), is_allowed, "{:?}", twin);
                if is_allowed {
                    let removed = volume.unlink(end.directory.ino, &end.name);
                    prop_assert_eq!(removed, Ok(()));
                }
            }
            Act::MakeDirectory => {
                let Ok(end) = walker.find_end(root, path.as_bytes()) else {
                    return Ok(());
                };
                let is_new = walker.named(&end) == Err(PathStop::Missing);
                let is_allowed = is_new && credentials.may_add(&end.directory);
                // SAFETY: as above.
                let make = || failed(unsafe { libc::mkdirat(base, c_path.as_ptr(), 0o755) }.into());
                let twin = act_as(uid, groups, make);
                prop_assert_eq!(twin.is_ok(), is_allowed, "{:?}", twin);
                if is_allowed {
                    let new = NewInode {
                        mode: libc::S_IFDIR | 0o755,
                        uid,
                        gid: uid,
                        rdev: 0,
                    };
                    let made = volume.create(end.directory.ino, &end.name, &new);
                    let made = made.expect("made");
                    let twin = self.stat(&c_path, 0).expect("just made");
                    self.same.insert(twin.st_ino, made.ino);
                }
            }
        }
        Ok(())
    }
}

#[test]
fn paths_mean_what_they_mean_in_the_kernel() {
    // SAFETY: without arguments.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root can act as other users");
        return;
    }
    let protects = std::fs::read_to_string("/proc/sys/fs/protected_symlinks");
    let protects_symlinks = protects.is_ok_and(|text| text.trim() != "0");
    let cases =
        std::env::var("PROPTEST_CASES").map_or(300, |cases| cases.parse().expect("a number"));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let tree = prop::collection::vec(new(), 1..25);
    let acts = prop::collection::vec(act(), 1..40);
    // SAFETY: the process's own setting; permissions are set for all to see.
    unsafe { libc::umask(0o022) };
    let outcome = runner.run(&(tree, acts), |(tree, acts)| {
        let scratch = Scratch::new(1, 8 << 20);
        let base = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let opened = std::fs::File::open(base.path()).expect("it is there");
        use std::os::unix::fs::MetadataExt;
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let mut twins = Twins {
            volume: scratch.attach(),
            same: HashMap::from([(opened.metadata().expect("stat").ino(), InodeNumber::ROOT)]),
            base: opened,
            protects_symlinks,
        };
        tree.iter().for_each(|new| twins.make(new));
        for (act, path, uid, groups) in &acts {
            twins.check(act, path, *uid, groups)?;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
