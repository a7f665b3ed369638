//! Being another user: one thread at a time, for the kernel keeps rights by thread.

use std::ffi::CString;
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

/// The C library's functions would change all threads, the kernel's change this one.
fn give_up_rights(user: u32) -> io::Result<()> {
    let none = std::ptr::null::<libc::gid_t>();
    // SAFETY: plain system calls without memory.
    let given_up = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, none) == 0
            && libc::syscall(libc::SYS_setresgid, user, user, user) == 0
            && libc::syscall(libc::SYS_setresuid, user, user, user) == 0
    };
    match given_up {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

/// From here on this process and what it starts see mounts of their own, and none of anybody else's volumes.
pub(super) fn have_mounts_of_ones_own() -> Result<(), String> {
    let failed = || format!("no mounts of one's own: {}", io::Error::last_os_error());
    let none = std::ptr::null();
    // SAFETY: plain system calls on terminated strings.
    unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            return Err(failed());
        }
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        if libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) != 0 {
            return Err(failed());
        }
    }
    let mounts = procfs::mounts().unwrap_or_default().into_iter();
    mounts
        .filter(|mount| mount.fs_vfstype == "fuse.egeria")
        .for_each(|mount| unmount(&mount.fs_file));
    Ok(())
}

/// Take away whatever is mounted there.
pub(super) fn unmount(directory: &str) {
    if let Ok(directory) = CString::new(directory) {
        // SAFETY: a plain system call on a terminated string.
        unsafe { libc::umount2(directory.as_ptr(), libc::MNT_DETACH) };
    }
}
