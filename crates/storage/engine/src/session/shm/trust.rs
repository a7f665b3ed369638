//! Decides which pools and sessions this process trusts: those of its own effective user that no other user can open.
//! Their content is checked. But a session holds locks, and any process attached to it can overwrite it. So it is
//! shared only by processes that could also debug each other.
//!
//! Root can let members of a group share volumes directly, in `/etc/egeria/egeria.toml`:
//!
//! ```toml
//! [direct]
//! groups = ["databases", 2001]
//! ```

use crate::format::Superblock;
use crate::requests::VolumeError;
use crate::requests::failure;
use rustix::fs::{Mode, OFlags};
use siphasher::sip128::SipHasher24;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Root's settings: which users may share volumes.
const SETTINGS: &str = "/etc/egeria/egeria.toml";
/// Where sessions are.
const MEMORY: &str = "/dev/shm";
/// Permission bits of the owner's group, and of all other users.
const GROUP: u32 = 0o070;
const OTHERS: u32 = 0o007;

/// The user or group that owns a volume exclusively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A user: the effective one of this process.
    User(u32),
    /// Members of a group that root allows in the settings.
    Group(u32),
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Owner {
    /// The owner of a pool that was just opened.
    ///
    /// # Errors
    /// `EPERM` when it belongs to another user, or others can open it; `EINVAL` when it cannot be a pool.
    pub(crate) fn of_pool(metadata: &Metadata, path: &Path) -> Result<Owner, VolumeError> {
        let kind = metadata.file_type();
        let is_device = kind.is_block_device() || kind.is_char_device();
        if !kind.is_file() && !is_device {
            return Err(failure(
                libc::EINVAL,
                format!(
                    "{} is neither a file nor a device; name a pool",
                    path.display()
                ),
            ));
        }
        if kind.is_file() && metadata.nlink() > 1 {
            return Err(failure(
                libc::EPERM,
                format!(
                    "{} has {} names, so somebody may have put it here who may not read it; remove the other names",
                    path.display(),
                    metadata.nlink()
                ),
            ));
        }
        if let Some(owner) = Owner::by_setting(metadata) {
            return Ok(owner);
        }
        if metadata.uid() != own_user() {
            return Err(failure(
                libc::EPERM,
                format!(
                    "{} belongs to user {}, and this is user {}; run as its owner (`setpriv --reuid`, `sudo -u`), or use the volume through its mount",
                    path.display(),
                    metadata.uid(),
                    own_user()
                ),
            ));
        }
        // The group of a device (`disk`) can open every disk, and so has root's rights already.
        let open_to = metadata.mode() & if is_device { OTHERS } else { GROUP | OTHERS };
        match open_to {
            0 => Ok(Owner::User(metadata.uid())),
            _ => Err(failure(
                libc::EPERM,
                format!(
                    "{} is open to other users (mode {:03o}), who could change it under this program; `chmod go= {}`",
                    path.display(),
                    metadata.mode() & 0o777,
                    path.display()
                ),
            )),
        }
    }

    /// The owner if it is a group that root allows to share volumes.
    fn by_setting(metadata: &Metadata) -> Option<Owner> {
        let shared = metadata.mode() & GROUP != 0 && metadata.mode() & OTHERS == 0;
        (shared && groups().contains(&metadata.gid())).then_some(Owner::Group(metadata.gid()))
    }

    fn holds(self, metadata: &Metadata) -> bool {
        match self {
            Owner::User(user) => metadata.uid() == user && metadata.mode() & (GROUP | OTHERS) == 0,
            Owner::Group(group) => metadata.gid() == group && metadata.mode() & OTHERS == 0,
        }
    }

    fn prefix(self) -> String {
        match self {
            Owner::User(user) => format!("egeria-{user}"),
            Owner::Group(group) => format!("egeria-group-{group}"),
        }
    }

    fn directory_mode(self) -> u32 {
        match self {
            Owner::User(_) => 0o700,
            Owner::Group(_) => 0o770,
        }
    }

    fn is_own_directory(self, path: &Path) -> bool {
        let opened = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(path);
        opened
            .and_then(|directory| directory.metadata())
            .is_ok_and(|metadata| self.holds(&metadata))
    }

    /// Where sessions of a volume can be: in the owner's directory or, if another user took that name, in a directory
    /// with a name that other users cannot know before it exists. No directory is searched, because it may hold any
    /// number of names of other users.
    fn session_places(self, volume: &Superblock) -> impl Iterator<Item = PathBuf> {
        let usual = self.prefix();
        let other = move || format!("{}-{}", self.prefix(), secret_name(volume));
        let names = std::iter::once(usual).chain(std::iter::once_with(other));
        names.map(|name| Path::new(MEMORY).join(name))
    }

    /// The directories for sessions of a volume that exist and belong to this owner.
    pub(crate) fn session_directories(self, volume: &Superblock) -> impl Iterator<Item = PathBuf> {
        let places = self.session_places(volume);
        places.filter(move |path| self.is_own_directory(path))
    }

    /// The directory for a new session, created if missing.
    ///
    /// # Errors
    /// `EEXIST` when other users took both names; errors of the system.
    pub(crate) fn session_directory(self, volume: &Superblock) -> io::Result<PathBuf> {
        if let Some(known) = self.session_directories(volume).next() {
            return Ok(known);
        }
        let mut taken = io::Error::from_raw_os_error(libc::EEXIST);
        for place in self.session_places(volume) {
            match self.make_directory(&place) {
                Ok(()) => return Ok(place),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if self.is_own_directory(&place) {
                        return Ok(place);
                    }
                    taken = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }

    fn make_directory(self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(path)?;
        if let Owner::Group(group) = self {
            std::os::unix::fs::chown(path, None, Some(group))?;
        }
        let mode = std::fs::Permissions::from_mode(self.directory_mode());
        std::fs::set_permissions(path, mode)
    }

    /// Make the file of a session.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn create_session(self, path: &Path) -> io::Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        let mode = self.directory_mode() & 0o660;
        let given = match self {
            Owner::User(_) => Ok(()),
            Owner::Group(group) => std::os::unix::fs::fchown(&file, None, Some(group)),
        };
        given
            .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)))
            .map(|()| file)
            .inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    /// Open the file of a session.
    ///
    /// # Errors
    /// `EPERM` when it is not this owner's; what the system says.
    pub(crate) fn open_session(self, path: &Path) -> io::Result<File> {
        let file = open_carefully(path, libc::O_NOFOLLOW)?;
        let metadata = file.metadata()?;
        let own = metadata.is_file() && metadata.nlink() == 1 && self.holds(&metadata);
        if own {
            Ok(file)
        } else {
            Err(io::Error::from_raw_os_error(libc::EPERM))
        }
    }
}

