//! HTTP for few, small pages on this machine.

mod address;
mod connections;
mod request;
mod server;

pub use address::Address;
pub use request::{Answer, Request, Site};
pub use server::Server;
