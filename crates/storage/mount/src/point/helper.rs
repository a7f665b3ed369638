//! `fusermount3`, the set-user-id helper that mounts and unmounts for users other than root.

use crate::options::MountOptions;
use crate::point::error::MountError;
use rustix::io::FdFlags;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = "fusermount3";

/// The result of an unmount.
pub(crate) enum Unmounted {
    Done,
    Busy,
}

/// A helper process that waits until our end of a socket is closed, also by our death, and then unmounts.
pub(crate) struct Guardian {
    socket: Option<UnixStream>,
    child: Child,
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.socket.take());
        let _ = self.child.wait();
    }
}

/// Mount through the helper: the device descriptor, and the guardian when `auto_unmount` is
/// asked for.
pub(crate) fn mount(
    directory: &Path,
    source: &OsStr,
    options: &MountOptions,
) -> Result<(OwnedFd, Option<Guardian>), MountError> {
    let trouble = |source| MountError::System {
        what: format!("cannot speak with {PROGRAM}"),
        hint: "try again",
        source,
    };
    let (ours, theirs) = UnixStream::pair().map_err(trouble)?;
    keep_over_exec(&theirs).map_err(trouble)?;
    let mut child = Command::new(PROGRAM)
        .arg("-o")
        .arg(words(source, options))
        .arg("--")
        .arg(directory)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(absent)?;
    drop(theirs);
    match receive_descriptor(&ours) {
        Ok(Some(device)) => {
            if options.auto_unmount {
                return Ok((
                    device,
                    Some(Guardian {
                        socket: Some(ours),
                        child,
                    }),
                ));
            }
            let _ = child.wait();
            Ok((device, None))
        }
        Ok(None) | Err(_) => Err(refusal(directory, child)),
    }
}

/// Unmount through the helper.
pub(crate) fn unmount(directory: &Path, lazily: bool) -> Result<Unmounted, MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    let output = command
        .arg("--")
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(absent)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(Unmounted::Done),
        false if said.contains("busy") => Ok(Unmounted::Busy),
        false => Err(MountError::NoPermission {
            directory: directory.to_path_buf(),
            cause: one_line(&said),
        }),
    }
}

/// The mount options as one word; commas and backslashes in the source escaped.
fn words(source: &OsStr, options: &MountOptions) -> OsString {
    let mut words = b"default_permissions,noatime,subtype=egeria".to_vec();
    let wanted = [
        (options.allow_other, ",allow_other"),
        (options.read_only, ",ro"),
        (options.auto_unmount, ",auto_unmount"),
        (options.trust_privileged_files, ",suid,dev"),
    ];
    for (_, word) in wanted.iter().filter(|(wanted, _)| *wanted) {
        words.extend_from_slice(word.as_bytes());
    }
    words.extend_from_slice(b",fsname=");
    for byte in source.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            words.push(b'\\');
        }
        words.push(*byte);
    }
    OsString::from_vec(words)
}

fn keep_over_exec(socket: &UnixStream) -> io::Result<()> {
    rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
    Ok(())
}

/// The descriptor that the helper sends with one byte; `None` when it closes the socket instead.
fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    // Aligned as the kernel requires for control messages.
    let mut control = [0u64; 8];
    let mut vector = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    // SAFETY: all zeros is a valid msghdr; the buffers outlive the call.
    let received = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut vector;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let bytes = libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
        if bytes < 0 {
            return Err(io::Error::last_os_error());
        }
        descriptor_of(&message)
    };
    // SAFETY: the kernel just made it for us.
    Ok(received.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// The first descriptor in the message.
///
/// # Safety
/// The message must have been filled by `recvmsg`, its buffers alive.
unsafe fn descriptor_of(message: &libc::msghdr) -> Option<RawFd> {
    // SAFETY: as the caller promises; CMSG_FIRSTHDR checks the length.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message);
        let rights = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS;
        rights.then(|| libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned())
    }
}

fn absent(error: io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::NoHelper,
        _ => MountError::System {
            what: format!("cannot start {PROGRAM}"),
            hint: "see whether it may be executed",
            source: error,
        },
    }
}

fn refusal(directory: &Path, child: Child) -> MountError {
    let said = child
        .wait_with_output()
        .map(|output| output.stderr)
        .unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if said.contains("user_allow_other") {
        MountError::AllowOtherForbidden
    } else {
        MountError::NoPermission {
            directory: directory.to_path_buf(),
            cause: one_line(&said),
        }
    }
}

fn one_line(said: &str) -> String {
    let line = said
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it gave no reason");
    format!(
        "{PROGRAM}: {}",
        line.trim_start_matches("fusermount3: ").trim()
    )
}
