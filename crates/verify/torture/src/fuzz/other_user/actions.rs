//! What the other user does. Everything is done with his rights, but for the mounts: root's helper makes those for him.

use super::super::subject::Observations;
use super::super::values::HostileValues;
use super::fixture::Fixture;
use super::user::as_user;
use egeria_engine::format::*;
use egeria_engine::{AttachMode, AttachOptions, Volume};
use egeria_stats::rng::Rng;
use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use rustix::mount::{MountFlags, mount};
use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The byte that whoever makes a session locks; those who have the volume attached lock the next one.
const LOCKED_TO_CREATE: i64 = 0x4000_0000_0000_0000;

/// What a case leaves, and what is held open in it.
pub(super) struct Actions<'a> {
    fixture: &'a Fixture,
    /// What could be taken for pools.
    paths: Vec<PathBuf>,
    /// Pools of his that root took over, as by copying them.
    given: Vec<PathBuf>,
    held: Vec<File>,
    listening: Vec<UnixListener>,
    attached: Option<Arc<Volume>>,
    made: u64,
}

/// What is at a name.
#[derive(Clone, Copy, Debug)]
enum Thing {
    Fifo,
    Socket,
    Directory,
    LinkToRoot,
    LinkToNothing,
    Bytes,
    HeldOpen,
}

impl Thing {
    const ALL: [Thing; 7] = [
        Thing::Fifo,
        Thing::Socket,
        Thing::Directory,
        Thing::LinkToRoot,
        Thing::LinkToNothing,
        Thing::Bytes,
        Thing::HeldOpen,
    ];
}

impl Drop for Actions<'_> {
    fn drop(&mut self) {
        let volume = self.attached.take();
        // It was attached with the other user's rights, and so it is left.
        let _ = as_user(self.fixture.other_user, move || drop(volume));
    }
}

impl<'a> Actions<'a> {
    pub(super) fn begin(fixture: &'a Fixture) -> Result<Actions<'a>, String> {
        Ok(Actions {
            fixture,
            paths: Vec::new(),
            given: Vec::new(),
            held: Vec::new(),
            listening: Vec::new(),
            attached: None,
            made: 0,
        })
    }

    /// What the other user would have root open.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// What root took over from him.
    pub(super) fn given(&self) -> &[PathBuf] {
        &self.given
    }

    /// The last pool becomes root's.
    fn give(&mut self, observed: &mut Observations) {
        let Some(path) = self.paths.pop() else { return };
        let is_plain = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file());
        let given = is_plain
            && lchown(&path, Some(0), Some(0)).is_ok()
            && fs::set_permissions(&path, Permissions::from_mode(0o600)).is_ok();
        if given {
            observed.line(|| format!("root takes over {}", path.display()));
            self.given.push(path);
        }
    }

    /// One hostile deed. What the kernel does not let him do he does not.
    pub(super) fn act(&mut self, rng: &mut Rng, observed: &mut Observations) -> Result<(), String> {
        self.made += 1;
        if rng.one_in(6) {
            return self.mount(rng, observed);
        }
        if rng.one_in(5) {
            self.give(observed);
            return Ok(());
        }
        let other_user = self.fixture.other_user;
        let done = as_user(other_user, || match rng.below(10) {
            0..=5 => self.forge_pool(rng),
            6 => {
                let path = self.new_path();
                self.put(&path, rng)
            }
            _ => self.take_name(rng),
        })?;
        match done {
            Ok(what) => observed.line(|| what),
            Err(error) => observed.line(|| format!("cannot: {error}")),
        }
        Ok(())
    }

    fn new_path(&self) -> PathBuf {
        self.fixture.theirs.join(format!("pool-{}", self.made))
    }

