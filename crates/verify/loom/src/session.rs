//! The parts of a session that the models need, and those they run.

#[path = "../../../storage/engine/src/session/locks/direct.rs"]
pub(crate) mod direct;
#[path = "../../../storage/engine/src/session/locks/exclusion.rs"]
pub(crate) mod exclusion;
#[path = "../../../storage/engine/src/session/shm/free_list.rs"]
pub(crate) mod free_list;
#[path = "../../../storage/engine/src/session/inodes/index.rs"]
pub(crate) mod index;
#[path = "../../../storage/engine/src/session/kernel/lease_words.rs"]
pub(crate) mod lease_words;
#[path = "../../../storage/engine/src/session/locks/seqlock.rs"]
pub(crate) mod seqlock;
#[path = "../../../storage/engine/src/session/threads/slot_ownership.rs"]
pub(crate) mod slot_ownership;

/// As `engine::session::arena`: runs of one page, last given back first given out.
pub(crate) mod arena {
    use crate::format::BLOCK;
    use crate::sync::atomic::{AtomicU64, Ordering};
    use crate::types::{Errno, Outcome};

    /// A few pages. Allocating and giving back is under a lock in the session; in models, one thread does it.
    pub(crate) struct Arena {
        pages: Vec<[AtomicU64; BLOCK / 8]>,
        free: std::sync::Mutex<Vec<u64>>,
    }

    /// What holes take is counted under a lock, so there is nothing to model.
    pub(crate) struct HoleAccounts;

    impl HoleAccounts {
        pub(crate) fn charge(&self, _: &super::layout::SessionInode) -> Outcome<()> {
            Ok(())
        }

        pub(crate) fn add_page(&self, _: &super::layout::SessionInode) {}

        pub(crate) fn forget(&self, _: &super::layout::SessionInode) {}
    }

    impl Arena {
        pub(crate) fn holes(&self) -> &HoleAccounts {
            &HoleAccounts
        }

        pub(crate) fn new(pages: u64) -> Arena {
            let page = |_| std::array::from_fn(|_| AtomicU64::new(0));
            Arena {
                pages: (0..pages).map(page).collect(),
                free: std::sync::Mutex::new((0..pages).rev().collect()),
            }
        }

        pub(crate) fn page(&self, page: u64) -> Option<&[AtomicU64; BLOCK / 8]> {
            self.pages.get(page as usize)
        }

        pub(crate) fn allocate(&self, _class: u32) -> Outcome<u64> {
            let page = self.free.lock().expect("free pages").pop();
            let page = page.ok_or(Errno(libc::ENOMEM))?;
            for word in &self.pages[page as usize] {
                word.store(0, Ordering::Relaxed);
            }
            Ok(page)
        }

        pub(crate) fn free(&self, page: u64, _class: u32) {
            // The link to the next free one.
            self.pages[page as usize][0].store(page + 1, Ordering::Release);
            self.free.lock().expect("free pages").push(page);
        }
    }
}

/// As `engine::session::layout`.
pub(crate) mod layout {
    use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    pub(crate) const THREAD_SLOTS: usize = 4;
    pub(crate) const INLINE_BLOCKS: usize = 1;
    pub(crate) const UNLOADED: u32 = 0;
    pub(crate) const LOADED: u32 = 1;
    pub(crate) const CHANGING: u32 = 2;

    pub(crate) struct SessionInode {
        pub(crate) state: AtomicU32,
        pub(crate) sequence: AtomicU64,
        pub(crate) epoch: AtomicU64,
        pub(crate) size_bytes: AtomicU64,
        pub(crate) root: AtomicU64,
        pub(crate) checksums: AtomicU32,
        pub(crate) kernel_cached: AtomicU64,
        pub(crate) committing: AtomicU64,
        pub(crate) inline_words: [AtomicU64; INLINE_BLOCKS],
    }

    impl SessionInode {
        /// A file of no bytes.
        pub(crate) fn new() -> SessionInode {
            let word = || AtomicU64::new(0);
            let state = AtomicU32::new(LOADED);
            state.load(Ordering::Relaxed);
            SessionInode {
                state,
                sequence: word(),
                epoch: word(),
                size_bytes: word(),
                root: word(),
                checksums: AtomicU32::new(0),
                kernel_cached: word(),
                committing: word(),
                inline_words: [word()],
            }
        }
    }

    pub(crate) struct FileNote {
        pub(crate) window: AtomicU64,
        pub(crate) ino: AtomicU64,
        pub(crate) read_bytes: AtomicU64,
        pub(crate) written_bytes: AtomicU64,
    }

    impl FileNote {
        pub(crate) fn new() -> FileNote {
            let word = || AtomicU64::new(0);
            FileNote {
                window: word(),
                ino: word(),
                read_bytes: word(),
                written_bytes: word(),
            }
        }
    }
}
