//! Files: their cached pages, which processes use them, and how much these read and write.

mod credit;
pub mod file;
pub mod file_counts;
pub mod file_io;
pub mod found_files;
mod relatives;
pub mod tree;
pub mod users;
