//! Common behaviour of all commands of Egeria: errors of one line, JSON, progress, signals, pages, completions.

pub mod about;
pub mod completions;
pub mod durations;
pub mod failure;
pub mod manual;
pub mod output;
pub mod preload;
pub mod program;
pub mod progress;
pub mod signals;
pub mod sizes;
mod stderr;
pub mod usage;
