//! What POSIX and Linux promise of files, as cases that run in any directory.
//!
//! Each case is a function that makes real libc calls in a fresh working directory, in a process of its
//! own, and panics where an answer is not the promised one. The cases know nothing of the file system
//! below them: on tmpfs they show that they themselves are right, elsewhere they show the file system.

pub mod call;
mod case;
pub mod cases;
pub mod check;
pub mod mapping;
pub mod process;
pub mod random;
pub mod run;

pub use case::Case;

/// All cases, family by family.
pub fn all() -> impl Iterator<Item = &'static Case> {
    cases::FAMILIES.iter().flat_map(|family| family.iter())
}
