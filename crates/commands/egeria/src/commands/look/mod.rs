//! Looking at this machine, at what runs on it, and at what a steward decided.

mod decision_log;
pub mod diagnose;
pub mod doctor;
pub mod explain;
mod programs;
pub mod top;
mod watched;
pub mod web;
pub mod where_is;
