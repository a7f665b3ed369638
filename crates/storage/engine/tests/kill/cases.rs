//! The operations that are killed, each with what must hold before and after it.

use crate::common::{DIRECTORY, FILE};
use crate::scene::{Scene, pattern, write_in};
use egeria_engine::*;

/// What the child does.
pub type Act = Box<dyn Fn(&Volume)>;
/// Panics unless the operation happened wholly or not at all; true: it happened.
pub type Verify = Box<dyn Fn(&Scene) -> bool>;

/// One kind of operation.
pub struct Case {
    pub name: &'static str,
    /// Sets the scene; gives what the child does and what is verified afterwards.
    pub prepare: fn(&mut Scene) -> (Act, Verify),
}

/// Of the engine's operations, all.
pub const CASES: &[Case] = &[
    Case {
        name: "create",
        prepare: create,
    },
    Case {
        name: "create in a new inode block",
        prepare: create_in_new_block,
    },
    Case {
        name: "create unnamed",
        prepare: create_unnamed,
    },
    Case {
        name: "symlink",
        prepare: symlink,
    },
    Case {
        name: "link",
        prepare: link,
    },
    Case {
        name: "unlink",
        prepare: unlink,
    },
    Case {
        name: "unlink of one of two names",
        prepare: unlink_one_of_two,
    },
    Case {
        name: "close after unlink",
        prepare: close_after_unlink,
    },
    Case {
        name: "mkdir",
        prepare: make_directory,
    },
    Case {
        name: "rmdir",
        prepare: remove_directory,
    },
    Case {
        name: "rename over a file",
        prepare: rename_over,
    },
    Case {
        name: "rename of a directory",
        prepare: rename_directory,
    },
    Case {
        name: "exchange",
        prepare: exchange,
    },
    Case {
        name: "overwrite",
        prepare: overwrite,
    },
    Case {
        name: "overwrite of an edge",
        prepare: overwrite_edge,
    },
    Case {
        name: "overwrite of one block",
        prepare: overwrite_block,
    },
    Case {
        name: "overwrite of one block at once",
        prepare: overwrite_at_once,
    },
    Case {
        name: "append in place",
        prepare: append_in_place,
    },
    Case {
        name: "append with a new log page",
        prepare: append_at_page_end,
    },
    Case {
        name: "append that compacts the log",
        prepare: append_compacting,
    },
    Case {
        name: "append with a new tree",
        prepare: append_past_inline,
    },
    Case {
        name: "truncate",
        prepare: truncate,
    },
    Case {
        name: "punch",
        prepare: punch,
    },
    Case {
        name: "allocate",
        prepare: allocate,
    },
    Case {
        name: "setxattr",
        prepare: set_xattr,
    },
    Case {
        name: "chmod",
        prepare: change_mode,
    },
];

fn either(bytes: Vec<u8>, before: &[u8], after: &[u8]) -> bool {
    assert!(
        bytes == before || bytes == after,
        "{} bytes are neither the {} of before nor the {} of after",
        bytes.len(),
        before.len(),
        after.len()
    );
    bytes == after
}

/// A file `f` whose content goes from `before` to `after`.
pub fn content(before: Vec<u8>, after: Vec<u8>) -> Verify {
    Box::new(move |scene| {
        let ino = scene.find(scene.a, b"f").expect("the file stays");
        either(scene.read(ino), &before, &after)
    })
}

fn create(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    (
        Box::new(move |volume| assert!(volume.create(a, b"new", &FILE).unwrap().ino.0 > 0)),
        Box::new(|scene| {
            scene
                .find(scene.a, b"new")
                .inspect(|ino| assert!(scene.read(*ino).is_empty()))
                .is_some()
        }),
    )
}

fn create_in_new_block(scene: &mut Scene) -> (Act, Verify) {
    scene.exhaust_inode_block();
    let (act, _) = create(scene);
    (
        act,
        Box::new(|scene| {
            let made = scene.find(scene.a, b"new").is_some();
            // Whatever takes free blocks now must not take the records'.
            for at in 0..8u8 {
                scene.file(scene.b, &[b'g', at + b'0'], &pattern(at, 100_000));
            }
            for at in 0..8u8 {
                let ino = scene.find(scene.b, &[b'g', at + b'0']).unwrap();
                assert_eq!(scene.read(ino), pattern(at, 100_000));
            }
            made
        }),
    )
}

fn create_unnamed(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    (
        Box::new(move |volume| {
            let made = volume.create_unnamed(a, &FILE).unwrap();
            write_in(volume, made.ino, 0, &pattern(1, 9000));
            volume.link(made.ino, a, b"f").unwrap();
            volume.close(made.ino);
        }),
        Box::new(|scene| {
            scene
                .find(scene.a, b"f")
                .inspect(|ino| assert_eq!(scene.read(*ino), pattern(1, 9000)))
                .is_some()
        }),
    )
}

