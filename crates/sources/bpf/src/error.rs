//! Why nothing can be counted.

use std::io;

/// One line with cause and remedy.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// No rights.
    #[error("this user may not load programs into the kernel (CAP_BPF, CAP_PERFMON); run as root")]
    NotAllowed,
    /// Programs know the system calls of one kind of CPU.
    #[error("files are counted on x86-64 only")]
    Cpu,
    /// The ids that the kernel gives are those of the first namespace.
    #[error("in a pid namespace of its own, as in a container; run on the host")]
    Namespace,
    /// The kernel does not say where its fields are.
    #[error("/sys/kernel/btf/vmlinux: {0}; a kernel with BTF is needed, as Debian's are")]
    NoBtf(io::Error),
    /// What it says makes no sense.
    #[error("/sys/kernel/btf/vmlinux: {0}; this kernel is not known, use /proc instead")]
    Btf(String),
    /// The kernel refuses something else.
    #[error("the kernel refuses to {what}: {error}; Linux 5.11 or later is needed")]
    Kernel {
        /// What was tried.
        what: &'static str,
        error: io::Error,
    },
    /// No thread to attach and detach in.
    #[error("no thread can be started: {0}; raise the limit of processes (ulimit -u)")]
    Thread(io::Error),
}

/// With why nothing can be counted.
pub type Result<T> = std::result::Result<T, BpfError>;

impl BpfError {
    pub(crate) fn kernel(what: &'static str, error: io::Error) -> BpfError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => BpfError::NotAllowed,
            _ => BpfError::Kernel { what, error },
        }
    }
}
