//! Tests that can run with others in one program, which is built and linked once. Those that fork, that make namespaces, or that
//! count what the kernel asks for in a time, are programs of their own.

mod attributes;
#[path = "common/child.rs"]
mod child;
mod client_files;
mod common;
mod control;
mod data;
mod handles;
mod names;
mod permissions;
mod quotas;
mod renames;
mod xattr;
