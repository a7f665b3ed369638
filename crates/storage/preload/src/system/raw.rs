//! System calls without libc: no errno, no cancellation point, no hook in between.
//!
//! Every function returns what the kernel returns: a value, or minus an errno. Pointers are checked
//! by the kernel (`EFAULT`), so the functions are safe to call with any.

use super::zeros::zeros;
use libc::*;
use std::arch::asm;

/// A system call of up to six arguments.
///
/// # Safety
/// The call must not break memory that Rust relies on.
#[inline(always)]
pub unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let outcome: isize;
    // SAFETY: the kernel's x86-64 convention: rcx and r11 are clobbered, memory may change.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => outcome,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    outcome
}

/// Of Linux 6.8; libc does not name them.
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;

/// What `statmount` and `listmount` are asked (`struct mnt_id_req`).
#[repr(C)]
pub struct MountRequest {
    /// Bytes of this.
    pub bytes: u32,
    /// Zero.
    pub spare: u32,
    /// Number of the mount that the kernel never gives out again.
    pub mount: u64,
    /// What is wanted, or where to go on.
    pub parameter: u64,
}

/// What `openat2` is asked (`struct open_how`).
#[repr(C)]
pub struct OpenHow {
    /// As for `openat`.
    pub flags: u64,
    /// As for `openat`.
    pub mode: u64,
    /// What is not to be followed on the way.
    pub resolve: u64,
}

macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident = $number:ident ( $($argument:ident : $type:ty),* );)*) => {
        $($(#[$meta])*
        #[inline(always)]
        pub fn $name($($argument: $type),*) -> isize {
            let given = [$($argument as usize),*];
            let mut arguments = [0usize; 6];
            arguments[..given.len()].copy_from_slice(&given);
            // SAFETY: acts on descriptors and signals, or on the caller's memory as its caller asked.
            unsafe { call($number, arguments) }
        })*
    };
}

calls! {
    fn openat = SYS_openat(directory: c_int, path: *const libc::c_char, flags: c_int, mode: u32);
    fn openat2 = SYS_openat2(directory: c_int, path: *const libc::c_char, how: *const OpenHow, bytes: usize);
    fn read = SYS_read(fd: c_int, buffer: *mut c_void, bytes: usize);
    fn pread = SYS_pread64(fd: c_int, buffer: *mut c_void, bytes: usize, offset: i64);
    fn pwrite = SYS_pwrite64(fd: c_int, buffer: *const c_void, bytes: usize, offset: i64);
    fn write = SYS_write(fd: c_int, buffer: *const c_void, bytes: usize);
    fn preadv2 = SYS_preadv2(fd: c_int, parts: *const libc::iovec, count: c_int, low: i64, high: i64, flags: c_int);
    fn pwritev2 = SYS_pwritev2(fd: c_int, parts: *const libc::iovec, count: c_int, low: i64, high: i64, flags: c_int);
    fn memfd_create = SYS_memfd_create(name: *const libc::c_char, flags: u32);
    fn fchmod = SYS_fchmod(fd: c_int, mode: u32);
    fn dup3 = SYS_dup3(fd: c_int, to: c_int, flags: c_int);
    fn fsync = SYS_fsync(fd: c_int);
    fn getdents64 = SYS_getdents64(fd: c_int, into: *mut c_void, bytes: usize);
    fn lseek = SYS_lseek(fd: c_int, offset: i64, whence: c_int);
    fn fcntl = SYS_fcntl(fd: c_int, command: c_int, argument: usize);
    fn ioctl = SYS_ioctl(fd: c_int, request: u64, argument: *mut c_void);
    fn fstatfs = SYS_fstatfs(fd: c_int, into: *mut libc::statfs);
    fn fstat = SYS_fstat(fd: c_int, into: *mut libc::stat);
    fn statx = SYS_statx(fd: c_int, path: *const libc::c_char, flags: c_int, mask: u32, into: *mut libc::statx);
    fn statmount = SYS_STATMOUNT(request: *const MountRequest, into: *mut c_void, bytes: usize, flags: usize);
    fn listmount = SYS_LISTMOUNT(request: *const MountRequest, into: *mut u64, count: usize, flags: usize);
    fn getcwd = SYS_getcwd(into: *mut c_void, bytes: usize);
    fn getrandom = SYS_getrandom(into: *mut c_void, bytes: usize, flags: u32);
    fn getpid = SYS_getpid();
    fn geteuid = SYS_geteuid();
    fn prctl = SYS_prctl(option: c_int, argument: usize);
    fn capget = SYS_capget(header: *mut [u32; 2], sets: *mut [u32; 6]);
    fn getresuid = SYS_getresuid(own: *mut u32, effective: *mut u32, saved: *mut u32);
    fn getresgid = SYS_getresgid(own: *mut u32, effective: *mut u32, saved: *mut u32);
    fn setfsuid = SYS_setfsuid(user: u32);
    fn setfsgid = SYS_setfsgid(group: u32);
    fn process_vm_readv = SYS_process_vm_readv(process: c_int, here: *const libc::iovec, here_count: usize, there: *const libc::iovec, there_count: usize, flags: usize);
    fn io_submit = SYS_io_submit(context: usize, count: c_long, list: *const c_void);
    fn gettid = SYS_gettid();
    fn sched_yield = SYS_sched_yield();
    fn close = SYS_close(fd: c_int);
    fn tgkill = SYS_tgkill(process: isize, thread: isize, signal: c_int);
    fn queue_signal = SYS_rt_tgsigqueueinfo(process: isize, thread: isize, signal: c_int, information: *const libc::siginfo_t);
    fn signal_mask = SYS_rt_sigprocmask(how: c_int, set: *const u64, old: *mut u64, bytes: usize);
    fn sigaltstack = SYS_sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t);
    fn pending = SYS_rt_sigpending(set: *mut u64, bytes: usize);
    fn futex = SYS_futex(word: *const u32, operation: c_int, value: u32, timeout: *const libc::timespec);
    fn membarrier = SYS_membarrier(command: c_int, flags: c_int);
    fn prlimit = SYS_prlimit64(process: c_int, resource: c_int, new: *const libc::rlimit64, old: *mut libc::rlimit64);
    fn mprotect = SYS_mprotect(address: *mut u8, bytes: usize, protection: c_int);
    fn pipe2 = SYS_pipe2(pair: *mut [c_int; 2], flags: c_int);
    fn munmap = SYS_munmap(address: *mut u8, bytes: usize);
    fn nanosleep = SYS_nanosleep(time: *const libc::timespec, left: *mut libc::timespec);
    fn clock_nanosleep = SYS_clock_nanosleep(clock: c_int, flags: c_int, time: *const libc::timespec, left: *mut libc::timespec);
}