    /// A pool that says what it likes, under a right checksum mostly.
    fn forge_pool(&mut self, rng: &mut Rng) -> io::Result<String> {
        let path = self.new_path();
        let index = rng.index(2);
        fs::copy(&self.fixture.theirs_whole[index], &path)?;
        let file = File::options().read(true).write(true).open(&path)?;
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let mut block = Superblock::decode(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
        for _ in 0..=rng.below(4) {
            self.change(&mut block, rng);
        }
        let mut encoded = block.encode();
        if rng.one_in(8) {
            let place = rng.index(encoded.len());
            encoded[place] ^= 1 << rng.below(8);
        }
        let copies = if rng.one_in(4) { 1 } else { 2 };
        for copy in SUPERBLOCK_COPIES.iter().take(copies) {
            file.write_all_at(&encoded, copy * BLOCK as u64)?;
        }
        if rng.one_in(3) {
            let mut line: Vec<u8> = (0..64).map(|_| rng.next_u64() as u8).collect();
            line[..8].copy_from_slice(b"EGLINE01");
            file.write_all_at(&line, SESSION_LINE_BLOCK.offset().0)?;
        }
        if rng.one_in(6) {
            file.set_len(rng.boundary_value() % (16 << 20))?;
        }
        let mode = [0o600, 0o600, 0o600, 0o644, 0o660, 0o666][rng.index(6)];
        file.set_permissions(Permissions::from_mode(mode))?;
        if rng.one_in(8) {
            fs::hard_link(&path, path.with_extension("link"))?;
        }
        if rng.one_in(3) {
            // Whoever asks sees it attached and in the making.
            hold_locks(&file, rng.one_in(2));
            self.held.push(file);
        }
        self.paths.push(path);
        Ok(format!("a pool of mode {mode:o}: {}", told_of(&block)))
    }

    fn change(&self, block: &mut Superblock, rng: &mut Rng) {
        let genuine = || {
            let bytes = fs::read(&self.fixture.theirs_whole[0]).unwrap_or_default();
            Superblock::decode(&bytes).ok()
        };
        match rng.below(8) {
            0 | 1 => block.volume = self.fixture.root_volume,
            2 | 3 => {
                let place = rng.index(block.pools.len());
                block.pools[place].path = self.any_path(rng).as_os_str().as_bytes().to_vec();
                block.pools[place].path.truncate(MAX_PATH_BYTES);
            }
            4 => block.secret = [0; 16],
            5 => block.secret = std::array::from_fn(|_| rng.next_u64() as u8),
            6 => {
                let place = rng.index(block.pools.len());
                block.pools[place].blocks = rng.near_value(block.pools[place].blocks);
                block.pool_index = rng.below(block.pools.len() as u64 + 1) as u8;
            }
            _ => match genuine() {
                Some(other) if block.pools.len() < 16 => block.pools.extend(other.pools),
                _ => block.pools.truncate(1),
            },
        }
        block.pools.truncate(16);
    }

    /// Something that a sibling could be.
    fn any_path(&self, rng: &mut Rng) -> PathBuf {
        let fixture = self.fixture;
        match rng.below(9) {
            0..=2 => fixture.own[rng.index(fixture.own.len())].clone(),
            3 => fixture.secret().to_owned(),
            4 => "/dev/tty".into(),
            5 => format!("/{}", "x".repeat(rng.below(463) as usize)).into(),
            6 => fixture.theirs.join("../pool1"),
            7 => rng.choose(&self.paths).cloned().unwrap_or_default(),
            _ => fixture.theirs_whole[rng.index(2)].clone(),
        }
    }

    /// Something where root may look for a pool or a session.
    fn put(&mut self, path: &Path, rng: &mut Rng) -> io::Result<String> {
        let thing = Thing::ALL[rng.index(Thing::ALL.len())];
        match thing {
            Thing::Fifo => make_fifo(path)?,
            Thing::Socket => self.listening.push(UnixListener::bind(path)?),
            Thing::Directory => fs::create_dir(path)?,
            Thing::LinkToRoot => symlink(self.any_path(rng), path)?,
            Thing::LinkToNothing => symlink(path, path)?,
            Thing::Bytes | Thing::HeldOpen => {
                let bytes: Vec<u8> = (0..4096).map(|_| rng.next_u64() as u8).collect();
                let mut options = File::options();
                // New: at a pipe of before he would wait himself.
                let file = options.read(true).write(true).create_new(true).open(path)?;
                file.write_all_at(&bytes, 0)?;
                file.set_len(rng.below(32 << 20))?;
                file.set_permissions(Permissions::from_mode(0o600))?;
                if matches!(thing, Thing::HeldOpen) {
                    hold_locks(&file, rng.one_in(2));
                    self.held.push(file);
                }
            }
        }
        self.paths.push(path.to_owned());
        Ok(format!("{thing:?} at {}", path.display()))
    }

    /// A name in /dev/shm that means something to root.
    fn take_name(&mut self, rng: &mut Rng) -> io::Result<String> {
        let (user, word) = (self.fixture.other_user, rng.next_u64());
        let volume: String = self
            .fixture
            .root_volume
            .map(|byte| format!("{byte:02x}"))
            .concat();
        let session = format!("{volume}-{word:016x}{:016x}", rng.next_u64());
        let memory = Path::new("/dev/shm");
        let path = match rng.below(5) {
            0 => memory.join(format!("egeria-{session}")),
            1 => memory.join(format!("egeria-{user}")),
            2 => memory.join(format!("egeria-{user}-{word:016x}")),
            _ => {
                let like = [
                    "egeria-0".to_owned(),
                    "egeria-group-0".to_owned(),
                    format!("egeria-{user}"),
                ];
                let like = &like[rng.index(like.len())];
                let directory = memory.join(format!("{like}-{word:016x}"));
                fs::create_dir(&directory)?;
                let mode = [0o700, 0o777][rng.index(2)];
                fs::set_permissions(&directory, Permissions::from_mode(mode))?;
                directory.join(session)
            }
        };
        let observed = self.put(&path, rng);
        // Sessions are no pools.
        self.paths.retain(|corpus| *corpus != path);
        observed
    }

    /// A mount of his that names anything as its volume, and that nobody serves.
    fn mount(&mut self, rng: &mut Rng, observed: &mut Observations) -> Result<(), String> {
        let directory = self.fixture.theirs.join("mount");
        let other_user = self.fixture.other_user;
        let made = as_user(other_user, || fs::create_dir(&directory))?;
        let source = self.any_path(rng);
        observed.line(|| format!("a mount of {}", source.display()));
        if made.is_err() {
            return Ok(());
        }
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let Ok(device) = device else { return Ok(()) };
        if let Err(error) = mount_for(other_user, &device, &source, &directory) {
            observed.line(|| format!("cannot: {error}"));
        }
        // While it is held, whoever asks the mount waits; else he is told that nobody serves it.
        if rng.one_in(2) {
            self.held.push(device);
        }
        Ok(())
    }

    /// Have a volume attached, its session full of nonsense.
    pub(super) fn attach_and_mutate(
        &mut self,
        rng: &mut Rng,
        observed: &mut Observations,
    ) -> Result<(), String> {
        let (other_user, pool) = (self.fixture.other_user, &self.fixture.theirs_whole[0]);
        let attached = as_user(other_user, || {
            Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default())
                .map(|volume| (mutate(other_user, rng), volume))
                .map_err(|error| error.to_string())
        })?;
        match attached {
            Ok((places, volume)) => {
                observed.line(|| format!("a session with nonsense at {places:?}"));
                self.attached = Some(volume);
            }
            Err(error) => observed.record(&format!("the other user cannot attach: {error}")),
        }
        self.paths.push(pool.clone());
        Ok(())
    }
}

