//! Walks over directories that change meanwhile: what stays is seen, nothing is seen twice.

use super::model::Model;
use std::collections::{BTreeMap, BTreeSet};

/// One walk under way in a directory.
#[derive(Default)]
pub struct Walk {
    pub cookie: u64,
    /// Names there since the beginning.
    stayed: BTreeSet<Vec<u8>>,
    seen_entries: BTreeSet<u64>,
    seen_names: BTreeSet<Vec<u8>>,
}

fn entries(model: &Model, directory: u64) -> BTreeMap<Vec<u8>, (u64, u64)> {
    let node = model.node(directory).expect("walked directories live");
    let directory = node.directory().expect("a directory");
    directory.names.clone()
}

impl Walk {
    pub fn begin(model: &Model, directory: u64) -> Walk {
        Walk {
            stayed: entries(model, directory).into_keys().collect(),
            ..Walk::default()
        }
    }

    /// After every operation: what went no longer has to be seen.
    pub fn update(&mut self, model: &Model, directory: u64) {
        let now = entries(model, directory);
        self.stayed.retain(|name| now.contains_key(name));
    }

    /// The engine gave this entry.
    pub fn saw(&mut self, model: &Model, directory: u64, ino: u64, cookie: u64, name: &[u8]) {
        assert!(cookie > self.cookie, "cookies must grow");
        self.cookie = cookie;
        match name {
            b"." => return assert_eq!(ino, directory),
            b".." => {
                let node = model.node(directory).expect("a node");
                return assert_eq!(ino, node.directory().expect("a directory").parent);
            }
            _ => {}
        }
        let there = entries(model, directory);
        let (there_ino, entry) = there
            .get(name)
            .unwrap_or_else(|| panic!("{name:?} is not there"));
        assert_eq!(*there_ino, ino, "{name:?} names another inode");
        assert!(self.seen_entries.insert(*entry), "{name:?} is listed twice");
        self.seen_names.insert(name.to_vec());
    }

    /// The walk is at its end.
    pub fn end(self) {
        let missed: Vec<_> = self.stayed.difference(&self.seen_names).collect();
        assert!(missed.is_empty(), "never listed: {missed:?}");
    }
}
