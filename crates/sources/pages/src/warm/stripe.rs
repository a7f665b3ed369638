//! One stripe of a file: brought to its node, and verified.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use egeria_machine::NodeId;

use crate::kernel::mapping::{Mapping, Touch};

/// What one worker does at once.
pub(super) const STRIPE_BYTES: u64 = 2 << 20;
/// Times that a page in use for a moment is tried.
const ATTEMPTS: usize = 3;

/// A piece of a file that has data, at most [`STRIPE_BYTES`] long, from a page's begin.
pub(super) struct Stripe {
    pub(super) file: usize,
    pub(super) range: Range<u64>,
}

/// What came of it, pages of a node's stripes. Each page is in one of `there`, `elsewhere` and `missing`.
#[derive(Default, Debug, PartialEq, Eq, Clone)]
pub struct Outcome {
    /// On the node in the end.
    pub there: u64,
    /// Of another node in the end.
    pub elsewhere: u64,
    /// Not cached in the end.
    pub missing: u64,
    /// Were of another node, and moved.
    pub moved: u64,
    /// Were not cached, and read.
    pub read: u64,
    /// Could not be moved as other processes have them mapped.
    pub mapped: u64,
    /// Could not be moved, for that or any other reason.
    pub left: u64,
}

impl Outcome {
    /// What this and a later look at the same pages come to.
    pub(super) fn then(&self, later: &Outcome) -> Outcome {
        Outcome {
            there: later.there,
            elsewhere: later.elsewhere,
            missing: later.missing,
            moved: self.moved + later.moved,
            read: self.read + later.read,
            mapped: self.mapped.max(later.mapped),
            left: self.left.max(later.left),
        }
    }

    /// Adds that of another worker.
    pub(super) fn add(&mut self, other: &Outcome) {
        self.there += other.there;
        self.elsewhere += other.elsewhere;
        self.missing += other.missing;
        self.moved += other.moved;
        self.read += other.read;
        self.mapped += other.mapped;
        self.left += other.left;
    }
}

/// A stripe in work.
pub(super) struct Piece<'a> {
    pub(super) file: &'a File,
    pub(super) stripe: &'a Stripe,
    /// Pages of this node alone are moved; `None`: of any.
    pub(super) from: Option<NodeId>,
    pub(super) node: NodeId,
    pub(super) touch: &'a Touch,
}

impl Piece<'_> {
    /// Moves what is cached elsewhere, and reads what is not cached, unless there is no buffer for it.
    pub(super) fn bring(
        &self,
        also_mapped: bool,
        buffer: &mut [u8],
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        let mapping = self.map()?;
        let cached = mapping.cached()?;
        let (there, absent): (Vec<usize>, Vec<usize>) =
            (0..cached.len()).partition(|page| cached[*page]);
        self.move_pages(&mapping, &there, also_mapped, outcome)?;
        drop(mapping);
        if buffer.is_empty() {
            return Ok(());
        }
        outcome.read += absent.len() as u64;
        self.read(&absent, buffer)
    }

    /// Moves those of these pages that are elsewhere.
    fn move_pages(
        &self,
        mapping: &Mapping,
        cached: &[usize],
        also_mapped: bool,
        outcome: &mut Outcome,
    ) -> io::Result<()> {
        if cached.is_empty() {
            return Ok(());
        }
        let nodes = mapping.nodes(cached, self.touch)?.into_iter().zip(cached);
        let is_wrong = |node: NodeId| match self.from {
            Some(from) => node == from && node != self.node,
            None => node != self.node,
        };
        let wrong = nodes.filter(|(node, _)| node.is_some_and(is_wrong));
        let mut wrong: Vec<usize> = wrong.map(|(_, page)| *page).collect();
        for attempt in 1..=ATTEMPTS {
            if wrong.is_empty() {
                break;
            }
            let status = mapping.move_to(self.node, &wrong, also_mapped)?;
            let is_last = attempt == ATTEMPTS;
            let mut again = Vec::new();
            for (status, page) in status.into_iter().zip(wrong) {
                match status {
                    status if status == i32::from(self.node.0) => outcome.moved += 1,
                    status if status == -libc::EACCES => {
                        outcome.mapped += 1;
                        outcome.left += 1;
                    }
                    _ if !is_last => again.push(page),
                    _ => outcome.left += 1,
                }
            }
            wrong = again;
        }
        Ok(())
    }

    /// Reads runs of pages.
    fn read(&self, pages: &[usize], buffer: &mut [u8]) -> io::Result<()> {
        let page_bytes = rustix::param::page_size();
        for run in pages.chunk_by(|page, next| page + 1 == *next) {
            let start = self.stripe.range.start + (run[0] * page_bytes) as u64;
            let wanted = (run.len() * page_bytes).min((self.stripe.range.end - start) as usize);
            let mut done = 0;
            while done < wanted {
                let left = &mut buffer[..wanted - done];
                match self.file.read_at(left, start + done as u64) {
                    // The file was truncated in the meantime.
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Counts where its pages are.
    pub(super) fn verify(&self, outcome: &mut Outcome) -> io::Result<()> {
        let mapping = self.map()?;
        let cached = mapping.cached()?;
        let there: Vec<usize> = (0..cached.len()).filter(|page| cached[*page]).collect();
        outcome.missing += (cached.len() - there.len()) as u64;
        for node in mapping.nodes(&there, self.touch)? {
            match node {
                Some(node) if node == self.node => outcome.there += 1,
                Some(_) => outcome.elsewhere += 1,
                None => outcome.missing += 1,
            }
        }
        Ok(())
    }

    fn map(&self) -> io::Result<Mapping> {
        let range = &self.stripe.range;
        Mapping::new(
            self.file.as_fd(),
            range.start,
            (range.end - range.start) as usize,
        )
    }
}
