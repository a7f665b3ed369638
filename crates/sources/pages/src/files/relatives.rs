//! Which of the processes below some others has a file open, for files whose users come and go.

use std::fs;

use egeria_proc::living;

use crate::files::users;
use crate::kernel::borrowed;

/// Generations looked at: a compiler below a driver below a shell.
const MAX_DEPTH: u32 = 4;
/// Processes and descriptors looked at in one search.
const MAX_PROCESSES: usize = 256;
const MAX_DESCRIPTORS: usize = 4096;

/// A process and its descriptor of a file with this inode number, below the nearest of these ancestors that lives. The
/// number alone does not say which file it is. Nothing is found where the kernel does not list children.
pub(crate) fn opener(ancestors: &[u32], inode: u64) -> Option<(u32, u32)> {
    let mut living = ancestors
        .iter()
        .filter(|process| **process > 1 && living::has_thread(**process));
    let nearest = *living.next()?;
    let mut generation = vec![nearest];
    let mut descriptors = MAX_DESCRIPTORS;
    for _ in 0..MAX_DEPTH {
        generation = generation.into_iter().flat_map(children).collect();
        generation.truncate(MAX_PROCESSES);
        for process in &generation {
            if let Some(descriptor) = descriptor_of(*process, inode, &mut descriptors) {
                return Some((*process, descriptor));
            }
        }
    }
    None
}

/// What the threads of a process began.
fn children(process: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        let words = list.split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    lists.take(MAX_PROCESSES).flat_map(numbers).collect()
}

fn descriptor_of(process: u32, inode: u64, left: &mut usize) -> Option<u32> {
    for entry in fs::read_dir(living::path(process, "fd")).ok()?.flatten() {
        *left = left.checked_sub(1)?;
        let descriptor = borrowed::number(&entry.path())?;
        if users::open_as(process, descriptor).is_some_and(|open| open.inode == inode) {
            return Some(descriptor);
        }
    }
    None
}
