//! The owner of a volume. The content of its pools, its session and its mounts is trusted, and their owner can write
//! anything there. So root works on another user's volume as that user, or not at all.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::account::{self, Account};
use crate::served::shown;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output;

const ROOT: u32 = 0;

/// From here on this process has the rights of the pool's owner, when it is root's and the owner is another
/// user. To be called before anything of the volume is opened.
///
/// # Errors
/// When the path is no pool, or the user cannot be changed.
pub fn run_as_owner(pool: &Path) -> Outcome {
    match owner(pool)? {
        Some(user) if is_root() && user != ROOT => {
            become_user(user, &format!("who owns {}", shown(pool)))
        }
        _ => Ok(()),
    }
}

/// Refuses a pool of another user's where root would have to believe it. Nothing is opened, so that what is no
/// pool stays untouched.
///
/// # Errors
/// When it is, or is no pool.
pub fn check_own(pool: &Path) -> Outcome {
    match owner(pool)? {
        Some(user) if is_root() && user != ROOT => Err(not_as_root(pool, user)),
        _ => Ok(()),
    }
}

/// From here on this process has the rights of another user, for good.
///
/// # Errors
/// When they cannot be changed.
pub fn become_user(user: u32, who: &str) -> Outcome {
    let account = Account::of(user);
    account::become_for_good(&account).map_err(|error| {
        Failure::new(format!(
            "cannot become {account}, {who}: {}; start the command as that user",
            egeria_cli::failure::reason(&error)
        ))
    })?;
    output::complain(&format!("running as {account}, {who}"));
    Ok(())
}

/// Whether this process may do anything, and so must not follow another user's data.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn not_as_root(pool: &Path, user: u32) -> Failure {
    let account = Account::of(user);
    let command = std::env::args().nth(1).unwrap_or_default();
    Failure::new(format!(
        "{} belongs to {account}, and root believes no other user's pools; start it as that user: `setpriv --reuid={user} --regid={} --clear-groups egeria {command} …`",
        shown(pool),
        account.group
    ))
}

/// The owner of a pool, by its path alone, because opening a device or a pipe has side effects. `None` if there is
/// none; the code that opens it reports that.
fn owner(pool: &Path) -> Outcome<Option<u32>> {
    let Ok(metadata) = fs::metadata(pool) else {
        return Ok(None);
    };
    match not_a_pool(&metadata) {
        None => Ok(Some(metadata.uid())),
        Some(kind) => Err(Failure::new(format!(
            "{} is not an Egeria pool but a {kind}; name a pool of the volume, or make one with `egeria mkfs`",
            shown(pool)
        ))),
    }
}

/// What it is when it can be no pool.
fn not_a_pool(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_block_device() || is_device_dax(metadata) {
        None
    } else if kind.is_dir() {
        Some("directory")
    } else if kind.is_fifo() {
        Some("pipe")
    } else if kind.is_socket() {
        Some("socket")
    } else {
        Some("character device")
    }
}

fn is_device_dax(metadata: &Metadata) -> bool {
    let device = metadata.rdev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let subsystem = fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem"));
    metadata.file_type().is_char_device()
        && subsystem.is_ok_and(|path| path.file_name().is_some_and(|name| name == "dax"))
}
