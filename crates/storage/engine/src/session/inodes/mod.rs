//! Inodes in the session: loaded state, block index, opens, times.

pub(crate) mod descriptions;
pub(crate) mod guess;
pub(crate) mod hole_accounts;
pub(crate) mod index;
pub(crate) mod inode;
pub(crate) mod name_table;
pub(crate) mod name_words;
pub(crate) mod open_table;
pub(crate) mod opens;
pub(crate) mod stamps;
pub(crate) mod write_back_errors;
