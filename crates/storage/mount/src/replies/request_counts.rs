//! Metrics: how often the mount was asked for which operation, how long it took, and which requests it answered with
//! `EIO`. Programs that bypass the mount pay nothing for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use egeria_engine::FailureCause;

/// Upper bounds of the buckets of latencies, ns. Longer times are in one more bucket.
pub const LATENCY_BOUNDS_NS: [u64; 13] = [
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    5_000_000,
    20_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;

macro_rules! kinds {
    ($($kind:ident $name:literal)*) => {
        /// What a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum RequestKind { $($kind),* }

        const KINDS: [RequestKind; [$($name),*].len()] = [$(RequestKind::$kind),*];

        impl RequestKind {
            /// As the kernel's protocol calls it.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(RequestKind::$kind => $name),*
                }
            }
        }
    };
}

kinds! {
    CopyFileRange "copy_file_range"
    Create "create"
    Fallocate "fallocate"
    Forget "forget"
    Getattr "getattr"
    Getxattr "getxattr"
    Ioctl "ioctl"
    Link "link"
    Listxattr "listxattr"
    Lookup "lookup"
    Lseek "lseek"
    Mkdir "mkdir"
    Mknod "mknod"
    Open "open"
    Opendir "opendir"
    Read "read"
    Readdir "readdir"
    Readlink "readlink"
    Release "release"
    Releasedir "releasedir"
    Removexattr "removexattr"
    Rename "rename"
    Rmdir "rmdir"
    Setattr "setattr"
    Setxattr "setxattr"
    Statfs "statfs"
    Symlink "symlink"
    Unlink "unlink"
    Write "write"
}

/// Why a request was answered with `EIO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCause {
    Damage,
    Checksum,
    Medium,
    Lock,
    NoThread,
    Panic,
    Unknown,
}

const CAUSES: [(ErrorCause, &str); 7] = [
    (ErrorCause::Damage, "damage"),
    (ErrorCause::Checksum, "checksum"),
    (ErrorCause::Medium, "medium"),
    (ErrorCause::Lock, "lock"),
    (ErrorCause::NoThread, "no_thread"),
    (ErrorCause::Panic, "panic"),
    (ErrorCause::Unknown, "unknown"),
];

impl From<Option<FailureCause>> for ErrorCause {
    fn from(cause: Option<FailureCause>) -> Self {
        match cause {
            Some(FailureCause::Damaged { .. }) => ErrorCause::Damage,
            Some(FailureCause::Mismatch { .. }) => ErrorCause::Checksum,
            Some(FailureCause::Medium { .. }) => ErrorCause::Medium,
            Some(FailureCause::Lock { .. }) => ErrorCause::Lock,
            None => ErrorCause::Unknown,
        }
    }
}

/// Requests of one kind, by how long they took.
#[derive(Default)]
struct Times {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// A snapshot of the times of requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// What was asked for, as the kernel's protocol calls it.
    pub kind: &'static str,
    /// Requests by [`LATENCY_BOUNDS_NS`]; the last number is of those that took longer.
    pub buckets: [u64; BUCKETS],
    /// How long all of them took, ns.
    pub sum_ns: u64,
}

/// Counts of one mount.
#[derive(Default)]
pub struct RequestCounts {
    kinds: [Times; KINDS.len()],
    errors: [AtomicU64; CAUSES.len()],
}

impl RequestCounts {
    /// One request was answered.
    pub(crate) fn count(&self, kind: RequestKind, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let times = &self.kinds[kind as usize];
        let bucket = LATENCY_BOUNDS_NS.partition_point(|&bound| bound < took_ns);
        times.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        times.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// One request was answered with `EIO`.
    pub(crate) fn count_error(&self, cause: ErrorCause) {
        self.errors[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What was asked for, and how long it took.
    pub fn latencies(&self) -> impl Iterator<Item = Latencies> {
        KINDS.iter().zip(&self.kinds).map(|(kind, times)| {
            let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
            Latencies {
                kind: kind.name(),
                buckets: times.buckets.each_ref().map(read),
                sum_ns: read(&times.sum_ns),
            }
        })
    }

    /// Requests that were answered with `EIO`, by cause.
    pub fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.errors.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        CAUSES.iter().map(|(_, name)| *name).zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_in_the_bucket_of_its_bound() {
        let counts = RequestCounts::default();
        for took_ns in [0, 5_000, 5_001, 10_000_000_000, 10_000_000_001, u64::MAX] {
            counts.count(RequestKind::Write, Duration::from_nanos(took_ns));
        }
        let of = |kind| {
            let mut all = counts.latencies();
            all.find(|latencies| latencies.kind == kind).unwrap()
        };
        let written = of("write");
        assert_eq!((written.buckets[0], written.buckets[1]), (2, 1));
        assert_eq!(written.buckets[BUCKETS - 2..], [1, 2]);
        assert_eq!(of("read").buckets, [0; BUCKETS]);
    }

    #[test]
    fn every_kind_and_cause_has_its_own_place() {
        for (place, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
        for (place, (cause, _)) in CAUSES.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
        }
    }
}
