//! All tests of this crate in one program: it is built and linked once.

mod bulldozer;
mod fair;
mod groups;
mod links;
mod machine_file;
mod machines;
mod memories;
mod picture;
mod profiles;
mod sysfs_nonsense;
mod sysfs_trees;
mod weights;
