//! As in `fs`.

pub(crate) use egeria_engine::{Errno, Outcome};
