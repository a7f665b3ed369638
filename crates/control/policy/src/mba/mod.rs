//! Bandwidth allocation of the CPU (MBA) for programs that use memory without asking for admission (ours).
//!
//! Limits and delegation bound only threads that ask. A memory whose curve falls suffers as much from others. The CPU
//! can delay their requests, so that each makes a share of those that it would make alone. The share follows from the
//! curve:
//!
//! ```text
//!            threads that it bears - those that ask, as bounded - those left out     bytes/s of each of those that it bears
//!   share =  ------------------------------------------------------------------- * ---------------------------------------- * 0.95
//!                                     threads to bound                                     bytes/s of one alone
//! ```
//!
//! It begins where the traffic shows that the memory is busy, and more threads are there than its curve bears. It ends
//! some windows after that, or when it brought too little (stage `feedback`).

mod display;
mod plan;
mod state;

pub use plan::{BoundBecause, MbaPlan, Share, UnboundBecause};
pub use state::Settings;
pub(crate) use state::{Basis, State};
