//! As in `fs`.

pub(crate) use egeria_fs::{Errno, Outcome};
