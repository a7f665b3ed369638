//! What can go wrong with a mount point: one line each, with cause and hint.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A process that keeps a mount busy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// Name of its program.
    pub program: String,
    /// What it holds: "working directory", "open file", "mapped file", "program", "root directory".
    pub how: &'static str,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} (pid {}, {})",
            self.program, self.pid, self.how
        )
    }
}

/// Why a volume cannot be mounted, or a mount not taken away.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point does not exist.
    #[error("mount point {0} does not exist; make it with mkdir, or name another directory")]
    Missing(PathBuf),
    /// The mount point is no directory.
    #[error("mount point {0} is not a directory; name a directory")]
    NotADirectory(PathBuf),
    /// Something is mounted there.
    #[error(
        "{directory} is busy: {kind} is mounted there; unmount that first, or name another directory"
    )]
    AlreadyMounted {
        /// The mount point.
        directory: PathBuf,
        /// Type of the file system mounted there.
        kind: String,
    },
    /// The mount process of an earlier mount died.
    #[error(
        "{0} is still the mount point of a mount whose process died; run `egeria umount {0}`, no acknowledged operation is lost"
    )]
    DeadEndpoint(PathBuf),
    /// No FUSE in this kernel or container.
    #[error(
        "/dev/fuse cannot be opened ({0}); load the kernel module (modprobe fuse), or in a container add --device /dev/fuse"
    )]
    NoFuse(io::Error),
    /// The kernel, or `fusermount3`, refuses.
    #[error(
        "no permission to mount at {directory} ({cause}); mount on a directory you own, or as root (in a container: with --cap-add SYS_ADMIN)"
    )]
    NoPermission {
        /// The mount point.
        directory: PathBuf,
        /// Which program refused, and its message.
        cause: String,
    },
    /// `allow_other` by a user other than root.
    #[error(
        "fusermount3 refuses allow_other; add the line user_allow_other to /etc/fuse.conf, or leave it out"
    )]
    AllowOtherForbidden,
    /// The mount helper is missing, which all users but root need.
    #[error(
        "fusermount3 is not installed, and without it only root can mount and unmount; install the package fuse3"
    )]
    NoHelper,
    /// Only root can have set-user-id programs honoured.
    #[error(
        "set-user-id programs and devices can only be honoured by a mount that root makes; leave the option out"
    )]
    NotRoot,
    /// The directory is no mount point.
    #[error("{0} is not a mount point; see /proc/mounts for what is mounted")]
    NotMounted(PathBuf),
    /// Another file system is mounted there.
    #[error("{directory} is a mount of {kind}, not of Egeria; use umount for it")]
    NotOurs {
        /// The mount point.
        directory: PathBuf,
        /// Type of the file system mounted there.
        kind: String,
    },
    /// The mount is in use.
    #[error("{directory} is busy: held by {}; let go of it or end them, then unmount again", list(.holders, .mounts))]
    Busy {
        /// The mount point.
        directory: PathBuf,
        /// Processes that use it, as far as they can be seen.
        holders: Vec<Holder>,
        /// Mount points inside it.
        mounts: Vec<PathBuf>,
    },
    /// Another mount namespace has a copy, which the kernel keeps.
    #[error(
        "{0} is unmounted here, but another mount namespace (a container, a service) has the mount as well; end what has it, the volume stays attached until then"
    )]
    Copied(PathBuf),
    /// Something the system said that has no better name.
    #[error("{what}: {source}; {hint}")]
    System {
        /// What was tried.
        what: String,
        /// What to do about it.
        hint: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// The holders in one phrase.
fn list(holders: &[Holder], mounts: &[PathBuf]) -> String {
    let mut words: Vec<String> = holders.iter().take(8).map(Holder::to_string).collect();
    if holders.len() > 8 {
        words.push(format!("{} more", holders.len() - 8));
    }
    words.extend(
        mounts
            .iter()
            .map(|path| format!("the mount at {}", path.display())),
    );
    if words.is_empty() {
        "a process this user cannot see".to_owned()
    } else {
        words.join(", ")
    }
}
