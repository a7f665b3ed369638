//! NThread: threads go to their data, and data never moves (NThread §III).

mod set;
mod settings;

pub use settings::{Configuration, SettingError, Settings, Stages};
