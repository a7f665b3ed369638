//! Telling the caller how far a long measurement is.

/// One step of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    pub done: u64,
    pub total: u64,
    /// What is measured now, in a few words.
    pub what: &'a str,
}

/// For callers who do not want to know.
pub fn silent(_: &Progress<'_>) {}
