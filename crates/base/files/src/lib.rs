//! Files and directories that are this user's own. Recordings contain names of programs and threads, and saved files
//! are trusted later. So no other user may read them, or replace them.
//!
//! [`Error`] is how scratch volumes, child processes and measurements fail.

mod error;
mod state;
mod trust;
mod way;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::CWD;

pub use error::{Error, Result};
pub use state::state_directory;
pub use trust::user;
use trust::{is_trusted, refused};
pub use way::Way;
use way::open_directory;

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
/// How often a file that appears and disappears is created or opened again.
const TRIES: usize = 8;

/// A directory by its path without links, if it is this user's, and only this user and root can write into it or
/// replace it: an operation by that path then reaches this directory.
///
/// # Errors
/// Those of the kernel, and `PermissionDenied` that says what others could do.
pub fn directory(path: &Path) -> io::Result<PathBuf> {
    let link = std::fs::symlink_metadata(path)?;
    if !is_trusted(link.uid()) {
        return Err(refused(if link.is_symlink() {
            "it is a link of another user's".to_owned()
        } else {
            format!("it belongs to another user (uid {})", link.uid())
        }));
    }
    let (plain, metadata) = walk(path)?;
    if metadata.uid() != user() {
        let owner = metadata.uid();
        return Err(refused(format!("it belongs to another user (uid {owner})")));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(refused("others may write there".to_owned()));
    }
    Ok(plain)
}

/// A directory by its path without links, in which things that this user makes stay where he made them: his
/// own, or one like `/tmp`, where others cannot take away what is not theirs.
///
/// # Errors
/// As for [`directory`].
pub fn shared_directory(path: &Path) -> io::Result<PathBuf> {
    Ok(walk(path)?.0)
}

/// Opens one directory after the other, from the root, and looks at each whether others could change what
/// its names mean.
fn walk(path: &Path) -> io::Result<(PathBuf, Metadata)> {
    let plain = path.canonicalize()?;
    let mut at = open_directory(CWD, Path::new("/"))?;
    let mut metadata = stable(&at, Path::new("/"))?;
    let mut way = PathBuf::from("/");
    for component in plain.components() {
        let Component::Normal(name) = component else {
            continue;
        };
        way.push(name);
        at = open_directory(&at, Path::new(name))?;
        metadata = stable(&at, &way)?;
    }
    Ok((plain, metadata))
}

/// What the directory is, if names in it mean what this user or root made them mean.
fn stable(directory: &File, path: &Path) -> io::Result<Metadata> {
    let metadata = directory.metadata()?;
    let mode = metadata.mode();
    let own = rustix::process::getegid().as_raw();
    let own_group = metadata.gid() == ROOT || metadata.gid() == own;
    let open = mode & 0o002 != 0 || (mode & 0o020 != 0 && !own_group);
    if !is_trusted(metadata.uid()) {
        let (path, owner) = (path.display(), metadata.uid());
        return Err(refused(format!(
            "{path} belongs to another user (uid {owner})"
        )));
    }
    if open && mode & STICKY == 0 {
        return Err(refused(format!("others may write in {}", path.display())));
    }
    Ok(metadata)
}

/// Opens a file of this user's for reading and writing. If there is none, it is made for this user alone (0600);
/// otherwise it is left as it is. Neither its name nor a directory before it may be a link of another user's. Only
/// such a file is opened.
///
/// # Errors
/// Those of the kernel, `InvalidInput` if it is not a regular file, and `PermissionDenied` that says which user owns
/// it.
pub fn open(path: &Path) -> io::Result<File> {
    opened(path, 0o600)
}

/// Opens a file of this user's like [`open`], closes it to other users and empties it: for data of this user alone.
///
/// # Errors
/// Those of [`open`].
pub fn create_private(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    close_to_others(&file)?;
    file.set_len(0)?;
    Ok(file)
}

/// Opens a file of this user's like [`open`] and empties it. A new file has the permissions that the umask leaves, so
/// other users may read it.
///
/// # Errors
/// Those of [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    let file = opened(path, 0o666)?;
    file.set_len(0)?;
    Ok(file)
}

