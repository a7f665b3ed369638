//! A process that has memory on a node, and does nothing with it.

use std::io;
use std::os::fd::OwnedFd;

use egeria_harness::fork::Forked;
use egeria_machine::NodeId;
use egeria_proc::task;
use rustix::process::{Signal, set_parent_process_death_signal};

/// As long as it is kept.
pub(super) struct Holder {
    pub(super) process_id: u32,
    /// Killed when dropped.
    _process: Forked,
    pub(super) start_ticks: u64,
}

impl Holder {
    /// Starts one, and waits until it has its memory.
    ///
    /// # Errors
    /// When the kernel refuses, or ends it for want of memory.
    pub(super) fn start(bytes: usize, is_huge: bool, node: NodeId) -> io::Result<Holder> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // The child only makes system calls and touches memory that it mapped.
        let process = Forked::run(|| hold(bytes, is_huge, node, &writer))?;
        drop(writer);
        let child = process.id() as u32;
        let mut holder = Holder {
            process_id: child,
            _process: process,
            start_ticks: 0,
        };
        let mut status = [0_u8; 4];
        let ready = io::Read::read_exact(&mut std::fs::File::from(reader), &mut status);
        ready.map_err(|_| io::Error::other("a process with so much memory was ended"))?;
        match i32::from_ne_bytes(status) {
            0 => holder.start_ticks = task::began(child).unwrap_or(0),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        Ok(holder)
    }
}

/// The child: says 0, or an error number, and waits to be killed.
fn hold(bytes: usize, is_huge: bool, node: NodeId, writer: &OwnedFd) -> ! {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let status = fill(bytes, is_huge, node).err().unwrap_or(0).to_ne_bytes();
    let _ = rustix::io::write(writer, &status);
    loop {
        rustix::event::pause();
    }
}

/// Maps and touches memory that comes from the node; afterwards nothing binds it there.
fn fill(bytes: usize, is_huge: bool, node: NodeId) -> Result<(), i32> {
    const HUGE_BYTES: usize = 2 << 20;
    let last = || {
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    };
    let mask = [1_u64 << (node.0 % 64); 1];
    let no_mask = std::ptr::null::<u64>();
    // SAFETY: the mapping is new, and the stores stay inside of it.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            bytes + HUGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if start == libc::MAP_FAILED {
            return Err(last());
        }
        let first = (start as usize).next_multiple_of(HUGE_BYTES);
        let advice = if is_huge {
            libc::MADV_HUGEPAGE
        } else {
            libc::MADV_NOHUGEPAGE
        };
        if libc::madvise(first as *mut libc::c_void, bytes, advice) != 0 {
            return Err(last());
        }
        let bound = libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, mask.as_ptr(), 65);
        if bound != 0 {
            return Err(last());
        }
        for page in (first..first + bytes).step_by(4096) {
            std::ptr::write_volatile(page as *mut u8, 1);
        }
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, no_mask, 0);
    }
    Ok(())
}
