//! The common way of things: what is written is read, also after a new session.

use crate::common::*;
use egeria_engine::*;

#[test]
fn what_is_written_is_read_after_a_new_session() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    let attributes = volume.create(InodeNumber::ROOT, b"file", &FILE).unwrap();
    let file = volume.open(attributes.ino, None).unwrap();
    let data: Vec<u8> = (0..300_000u32).map(|at| (at * 7 % 251) as u8).collect();
    assert_eq!(volume.write(file, 5000, &data).unwrap(), data.len());
    assert_eq!(
        volume.append(file, b"tail").unwrap(),
        (5000 + data.len() as u64, 4)
    );
    volume.close(attributes.ino);
    drop(volume);
    scratch.assert_clean();

    let volume = scratch.attach();
    let found = volume.lookup(InodeNumber::ROOT, b"file").unwrap();
    assert_eq!(found.size_bytes, 305_004);
    let file = volume.open(found.ino, Some(found.generation)).unwrap();
    let mut read = vec![1u8; 400_000];
    assert_eq!(volume.read(file, 0, &mut read).unwrap(), 305_004);
    assert!(read[..5000].iter().all(|byte| *byte == 0));
    assert_eq!(&read[5000..305_000], &data[..]);
    assert_eq!(&read[305_000..305_004], b"tail");
    volume.close(found.ino);
}

#[test]
fn space_comes_back_when_files_go() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    // The root's own log and the first inode blocks stay.
    let warm = volume.create(InodeNumber::ROOT, b"warm", &FILE).unwrap();
    volume.unlink(InodeNumber::ROOT, b"warm").unwrap();
    assert_eq!(volume.attributes(warm.ino), Err(Errno(libc::ESTALE)));
    let before = volume.space(None);
    for round in 0..20 {
        let made = volume
            .create_open(InodeNumber::ROOT, b"big", &FILE)
            .unwrap();
        let file = volume.open(made.ino, None).unwrap();
        let data = vec![round as u8; 3 << 20];
        assert_eq!(volume.write(file, 0, &data).unwrap(), data.len());
        for at in 0..200 {
            volume.write(file, at * 4096 + 17, &data[..3000]).unwrap();
        }
        volume.unlink(InodeNumber::ROOT, b"big").unwrap();
        let mut read = vec![0; 10];
        assert_eq!(
            volume.read(file, 100, &mut read).unwrap(),
            10,
            "an unlinked open file lives"
        );
        volume.close(made.ino);
        volume.close(made.ino);
    }
    let after = volume.space(None);
    assert_eq!(after.free_inodes, before.free_inodes);
    assert!(
        before.free_blocks - after.free_blocks <= 2,
        "{before:?} {after:?}"
    );
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn many_names_in_one_directory_are_found_listed_and_removed() {
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let directory = volume
        .create(InodeNumber::ROOT, b"d", &DIRECTORY)
        .unwrap()
        .ino;
    let first = volume.create(directory, b"f", &FILE).unwrap().ino;
    for at in 0..20_000 {
        volume
            .link(first, directory, format!("name-{at}").as_bytes())
            .unwrap();
    }
    assert_eq!(names(&volume, directory).len(), 20_003);
    for at in (0..20_000).step_by(2) {
        volume
            .unlink(directory, format!("name-{at}").as_bytes())
            .unwrap();
    }
    assert_eq!(volume.lookup(directory, b"name-1").unwrap().ino, first);
    assert_eq!(
        volume.lookup(directory, b"name-2"),
        Err(Errno(libc::ENOENT))
    );
    assert_eq!(volume.attributes(first).unwrap().nlink, 10_001);
    drop(volume);
    scratch.assert_clean();
    let volume = scratch.attach();
    let directory = volume.lookup(InodeNumber::ROOT, b"d").unwrap().ino;
    assert_eq!(names(&volume, directory).len(), 10_003);
}