/// Writes a file as [`create`] opens it.
///
/// # Errors
/// As for [`open`].
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create(path)?.write_all(content)
}

fn opened(path: &Path, mode: u32) -> io::Result<File> {
    let way = Way::to(path)?;
    let path = way.path();
    for _ in 0..TRIES {
        let made = options()
            .create_new(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        match existing(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options
}

/// Looked at before it is opened: to open a device or a pipe does something.
fn existing(path: &Path) -> io::Result<File> {
    let seen = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_NOFOLLOW)
        .open(path)?;
    let metadata = seen.metadata()?;
    if !metadata.is_file() {
        let what = "it is there already and no plain file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if metadata.uid() != user() {
        let owner = metadata.uid();
        return Err(refused(format!(
            "it is there already and belongs to another user (uid {owner})"
        )));
    }
    if metadata.nlink() > 1 {
        return Err(refused("it has another name elsewhere".to_owned()));
    }
    options().open(format!("/proc/self/fd/{}", seen.as_raw_fd()))
}

/// The text of a file that only root or this user can write; `None` when there is none.
///
/// # Errors
/// Those of the kernel, `PermissionDenied` where another user can change the file, `InvalidInput` where it is no
/// plain file, `FileTooLarge` beyond `max_bytes`, `InvalidData` where it is not UTF-8.
pub fn read_trusted(path: &Path, max_bytes: u64) -> io::Result<Option<String>> {
    // Opening a FIFO that took the file's place must not wait for its writer.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = "it is no plain file".to_owned();
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    if !is_trusted(metadata.uid()) || metadata.mode() & 0o022 != 0 {
        let owner = metadata.uid();
        return Err(refused(format!(
            "other users can write it (uid {owner}, mode {:o})",
            metadata.mode() & 0o7777
        )));
    }
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(Some(text))
}

/// From now on only its owner may open the file (0600).
///
/// # Errors
/// Those of the kernel.
pub fn close_to_others(file: &File) -> io::Result<()> {
    match file.metadata()?.mode() & 0o7777 {
        0o600 => Ok(()),
        _ => file.set_permissions(PermissionsExt::from_mode(0o600)),
    }
}

#[cfg(test)]
mod tests {
    use super::trust::{UNMAPPED, is_mapped};
    use super::*;
    use egeria_harness::testing::skip;
    use std::os::unix::fs::{chown, lchown, symlink};

    const NOBODY: Option<u32> = Some(65_534);

    fn is_root() -> bool {
        let root = user() == ROOT && is_mapped(UNMAPPED);
        if !root {
            skip("only root can make files of other users");
        }
        root
    }

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn make(path: PathBuf) -> PathBuf {
        std::fs::create_dir(&path).unwrap();
        mode(&path, 0o755);
        path
    }

    #[test]
    fn a_directory_is_trusted_where_nobody_else_can_replace_it() {
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let parent = make(sandbox.path().join("parent"));
        let own = make(parent.join("own"));
        let plain = directory(&own).unwrap();
        assert_eq!(plain, own.canonicalize().unwrap());
        assert!(shared_directory(Path::new("/dev/shm")).is_ok());
        assert!(
            directory(Path::new("/dev/shm")).is_err(),
            "others write there"
        );
        mode(&parent, 0o777);
        let why = directory(&own).unwrap_err().to_string();
        assert!(why.contains("others may write in"), "{why}");
        mode(&parent, 0o1777);
        assert!(directory(&own).is_ok(), "sticky: what is ours stays");
        mode(&own, 0o775);
        assert!(directory(&own).is_err());
    }

    #[test]
    fn what_another_user_owns_on_the_way_is_not_trusted() {
        if !is_root() {
            return;
        }
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let parent = make(sandbox.path().join("parent"));
        let own = make(parent.join("own"));
        let link = sandbox.path().join("link");
        symlink(&own, &link).unwrap();
        assert_eq!(directory(&link).unwrap(), own.canonicalize().unwrap());
        lchown(&link, NOBODY, None).unwrap();
        let why = directory(&link).unwrap_err().to_string();
        assert!(why.contains("a link of another user's"), "{why}");
        chown(&parent, NOBODY, None).unwrap();
        let why = directory(&own).unwrap_err().to_string();
        assert!(why.contains("uid 65534"), "{why}");
        assert!(directory(&parent).is_err());
    }

    #[test]
    fn a_file_is_its_user_s_alone_and_behind_no_link() {
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = sandbox.path().join("file");
        let bits = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        open(&path).unwrap();
        assert_eq!(bits(&path), 0o600);
        std::fs::write(&path, "before").unwrap();
        mode(&path, 0o666);
        let file = open(&path).unwrap();
        assert_eq!(bits(&path), 0o666, "left as it was");
        close_to_others(&file).unwrap();
        assert_eq!(bits(&path), 0o600);
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        let (link, other) = (sandbox.path().join("link"), sandbox.path().join("other"));
        symlink(&path, &link).unwrap();
        assert!(open(&link).is_err());
        std::fs::hard_link(&path, &other).unwrap();
        assert!(open(&path).is_err());
        assert!(open(Path::new("/dev/null")).is_err());
        assert!(open(sandbox.path()).is_err());
    }

    #[test]
    fn a_link_of_another_user_is_followed_nowhere_on_the_way() {
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let own = make(sandbox.path().join("own"));
        let (link, again) = (sandbox.path().join("link"), own.join("again"));
        symlink("own", &link).unwrap();
        symlink("../link/.", &again).unwrap();
        let file = again.join("file");
        write(&file, b"by own links").unwrap();
        assert_eq!(std::fs::read(own.join("file")).unwrap(), b"by own links");
        symlink("round", sandbox.path().join("round")).unwrap();
        let why = create(&sandbox.path().join("round/file")).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::ELOOP));
        assert!(open(&own.join("file/")).is_err(), "the name of a directory");
        assert!(open(&own.join("file/file")).is_err());
        if is_root() {
            lchown(&link, NOBODY, None).unwrap();
            let why = write(&file, b"by another's").unwrap_err().to_string();
            assert!(why.contains("a link of another user's"), "{why}");
            assert_eq!(std::fs::read(own.join("file")).unwrap(), b"by own links");
        }
    }

    #[test]
    fn what_others_may_read_is_made_as_the_umask_says() {
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = sandbox.path().join("file");
        write(&path, b"long").unwrap();
        let by_std = sandbox.path().join("other");
        std::fs::write(&by_std, "").unwrap();
        let bits = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(bits(&path), bits(&by_std));
        write(&path, b"s").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"s");
        create_private(&path).unwrap();
        assert_eq!(
            (bits(&path), std::fs::read(&path).unwrap().len()),
            (0o600, 0)
        );
    }

    #[test]
    fn a_trusted_file_is_writable_by_root_or_this_user_only() {
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = sandbox.path().join("file");
        assert_eq!(read_trusted(&path, 9).unwrap(), None);
        std::fs::write(&path, "four").unwrap();
        mode(&path, 0o644);
        assert_eq!(read_trusted(&path, 4).unwrap().as_deref(), Some("four"));
        let kind = |path: &Path, max| read_trusted(path, max).unwrap_err().kind();
        assert_eq!(kind(&path, 3), io::ErrorKind::FileTooLarge);
        mode(&path, 0o664);
        assert_eq!(kind(&path, 9), io::ErrorKind::PermissionDenied);
        assert_eq!(kind(sandbox.path(), 9), io::ErrorKind::InvalidInput);
        if is_root() {
            mode(&path, 0o644);
            chown(&path, NOBODY, None).unwrap();
            assert_eq!(kind(&path, 9), io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_file_or_a_pipe_of_another_user_s_is_not_opened() {
        if !is_root() {
            return;
        }
        let sandbox = tempfile::tempdir_in("/dev/shm").unwrap();
        let (path, pipe) = (sandbox.path().join("file"), sandbox.path().join("pipe"));
        std::fs::write(&path, "").unwrap();
        chown(&path, NOBODY, None).unwrap();
        let why = open(&path).unwrap_err().to_string();
        assert!(why.contains("uid 65534"), "{why}");
        rustix::fs::mkfifoat(CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        assert!(open(&pipe).is_err());
    }
}
