//! Whether the kernel answers what this crate asks it. Nothing changes: policies and masks are set on a thread that
//! ends.

use std::io;
use std::os::fd::AsFd;

use egeria_proc::task;

use crate::kernel::calls;

/// Counting cached pages.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` in a sandbox.
pub fn cachestat() -> io::Result<()> {
    let own = std::fs::File::open("/proc/self/exe")?;
    match calls::cachestat(own.as_fd(), 0, 1) {
        // Newer kernels answer this only to a process that may write the file. But then the call exists.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) && !is_forbidden() => Ok(()),
        counted => counted.map(drop),
    }
}

/// Whether a sandbox refuses `cachestat` before it looks at its arguments.
fn is_forbidden() -> bool {
    // SAFETY: integers; the kernel finds that there is no such descriptor.
    let answer = unsafe { libc::syscall(calls::SYS_CACHESTAT, -1, 0, 0, 0) };
    answer != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// Asking for the node of a page.
///
/// # Errors
/// `ENOSYS` without NUMA support, `EPERM` in a sandbox.
pub fn page_nodes() -> io::Result<()> {
    let here = 0_u8;
    calls::nodes_of(calls::THIS_PROCESS, &[&raw const here as usize]).map(drop)
}

/// Choosing the node of new pages.
///
/// # Errors
/// Those of [`page_nodes`].
pub fn memory_policy() -> io::Result<()> {
    on_thread(calls::allocate_anywhere)
}

/// Choosing CPUs.
///
/// # Errors
/// `EPERM` in a sandbox.
pub fn affinity() -> io::Result<()> {
    on_thread(|| {
        let thread = rustix::thread::gettid().as_raw_pid() as u32;
        task::set_affinity(thread, &task::affinity(thread)?)
    })
}

fn on_thread(ask: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let asked = std::thread::Builder::new().spawn(ask)?.join();
    asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_nodes_lets_policies_be_what_they_are() {
        let answers = [page_nodes(), memory_policy(), affinity()];
        for answer in answers {
            let error = answer.err().and_then(|error| error.raw_os_error());
            // A kernel without NUMA support, or a sandbox.
            let is_refused = matches!(error, None | Some(libc::ENOSYS | libc::EPERM));
            assert!(is_refused, "{error:?}");
        }
    }
}
