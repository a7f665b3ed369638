//! Becoming another user for good.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;

/// The group of a user without an entry in the user database.
const NO_GROUP: u32 = 65_534;

/// A user, as the user database has it.
#[derive(Debug)]
pub struct Account {
    user: u32,
    pub group: u32,
    name: Option<CString>,
}

impl Account {
    /// The account with this number.
    pub fn of(user: u32) -> Account {
        let mut room = vec![0; 16 << 10];
        let mut found = std::ptr::null_mut();
        // SAFETY: zeroed bytes are a valid passwd; the entry, its text and the result are locals that outlive
        // their use, and the length is that of the text. The name of an entry that was found is a terminated text.
        unsafe {
            let mut entry: libc::passwd = std::mem::zeroed();
            let (text, length) = (room.as_mut_ptr(), room.len());
            libc::getpwuid_r(user, &mut entry, text, length, &mut found);
            if found.is_null() {
                Account {
                    user,
                    group: NO_GROUP,
                    name: None,
                }
            } else {
                Account {
                    user,
                    group: entry.pw_gid,
                    name: Some(CStr::from_ptr(entry.pw_name).to_owned()),
                }
            }
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{} (uid {})", name.to_string_lossy(), self.user),
            None => write!(formatter, "uid {}", self.user),
        }
    }
}

/// Gives up all rights but those of this account, for the whole process and what it starts.
///
/// Its memory stays closed to that user (root's environment is in it, and root's terminal is open), and what
/// it does with the terminal is restricted.
///
/// # Errors
/// Those of the kernel; nothing should be done after one.
pub fn become_for_good(account: &Account) -> io::Result<()> {
    let (user, group) = (account.user, account.group);
    // SAFETY: integers, and a terminated name that outlives the calls. The C library changes all threads.
    let changed = unsafe {
        let groups = match &account.name {
            Some(name) => libc::initgroups(name.as_ptr(), group),
            None => libc::setgroups(0, std::ptr::null()),
        };
        groups == 0
            && libc::setresgid(group, group, group) == 0
            && libc::setresuid(user, user, user) == 0
            && libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    };
    if !changed {
        return Err(io::Error::last_os_error());
    }
    // The kernel removed the capabilities with the change of user, unless a flag of the process forbids that.
    let left = rustix::thread::capabilities(None)?;
    if !left.permitted.is_empty() || !left.effective.is_empty() {
        return Err(io::Error::other("capabilities would stay"));
    }
    refuse_typing();
    Ok(())
}

/// No `TIOCSTI` and `TIOCLINUX` from now on. A user that can write to a session may take over this process through it,
/// and must then not be able to type into root's shell. Kernels without seccomp, and other machines, go without.
#[cfg(target_arch = "x86_64")]
fn refuse_typing() {
    const THIS_MACHINE: u32 = 0xC000_003E;
    const SET_FILTER: libc::c_ulong = 1;
    const ALL_THREADS: libc::c_ulong = 1;
    /// Of the kernel's `struct seccomp_data`.
    const MACHINE_AT: u32 = 4;
    const NUMBER_AT: u32 = 0;
    const REQUEST_AT: u32 = 24;
    /// The x32 calls have numbers of their own.
    const OTHER_NUMBERS: u32 = 0x4000_0000;
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const FROM: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut steps = [
        step(LOAD, MACHINE_AT, 0, 0),
        step(IS, THIS_MACHINE, 0, 7),
        step(LOAD, NUMBER_AT, 0, 0),
        step(FROM, OTHER_NUMBERS, 5, 0),
        step(IS, libc::SYS_ioctl as u32, 0, 3),
        step(LOAD, REQUEST_AT, 0, 0),
        step(IS, libc::TIOCSTI as u32, 2, 0),
        step(IS, libc::TIOCLINUX as u32, 1, 0),
        step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        step(ANSWER, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which outlives the call.
    unsafe { libc::syscall(libc::SYS_seccomp, SET_FILTER, ALL_THREADS, &program) };
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse_typing() {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use egeria_harness::fork::Forked;

    /// 0 when only the two requests are refused.
    fn tried() -> i32 {
        let answer = |request: libc::c_ulong| {
            // SAFETY: no such descriptor, so nothing is read or written.
            let done = unsafe { libc::ioctl(-1, request, 0) };
            (done < 0).then(|| io::Error::last_os_error().raw_os_error())
        };
        let (refused, passed) = (Some(Some(libc::EPERM)), Some(Some(libc::EBADF)));
        let right = answer(libc::TIOCSTI) == refused
            && answer(libc::TIOCLINUX as libc::c_ulong) == refused
            && answer(libc::TCGETS) == passed;
        i32::from(!right)
    }

    #[test]
    fn typing_into_the_terminal_is_refused_and_nothing_else() {
        let child = Forked::run(|| {
            rustix::thread::set_no_new_privs(true).expect("prctl");
            refuse_typing();
            tried()
        });
        assert!(child.unwrap().wait().success());
    }

    #[test]
    fn a_user_is_named_as_the_user_database_has_him() {
        assert_eq!(Account::of(0).to_string(), "root (uid 0)");
        let nobody_has = Account::of(4_000_000_000);
        assert_eq!(nobody_has.to_string(), "uid 4000000000");
        assert_eq!(nobody_has.group, NO_GROUP);
    }
}
