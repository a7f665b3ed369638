//! All files below a directory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::progress;
use egeria_engine::{InodeNumber, Volume};
use egeria_machine::{Machine, NamedPath, format_bytes};
use egeria_pages::NodeBytes;
use egeria_pages::file::{self, Locator};
use egeria_pages::tree::{self, Walked};
use egeria_pages::users::Used;
use serde::Serialize;

use super::look::{Look, unreachable_path};
use super::nodes::{self, FileOfMany, Node, Store, User};
use super::volume;

/// Files that documents list: those that hold most.
const LISTED_FILES: usize = 100;
/// Of them, shown to people.
const SHOWN_FILES: usize = 10;

#[derive(Serialize)]
struct Document {
    kind: &'static str,
    path: NamedPath,
    files: u64,
    size_bytes: u64,
    held_bytes: u64,
    unknown_bytes: u64,
    sampled: bool,
    nodes: Vec<Node>,
    /// Those that hold most.
    largest: Vec<FileOfMany>,
    users: Vec<User>,
    remote_percent: Option<f64>,
    remarks: Vec<String>,
}

/// Shows where the files below a directory lie.
pub(super) fn run(path: &Path, look: &Look, format: Format) -> Outcome {
    let failed = |error| unreachable_path(path, &error);
    let absolute = path.canonicalize().map_err(failed)?;
    let volume = volume::of(path)?.map(|(volume, _)| volume);
    let mut sum = Sum::new(look.locator(true)?, volume);
    let walked = progress::spinning("looking at files", || {
        tree::walk(&absolute, |file| {
            sum.add(file);
            Ok::<(), std::io::Error>(())
        })
    });
    let mut remarks = remarks(&walked.map_err(failed)?);
    remarks.extend(sum.remarks());
    let of_users = nodes::users(&Used::Below(absolute), &sum.by_node, look);
    remarks.extend(of_users.remarks);
    let document = Document {
        kind: "directory",
        path: path.into(),
        files: sum.files,
        size_bytes: sum.size_bytes,
        held_bytes: sum.held_bytes,
        unknown_bytes: sum.held_bytes.saturating_sub(sum.by_node.total()),
        sampled: sum.sampled,
        nodes: nodes::nodes(&look.machine, &sum.by_node, &of_users.threads),
        remote_percent: nodes::percent(of_users.threads.remote_share(&sum.by_node)),
        largest: sum.largest(),
        users: of_users.users,
        remarks,
    };
    format.print(&document, |document| human(document, &look.machine))
}

fn remarks(walked: &Walked) -> Vec<String> {
    let mut remarks = Vec::new();
    if walked.unreadable > 0 {
        remarks.push(format!(
            "{} directories could not be read: run as root",
            walked.unreadable
        ));
    }
    if walked.mounts > 0 {
        remarks.push(format!(
            "{} mounts below were left out: name them",
            walked.mounts
        ));
    }
    if walked.is_cut {
        remarks.push(format!(
            "only the first {} entries were looked at: name a directory below",
            tree::MAX_ENTRIES
        ));
    }
    remarks
}

/// What files have together.
struct Sum {
    locator: Locator,
    volume: Option<Arc<Volume>>,
    files: u64,
    size_bytes: u64,
    held_bytes: u64,
    by_node: NodeBytes,
    sampled: bool,
    /// Files that could not be opened.
    unopened: u64,
    /// Files that could not be examined completely, and the first reason.
    untold: u64,
    problem: Option<String>,
    /// Those that hold most, the one that holds least of them first.
    most: BinaryHeap<Reverse<(u64, PathBuf)>>,
    known: std::collections::HashMap<PathBuf, (Store, NodeBytes)>,
}

impl Sum {
    fn new(locator: Locator, volume: Option<Arc<Volume>>) -> Sum {
        Sum {
            locator,
            volume,
            files: 0,
            size_bytes: 0,
            held_bytes: 0,
            by_node: NodeBytes::default(),
            sampled: false,
            unopened: 0,
            untold: 0,
            problem: None,
            most: BinaryHeap::new(),
            known: std::collections::HashMap::new(),
        }
    }

