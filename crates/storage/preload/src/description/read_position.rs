//! How far a directory was read.

use std::sync::atomic::AtomicU64;

/// How far a directory was read.
pub struct Reading {
    /// The stream ends before this cookie; 0: not read yet.
    pub end: AtomicU64,
    /// Nothing follows this cookie.
    pub ended_at: AtomicU64,
}

impl Reading {
    /// Nothing was read.
    pub const fn new() -> Reading {
        Reading {
            end: AtomicU64::new(0),
            ended_at: AtomicU64::new(0),
        }
    }
}