fn symlink(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    (
        Box::new(move |volume| {
            assert!(volume.symlink(a, b"s", &[b't'; 300], 0, 0).unwrap().ino.0 > 0)
        }),
        Box::new(|scene| {
            scene
                .find(scene.a, b"s")
                .inspect(|ino| assert_eq!(scene.volume.read_link(*ino).unwrap(), [b't'; 300]))
                .is_some()
        }),
    )
}

fn link(scene: &mut Scene) -> (Act, Verify) {
    let (a, b) = (scene.a, scene.b);
    let ino = scene.file(a, b"f", &pattern(2, 5000));
    (
        Box::new(move |volume| assert!(volume.link(ino, b, b"second").unwrap().ino.0 > 0)),
        Box::new(move |scene| {
            let second = scene.find(scene.b, b"second");
            let nlink = scene.volume.attributes(ino).unwrap().nlink;
            assert_eq!(nlink, 1 + u32::from(second.is_some()));
            assert_eq!(scene.read(ino), pattern(2, 5000));
            second.is_some()
        }),
    )
}

fn unlink(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    let ino = scene.file(a, b"f", &pattern(3, 50_000));
    (
        Box::new(move |volume| volume.unlink(a, b"f").unwrap()),
        Box::new(move |scene| {
            if let Some(ino) = scene.find(scene.a, b"f") {
                assert_eq!(scene.read(ino), pattern(3, 50_000));
                return false;
            }
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(ino), Err(Errno(libc::ESTALE)));
            true
        }),
    )
}

fn unlink_one_of_two(scene: &mut Scene) -> (Act, Verify) {
    let (a, b) = (scene.a, scene.b);
    let ino = scene.file(a, b"f", &pattern(4, 5000));
    scene.volume.link(ino, b, b"second").unwrap();
    (
        Box::new(move |volume| volume.unlink(b, b"second").unwrap()),
        Box::new(move |scene| {
            let second = scene.find(scene.b, b"second");
            let nlink = scene.volume.attributes(ino).unwrap().nlink;
            assert_eq!(nlink, 1 + u32::from(second.is_some()));
            assert_eq!(scene.read(ino), pattern(4, 5000));
            second.is_none()
        }),
    )
}

fn close_after_unlink(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    let ino = scene.file(a, b"f", &pattern(5, 20_000));
    (
        Box::new(move |volume| {
            volume.open(ino, None).unwrap();
            volume.unlink(a, b"f").unwrap();
            volume.close(ino);
        }),
        Box::new(move |scene| {
            if scene.find(scene.a, b"f").is_some() {
                assert_eq!(scene.read(ino), pattern(5, 20_000));
                return false;
            }
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(ino), Err(Errno(libc::ESTALE)));
            true
        }),
    )
}

fn make_directory(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    (
        Box::new(move |volume| assert!(volume.create(a, b"d", &DIRECTORY).unwrap().ino.0 > 0)),
        Box::new(|scene| {
            let made = scene.find(scene.a, b"d");
            let nlink = scene.volume.attributes(scene.a).unwrap().nlink;
            assert_eq!(nlink, 2 + u32::from(made.is_some()));
            if let Some(made) = made {
                scene.file(made, b"inside", b"x");
                assert_eq!(scene.find(made, b".."), Some(scene.a));
            }
            made.is_some()
        }),
    )
}

fn remove_directory(scene: &mut Scene) -> (Act, Verify) {
    let a = scene.a;
    let made = scene.volume.create(a, b"d", &DIRECTORY).unwrap().ino;
    scene.file(made, b"gone", b"x");
    scene.volume.unlink(made, b"gone").unwrap();
    (
        Box::new(move |volume| volume.remove_directory(a, b"d").unwrap()),
        Box::new(move |scene| {
            let there = scene.find(scene.a, b"d");
            let nlink = scene.volume.attributes(scene.a).unwrap().nlink;
            assert_eq!(nlink, 2 + u32::from(there.is_some()));
            if let Some(there) = there {
                scene.file(there, b"inside", b"x");
                return false;
            }
            scene.volume.reap();
            assert_eq!(scene.volume.attributes(made), Err(Errno(libc::ESTALE)));
            true
        }),
    )
}

