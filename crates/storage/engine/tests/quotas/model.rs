//! What trees with limits use, as a plain model counts it.

use std::collections::{BTreeMap, BTreeSet};

/// Why the model refuses something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Quota,
    OtherTree,
    /// For another reason, which the test does not compare.
    Other,
}

pub type Answer<T> = Result<T, Refusal>;

/// Limits in blocks and inodes; 0: none.
pub type Limits = (u64, u64);

#[derive(Clone, Default)]
pub struct Node {
    /// Names of a directory; `None`: it is a file or a symbolic link.
    pub names: Option<BTreeMap<String, usize>>,
    /// Blocks that a file has.
    pub blocks: BTreeSet<u64>,
    pub links: u32,
    pub limits: Option<Limits>,
}

/// A volume; node 0 is the root.
pub struct Model {
    pub nodes: Vec<Node>,
}

impl Model {
    pub fn new() -> Model {
        let root = Node {
            names: Some(BTreeMap::new()),
            ..Node::default()
        };
        Model { nodes: vec![root] }
    }

    fn names(&self, directory: usize) -> &BTreeMap<String, usize> {
        self.nodes[directory].names.as_ref().expect("a directory")
    }

    pub fn find(&self, directory: usize, name: &str) -> Option<usize> {
        self.names(directory).get(name).copied()
    }

    pub fn is_directory(&self, node: usize) -> bool {
        self.nodes[node].names.is_some()
    }

    fn parent(&self, node: usize) -> Option<usize> {
        let holds = |directory: &usize| {
            self.is_directory(*directory) && self.names(*directory).values().any(|at| *at == node)
        };
        (0..self.nodes.len()).find(holds)
    }

    /// The directory with limits that a node is in.
    pub fn tree_of(&self, node: usize) -> Option<usize> {
        let mut at = node;
        loop {
            if self.nodes[at].limits.is_some() {
                return Some(at);
            }
            at = self.parent(at).filter(|_| at != 0)?;
        }
    }

    /// All nodes of a directory, itself included.
    pub fn within(&self, top: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::from([top]);
        if let Some(names) = &self.nodes[top].names {
            all.extend(names.values().flat_map(|node| self.within(*node)));
        }
        all
    }

    /// Blocks and inodes.
    pub fn used(&self, top: usize) -> (u64, u64) {
        let all = self.within(top);
        let blocks = all.iter().map(|node| self.nodes[*node].blocks.len() as u64);
        (blocks.sum(), all.len() as u64)
    }

    /// What the limits of a node's tree leave.
    fn room(&self, node: usize) -> (u64, u64) {
        let Some(top) = self.tree_of(node) else {
            return (u64::MAX, u64::MAX);
        };
        let (limits, used) = (self.nodes[top].limits.expect("limits"), self.used(top));
        let left = |limit: u64, used: u64| match limit {
            0 => u64::MAX,
            limit => limit.saturating_sub(used),
        };
        (left(limits.0, used.0), left(limits.1, used.1))
    }

    pub fn make(
        &mut self,
        parent: usize,
        name: &str,
        mut node: Node,
        blocks: u64,
    ) -> Answer<usize> {
        if self.find(parent, name).is_some() {
            return Err(Refusal::Other);
        }
        let room = self.room(parent);
        if room.1 == 0 || room.0 < blocks {
            return Err(Refusal::Quota);
        }
        node.blocks = (0..blocks).collect();
        node.links = 1;
        self.nodes.push(node);
        let made = self.nodes.len() - 1;
        self.add(parent, name, made);
        Ok(made)
    }

    fn add(&mut self, parent: usize, name: &str, node: usize) {
        let names = self.nodes[parent].names.as_mut().expect("a directory");
        names.insert(name.to_owned(), node);
    }

    fn take(&mut self, parent: usize, name: &str) -> usize {
        let names = self.nodes[parent].names.as_mut().expect("a directory");
        names.remove(name).expect("a name")
    }

