//! All tests of the command that need no quiet machine, in one program: it is built and linked once.

mod common;
mod demo;
mod papers;
mod programs;
mod trials;
mod usage;