#[test]
fn renames_move_replace_and_exchange() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    let root = InodeNumber::ROOT;
    let a = volume.create(root, b"a", &DIRECTORY).unwrap().ino;
    let b = volume.create(a, b"b", &DIRECTORY).unwrap().ino;
    let x = volume.create(root, b"x", &FILE).unwrap().ino;
    let y = volume.create(b, b"y", &FILE).unwrap().ino;
    volume
        .rename(root, b"x", b, b"y", RenameMode::Replace)
        .unwrap();
    assert_eq!(volume.lookup(b, b"y").unwrap().ino, x);
    assert_eq!(volume.attributes(y), Err(Errno(libc::ESTALE)));
    assert_eq!(
        volume.rename(root, b"a", b, b"inside", RenameMode::Replace),
        Err(Errno(libc::EINVAL))
    );
    assert_eq!(
        volume.rename(b, b"y", root, b"a", RenameMode::Replace),
        Err(Errno(libc::ENOTEMPTY))
    );
    let z = volume.create(root, b"z", &FILE).unwrap().ino;
    assert_eq!(
        volume.rename(root, b"z", b, b"y", RenameMode::NoReplace),
        Err(Errno(libc::EEXIST))
    );
    volume
        .rename(root, b"z", b, b"y", RenameMode::Exchange)
        .unwrap();
    assert_eq!(volume.lookup(b, b"y").unwrap().ino, z);
    assert_eq!(volume.lookup(root, b"z").unwrap().ino, x);
    volume
        .rename(a, b"b", root, b"b", RenameMode::Replace)
        .unwrap();
    assert_eq!(volume.lookup(b, b"..").unwrap().ino, root);
    assert_eq!(volume.attributes(a).unwrap().nlink, 2);
    assert_eq!(volume.attributes(root).unwrap().nlink, 4);
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn nothing_moves_into_a_removed_directory_whose_parent_is_gone() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let root = InodeNumber::ROOT;
    let above = volume.create(root, b"above", &DIRECTORY).unwrap().ino;
    let below = volume.create_open(above, b"below", &DIRECTORY).unwrap().ino;
    volume.create(root, b"file", &FILE).unwrap();
    volume.remove_directory(above, b"below").unwrap();
    volume.remove_directory(root, b"above").unwrap();
    let moved = volume.rename(root, b"file", below, b"file", RenameMode::Replace);
    assert_eq!(moved, Err(Errno(libc::ENOENT)));
    volume.close(below);
}

#[test]
fn changes_are_for_the_inode_that_was_looked_at() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let directory = volume.create(InodeNumber::ROOT, b"d", &DIRECTORY).unwrap();
    let file = volume.create(&directory, b"f", &FILE).unwrap();
    volume.create(&directory, b"sub", &DIRECTORY).unwrap();
    let root = volume.attributes(InodeNumber::ROOT).unwrap();
    let next_life = |attributes: &Attributes| Attributes {
        generation: attributes.generation + 1,
        ..*attributes
    };
    let (no_directory, no_file) = (next_life(&directory), next_life(&file));
    let (change, any) = (AttributeChange::default(), XattrMode::Any);
    let replace = RenameMode::Replace;
    for outcome in [
        volume.create(&no_directory, b"new", &FILE).map(drop),
        volume.create_open(&no_directory, b"new", &FILE).map(drop),
        volume.create_unnamed(&no_directory, &FILE).map(drop),
        volume.symlink(&no_directory, b"new", b"f", 0, 0).map(drop),
        volume.link(&no_file, &directory, b"new").map(drop),
        volume.link(&file, &no_directory, b"new").map(drop),
        volume.unlink(&no_directory, b"f"),
        volume.remove_directory(&no_directory, b"sub"),
        volume.rename(&no_directory, b"f", &no_directory, b"new", replace),
        volume.rename(&no_directory, b"f", &root, b"new", replace),
        volume.rename(&root, b"d", &no_directory, b"new", replace),
        volume.set_attributes(&no_file, &change).map(drop),
        volume.set_attributes_direct(&no_file, &change),
        volume.set_xattr(&no_file, b"user.a", b"1", any),
        volume.remove_xattr(&no_file, b"user.a"),
    ] {
        assert_eq!(outcome, Err(Errno(libc::ESTALE)));
    }
    assert_eq!(names(&volume, directory.ino), [".", "..", "f", "sub"]);
    assert_eq!(volume.attributes(file.ino).unwrap(), file);
    volume
        .rename(&directory, b"f", &root, b"f", replace)
        .unwrap();
    volume.unlink(&root, b"f").unwrap();
    drop(volume);
    scratch.assert_clean();
}
