//! Pages of the session for indexes and tables: power-of-two runs from free lists, else from the end.
//! An owner that dies inside loses at most one run until the session ends.

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

    /// Take a zeroed run of `1 << class` pages.
    pub fn allocate(&self, class: u32) -> Outcome<u64> {
        if is_refused(Resource::SessionPages) {
            return Err(Errno(libc::ENOMEM));
        }
        let header = self.header();
        let free = header.free.get(class as usize).ok_or(Errno(libc::ENOMEM))?;
        // A dead owner left either list or bump whole: each changes by one store.
        let page = header.mutex.with(
            || (),
            || {
                let first = free.load(Ordering::Acquire);
                if first != 0 {
                    let next = self.page(first - 1)?[0].load(Ordering::Relaxed);
                    free.store(next, Ordering::Release);
                    return Some((first - 1, true));
                }
                let bump = header.bump.load(Ordering::Relaxed);
                let end = bump.checked_add(1 << class)?;
                if end > self.pages || populate(self.at(bump), BLOCK << class).is_err() {
                    return None;
                }
                header.bump.store(end, Ordering::Release);
                Some((bump, false))
            },
        );
        let (page, used) = page?.ok_or(Errno(libc::ENOMEM))?;
        if used {
            for word in self.run(page, class).ok_or(Errno(libc::EIO))? {
                word.store(0, Ordering::Relaxed);
            }
        }
        Ok(page)
    }

    /// Give a run back.
    pub fn free(&self, page: u64, class: u32) {
        let header = self.header();
        let (Some(words), Some(free)) = (self.page(page), header.free.get(class as usize)) else {
            return;
        };
        // A run that cannot be given back is lost until the next session.
        let _ = header.mutex.with(
            || (),
            || {
                words[0].store(free.load(Ordering::Relaxed), Ordering::Release);
                free.store(page + 1, Ordering::Release);
            },
        );
    }
}
