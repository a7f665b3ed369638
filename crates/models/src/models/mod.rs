//! The models, by what they include.

mod direct;
mod free_lists;
mod locks;
mod notes;
mod numbers;
mod pins;
mod reads;
mod tenures;
