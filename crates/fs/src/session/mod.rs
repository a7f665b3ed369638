//! What processes share while they are attached (design: The session).

pub mod arena;
pub mod layout;
pub mod lock;
pub mod map;
