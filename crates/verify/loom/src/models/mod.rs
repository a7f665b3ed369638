//! The models, by what they include.

mod deferrals;
mod direct;
mod exclusion;
mod free_lists;
mod gates;
mod id_bitmaps;
mod jobs;
mod leases;
mod locks;
mod notes;
mod offsets;
mod pins;
mod reads;
mod slot_ownership;
mod sole;
