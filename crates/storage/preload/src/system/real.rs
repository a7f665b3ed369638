//! The functions behind the hooks: what the program would have called without this library.
//!
//! Found by `dlsym(RTLD_NEXT)`, all at once when the library is initialised, so that no hook has to
//! take the dynamic linker's lock later; one by one for whoever calls before that. They are safe to
//! call here because a hook hands on the arguments its own caller vouched for.

use libc::{
    c_char, c_int, c_long, c_uint, c_void, mode_t, off_t, pid_t, sigset_t, size_t, ssize_t,
};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// One function's address; null until found.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.find()
        } else {
            address
        }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // SAFETY: a terminated name; RTLD_NEXT is what this library is for.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            address = absent as *mut c_void;
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Stands for a function that this libc does not have.
extern "C" fn absent() -> c_long {
    super::errno::set(libc::ENOSYS);
    -1
}

/// Whether the address of a function stands for none.
pub fn is_absent(address: *mut c_void) -> bool {
    std::ptr::eq(address, absent as *mut c_void)
}

/// Find all.
pub fn find_all() {
    for real in ALL {
        real.address();
    }
}

macro_rules! reals {
    ($(fn $name:ident ( $($argument:ident : $type:ty),* $(,)? ) $(-> $value:ty)?;)*) => {
        /// The addresses.
        #[allow(non_upper_case_globals)]
        pub mod address {
            use super::*;
            $(#[doc = concat!("`", stringify!($name), "`")]
            pub static $name: Real = Real {
                name: {
                    let name = concat!(stringify!($name), "\0");
                    match CStr::from_bytes_with_nul(name.as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    }
                },
                address: AtomicPtr::new(std::ptr::null_mut()),
            };)*
        }
        static ALL: &[&Real] = &[$(&address::$name),*];
        $(#[doc = concat!("`", stringify!($name), "` of libc, or of the next library before it.")]
        #[inline(always)]
        #[allow(dead_code, non_snake_case)]
        pub fn $name($($argument: $type),*) $(-> $value)? {
            // SAFETY: the prototype of the C library; the hook's caller vouches for the arguments.
            unsafe {
                let function: unsafe extern "C-unwind" fn($($type),*) $(-> $value)? =
                    std::mem::transmute(address::$name.address());
                function($($argument),*)
            }
        })*
    };
}

