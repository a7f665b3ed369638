//! The models, by what they include.

mod locks;
mod notes;
mod numbers;
mod pins;
mod reads;
mod tenures;
