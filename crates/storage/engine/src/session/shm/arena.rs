//! Allocates pages of the session for indexes and tables: power-of-two runs from free lists, else from the end. A
//! process that dies inside loses at most one run until the session ends.

use crate::failpoint::{Resource, should_fail};
use crate::format::BLOCK;
use crate::session::free_list;
use crate::session::layout::{ARENA_CLASSES, ArenaHeader, HoleAccounts};
use crate::session::memory::populate;
use crate::types::{Errno, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};

/// The session's page allocator, as one process sees it.
#[derive(Clone, Copy)]
pub struct Arena {
    header: &'static ArenaHeader,
    links: &'static [AtomicU64],
    pages: &'static [Page],
}

type Page = [AtomicU64; BLOCK / 8];

/// Links on one page.
const LINKS: u64 = (BLOCK / 8) as u64;
/// Bytes of free runs of one class that keep their memory for later allocations.
const KEPT_BYTES: u64 = 4 << 20;

impl Arena {
    /// # Safety
    /// `header`, `links..+pages` and `base..+pages*4096` are zero-initialised shared memory, and stay mapped as long as
    /// this, its copies and what they give are used.
    pub unsafe fn new(
        header: *const ArenaHeader,
        links: *const AtomicU64,
        base: *mut u8,
        pages: u64,
    ) -> Arena {
        let pages = pages as usize;
        // SAFETY: mapped, as the contract says; all of it is atomics, for which zero is valid.
        unsafe {
            Arena {
                header: &*header,
                links: std::slice::from_raw_parts(links, pages),
                pages: std::slice::from_raw_parts(base.cast(), pages),
            }
        }
    }

    fn at(&self, page: u64) -> *mut u8 {
        let base = self.pages.as_ptr().cast::<u8>().cast_mut();
        base.wrapping_add(page as usize * BLOCK)
    }

    fn header(&self) -> &ArenaHeader {
        self.header
    }

    /// What holes of files take.
    pub fn holes(&self) -> &HoleAccounts {
        &self.header.holes
    }

    /// The words of a page; `None` when there is no page of this number (a reader's stale word).
    #[inline]
    pub fn page(&self, page: u64) -> Option<&Page> {
        self.pages.get(page as usize)
    }

    /// The words of a run of `1 << class` pages.
    pub fn run(&self, page: u64, class: u32) -> Option<&[AtomicU64]> {
        if class as usize >= ARENA_CLASSES {
            return None;
        }
        let end = page.checked_add(1 << class)?;
        let run = self.pages.get(page as usize..end as usize)?;
        Some(run.as_flattened())
    }

    /// Take a zeroed run of `1 << class` pages, without waiting for other threads.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn allocate(&self, class: u32) -> Outcome<u64> {
        if should_fail(Resource::SessionPages) {
            return Err(Errno(libc::ENOMEM));
        }
        let header = self.header();
        let at = class as usize;
        let free = header.free.get(at).ok_or(Errno(libc::ENOMEM))?;
        if let Some(page) = free_list::take(free, |page| self.link(page)) {
            header.free_runs[at].fetch_sub(1, Ordering::Relaxed);
            for word in self.run(page, class).ok_or(Errno(libc::EIO))? {
                word.store(0, Ordering::Relaxed);
            }
            return Ok(page);
        }
        match free_list::take(&header.hollow[at], |page| self.link(page)) {
            Some(page) => match populate(self.at(page), BLOCK << class) {
                Ok(()) => Ok(page),
                Err(errno) => {
                    self.put(&header.hollow[at], page);
                    Err(errno)
                }
            },
            None => self.extend(1 << class),
        }
    }

    /// The link of a free page.
    fn link(&self, page: u64) -> Option<&AtomicU64> {
        self.links.get(page as usize)
    }

    fn put(&self, head: &AtomicU64, page: u64) {
        if let Some(link) = self.link(page) {
            free_list::put(head, page, link);
        }
    }

    /// Return the memory of free runs to the system, except for some runs of each class. A stale reader of such a run,
    /// which no index names any more, reads zeros.
    pub fn trim(&self) {
        let header = self.header();
        for class in 0..ARENA_CLASSES {
            let bytes = BLOCK << class;
            let kept = KEPT_BYTES / bytes as u64;
            while header.free_runs[class].load(Ordering::Relaxed) > kept {
                let Some(page) = free_list::take(&header.free[class], |page| self.link(page))
                else {
                    // A process that died in between has removed the run from the list.
                    header.free_runs[class].store(0, Ordering::Relaxed);
                    break;
                };
                header.free_runs[class].fetch_sub(1, Ordering::Relaxed);
                // SAFETY: a run in bounds that is this thread's now.
                let given =
                    unsafe { libc::madvise(self.at(page).cast(), bytes, libc::MADV_REMOVE) };
                match given {
                    0 => self.put(&header.hollow[class], page),
                    _ => return self.free(page, class as u32),
                }
            }
        }
    }

    /// Pages that were never used.
    fn extend(&self, pages: u64) -> Outcome<u64> {
        let bump = &self.header().bump;
        let mut first = bump.load(Ordering::Relaxed);
        loop {
            let end = first
                .checked_add(pages)
                .filter(|end| *end <= self.pages.len() as u64);
            let end = end.ok_or(Errno(libc::ENOMEM))?;
            // The pages and their links get memory before they get an owner.
            populate(self.at(first), pages as usize * BLOCK)?;
            if first.is_multiple_of(LINKS) || first / LINKS != (end - 1) / LINKS {
                let links = first / LINKS * LINKS;
                let bytes = ((end - links) as usize * 8).next_multiple_of(BLOCK);
                populate(
                    self.links
                        .as_ptr()
                        .wrapping_add(links as usize)
                        .cast_mut()
                        .cast(),
                    bytes,
                )?;
            }
            match bump.compare_exchange(first, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(first),
                Err(now) => first = now,
            }
        }
    }

    /// Give a run back.
    pub fn free(&self, page: u64, class: u32) {
        let header = self.header();
        if let Some(free) = header.free.get(class as usize) {
            header.free_runs[class as usize].fetch_add(1, Ordering::Relaxed);
            self.put(free, page);
        }
    }
}
