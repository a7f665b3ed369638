//! What processes share while they are attached (design: The session).

pub mod arena;
pub(crate) mod free_list;
pub mod layout;
pub mod lock;
pub mod map;
