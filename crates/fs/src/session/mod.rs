//! What processes share while they are attached: the segment, its locks and slots, and the state of inodes in it.

pub(crate) mod admission;
mod after_death;
pub mod arena;
pub(crate) mod current;
pub(crate) mod descriptions;
pub(crate) mod direct;
pub(crate) mod free_list;
pub(crate) mod hole_accounts;
pub(crate) mod inode;
pub(crate) mod late;
pub mod layout;
pub(crate) mod leases;
pub mod lock;
pub mod map;
pub(crate) mod memory;
mod memory_group;
pub(crate) mod open_table;
pub(crate) mod opens;
pub(crate) mod owner_word;
pub(crate) mod path_mode;
pub(crate) mod patience;
pub(crate) mod seqlock;
pub(crate) mod slot_ownership;
pub(crate) mod slots;
pub(crate) mod stuck;
pub(crate) mod turn;
mod waiting;
