//! What a program reads and writes of files on other nodes, where that is too little for a fault.

use std::path::PathBuf;

use egeria_facts::{Facts, FileFacts, FileKey};
use egeria_machine::{Machine, NodeId, format_bandwidth, format_bytes};
use serde::Serialize;

use super::super::programs::ProgramRow;
use super::subject::quote;

/// Less than this is not worth a line, bytes/s and as a part of what is read and written.
const LEAST_BYTES_S: f64 = 1e6;
const LEAST_SHARE: f64 = 0.05;
/// A node whose threads read this part of a file is where it should be.
const MOST: f64 = 0.9;
/// Files that get a line.
const MAX_FILES: usize = 3;

/// What is known of files.
pub(super) struct Files<'a> {
    pub(super) machine: &'a Machine,
    pub(super) facts: &'a Facts,
    /// The path of a file.
    pub(super) path: &'a dyn Fn(FileKey) -> Option<PathBuf>,
    /// Root starts the lines.
    pub(super) as_root: bool,
}

/// Files of other nodes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct FilesElsewhere {
    /// What the threads read and write there.
    pub(super) moved_bytes_s: f64,
    /// What the page cache of other nodes has of the open files; `None` where it was not looked at.
    pub(super) cached_bytes: Option<u64>,
    /// Lines for a shell that bring the files which are read most.
    pub(super) lines: Vec<String>,
}

impl FilesElsewhere {
    /// `None` where it is too little to be mentioned.
    pub(super) fn of(files: &Files<'_>, row: &ProgramRow) -> Option<FilesElsewhere> {
        let share = 1.0 - row.files_local_share?;
        let moved_bytes_s = (row.read_bytes_s? + row.written_bytes_s?) * share;
        if moved_bytes_s < LEAST_BYTES_S || share < LEAST_SHARE {
            return None;
        }
        let cached = row.page_cache.as_ref();
        let elsewhere = cached.and_then(|held| {
            let remote = 1.0 - held.local_share?;
            Some((held.bytes as f64 * remote) as u64)
        });
        Some(FilesElsewhere {
            moved_bytes_s,
            cached_bytes: elsewhere,
            lines: lines(files, row.process_id),
        })
    }

    /// In words.
    pub(super) fn sentence(&self) -> String {
        let moved = format_bandwidth(self.moved_bytes_s);
        let cached = self.cached_bytes.map_or(String::new(), |bytes| {
            format!(" ({} of its files are cached there)", format_bytes(bytes))
        });
        format!(
            "it reads and writes {moved} of files in the memory of other nodes{cached}, which costs too little to call it misplaced"
        )
    }
}

/// The files that are read most from other nodes, and that threads of one node read.
fn lines(files: &Files<'_>, process_id: u32) -> Vec<String> {
    let mut found: Vec<(u64, FileKey, NodeId)> = (files.facts.files.iter())
        .filter(|file| is_used(files, process_id, file.file))
        .filter_map(|file| {
            let (node, remote_bytes) = reader(files.machine, file)?;
            Some((remote_bytes, file.file, node))
        })
        .collect();
    found.sort_unstable_by_key(|file| std::cmp::Reverse(*file));
    let sudo = if files.as_root { "sudo " } else { "" };
    let lines = found.into_iter().filter_map(|(_, file, node)| {
        let path = (files.path)(file)?;
        let path = quote(&path.to_string_lossy());
        Some(format!("{sudo}egeria warm {path} --node {}", node.0))
    });
    lines.take(MAX_FILES).collect()
}

fn is_used(files: &Files<'_>, process_id: u32, file: FileKey) -> bool {
    let mut threads = files.facts.window.threads.iter();
    threads.any(|thread| {
        let is_own = thread.key.process_id == process_id;
        is_own && thread.files.iter().any(|used| used.file == file)
    })
}

/// The node that reads nearly all of what is read of a file, and how much of it from others.
fn reader(machine: &Machine, file: &FileFacts) -> Option<(NodeId, u64)> {
    let nodes = 0..machine.nodes.len();
    let read = |reader: usize| -> u64 {
        nodes.clone().fold(0, |sum: u64, data| {
            sum.saturating_add(file.read(reader, data))
        })
    };
    let most = nodes.clone().max_by_key(|node| read(*node))?;
    let all = nodes
        .clone()
        .fold(0, |sum: u64, node| sum.saturating_add(read(node)));
    let remote = read(most) - file.read(most, most);
    let is_alone = read(most) as f64 >= MOST * all as f64;
    (remote > 0 && is_alone).then(|| (machine.nodes[most].id, remote))
}
