//! The pages of a process, each with its node.

use std::fs::File;
use std::io;
use std::ops::Range;

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;
use egeria_proc::{living, task};

use crate::kernel::{calls, present};

/// Pages asked for at once.
pub const BATCH_PAGES: usize = 8192;

/// Tells which pages a process has, and where.
#[derive(Debug)]
pub struct Located {
    process: ProcessKey,
    pagemap: File,
}

impl Located {
    /// # Errors
    /// When the process is gone or another user's.
    pub fn open(process: ProcessKey) -> io::Result<Located> {
        let pagemap = File::open(living::path(process.process_id, "pagemap"))?;
        Ok(Located { process, pagemap })
    }

    /// The pages in a range, with the node of each; ranges should be of at most [`BATCH_PAGES`].
    ///
    /// # Errors
    /// `ESRCH` when the process is gone.
    pub fn pages(
        &self,
        range: Range<usize>,
        page_bytes: usize,
    ) -> io::Result<Vec<(usize, NodeId)>> {
        let pages = present::pages(&self.pagemap, range, page_bytes)?;
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        // Its number may be another's by now.
        if !task::lives(self.process) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let status = calls::nodes_of(self.process.process_id, &pages)?;
        let nodes = pages.into_iter().zip(status);
        let known = nodes.filter_map(|(page, status)| Some((page, u16::try_from(status).ok()?)));
        Ok(known.map(|(page, node)| (page, NodeId(node))).collect())
    }
}
