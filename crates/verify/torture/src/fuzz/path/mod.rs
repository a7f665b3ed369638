//! Paths that lead astray: loops and long chains of links, links out of the volume and back, names and paths of the greatest
//! length and beyond, `..` at the root, directories that are gone. The engine goes them for random users, and what it
//! says is what the kernel says on its own tmpfs, or is left to the kernel for a reason.

mod draw;
mod twins;

use super::subject::{Case, Observations, Subject};
use draw::{CHAIN, GROUPS, Kind, New, USERS, link_of_chain};
use egeria_engine::rights::{Credentials, EXECUTE, READ, WRITE};
use egeria_engine::*;
use egeria_stats::rng::Rng;
use rustix::fs::{Access, AtFlags, Mode};
use rustix::fs::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use twins::{Start, Twins};

/// Ways gone in a case.
const WAYS: u64 = 16;
/// A directory that is made for who begins there, and may be gone.
const HOME: &[u8] = b"home";

pub(super) struct Paths {
    twins: Twins,
    protects_symlinks: bool,
}

/// Why this cannot be tried here; nothing when it can.
pub(super) fn missing() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then_some("it needs root, to be several users")
}

/// What can be wrong for a reason in the tree, wherever one goes.
#[derive(Default)]
struct Reasons {
    /// A link leads out of the volume, or ways begin in a directory that is gone.
    outside: bool,
    longest_target: usize,
}

impl Reasons {
    fn note(&mut self, new: &New) {
        if let Kind::Link(target) = &new.kind {
            self.outside |= target.first() == Some(&b'/') || leads_up(target);
            self.longest_target = self.longest_target.max(target.len());
        }
    }

    /// Whether a way may be left to the kernel although that comes to an end.
    fn are_there(&self, path: &[u8]) -> bool {
        self.outside || leads_up(path) || path.len() + self.longest_target > MAX_PATH_BYTES
    }
}

fn leads_up(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name == b"..")
}

/// A kind of path in a word.
fn shape(path: &[u8]) -> &'static str {
    match path.len() {
        0 => "empty",
        MAX_PATH_BYTES.. => "long",
        _ if path.starts_with(b"l") => "chained",
        _ if path.ends_with(b"/") => "slashed",
        _ if leads_up(path) => "rising",
        _ => "plain",
    }
}

struct User {
    credentials: Credentials,
}

impl User {
    fn draw(rng: &mut Rng) -> User {
        let uid = USERS[rng.index(USERS.len())];
        User {
            credentials: Credentials {
                uid,
                gid: uid,
                groups: GROUPS.into_iter().filter(|_| rng.one_in(2)).collect(),
                capabilities: if uid == 0 { u64::MAX } else { 0 },
            },
        }
    }

