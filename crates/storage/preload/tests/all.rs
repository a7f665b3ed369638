//! Tests that can run with others in one program, which is built and linked once.

mod bare;
mod calls;
mod common;
mod deaths;
mod delegates;
mod descriptors;
mod directories;
mod hosts;
mod medium;
mod names;
mod opens;
mod position;
mod processes;
mod protection;
mod quotas;
mod signals;
mod stacks;
mod stops;
mod streams;
mod watches;