fn told_of(block: &Superblock) -> String {
    let paths = block
        .pools
        .iter()
        .map(|pool| String::from_utf8_lossy(&pool.path));
    let paths: Vec<_> = paths.collect();
    format!("index {}, siblings {paths:?}", block.pool_index)
}

/// Who takes part in a session, or makes one, holds locks behind the end of pool 0.
fn hold_locks(file: &File, creates: bool) {
    let from = LOCKED_TO_CREATE + i64::from(!creates);
    let _ = egeria_harness::locks::lock_description(file, libc::F_RDLCK, from, 0);
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}

fn make_fifo(path: &Path) -> io::Result<()> {
    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// As the helper of mounts does for who asks it.
fn mount_for(user: u32, device: &File, source: &Path, directory: &Path) -> io::Result<()> {
    let text = format!(
        "fd={},rootmode=40000,user_id={user},group_id={user}",
        device.as_raw_fd()
    );
    let text = CString::new(text)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount(
        source,
        directory,
        "fuse.egeria",
        flags,
        text.as_c_str(),
    )?)
}

/// Nonsense in the other user's session; where.
fn mutate(other_user: u32, rng: &mut Rng) -> Vec<u64> {
    let directory = fs::read_dir(format!("/dev/shm/egeria-{other_user}"));
    let mut places = Vec::new();
    for entry in directory.into_iter().flatten().flatten() {
        let opened = File::options().read(true).write(true).open(entry.path());
        let Ok(session) = opened else { continue };
        let bytes = session.metadata().map_or(0, |metadata| metadata.len());
        for _ in 0..rng.below(40) {
            // The size, the magic and the version stay as they are.
            let at = (4096 + rng.below(bytes.max(8192) - 4096)) & !7;
            let _ = session.write_all_at(&rng.near_value(0).to_le_bytes(), at);
            places.push(at);
        }
    }
    places
}
