//! `engine::session::direct`.

use crate::check::check;
use crate::session::direct::{DirectCommit, is_settled, mark};
use crate::session::layout::SessionInode;
use crate::sync::atomic::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Scene {
    inode: SessionInode,
    data: AtomicU64,
}

#[test]
fn the_kernel_gets_no_page_that_a_direct_write_makes_old() {
    check(
        "models::direct::the_kernel_gets_no_page_that_a_direct_write_makes_old",
        &[
            "self.0.committing.store(0, Ordering::Release);",
            "inode.committing.load(Ordering::Acquire) == 0",
            "without fence(Ordering::SeqCst);",
            "without inode.committing.store(1, Ordering::Relaxed);",
            "without inode.kernel_cached.fetch_add(1, Ordering::Relaxed);",
        ],
        || {
            let scene = Arc::new(Scene {
                inode: SessionInode::new(),
                data: AtomicU64::new(0),
            });
            let writing = scene.clone();
            let writer = thread::spawn(move || {
                let commit = DirectCommit::begin(&writing.inode);
                if commit.is_some() {
                    writing.data.store(1, Ordering::Relaxed);
                }
                commit.is_some()
            });
            mark(&scene.inode);
            while !is_settled(&scene.inode) {
                thread::yield_now();
            }
            let page = scene.data.load(Ordering::Relaxed);
            let written = writer.join().expect("the writer");
            assert_eq!(page == 1, written, "a write past the page");
            assert!(DirectCommit::begin(&scene.inode).is_none());
        },
    );
}
