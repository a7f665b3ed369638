//! Where pages of files were, and how they come back there.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;

use egeria_machine::NodeId;
use rustix::fs::Advice;

use super::stripe::{Outcome, Piece, Stripe};
use super::{CachedPages, Plan};
use crate::files::file;
use crate::kernel::mapping::{Mapping, Touch};

/// Where the pages of a plan's files were.
pub struct Before {
    files: Vec<(PathBuf, Vec<Run>)>,
    /// Also move pages that other processes have mapped.
    also_mapped: bool,
}

/// Neighbouring pages of a file in one place.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Run {
    /// Bytes of the file, whole pages.
    range: Range<u64>,
    /// The node that had them; `None`: they were not cached.
    node: Option<NodeId>,
}

impl Plan {
    /// Where the pages of all files are now. Nothing is read or moved.
    ///
    /// # Errors
    /// When a file cannot be opened or mapped.
    pub fn look(&self) -> io::Result<Before> {
        let touch = Touch::new()?;
        let mut files: Vec<(PathBuf, Vec<Run>)> = Vec::new();
        files.extend(self.files.iter().map(|path| (path.clone(), Vec::new())));
        let stripes = self.nodes.iter().flat_map(|(_, stripes)| stripes);
        let mut stripes: Vec<&Stripe> = stripes.collect();
        stripes.sort_unstable_by_key(|stripe| (stripe.file, stripe.range.start));
        for of_file in stripes.chunk_by(|one, next| one.file == next.file) {
            let (path, runs) = &mut files[of_file[0].file];
            let opened = file::open(path)?;
            for stripe in of_file {
                look_at(&opened, &stripe.range, &touch, runs)?;
            }
        }
        Ok(Before {
            files,
            also_mapped: self.also_mapped,
        })
    }
}

/// Adds where the pages of a part of a file are.
fn look_at(
    opened: &File,
    range: &Range<u64>,
    touch: &Touch,
    runs: &mut Vec<Run>,
) -> io::Result<()> {
    let page_bytes = rustix::param::page_size() as u64;
    let bytes = (range.end - range.start) as usize;
    let mapping = Mapping::new(opened.as_fd(), range.start, bytes)?;
    let cached = mapping.cached()?;
    let pages: Vec<usize> = (0..cached.len()).filter(|page| cached[*page]).collect();
    let mut nodes = vec![None; cached.len()];
    for (page, node) in pages.iter().zip(mapping.nodes(&pages, touch)?) {
        nodes[*page] = node;
    }
    for (page, node) in nodes.into_iter().enumerate() {
        let start = range.start + page as u64 * page_bytes;
        let end = start + page_bytes;
        match runs.last_mut() {
            Some(run) if run.node == node && run.range.end == start => run.range.end = end,
            _ => runs.push(Run {
                range: start..end,
                node,
            }),
        }
    }
    Ok(())
}

impl Before {
    /// Drops what was not cached, and moves what was to its node again. What is left otherwise, bytes: pages that are
    /// in use, mapped by other processes, not yet written to the device, or dropped by the kernel.
    ///
    /// # Errors
    /// When a file cannot be mapped. One that is gone has no pages.
    pub fn restore(&self) -> io::Result<u64> {
        let cached = CachedPages::new()?;
        let mut left = 0;
        for (path, runs) in &self.files {
            let opened = match file::open(path) {
                Ok(opened) => opened,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for run in runs {
                cached.restore(&opened, run, self.also_mapped)?;
            }
            let mut now = Vec::new();
            for run in runs {
                look_at(&opened, &run.range, &cached.touch, &mut now)?;
            }
            left += different_bytes(runs, &now);
        }
        Ok(left)
    }
}

impl CachedPages {
    fn restore(&self, opened: &File, run: &Run, also_mapped: bool) -> io::Result<()> {
        let Some(node) = run.node else {
            let bytes = (run.range.end - run.range.start).try_into().ok();
            rustix::fs::fadvise(opened, run.range.start, bytes, Advice::DontNeed)?;
            return Ok(());
        };
        let piece = Piece {
            file: opened,
            stripe: &Stripe {
                file: 0,
                range: run.range.clone(),
            },
            from: None,
            node,
            touch: &self.touch,
        };
        piece.bring(also_mapped, &mut [], &mut Outcome::default())
    }
}

/// Bytes of the same pages that are in another place than before.
fn different_bytes(before: &[Run], now: &[Run]) -> u64 {
    let each = before.iter().flat_map(|run| {
        let others = now.iter().filter(|other| other.node != run.node);
        others.map(|other| {
            let start = run.range.start.max(other.range.start);
            run.range.end.min(other.range.end).saturating_sub(start)
        })
    });
    each.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn run(range: Range<u64>, node: Option<u16>) -> Run {
        Run {
            range,
            node: node.map(NodeId),
        }
    }

    #[test]
    fn bytes_in_another_place_are_counted() {
        let before = [run(0..8192, Some(0)), run(8192..12288, None)];
        assert_eq!(different_bytes(&before, &before), 0);
        let now = [run(0..4096, Some(0)), run(4096..12288, Some(1))];
        assert_eq!(different_bytes(&before, &now), 8192);
    }

    #[test]
    fn pages_that_were_not_cached_are_dropped_again() {
        // Pages of tmpfs are never dropped.
        let mut file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        file.write_all(&vec![7; 4 << 20]).unwrap();
        file.as_file().sync_all().unwrap();
        let half = std::num::NonZeroU64::new(2 << 20);
        rustix::fs::fadvise(file.as_file(), 0, half, Advice::DontNeed).unwrap();
        let mut plan = Plan::for_nodes(&[NodeId(0)], false);
        plan.add(file.path()).unwrap();
        let before = plan.look().unwrap();
        let cached_bytes = |before: &Before| -> u64 {
            let runs = before.files[0].1.iter();
            let cached = runs.filter(|run| run.node.is_some());
            cached.map(|run| run.range.end - run.range.start).sum()
        };
        if cached_bytes(&before) != 2 << 20 {
            egeria_harness::testing::skip("this file system keeps pages that are to be dropped");
            return;
        }
        File::open(file.path())
            .unwrap()
            .read_to_end(&mut Vec::new())
            .unwrap();
        assert_eq!(cached_bytes(&plan.look().unwrap()), 4 << 20);
        assert_eq!(before.restore().unwrap(), 0);
        assert_eq!(cached_bytes(&plan.look().unwrap()), 2 << 20);
    }
}
