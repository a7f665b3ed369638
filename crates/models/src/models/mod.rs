//! The models, by what they include.

mod direct;
mod exclusion;
mod free_lists;
mod id_bitmaps;
mod jobs;
mod locks;
mod notes;
mod pins;
mod reads;
mod slot_ownership;
mod sole;
