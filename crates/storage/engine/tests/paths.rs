//! Paths mean the same as in the kernel, for everybody: random trees, users and paths, on a volume and on tmpfs.

mod common;
use common::*;
use egeria_engine::rights::{Credentials, EXECUTE, READ, WRITE};
use egeria_engine::*;
use egeria_harness::testing::is_root;
use proptest::prelude::*;
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, Stat, Uid, accessat, chmodat, chownat, mkdirat, mknodat,
    statat, symlinkat, unlinkat,
};
use rustix::process::umask;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::collections::HashMap;
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
        if path.starts_with('/') {
            format!(".{path}")
        } else {
            path
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

/// What a call answered, or its errno.
fn answer<T>(answer: rustix::io::Result<T>) -> Result<T, i32> {
    answer.map_err(rustix::io::Errno::raw_os_error)
}

/// Run `body` in a thread that is somebody else towards file systems.
fn act_as<T: Send>(uid: u32, groups: &[u32], body: impl FnOnce() -> T + Send) -> T {
    let act = || {
        let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
        // Of this thread alone.
        set_thread_groups(&groups).expect("setgroups");
        set_thread_res_gid(group, group, group).expect("setresgid");
        set_thread_res_uid(user, user, user).expect("setresuid");
        body()
    };
    std::thread::scope(|scope| scope.spawn(act).join().expect("a thread"))
}

struct Twins {
    volume: Arc<Volume>,
    base: std::fs::File,
    base_path: std::path::PathBuf,
    /// Inode of the tmpfs to inode of the volume.
    same: HashMap<u64, InodeNumber>,
    protects_symlinks: bool,
}

impl Twins {
    fn stat(&self, path: &str, flags: AtFlags) -> Result<Stat, i32> {
        answer(statat(&self.base, path, flags))
    }

    fn ino_at(&self, path: &str) -> u64 {
        let stat = self.stat(path, AtFlags::SYMLINK_NOFOLLOW);
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
        let path = new.at.join("/");
        let (base, uid, gid) = (&self.base, new.uid, new.gid);
        let inode = |kind| NewInode {
            mode: kind | new.mode,
            uid,
            gid,
            rdev: 0,
        };
        let name = name.as_bytes();
        let own = Mode::RUSR | Mode::WUSR;
        let (twin, made) = match &new.kind {
            Kind::Directory => (
                mkdirat(base, &path, Mode::RWXU),
                self.volume.create(parent, name, &inode(libc::S_IFDIR)),
            ),
            Kind::File => (
                mknodat(base, &path, FileType::RegularFile, own, 0),
                self.volume.create(parent, name, &inode(libc::S_IFREG)),
            ),
            Kind::Link(target) => (
                symlinkat(target.as_str(), base, &path),
                self.volume
                    .symlink(parent, name, target.as_bytes(), uid, gid),
            ),
        };
        let twin = answer(twin);
        assert_eq!(twin, made.map(drop).map_err(|errno| errno.0), "{new:?}");
        let Ok(made) = made else { return };
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        chownat(base, &path, Some(user), Some(group), flags).expect("chown");
        if !matches!(new.kind, Kind::Link(_)) {
            let mode = Mode::from_raw_mode(new.mode);
            chmodat(base, &path, mode, AtFlags::empty()).expect("chmod");
        }
        self.same.insert(self.ino_at(&path), made.ino);
    }

    fn check_canonical(
        &self,
        walker: &PathWalker<'_>,
        root: Attributes,
        path: &str,
    ) -> Result<(), TestCaseError> {
        use std::os::unix::ffi::OsStrExt;
        // A link at the end may lead nowhere.
        let Ok(canonical) = walker.canonical_path(root, Vec::new(), path.as_bytes()) else {
            return Ok(());
        };
        let twin = std::fs::canonicalize(self.base_path.join(path)).expect("it is there");
        let twin = twin.as_os_str().as_bytes();
        let inside = twin.strip_prefix(self.base_path.as_os_str().as_bytes());
        prop_assert_eq!(inside, Some(&canonical[..]));
        Ok(())
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
        let base = &self.base;
        match *act {
            Act::Find { follows } => {
                let flags = if follows {
                    AtFlags::empty()
                } else {
                    AtFlags::SYMLINK_NOFOLLOW
                };
                let twin = act_as(uid, groups, || self.stat(path, flags));
                match walker.find(root, path.as_bytes(), follows) {
                    Ok(found) => {
                        let twin = twin.map(|stat| self.same.get(&stat.st_ino));
                        prop_assert_eq!(twin, Ok(Some(&found.ino)));
                        self.check_canonical(&walker, root, path)?;
                    }
                    Err(PathStop::Missing) => prop_assert_eq!(twin.err(), Some(libc::ENOENT)),
                    // Nothing is left to the kernel without a reason.
                    Err(PathStop::Elsewhere) => {
                        let inside = |stat: Stat| self.same.contains_key(&stat.st_ino);
                        prop_assert!(!twin.is_ok_and(inside) || path.contains(".."));
                    }
                }
            }
            Act::May(wanted) => {
                let Ok(found) = walker.find(root, path.as_bytes(), true) else {
                    return Ok(());
                };
                let wanted_there = Access::from_bits_retain(wanted);
                let ask = || accessat(base, path, wanted_there, AtFlags::EACCESS);
                let twin = act_as(uid, groups, ask);
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
                let remove = || unlinkat(base, path, AtFlags::empty());
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
                let make = || mkdirat(base, path, Mode::from_raw_mode(0o755));
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
                    let twin = self.stat(path, AtFlags::empty()).expect("just made");
                    self.same.insert(twin.st_ino, made.ino);
                }
            }
        }
        Ok(())
    }
}

#[test]
fn paths_mean_what_they_mean_in_the_kernel() {
    if !is_root() {
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
    // Permissions are set for all to see.
    umask(Mode::WGRP | Mode::WOTH);
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
            base_path: base.path().to_owned(),
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
