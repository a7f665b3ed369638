//! Bandwidth allocation of the CPU (MBA) for programs that use memory without asking for admission (ours).
//!
//! Limits and delegation bound only threads that ask. A memory whose curve falls suffers as much from others. The CPU
//! can delay their requests: a thread whose requests are bounded to a share of its rate counts as that share of a
//! thread at the memory. So the share follows from the curve:
//!
//! ```text
//!   share = (threads that the curve bears - threads that ask, as bounded - threads left out) / threads to bound
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
