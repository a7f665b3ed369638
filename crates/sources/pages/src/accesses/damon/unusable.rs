//! Why DAMON is not used.

use std::fmt;
use std::io;

/// Why DAMON cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// The kernel has no DAMON, or not in sysfs.
    Absent,
    /// It has DAMON, but not for the memory of processes.
    NoAddresses,
    /// This user may not use it.
    NotAllowed,
    /// Another program has set it up: there is one set-up for the whole machine.
    InUse,
    /// Another program changed the set-up of this one.
    Taken,
    /// The kernel refuses.
    Failed(String),
}

impl Unusable {
    pub(super) fn of(error: &io::Error) -> Unusable {
        match error.kind() {
            io::ErrorKind::NotFound => Unusable::Absent,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Unusable::NotAllowed
            }
            io::ErrorKind::ResourceBusy => Unusable::InUse,
            _ => Unusable::Failed(error.to_string()),
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Unusable::Absent => "the kernel has no DAMON in sysfs (CONFIG_DAMON_SYSFS)",
            Unusable::NoAddresses => {
                "the kernel's DAMON does not observe processes (CONFIG_DAMON_VADDR)"
            }
            Unusable::NotAllowed => {
                "this user may not use DAMON; run it as root, with /sys writable"
            }
            Unusable::InUse => {
                "another program uses DAMON (/sys/kernel/mm/damon/admin/kdamonds), and only one can"
            }
            Unusable::Taken => "another program changed DAMON's set-up",
            Unusable::Failed(why) => return write!(formatter, "DAMON cannot be used: {why}"),
        })
    }
}
