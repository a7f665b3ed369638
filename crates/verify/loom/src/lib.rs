//! The lock-free parts of other crates, included as they are and run under loom: in every order of their threads'
//! steps (bounded by preemptions), with every value that a load may see under the memory model of C++, which allows
//! more than the CPUs that Egeria runs on.
//!
//! Such a module takes its atomics from `crate::sync`: those of `std` in its own crate, those of [`sync`] here. What
//! it needs of its surroundings is here under the same names, and far smaller (`format`, `record`, `session`). A
//! thread that dies is one that returns before it is done.
//!
//! Each model also proves that it can fail: every ordering on which it depends is weakened in turn, and the model
//! must fail (see [`check`]). A model names the orderings that it does not need, with the reason.

#![cfg(test)]
#![allow(dead_code)] // Every model uses a part.

mod cell;
mod check;
mod format;
mod observe;
mod record;
mod session;
mod sync;
mod types;

use types::Errno;

#[path = "../../../storage/preload/src/sync/apart.rs"]
mod apart;
#[path = "../../../storage/preload/src/description/deferral.rs"]
mod deferral;
#[path = "../../../storage/preload/src/sync/gate.rs"]
mod gate;
#[path = "../../../storage/media/src/emulation/id_bitmap.rs"]
mod id_bitmap;
#[path = "../../../storage/engine/src/session/data_paths/delegation/job.rs"]
mod job;
#[path = "../../../storage/preload/src/sync/lock.rs"]
mod lock;
#[path = "../../../storage/preload/src/sync/locked.rs"]
mod locked;
#[path = "../../../storage/preload/src/description/pin.rs"]
mod pin;
#[path = "../../../storage/preload/src/description/private_offset.rs"]
mod private_offset;
#[path = "../../../storage/preload/src/description/sole.rs"]
mod sole;

mod models;