    fn add(&mut self, path: &Path) {
        self.files += 1;
        let looked = match &self.volume {
            Some(volume) => of_volume(volume, path),
            None => self.in_cache(path),
        };
        let Ok((size_bytes, held_bytes, store, by_node)) = looked else {
            self.unopened += 1;
            return;
        };
        self.size_bytes = self.size_bytes.saturating_add(size_bytes);
        self.held_bytes = self.held_bytes.saturating_add(held_bytes);
        self.by_node.add_all(&by_node);
        if held_bytes > 0 {
            self.note(path, held_bytes, store, by_node);
        }
    }

    fn in_cache(&mut self, path: &Path) -> std::io::Result<(u64, u64, Store, NodeBytes)> {
        let file = file::open(path)?;
        let pages = file::look(&file, &mut self.locator)?;
        self.sampled |= pages.sampled;
        if let Some(problem) = pages.problem {
            self.untold += 1;
            self.problem.get_or_insert(problem);
        }
        Ok((
            pages.size_bytes,
            pages.cached_bytes,
            pages.store.into(),
            pages.by_node,
        ))
    }

    /// Keeps it if it is among those that hold most.
    fn note(&mut self, path: &Path, held_bytes: u64, store: Store, by_node: NodeBytes) {
        let least = self.most.peek().map(|Reverse((bytes, _))| *bytes);
        if self.most.len() == LISTED_FILES {
            if least >= Some(held_bytes) {
                return;
            }
            if let Some(Reverse((_, path))) = self.most.pop() {
                self.known.remove(&path);
            }
        }
        self.most.push(Reverse((held_bytes, path.to_owned())));
        self.known.insert(path.to_owned(), (store, by_node));
    }

    fn largest(mut self) -> Vec<FileOfMany> {
        let sorted = self.most.into_sorted_vec().into_iter();
        let files = sorted.filter_map(|Reverse((bytes, path))| {
            let (store, by_node) = self.known.remove(&path)?;
            let nodes = nodes::bytes_of_nodes(&by_node);
            Some(FileOfMany {
                path: path.into(),
                store,
                bytes,
                nodes,
            })
        });
        files.collect()
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.unopened > 0 {
            remarks.push(format!(
                "{} files could not be opened: run as root",
                self.unopened
            ));
        }
        if let Some(problem) = &self.problem {
            remarks.push(format!(
                "of {} files not all is known: {problem}",
                self.untold
            ));
        }
        remarks
    }
}

fn of_volume(volume: &Volume, path: &Path) -> std::io::Result<(u64, u64, Store, NodeBytes)> {
    let metadata = fs::symlink_metadata(path)?;
    let by_node = volume::bytes(volume, InodeNumber(metadata.ino()));
    Ok((metadata.len(), by_node.total(), Store::Pools, by_node))
}

fn human(document: &Document, machine: &Machine) -> String {
    let mut text = format!(
        "{}: {} files, {}, {} of them in memory\n\n{}\n",
        document.path,
        document.files,
        format_bytes(document.size_bytes),
        format_bytes(document.held_bytes),
        nodes::node_table(&document.nodes),
    );
    if document.sampled {
        text += "(of samples of large files; --exact locates all pages)\n";
    }
    if document.unknown_bytes > 0 {
        text += &format!(
            "{} more are held, their node is not known\n",
            format_bytes(document.unknown_bytes)
        );
    }
    if !document.largest.is_empty() {
        text += &format!("\n{}\n", nodes::file_table(&document.largest, SHOWN_FILES));
    }
    text += &format!("\n{}\n\n", nodes::user_table(&document.users));
    text + &nodes::conclusion(machine, "it", document.remote_percent, &document.remarks)
}