/// Fresh zeroed private memory; `None` when the kernel refuses.
pub fn map(bytes: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let arguments = [0, bytes, protection, flags, usize::MAX, 0];
    // SAFETY: a new mapping at an address the kernel chooses touches nothing that exists.
    let address = unsafe { call(libc::SYS_mmap, arguments) };
    (address > 0).then_some(address as *mut u8)
}

/// `madvise` on memory that [`map`] gave.
pub fn advise(address: *mut u8, bytes: usize, advice: c_int) -> isize {
    // SAFETY: advice given here (WIPEONFORK, DONTDUMP) changes nothing in this process.
    unsafe {
        call(
            libc::SYS_madvise,
            [address as usize, bytes, advice as usize, 0, 0, 0],
        )
    }
}

/// The number that a call answered, a descriptor as a rule, or its errno.
///
/// # Errors
/// The errno of the call.
pub fn number(answer: isize) -> Result<c_int, c_int> {
    match answer {
        0.. => Ok(answer as c_int),
        _ => Err(-answer as c_int),
    }
}

/// What the kernel knows of an open file.
pub fn facts_of(fd: c_int) -> Option<libc::stat> {
    let mut facts: libc::stat = zeros();
    (fstat(fd, &raw mut facts) == 0).then_some(facts)
}

/// What the kernel knows of the file with this name in a directory.
pub fn facts_at(directory: c_int, name: &std::ffi::CStr) -> Option<libc::statx> {
    let mut facts: libc::statx = zeros();
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    let answer = statx(directory, name.as_ptr(), flags, 0, &raw mut facts);
    (answer == 0).then_some(facts)
}

/// What the kernel knows of an open file without asking its file system.
pub fn facts_here(fd: c_int) -> Option<libc::statx> {
    let mut facts: libc::statx = zeros();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let answer = statx(
        fd,
        c"".as_ptr(),
        flags,
        libc::STATX_BASIC_STATS,
        &raw mut facts,
    );
    (answer == 0).then_some(facts)
}

/// The size that the kernel keeps of an open file, without asking its file system.
pub fn known_size_bytes(fd: c_int) -> Option<u64> {
    let mut facts: libc::statx = zeros();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let answer = statx(fd, c"".as_ptr(), flags, libc::STATX_SIZE, &raw mut facts);
    (answer == 0).then_some(facts.stx_size)
}