/// Open a file or device for reading and writing, so that it can be checked. Does not wait for another process (a
/// fifo) and does not get a controlling terminal.
pub(crate) fn open_carefully(path: &Path, flags: i32) -> io::Result<File> {
    let look = libc::O_PATH | libc::O_CLOEXEC | (flags & libc::O_NOFOLLOW);
    let open = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY | flags;
    // Opening some devices has side effects, so the type is checked before.
    let found = open_raw(path, look)?;
    let metadata = found.metadata()?;
    let kind = metadata.file_type();
    let is_dax = || kind.is_char_device() && is_device_dax(&metadata);
    if !kind.is_file() && !kind.is_block_device() && !is_dax() {
        let errno = if kind.is_dir() {
            libc::EISDIR
        } else {
            libc::EINVAL
        };
        return Err(io::Error::from_raw_os_error(errno));
    }
    // Opens exactly the file that was checked, whatever the name means now. Without /proc, opens by name and checks
    // again.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file =
        open_raw(same.as_ref(), open & !libc::O_NOFOLLOW).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => open_raw(path, open),
            _ => Err(error),
        })?;
    let opened = file.metadata()?;
    let same = (opened.dev(), opened.ino()) == (metadata.dev(), metadata.ino());
    if same {
        Ok(file)
    } else {
        Err(io::Error::from_raw_os_error(libc::ESTALE))
    }
}