fn rename_over(scene: &mut Scene) -> (Act, Verify) {
    let (a, b) = (scene.a, scene.b);
    let moved = scene.file(a, b"f", &pattern(6, 5000));
    let over = scene.file(b, b"g", &pattern(7, 30_000));
    (
        Box::new(move |volume| {
            volume
                .rename(a, b"f", b, b"g", RenameMode::Replace)
                .unwrap()
        }),
        Box::new(move |scene| {
            assert_eq!(scene.read(moved), pattern(6, 5000));
            let target = scene.find(scene.b, b"g").expect("the target never goes");
            match scene.find(scene.a, b"f") {
                Some(source) => {
                    assert_eq!((source, target), (moved, over));
                    assert_eq!(scene.read(over), pattern(7, 30_000));
                    false
                }
                None => {
                    assert_eq!(target, moved);
                    scene.volume.reap();
                    assert_eq!(scene.volume.attributes(over), Err(Errno(libc::ESTALE)));
                    true
                }
            }
        }),
    )
}

fn rename_directory(scene: &mut Scene) -> (Act, Verify) {
    let (a, b) = (scene.a, scene.b);
    let moved = scene.volume.create(a, b"d", &DIRECTORY).unwrap().ino;
    scene.file(moved, b"inside", b"x");
    (
        Box::new(move |volume| {
            volume
                .rename(a, b"d", b, b"e", RenameMode::Replace)
                .unwrap()
        }),
        Box::new(move |scene| {
            let (old, new) = (scene.find(scene.a, b"d"), scene.find(scene.b, b"e"));
            assert!(old.is_some() != new.is_some(), "{old:?} {new:?}");
            let parent = if new.is_some() { scene.b } else { scene.a };
            assert_eq!(scene.find(moved, b".."), Some(parent));
            assert_eq!(scene.volume.attributes(parent).unwrap().nlink, 3);
            assert!(scene.find(moved, b"inside").is_some());
            new.is_some()
        }),
    )
}

fn exchange(scene: &mut Scene) -> (Act, Verify) {
    let (a, b) = (scene.a, scene.b);
    let file = scene.file(a, b"x", &pattern(8, 5000));
    let directory = scene.volume.create(b, b"y", &DIRECTORY).unwrap().ino;
    (
        Box::new(move |volume| {
            volume
                .rename(a, b"x", b, b"y", RenameMode::Exchange)
                .unwrap()
        }),
        Box::new(move |scene| {
            let now = (scene.find(scene.a, b"x"), scene.find(scene.b, b"y"));
            let done = now == (Some(directory), Some(file));
            assert!(done || now == (Some(file), Some(directory)), "{now:?}");
            let parent = if done { scene.a } else { scene.b };
            assert_eq!(scene.find(directory, b".."), Some(parent));
            assert_eq!(scene.read(file), pattern(8, 5000));
            done
        }),
    )
}

fn overwrite(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(9, 30_000);
    let ino = scene.file(scene.a, b"f", &before);
    let mut after = before.clone();
    after[5000..14_000].copy_from_slice(&pattern(99, 9000));
    (
        Box::new(move |volume| write_in(volume, ino, 5000, &pattern(99, 9000))),
        content(before, after),
    )
}

fn overwrite_edge(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(10, 3000);
    let ino = scene.file(scene.a, b"f", &before);
    let mut after = before.clone();
    after.resize(3500, 0);
    after[2000..].copy_from_slice(&pattern(77, 1500));
    (
        Box::new(move |volume| write_in(volume, ino, 2000, &pattern(77, 1500))),
        content(before, after),
    )
}

/// A block in the middle of a file that has an index of its own, and its new content.
const BLOCK: u64 = 4096;

fn block_to_overwrite(scene: &mut Scene) -> (InodeNumber, Verify) {
    let before = pattern(12, 50_000);
    let ino = scene.file(scene.a, b"f", &before);
    let mut after = before.clone();
    after[5 * BLOCK as usize..6 * BLOCK as usize].copy_from_slice(&pattern(88, BLOCK as usize));
    (ino, content(before, after))
}

fn overwrite_block(scene: &mut Scene) -> (Act, Verify) {
    let (ino, verify) = block_to_overwrite(scene);
    let act = move |volume: &Volume| {
        write_in(volume, ino, 5 * BLOCK, &pattern(88, BLOCK as usize));
    };
    (Box::new(act), verify)
}

fn overwrite_at_once(scene: &mut Scene) -> (Act, Verify) {
    let (ino, verify) = block_to_overwrite(scene);
    let act = move |volume: &Volume| {
        // The same bytes again: from now on the thread has a slot, and free blocks at hand.
        write_in(volume, ino, 0, &pattern(12, BLOCK as usize));
        let (file, bytes) = (volume.open(ino, None).unwrap(), pattern(88, BLOCK as usize));
        let at_once = volume.write_quickly(file, 5 * BLOCK, bytes[..].into());
        let written = at_once.map_or_else(|| volume.write(file, 5 * BLOCK, &bytes), Ok);
        assert_eq!(written, Ok(bytes.len()));
        volume.close(ino);
    };
    (Box::new(act), verify)
}

