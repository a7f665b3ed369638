//! `engine::session::free_list`.

use crate::cell::Watched;
use crate::check::check;
use crate::session::free_list::{put, take};
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

const PAGES: usize = 2;

/// A stack, and what is done with its pages.
struct Scene {
    head: AtomicU64,
    links: [AtomicU64; PAGES],
    pages: [Watched<u32>; PAGES],
}

impl Scene {
    fn new() -> Arc<Scene> {
        let scene = Scene {
            head: AtomicU64::new(0),
            links: [0, 0].map(AtomicU64::new),
            pages: [0, 0].map(Watched::new),
        };
        for page in 0..PAGES {
            put(&scene.head, page as u64, &scene.links[page]);
        }
        Arc::new(scene)
    }

    fn take(&self) -> Option<u64> {
        take(&self.head, |page| self.links.get(page as usize))
    }

    /// As its owner, also of the word that was the link.
    fn use_page(&self, page: u64) {
        self.links[page as usize].store(77, Ordering::Relaxed);
        self.pages[page as usize].add(1);
    }

    fn put(&self, page: u64) {
        put(&self.head, page, &self.links[page as usize]);
    }
}

#[test]
fn a_page_is_one_threads_at_a_time_though_it_comes_back() {
    check(
        "models::free_lists::a_page_is_one_threads_at_a_time_though_it_comes_back",
        &[
            "head.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire)",
            "let mut seen = head.load(Ordering::Acquire);",
            "without link.store(first, Ordering::Relaxed);",
        ],
        || {
            let scene = Scene::new();
            let other = scene.clone();
            let thread = thread::spawn(move || {
                let taken = [other.take(), other.take()];
                taken
                    .iter()
                    .flatten()
                    .for_each(|page| other.use_page(*page));
                // The one that was in front is in front again, and the one behind it is not there.
                if let Some(page) = taken[0] {
                    other.put(page);
                }
                taken[1]
            });
            let taken = [scene.take(), scene.take()];
            taken
                .iter()
                .flatten()
                .for_each(|page| scene.use_page(*page));
            let kept = thread.join().expect("a thread");
            let mut all: Vec<u64> = taken.into_iter().chain([kept]).flatten().collect();
            while let Some(page) = scene.take() {
                all.push(page);
            }
            all.sort_unstable();
            assert_eq!(all, [0, 1], "none is lost or twice");
        },
    );
}