    pub fn remove(&mut self, parent: usize, name: &str) -> Answer<()> {
        let node = self.find(parent, name).ok_or(Refusal::Other)?;
        if self.nodes[node]
            .names
            .as_ref()
            .is_some_and(|names| !names.is_empty())
        {
            return Err(Refusal::Other);
        }
        self.take(parent, name);
        self.drop_link(node);
        Ok(())
    }

    fn drop_link(&mut self, node: usize) {
        self.nodes[node].links -= 1;
        self.nodes[node].limits = self.nodes[node]
            .limits
            .filter(|_| self.nodes[node].links > 0);
    }

    pub fn link(&mut self, node: usize, parent: usize, name: &str) -> Answer<()> {
        if self.find(parent, name).is_some() || self.is_directory(node) {
            return Err(Refusal::Other);
        }
        if self.tree_of(node) != self.tree_of(parent) {
            return Err(Refusal::OtherTree);
        }
        self.nodes[node].links += 1;
        self.add(parent, name, node);
        Ok(())
    }

    pub fn rename(&mut self, from: (usize, &str), to: (usize, &str)) -> Answer<()> {
        let node = self.find(from.0, from.1).ok_or(Refusal::Other)?;
        let replaced = self.find(to.0, to.1);
        if replaced == Some(node) {
            return Ok(());
        }
        if self.tree_of(from.0) != self.tree_of(to.0) {
            return Err(Refusal::OtherTree);
        }
        let is_below = self.is_directory(node) && self.within(node).contains(&to.0);
        let is_above = replaced.is_some_and(|replaced| self.within(replaced).contains(&from.0));
        let is_other_kind =
            replaced.is_some_and(|replaced| self.is_directory(replaced) != self.is_directory(node));
        let is_full = replaced.is_some_and(|replaced| {
            let names = self.nodes[replaced].names.as_ref();
            names.is_some_and(|names| !names.is_empty())
        });
        if is_below || is_above || is_other_kind || is_full {
            return Err(Refusal::Other);
        }
        if let Some(replaced) = replaced {
            self.take(to.0, to.1);
            self.drop_link(replaced);
        }
        self.take(from.0, from.1);
        self.add(to.0, to.1, node);
        Ok(())
    }

    /// Blocks that are written before the first that does not fit.
    pub fn write(&mut self, file: usize, first: u64, count: u64) -> Answer<u64> {
        let mut room = self.room(file).0;
        let mut written = 0;
        for block in first..first + count {
            if !self.nodes[file].blocks.contains(&block) {
                if room == 0 {
                    break;
                }
                room -= 1;
                self.nodes[file].blocks.insert(block);
            }
            written += 1;
        }
        if written == 0 {
            Err(Refusal::Quota)
        } else {
            Ok(written)
        }
    }

    pub fn reserve(&mut self, file: usize, first: u64, count: u64) -> Answer<()> {
        let all: BTreeSet<u64> = (first..first + count).collect();
        let new = all.difference(&self.nodes[file].blocks).count() as u64;
        if new > 0 && new > self.room(file).0 {
            return Err(Refusal::Quota);
        }
        self.nodes[file].blocks.extend(all);
        Ok(())
    }

    pub fn clear(&mut self, file: usize, first: u64, end: u64) {
        let blocks = &mut self.nodes[file].blocks;
        blocks.retain(|block| *block < first || *block >= end);
    }

    pub fn limit(&mut self, top: usize, limits: Limits) -> Answer<()> {
        if self.nodes[top].limits.is_none() {
            let all = self.within(top);
            let has_inner = all.iter().any(|node| self.nodes[*node].limits.is_some());
            if self.tree_of(top).is_some() || has_inner {
                return Err(Refusal::Other);
            }
            let directories = all.iter().filter(|node| self.is_directory(**node));
            let names: Vec<usize> = directories
                .flat_map(|node| self.names(*node).values().copied())
                .collect();
            let is_outside = |node: &&usize| {
                let found = names.iter().filter(|name| name == node).count();
                !self.is_directory(**node) && found < self.nodes[**node].links as usize
            };
            if all.iter().any(|node| is_outside(&node)) {
                return Err(Refusal::OtherTree);
            }
        }
        self.nodes[top].limits = Some(limits);
        Ok(())
    }
}
