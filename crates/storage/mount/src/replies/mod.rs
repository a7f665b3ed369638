//! Replies: conversions, log lines of failures, counts.

pub(crate) mod convert;
pub(crate) mod failures;
pub(crate) mod request_counts;
