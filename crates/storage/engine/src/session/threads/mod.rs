//! Slots of processes and threads in the session.

pub(crate) mod current;
pub(crate) mod own_callers;
pub(crate) mod owner_word;
pub(crate) mod slot_ownership;
pub(crate) mod slots;
pub(crate) mod walks;