/// Whether a character device is a device DAX, and not for example a terminal.
fn is_device_dax(metadata: &Metadata) -> bool {
    let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
    let subsystem = std::fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"));
    subsystem.is_ok_and(|path| path.file_name().is_some_and(|name| name == "dax"))
}

fn open_raw(name: &Path, flags: i32) -> io::Result<File> {
    let flags = OFlags::from_bits_retain(flags as u32);
    Ok(rustix::fs::open(name, flags, Mode::empty())?.into())
}

/// A name that follows from data that only the owner of a volume can read, and from the time when the machine started.
/// Names that another user saw earlier reveal nothing about it.
fn secret_name(volume: &Superblock) -> String {
    let hasher = SipHasher24::new_with_key(&volume.secret);
    let name = hasher.hash(&[boot_id(), volume.volume].concat());
    format!("{:032x}", name.as_u128())
}

/// Groups with members that may share volumes directly: only root can set them.
fn groups() -> Vec<u32> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(SETTINGS);
    let Ok(file) = file else { return Vec::new() };
    let by_root = |metadata: Metadata| metadata.uid() == 0 && metadata.mode() & 0o022 == 0;
    if file.metadata().is_ok_and(by_root) {
        io::read_to_string(file).map_or(Vec::new(), |text| groups_of(&text))
    } else {
        Vec::new()
    }
}

fn groups_of(text: &str) -> Vec<u32> {
    let table: toml::Table = text.parse().unwrap_or_default();
    let list = table
        .get("direct")
        .and_then(|direct| direct.get("groups"))
        .and_then(|groups| groups.as_array());
    let known = std::cell::OnceCell::new();
    let number = |group: &toml::Value| match group {
        toml::Value::Integer(number) => u32::try_from(*number).ok(),
        toml::Value::String(name) => {
            let known = known.get_or_init(|| std::fs::read_to_string("/etc/group").ok());
            number_of_group(known.as_deref()?, name)
        }
        _ => None,
    };
    list.into_iter().flatten().filter_map(number).collect()
}

fn number_of_group(known: &str, name: &str) -> Option<u32> {
    let mut lines = known.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let found = fields.next() == Some(name);
        found.then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// Identifies one boot of the machine; zeros where the kernel does not say.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    uuid::Uuid::parse_str(text.trim())
        .map(|id| *id.as_bytes())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_by_name_and_number() {
        let known = "root:x:0:\ndatabases:x:2000:ann,bob\n";
        assert_eq!(number_of_group(known, "databases"), Some(2000));
        assert_eq!(number_of_group(known, "data"), None);
        assert_eq!(
            groups_of("[direct]\ngroups = [7, \"root\", -1, 2.5]"),
            [7, 0]
        );
        assert_eq!(groups_of("direct = 3"), [] as [u32; 0]);
        assert_eq!(groups_of("[direct"), [] as [u32; 0]);
    }

    #[test]
    fn only_private_files_of_one_name_are_believed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pool");
        std::fs::write(&path, b"").expect("a file");
        let mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        let owner = || Owner::of_pool(&std::fs::metadata(&path).expect("stat"), &path);
        mode(0o600);
        assert_eq!(owner().ok(), Some(Owner::User(own_user())));
        for open in [0o604, 0o640, 0o660, 0o666] {
            mode(open);
            assert_eq!(owner().err().map(|error| error.errno), Some(libc::EPERM));
        }
        mode(0o600);
        std::fs::hard_link(&path, directory.path().join("other")).expect("link");
        assert_eq!(owner().err().map(|error| error.errno), Some(libc::EPERM));
    }
}
