//! Being another user: one thread at a time, for the kernel keeps rights by thread.

use egeria_harness::process::separate_mounts;
use rustix::mount::UnmountFlags;
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::io;

/// Run `body` on a thread that has the rights of this user and no others.
pub(super) fn as_user<T: Send>(user: u32, body: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            give_up_rights(user).map_err(|error| format!("cannot become user {user}: {error}"))?;
            Ok(body())
        });
        thread
            .join()
            .unwrap_or_else(|_| Err("a thread panicked".to_owned()))
    })
}

/// The kernel's calls change this thread; the C library's functions would change all.
fn give_up_rights(user: u32) -> io::Result<()> {
    let (own_user, own_group) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(own_group, own_group, own_group)?;
    set_thread_res_uid(own_user, own_user, own_user)?;
    Ok(())
}

/// From here on this process and what it starts see mounts of their own, and none of anybody else's volumes.
pub(super) fn have_mounts_of_ones_own() -> Result<(), String> {
    let failed = |error: io::Error| format!("no mounts of one's own: {error}");
    separate_mounts().map_err(failed)?;
    let mounts = procfs::mounts().unwrap_or_default().into_iter();
    mounts
        .filter(|mount| mount.fs_vfstype == "fuse.egeria")
        .for_each(|mount| unmount(&mount.fs_file));
    Ok(())
}

/// Take away whatever is mounted there.
pub(super) fn unmount(directory: &str) {
    let _ = rustix::mount::unmount(directory, UnmountFlags::DETACH);
}
