//! Pages of the session for indexes and tables: power-of-two runs from free lists, else from the end.
//! An owner that dies inside loses at most one run until the session ends.

use super::free_list;
use super::layout::{ARENA_CLASSES, ArenaHeader};
use super::map::populate;
use crate::format::BLOCK;
use crate::refusal::{Resource, is_refused};
use crate::types::{Errno, Outcome};
use std::sync::atomic::{AtomicU64, Ordering};

/// The session's page allocator, as one process sees it.
#[derive(Clone, Copy)]
pub struct Arena {
    header: *const ArenaHeader,
    base: *mut u8,
    pages: u64,
}

// SAFETY: points into the session segment, which lives as long as the volume and is all atomics.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// # Safety
    /// `header` and `base..+pages*4096` stay mapped and zero-initialised shared memory.
    pub unsafe fn new(header: *const ArenaHeader, base: *mut u8, pages: u64) -> Arena {
        Arena {
            header,
            base,
            pages,
        }
    }

    fn at(&self, page: u64) -> *mut u8 {
        self.base.wrapping_add(page as usize * BLOCK)
    }

    fn header(&self) -> &ArenaHeader {
        // SAFETY: see `new`.
        unsafe { &*self.header }
    }

    /// The words of a page; `None` when the number is not one of a page (a reader's stale word).
    #[inline]
    pub fn page(&self, page: u64) -> Option<&[AtomicU64; BLOCK / 8]> {
        if page >= self.pages {
            return None;
        }
        // SAFETY: in bounds of the arena; all access is atomic.
        Some(unsafe { &*self.base.add(page as usize * BLOCK).cast() })
    }

    /// The words of a run of `1 << class` pages.
    pub fn run(&self, page: u64, class: u32) -> Option<&[AtomicU64]> {
        let pages = 1u64.checked_shl(class)?;
        if class as usize >= ARENA_CLASSES || page.checked_add(pages)? > self.pages {
            return None;
        }
        // SAFETY: in bounds of the arena; all access is atomic.
        Some(unsafe {
            std::slice::from_raw_parts(
                self.base.add(page as usize * BLOCK).cast(),
                pages as usize * BLOCK / 8,
            )
        })
    }

    /// Take a zeroed run of `1 << class` pages. Waits for nobody.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn allocate(&self, class: u32) -> Outcome<u64> {
        if is_refused(Resource::SessionPages) {
            return Err(Errno(libc::ENOMEM));
        }
        let header = self.header();
        let free = header.free.get(class as usize).ok_or(Errno(libc::ENOMEM))?;
        let link = |page| self.page(page).map(|words| &words[0]);
        let Some(page) = free_list::take(free, link) else {
            return self.extend(1 << class);
        };
        for word in self.run(page, class).ok_or(Errno(libc::EIO))? {
            word.store(0, Ordering::Relaxed);
        }
        Ok(page)
    }

    /// Pages that were never used.
    fn extend(&self, pages: u64) -> Outcome<u64> {
        let bump = &self.header().bump;
        let mut first = bump.load(Ordering::Relaxed);
        loop {
            let end = first.checked_add(pages).filter(|end| *end <= self.pages);
            let end = end.ok_or(Errno(libc::ENOMEM))?;
            // They have memory before they are anybody's.
            populate(self.at(first), pages as usize * BLOCK)?;
            match bump.compare_exchange(first, end, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(first),
                Err(now) => first = now,
            }
        }
    }

    /// Give a run back.
    pub fn free(&self, page: u64, class: u32) {
        if let (Some(words), Some(free)) = (self.page(page), self.header().free.get(class as usize))
        {
            free_list::put(free, page, &words[0]);
        }
    }
}
