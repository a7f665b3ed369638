//! HTTP for few, small pages on this machine.

mod address;
mod server;

pub use address::Address;
pub use server::{Answer, Request, Server, Site};
