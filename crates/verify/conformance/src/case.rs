//! What a case is.

/// One case.
#[derive(Clone, Copy)]
pub struct Case {
    /// The family of calls it is about.
    pub family: &'static str,
    /// What it proves.
    pub name: &'static str,
    /// Panics when the promise is not kept. The working directory is empty and its own.
    pub run: fn(),
}

impl Case {
    /// `family::name`.
    pub fn full_name(&self) -> String {
        format!("{}::{}", self.family, self.name)
    }
}
