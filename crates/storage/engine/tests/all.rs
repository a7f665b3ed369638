//! Tests that need no process of their own, in one program: it is built and linked once.

mod basic;
mod callers;
mod checksums;
mod common;
mod concurrency;
mod corners;
mod corrupted;
mod damage;
mod emulated_cache;
mod emulated_machine;
mod failpoints;
mod forged;
mod group;
mod layout;
mod medium;
mod observe;
mod reference;
mod relocate;
mod scrub;
mod security_document;
mod semantics;
mod session_memory;
mod striping;
mod trust;
mod two_nodes;
mod undo;
