//! An inode's lock, what readers and in-place writers do without it, and what happens when its owner dies.

pub(crate) mod after_death;
pub(crate) mod direct;
pub(crate) mod exclusion;
pub(crate) mod in_place;
pub(crate) mod late;
pub(crate) mod late_work;
pub mod lock;
pub(crate) mod patience;
pub(crate) mod renames;
pub(crate) mod robust_list;
pub(crate) mod seqlock;
pub(crate) mod turn;