fn append_in_place(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(11, 1000);
    let ino = scene.file(scene.a, b"f", &before);
    let after = [before.clone(), pattern(66, 900)].concat();
    (
        Box::new(move |volume| append(volume, ino, &pattern(66, 900))),
        content(before, after),
    )
}

fn append(volume: &Volume, ino: InodeNumber, bytes: &[u8]) {
    let file = volume.open(ino, None).unwrap();
    assert_eq!(volume.append(file, bytes).unwrap().1, bytes.len());
    volume.close(ino);
}

fn append_at_page_end(scene: &mut Scene) -> (Act, Verify) {
    let ino = scene.file(scene.a, b"f", b"");
    let mut before = Vec::new();
    // 63 lines of a page hold entries of one line.
    for at in 0..63 {
        append(&scene.volume, ino, &pattern(at, 50));
        before.extend(pattern(at, 50));
    }
    let mut after = before.clone();
    after.extend(pattern(200, 5000));
    (
        Box::new(move |volume| append(volume, ino, &pattern(200, 5000))),
        content(before, after),
    )
}

fn append_compacting(scene: &mut Scene) -> (Act, Verify) {
    let mut before = pattern(16, 5000);
    let ino = scene.file(scene.a, b"f", &before);
    let file = scene.volume.open(ino, None).unwrap();
    // Sixteen pages of entries, nearly all of them dead.
    for at in 0..16 * 63u32 {
        let bytes = at.to_le_bytes();
        scene.volume.write(file, 100, &bytes).unwrap();
        before[100..104].copy_from_slice(&bytes);
    }
    scene.volume.close(ino);
    let after = [before.clone(), pattern(201, 5000)].concat();
    (
        Box::new(move |volume| append(volume, ino, &pattern(201, 5000))),
        content(before, after),
    )
}

fn append_past_inline(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(12, 32_768);
    let ino = scene.file(scene.a, b"f", &before);
    let after = [before.clone(), pattern(55, 9000)].concat();
    (
        Box::new(move |volume| append(volume, ino, &pattern(55, 9000))),
        content(before, after),
    )
}

fn truncate(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(13, 60_000);
    let ino = scene.file(scene.a, b"f", &before);
    let after = before[..9000].to_vec();
    let change = AttributeChange {
        size_bytes: Some(9000),
        ..Default::default()
    };
    (
        Box::new(move |volume| assert!(volume.set_attributes(ino, &change).unwrap().ino.0 > 0)),
        content(before, after),
    )
}

fn punch(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(14, 40_000);
    let ino = scene.file(scene.a, b"f", &before);
    let mut after = before.clone();
    after[5000..30_000].fill(0);
    (
        Box::new(move |volume| {
            let file = volume.open(ino, None).unwrap();
            volume
                .allocate(file, 5000, 25_000, AllocateMode::PunchHole)
                .unwrap();
            volume.close(ino);
        }),
        content(before, after),
    )
}

fn allocate(scene: &mut Scene) -> (Act, Verify) {
    let before = pattern(15, 5000);
    let ino = scene.file(scene.a, b"f", &before);
    let mut after = before.clone();
    after.resize(70_000, 0);
    (
        Box::new(move |volume| {
            let file = volume.open(ino, None).unwrap();
            volume
                .allocate(file, 0, 70_000, AllocateMode::Extend)
                .unwrap();
            volume.close(ino);
        }),
        content(before, after),
    )
}

fn set_xattr(scene: &mut Scene) -> (Act, Verify) {
    let ino = scene.file(scene.a, b"f", b"x");
    scene
        .volume
        .set_xattr(ino, b"user.k", b"old", XattrMode::Any)
        .unwrap();
    (
        Box::new(move |volume| {
            volume
                .set_xattr(ino, b"user.k", &[b'n'; 200], XattrMode::Any)
                .unwrap();
        }),
        Box::new(move |scene| {
            let value = scene.volume.get_xattr(ino, b"user.k").unwrap();
            either(value, b"old", &[b'n'; 200])
        }),
    )
}

fn change_mode(scene: &mut Scene) -> (Act, Verify) {
    let ino = scene.file(scene.a, b"f", b"x");
    let change = AttributeChange {
        permissions: Some(0o600),
        uid: Some(7),
        ..Default::default()
    };
    (
        Box::new(move |volume| assert!(volume.set_attributes(ino, &change).unwrap().ino.0 > 0)),
        Box::new(move |scene| {
            let now = scene.volume.attributes(ino).unwrap();
            let state = (now.mode & 0o777, now.uid);
            assert!(state == (0o644, 0) || state == (0o600, 7), "{state:?}");
            state.1 == 7
        }),
    )
}
