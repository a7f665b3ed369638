//! How calls end.

/// How a call ended.
pub enum Reply {
    /// Served here: a value, or minus an errno.
    Direct(isize),
    /// The kernel was asked on the way: its value, or minus an errno.
    Kernel(isize),
    /// Ask the kernel now.
    Pass,
}