reals! {
    fn read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t;
    fn pread(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t;
    fn pwrite(fd: c_int, buffer: *const c_void, bytes: size_t, offset: off_t) -> ssize_t;
    fn __read_chk(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t;
    fn __pread_chk(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t, room: size_t) -> ssize_t;
    fn readv(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t;
    fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> ssize_t;
    fn preadv(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    fn pwritev(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t) -> ssize_t;
    fn preadv2(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, parts: *const libc::iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int;
    fn readahead(fd: c_int, offset: off_t, bytes: size_t) -> ssize_t;
    fn posix_fadvise(fd: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int;
    fn ftruncate(fd: c_int, bytes: off_t) -> c_int;
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: c_uint) -> ssize_t;
    fn statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int;
    fn stat(path: *const c_char, into: *mut libc::stat) -> c_int;
    fn lstat(path: *const c_char, into: *mut libc::stat) -> c_int;
    fn fstat(fd: c_int, into: *mut libc::stat) -> c_int;
    fn fstatat(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int;
    fn __xstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int;
    fn __lxstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int;
    fn __fxstat(version: c_int, fd: c_int, into: *mut libc::stat) -> c_int;
    fn __fxstatat(version: c_int, directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int;
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int;
    fn faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    fn readlink(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    fn readlinkat(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    fn __readlink_chk(path: *const c_char, into: *mut c_char, room: size_t, has: size_t) -> ssize_t;
    fn __readlinkat_chk(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t, has: size_t) -> ssize_t;

    fn mkdir(path: *const c_char, mode: mode_t) -> c_int;
    fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int;
    fn symlink(target: *const c_char, path: *const c_char) -> c_int;
    fn symlinkat(target: *const c_char, directory: c_int, path: *const c_char) -> c_int;
    fn unlink(path: *const c_char) -> c_int;
    fn rmdir(path: *const c_char) -> c_int;
    fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn remove(path: *const c_char) -> c_int;
    fn rename(from: *const c_char, to: *const c_char) -> c_int;
    fn renameat(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char) -> c_int;
    fn renameat2(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int;
    fn link(from: *const c_char, to: *const c_char) -> c_int;
    fn linkat(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_int) -> c_int;

    fn truncate(path: *const c_char, bytes: off_t) -> c_int;
    fn chmod(path: *const c_char, mode: mode_t) -> c_int;
    fn fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    fn fchmod(fd: c_int, mode: mode_t) -> c_int;
    fn chown(path: *const c_char, uid: c_uint, gid: c_uint) -> c_int;
    fn lchown(path: *const c_char, uid: c_uint, gid: c_uint) -> c_int;
    fn fchownat(directory: c_int, path: *const c_char, uid: c_uint, gid: c_uint, flags: c_int) -> c_int;
    fn fchown(fd: c_int, uid: c_uint, gid: c_uint) -> c_int;
    fn utimensat(directory: c_int, path: *const c_char, times: *const libc::timespec, flags: c_int) -> c_int;
    fn futimens(fd: c_int, times: *const libc::timespec) -> c_int;
    fn utimes(path: *const c_char, times: *const libc::timeval) -> c_int;
    fn lutimes(path: *const c_char, times: *const libc::timeval) -> c_int;
    fn utime(path: *const c_char, times: *const libc::utimbuf) -> c_int;
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int;
    fn flock(fd: c_int, operation: c_int) -> c_int;
    fn statfs(path: *const c_char, into: *mut c_void) -> c_int;
    fn statvfs(path: *const c_char, into: *mut c_void) -> c_int;
    fn fstatfs(fd: c_int, into: *mut c_void) -> c_int;
    fn fstatvfs(fd: c_int, into: *mut c_void) -> c_int;
    fn fpathconf(fd: c_int, name: c_int) -> c_long;
    fn isatty(fd: c_int) -> c_int;
    fn ttyname(fd: c_int) -> *mut c_char;
    fn ttyname_r(fd: c_int, into: *mut c_char, room: size_t) -> c_int;
    fn tcgetattr(fd: c_int, into: *mut c_void) -> c_int;
    fn futimes(fd: c_int, times: *const libc::timeval) -> c_int;
    fn syncfs(fd: c_int) -> c_int;
    fn tee(fd: c_int, to: c_int, bytes: size_t, flags: c_uint) -> ssize_t;
    fn vmsplice(fd: c_int, parts: *const libc::iovec, count: size_t, flags: c_uint) -> ssize_t;
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    fn fgetxattr(fd: c_int, name: *const c_char, value: *mut c_void, bytes: size_t) -> ssize_t;
    fn flistxattr(fd: c_int, names: *mut c_char, bytes: size_t) -> ssize_t;
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, bytes: size_t) -> ssize_t;
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, bytes: size_t) -> ssize_t;
    fn listxattr(path: *const c_char, names: *mut c_char, bytes: size_t) -> ssize_t;
    fn llistxattr(path: *const c_char, names: *mut c_char, bytes: size_t) -> ssize_t;
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int;
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int;
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut c_void) -> c_int;
    fn name_to_handle_at(directory: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int) -> c_int;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int;
    fn aio_read(control: *mut c_void) -> c_int;
    fn aio_write(control: *mut c_void) -> c_int;
    fn aio_fsync(operation: c_int, control: *mut c_void) -> c_int;
    fn lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn realpath(path: *const c_char, into: *mut c_char) -> *mut c_char;
    fn __realpath_chk(path: *const c_char, into: *mut c_char, has: size_t) -> *mut c_char;
    fn chdir(path: *const c_char) -> c_int;
    fn fchdir(fd: c_int) -> c_int;
    fn umask(mask: mode_t) -> mode_t;

    fn sendfile(to: c_int, from: c_int, from_at: *mut off_t, bytes: size_t) -> ssize_t;
    fn splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: c_uint) -> ssize_t;
    fn mmap(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
    fn lockf(fd: c_int, command: c_int, bytes: off_t) -> c_int;

    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn creat(path: *const c_char, mode: mode_t) -> c_int;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn mkdtemp(template: *mut c_char) -> *mut c_char;
    fn mkstemp(template: *mut c_char) -> c_int;
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;

    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn closefrom(first: c_int);
    fn unshare(flags: c_int) -> c_int;

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn accept(fd: c_int, address: *mut c_void, bytes: *mut c_uint) -> c_int;
    fn accept4(fd: c_int, address: *mut c_void, bytes: *mut c_uint, flags: c_int) -> c_int;
    fn pipe(pair: *mut c_int) -> c_int;
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    fn eventfd(value: c_uint, flags: c_int) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int;
    fn fanotify_mark(fd: c_int, flags: c_uint, mask: u64, directory: c_int, path: *const c_char) -> c_int;
    fn fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int;
    fn pidfd_open(process: pid_t, flags: c_uint) -> c_int;
    fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int;
    fn posix_openpt(flags: c_int) -> c_int;
    fn getpt() -> c_int;
    fn openpty(one: *mut c_int, other: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> c_int;
    fn login_tty(fd: c_int) -> c_int;
    fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int, timeout: *mut libc::timespec) -> c_int;
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int;

    fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE;
    fn freopen(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut libc::FILE) -> *mut libc::FILE;
    fn fclose(file: *mut libc::FILE) -> c_int;
    fn _IO_file_read(stream: *mut libc::FILE, into: *mut c_void, bytes: ssize_t) -> ssize_t;
    fn _IO_file_write(stream: *mut libc::FILE, from: *const c_void, bytes: ssize_t) -> ssize_t;
    fn _IO_file_seek(stream: *mut libc::FILE, offset: off_t, whence: c_int) -> off_t;
    fn _IO_file_close(stream: *mut libc::FILE) -> c_int;
    fn _IO_file_stat(stream: *mut libc::FILE, into: *mut c_void) -> c_int;
    fn _IO_list_lock();
    fn _IO_list_unlock();
    fn _IO_list_resetlock();
    // Tables of functions, of which only the address is used.
    fn _IO_file_jumps();
    fn _IO_wfile_jumps();
    fn tmpfile() -> *mut libc::FILE;
    fn popen(command: *const c_char, kind: *const c_char) -> *mut libc::FILE;
    fn pclose(file: *mut libc::FILE) -> c_int;
    fn opendir(path: *const c_char) -> *mut libc::DIR;
    fn fdopendir(fd: c_int) -> *mut libc::DIR;
    fn closedir(directory: *mut libc::DIR) -> c_int;
    fn readdir(directory: *mut libc::DIR) -> *mut libc::dirent;
    fn readdir_r(directory: *mut libc::DIR, into: *mut libc::dirent, next: *mut *mut libc::dirent) -> c_int;
    fn rewinddir(directory: *mut libc::DIR);
    fn seekdir(directory: *mut libc::DIR, place: c_long);
    fn telldir(directory: *mut libc::DIR) -> c_long;
    fn dirfd(directory: *mut libc::DIR) -> c_int;
    fn getdents64(fd: c_int, into: *mut c_void, room: size_t) -> ssize_t;
    fn getdirentries(fd: c_int, into: *mut c_char, room: size_t, base: *mut i64) -> ssize_t;
    fn scandirat(directory: c_int, path: *const c_char, into: *mut *mut *mut libc::dirent, select: Option<extern "C-unwind" fn(*const libc::dirent) -> c_int>, compare: Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>) -> c_int;
    fn mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int;
    fn mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: libc::dev_t) -> c_int;
    fn __xmknodat(version: c_int, directory: c_int, path: *const c_char, mode: mode_t, device: *mut libc::dev_t) -> c_int;
    fn futimesat(directory: c_int, path: *const c_char, times: *const libc::timeval) -> c_int;
    fn open_tree(directory: c_int, path: *const c_char, flags: c_uint) -> c_int;
    fn move_mount(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int;
    fn mount_setattr(directory: c_int, path: *const c_char, flags: c_uint, attributes: *mut c_void, bytes: size_t) -> c_int;
    fn fspick(directory: c_int, path: *const c_char, flags: c_uint) -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn backtrace_symbols_fd(frames: *const *mut c_void, count: c_int, fd: c_int);
    fn dprintf();
    fn __dprintf_chk();

    fn fork() -> pid_t;
    fn _Fork() -> pid_t;
    fn clone(run: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut c_void, tls: *mut c_void, child: *mut c_void) -> c_int;
    fn forkpty(one: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> pid_t;
    fn daemon(keep_directory: c_int, keep_streams: c_int) -> c_int;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execveat(directory: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn longjmp();
    fn siglongjmp();
    fn __longjmp_chk();
    fn dlopen();
    fn dlmopen();
    fn execl();
    fn execlp();
    fn execle();
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;

    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn signal(signal: c_int, handler: usize) -> usize;
    fn sysv_signal(signal: c_int, handler: usize) -> usize;
    fn sigset(signal: c_int, handler: usize) -> usize;
    fn sigignore(signal: c_int) -> c_int;
    fn siginterrupt(signal: c_int, flag: c_int) -> c_int;
    fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;
    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int;
    fn pthread_sigmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int;
    fn __cxa_thread_atexit_impl(run: *mut c_void, object: *mut c_void, library: *mut c_void) -> c_int;
    fn poll(list: *mut c_void, count: u64, timeout_ms: c_int) -> c_int;
    fn __poll_chk(list: *mut c_void, count: u64, timeout_ms: c_int, room: size_t) -> c_int;
    fn ppoll(list: *mut c_void, count: u64, timeout: *const libc::timespec, mask: *const c_void) -> c_int;
    fn __ppoll_chk(list: *mut c_void, count: u64, timeout: *const libc::timespec, mask: *const c_void, room: size_t) -> c_int;
    fn select(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *mut c_void) -> c_int;
    fn pselect(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *const libc::timespec, mask: *const c_void) -> c_int;
    fn pause() -> c_int;
    fn sigsuspend(mask: *const c_void) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn usleep(microseconds: c_uint) -> c_int;
    fn thrd_sleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    fn sem_timedwait(semaphore: *mut c_void, time: *const libc::timespec) -> c_int;
    fn sem_clockwait(semaphore: *mut c_void, clock: c_int, time: *const libc::timespec) -> c_int;
    fn msgsnd(queue: c_int, message: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    fn msgrcv(queue: c_int, message: *mut c_void, bytes: size_t, kind: i64, flags: c_int) -> ssize_t;
    fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    fn clock_nanosleep(clock: c_int, flags: c_int, time: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    fn setuid(user: c_uint) -> c_int;
    fn setgid(group: c_uint) -> c_int;
    fn seteuid(user: c_uint) -> c_int;
    fn setegid(group: c_uint) -> c_int;
    fn setreuid(own: c_uint, effective: c_uint) -> c_int;
    fn setregid(own: c_uint, effective: c_uint) -> c_int;
    fn setresuid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setresgid(own: c_uint, effective: c_uint, saved: c_uint) -> c_int;
    fn setfsuid(user: c_uint) -> c_int;
    fn setfsgid(group: c_uint) -> c_int;
    fn setgroups(count: size_t, groups: *const c_uint) -> c_int;
    fn initgroups(name: *const c_char, group: c_uint) -> c_int;
    fn capset(header: *mut c_void, sets: *const c_void) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn pivot_root(root: *const c_char, old: *const c_char) -> c_int;
    fn setns(fd: c_int, kind: c_int) -> c_int;
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    fn setrlimit(resource: c_uint, limit: *const c_void) -> c_int;
    fn prlimit(process: pid_t, resource: c_uint, new: *const c_void, old: *mut c_void) -> c_int;
}
