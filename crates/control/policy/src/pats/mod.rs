//! PATS: not too many threads on persistent memory at once (Wang, Cao, Lu, Jiang, Dong: *PATS:
//! Taming Bandwidth Contention between Persistent and Dynamic Memories*).
//!
//! Persistent memory shares channels with DRAM. A slow access at the head of a queue holds up the
//! fast ones behind it, and beyond a few threads at once DRAM collapses (§III-B5).
//!
//! ```text
//!   ask (type, size) ──▶ counters ──── S, W_r ──▶ Limiter ──── T_S ───┐
//!        │                   window by window        Eq. 1 | learned  │ set_limit
//!        │ < 256 B: go on                                             ▼
//!        └─▶ wait ───────────────────────────────────────────────▶ Selector
//!             begin ◀── released, round-robin, while fewer than T_S are admitted
//!             … access …
//!             end
//! ```
//!
//! * [`model`]: Eqs. 1 to 4, how many may.
//! * [`Tally`]: what is asked for in a window.
//! * [`Selector`](egeria_admission::Selector): which threads may now (crate `admission`).
//! * [`Limiter`]: the limit from window to window, by the formula or [learned](Controller).
//!
//! Nothing here has a clock, a thread or a lock: time is given, and waiting is the caller's.

mod decision;
mod learned;
mod limiter;
pub mod model;
mod settings;
mod tally;

pub use decision::{Because, Decision, Tried};
pub use limiter::Limiter;
pub(crate) use model::loss_at;
pub use settings::{Controller, Settings};
pub use tally::Tally;
