//! Facts of the files of a volume: which threads read how much of them from which node, and where the files lie.

use std::collections::HashMap;

use egeria_engine::{InodeNumber, Volume};
use egeria_facts::{FileFacts, FileKey, Window};
use egeria_machine::Machine;

/// Most files of a window, those used most.
const MAX_FILES: usize = 64;
/// Blocks of a file that are looked at for where it lies.
const MAX_LOOKS: u64 = 1 << 14;

/// The uses of one file.
struct Use {
    read_bytes: Vec<u64>,
    written_bytes: u64,
}

/// The files used most in a window. The node of each read is not counted: reads are assumed to be spread over the
/// nodes as the file's bytes are.
pub(crate) fn of_window(volume: &Volume, machine: &Machine, window: &Window) -> Vec<FileFacts> {
    let nodes = machine.nodes.len();
    let mut uses: HashMap<FileKey, Use> = HashMap::new();
    for thread in &window.threads {
        let Some(node) = machine.index_of(thread.node) else {
            continue;
        };
        for file in &thread.files {
            let of_file = uses.entry(file.file).or_insert_with(|| Use {
                read_bytes: vec![0; nodes],
                written_bytes: 0,
            });
            let read = &mut of_file.read_bytes[node];
            *read = read.saturating_add(file.read_bytes);
            of_file.written_bytes = of_file.written_bytes.saturating_add(file.written_bytes);
        }
    }
    let moved = |each: &Use| {
        let reads = each.read_bytes.iter();
        reads.fold(each.written_bytes, |sum, read| sum.saturating_add(*read))
    };
    let mut uses: Vec<(FileKey, Use)> = uses.into_iter().collect();
    uses.sort_by_key(|(file, each)| (std::cmp::Reverse(moved(each)), *file));
    uses.truncate(MAX_FILES);
    let facts = uses
        .iter()
        .filter_map(|(file, each)| facts(volume, nodes, *file, each));
    facts.collect()
}

/// `None` for what is gone, or no regular file.
fn facts(volume: &Volume, nodes: usize, file: FileKey, each: &Use) -> Option<FileFacts> {
    let ino = InodeNumber(file.inode);
    let opened = volume.open(ino, None).ok()?;
    let found = volume.attributes(ino).and_then(|attributes| {
        let by_pool = volume.bytes_by_pool(opened, MAX_LOOKS)?;
        Ok((attributes.size_bytes, by_pool))
    });
    volume.close(ino);
    let (bytes, by_pool) = found.ok()?;
    let mut bytes_on = vec![0u64; nodes];
    for (pool, bytes) in by_pool
        .into_iter()
        .enumerate()
        .filter(|(_, bytes)| *bytes > 0)
    {
        if let Some(on) = bytes_on.get_mut(volume.node_position(pool)) {
            *on += bytes;
        }
    }
    let all: u64 = bytes_on.iter().sum();
    let share = |read: u64| {
        let of = |on: &u64| (u128::from(read) * u128::from(*on) / u128::from(all.max(1))) as u64;
        bytes_on.iter().map(of).collect()
    };
    Some(FileFacts {
        file,
        bytes,
        read_bytes: each.read_bytes.iter().map(|read| share(*read)).collect(),
        bytes_on,
        written_bytes: each.written_bytes,
        replicas: Vec::new(),
    })
}