    /// In a word, for the story.
    fn name(&self) -> &'static str {
        match (self.credentials.uid, self.credentials.groups.is_empty()) {
            (0, _) => "root",
            (_, true) => "loner",
            (_, false) => "member",
        }
    }

    /// Run `body` on a thread that is this user towards file systems.
    fn act<T: Send>(&self, body: impl FnOnce() -> rustix::io::Result<T> + Send) -> Result<T, i32> {
        let Credentials { uid, groups, .. } = &self.credentials;
        let act = || {
            // Of this thread alone.
            let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
            let (user, group) = (Uid::from_raw(*uid), Gid::from_raw(*uid));
            set_thread_groups(&groups)
                .and_then(|()| set_thread_res_gid(group, group, group))
                .and_then(|()| set_thread_res_uid(user, user, user))
                .map_err(|errno| errno.raw_os_error())?;
            body().map_err(|errno| errno.raw_os_error())
        };
        std::thread::scope(|scope| match scope.spawn(act).join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Paths {
    pub(super) fn new() -> Result<Paths, String> {
        if let Some(why) = missing() {
            return Err(why.to_owned());
        }
        // What is made has the mode that is asked for.
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let protects = std::fs::read_to_string("/proc/sys/fs/protected_symlinks");
        Ok(Paths {
            twins: Twins::new()?,
            protects_symlinks: protects.is_ok_and(|text| text.trim() != "0"),
        })
    }

    /// The tree of a case.
    fn make(&mut self, case: &Case, observed: &mut Observations) -> Result<Reasons, String> {
        let mut reasons = Reasons::default();
        let base = self.twins.base().to_vec();
        let mut all: Vec<New> = Vec::new();
        if case.sample % 2 == 1 {
            all.extend((0..CHAIN).map(|at| New {
                names: vec![link_of_chain(at)],
                kind: Kind::Link(match at + 1 {
                    CHAIN => b"a".to_vec(),
                    next => link_of_chain(next),
                }),
                mode: 0o777,
                uid: 0,
                gid: 0,
            }));
        }
        all.extend(
            case.mutation_seeds
                .iter()
                .map(|seed| draw::new(&mut Rng::new(*seed), &base)),
        );
        for new in &all {
            observed.line(|| format!("{new:?}"));
            reasons.note(new);
            self.twins.make(new)?;
        }
        Ok(reasons)
    }

    /// Where ways begin: at the root, or in a directory that may be gone.
    fn start(&mut self, case: &Case) -> Result<Start, String> {
        if case.sample < 2 {
            return self.twins.open(InodeNumber::ROOT, b".");
        }
        self.twins.make(&New {
            names: vec![HOME.to_vec()],
            kind: Kind::Directory,
            mode: 0o755,
            uid: USERS[1],
            gid: GROUPS[0],
        })?;
        let home = self.twins.volume.lookup(InodeNumber::ROOT, HOME);
        let home = home.map_err(|errno| errno.to_string())?;
        let start = self.twins.open(home.ino, HOME)?;
        if begins_nowhere(case) {
            self.twins.remove(HOME)?;
        }
        Ok(start)
    }

    /// One way, and what is wrong about it.
    fn go(
        &mut self,
        start: &Start,
        reasons: &Reasons,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let (user, path, what) = (User::draw(rng), draw::path(rng), rng.below(8));
        observed.line(|| format!("{what}: user {:?}", user.credentials));
        observed.line(|| String::from_utf8_lossy(&path).into_owned());
        let volume = self.twins.volume.clone();
        let walker = PathWalker {
            volume: &volume,
            credentials: &user.credentials,
            protects_symlinks: self.protects_symlinks,
        };
        let begin = walker.directory(start.ino);
        match what {
            0..4 => {
                let follows = rng.one_in(2);
                let found = begin.and_then(|begin| walker.find(begin, &path, follows));
                self.judge(start, reasons, &user, (&path, follows), found, observed)
            }
            4 | 5 => {
                let wanted = [READ, WRITE, EXECUTE, READ | WRITE][rng.index(4)];
                match begin.and_then(|begin| walker.find(begin, &path, true)) {
                    Ok(found) => may(start, &user, &path, &found, wanted),
                    Err(_) => Ok(()),
                }
            }
            _ => match begin.and_then(|begin| walker.find_end(begin, &path)) {
                Ok(end) => self.change(start, &user, &path, (&walker, &end), what == 6, observed),
                Err(_) => Ok(()),
            },
        }
    }

    fn judge(
        &self,
        start: &Start,
        reasons: &Reasons,
        user: &User,
        (path, follows): (&[u8], bool),
        found: Result<Attributes, PathStop>,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let flags = if follows {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let twin = user.act(|| rustix::fs::statat(&start.directory, path, flags));
        let twin = twin.map(|stat| self.twins.twin(stat.st_ino));
        let said = twin.map_or_else(|errno| Errno(errno).to_string(), |ino| format!("{ino:?}"));
        let (who, what) = (user.name(), shape(path));
        observed.record(&match found {
            Ok(found) => format!("{who} by a {what} path: {:?}", found.kind()),
            Err(stop) => format!("{who} by a {what} path: {stop:?}, the kernel {said}"),
        });
        let agrees = match found {
            Ok(found) => twin == Ok(Some(found.ino)),
            Err(PathStop::Missing) => twin == Err(libc::ENOENT),
            // Nothing is left to the kernel without a reason.
            Err(PathStop::Elsewhere) => {
                !matches!(twin, Ok(Some(_))) || path.is_empty() || reasons.are_there(path)
            }
        };
        if agrees {
            Ok(())
        } else {
            Err(format!(
                "a path means {:?}, for the kernel {said}",
                found.map(|found| found.ino)
            ))
        }
    }

    /// A name is made or removed where a path ends, if the user may.
    fn change(
        &mut self,
        start: &Start,
        user: &User,
        path: &[u8],
        (walker, end): (&PathWalker<'_>, &PathEnd),
        removes: bool,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let named = walker.named(end);
        let (volume, credentials) = (walker.volume, &user.credentials);
        let (directory, name) = (end.directory.ino, &end.name[..]);
        let is_allowed = match (&named, removes) {
            (Ok(named), true) => {
                let is_plain = named.kind() != FileKind::Directory && !end.wants_directory;
                is_plain && credentials.may_remove(&end.directory, named)
            }
            (Err(PathStop::Missing), false) => credentials.may_add(&end.directory),
            _ => return Ok(()),
        };
        let private = Mode::from_raw_mode(0o755);
        let twin = user.act(|| {
            if removes {
                rustix::fs::unlinkat(&start.directory, path, AtFlags::empty())
            } else {
                rustix::fs::mkdirat(&start.directory, path, private)
            }
        });
        observed.record(&format!("removes: {removes}, allowed: {is_allowed}"));
        if twin.is_ok() != is_allowed {
            return Err(format!(
                "a change is allowed: {is_allowed}, by the kernel: {twin:?}"
            ));
        }
        if !is_allowed {
            return Ok(());
        }
        let failed = |errno: Errno| format!("a change that is allowed fails: {errno}");
        if removes {
            return volume.unlink(directory, name).map_err(failed);
        }
        let new = NewInode {
            mode: libc::S_IFDIR | 0o755,
            uid: credentials.uid,
            gid: credentials.gid,
            rdev: 0,
        };
        let made = volume.create(directory, name, &new).map_err(failed)?;
        self.twins.note(start, path, made.ino)
    }
}

/// The directory is gone in which ways begin.
fn begins_nowhere(case: &Case) -> bool {
    case.sample >= 4
}

/// Whether the user may, of what was found.
fn may(
    start: &Start,
    user: &User,
    path: &[u8],
    found: &Attributes,
    wanted: u32,
) -> Result<(), String> {
    let access = Access::from_bits_retain(wanted);
    let twin = user.act(|| rustix::fs::accessat(&start.directory, path, access, AtFlags::EACCESS));
    if twin.is_ok() == user.credentials.may(found, wanted) {
        Ok(())
    } else {
        Err(format!(
            "may {wanted}: {}, for the kernel {twin:?}",
            twin.is_err()
        ))
    }
}

impl Subject for Paths {
    fn samples(&self) -> usize {
        6
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let case = &Case {
            sample: case.sample % self.samples() as u64,
            ..case.clone()
        };
        let mut reasons = self.make(case, observed)?;
        reasons.outside |= begins_nowhere(case);
        let start = self.start(case)?;
        let mut rng = Rng::new(case.use_seed);
        let went = (0..WAYS).try_for_each(|_| self.go(&start, &reasons, &mut rng, observed));
        self.twins.volume.close(start.ino);
        drop(start);
        went?;
        self.twins.empty()
    }
}
