//! Programs that benches run: how they are called, and what they say of their speed.

pub(crate) mod fio;
pub(crate) mod script;
pub(crate) mod worker;
