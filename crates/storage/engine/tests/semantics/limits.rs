//! Statements about limits, and what happens beyond them.

use super::{ROOT, failed, open_new};
use crate::common::*;
use egeria_engine::*;
use std::sync::Barrier;
use std::sync::mpsc::channel;

#[test]
fn s15_files_reach_to_the_largest_offset() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let end = i64::MAX as u64;
    assert_eq!(volume.write(file, end - 10, &[3; 100]), Ok(10), "cut short");
    assert_eq!(failed(volume.write(file, end, b"x")), libc::EFBIG);
    assert_eq!(failed(volume.append(file, b"x")), libc::EFBIG);
    assert_eq!(volume.size_bytes(file), Ok(end));
    let mut read = [0; 20];
    assert_eq!(volume.read(file, end - 10, &mut read), Ok(10));
    assert_eq!(read[..10], [3; 10]);
    let size = |bytes| AttributeChange {
        size_bytes: Some(bytes),
        ..AttributeChange::default()
    };
    volume.set_attributes(file.ino(), &size(end)).unwrap();
    let beyond = volume.set_attributes(file.ino(), &size(end + 1));
    assert_eq!(failed(beyond), libc::EFBIG);
    let beyond = volume.allocate(file, end, 1, AllocateMode::Extend);
    assert_eq!(failed(beyond), libc::EFBIG);
}

#[test]
fn s16_names_have_255_bytes_and_targets_4095() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let mut longest = [0xFF; 255];
    (longest[0], longest[1]) = (b'\n', b' ');
    let made = volume.create(ROOT, &longest, &FILE).unwrap();
    assert_eq!(volume.lookup(ROOT, &longest).unwrap().ino, made.ino);
    let create = |name: &[u8]| failed(volume.create(ROOT, name, &FILE));
    assert_eq!(create(&[b'x'; 256]), libc::ENAMETOOLONG);
    assert_eq!(create(b""), libc::ENOENT);
    assert_eq!(create(b"."), libc::EEXIST);
    assert_eq!(create(b"a/b"), libc::EINVAL);
    assert_eq!(create(b"a\0b"), libc::EINVAL);
    let symlink = |name: &[u8], bytes| volume.symlink(ROOT, name, &vec![b't'; bytes], 0, 0);
    let link = symlink(b"link", 4095).unwrap().ino;
    assert_eq!(volume.read_link(link).unwrap(), [b't'; 4095]);
    assert_eq!(failed(symlink(b"long", 4096)), libc::ENAMETOOLONG);
    assert_eq!(failed(symlink(b"none", 0)), libc::ENOENT);
}

#[test]
fn s17_names_and_subdirectories_have_limits() {
    let scratch = Scratch::new(1, 512 << 20);
    let volume = scratch.attach();
    let file = volume.create(ROOT, b"0", &FILE).unwrap().ino;
    for at in 1..65_000 {
        volume.link(file, ROOT, format!("{at}").as_bytes()).unwrap();
    }
    assert_eq!(failed(volume.link(file, ROOT, b"more")), libc::EMLINK);
    assert_eq!(volume.attributes(file).unwrap().nlink, 65_000);
    let directory = volume.create(ROOT, b"d", &DIRECTORY).unwrap().ino;
    for at in 0..64_998 {
        let name = format!("{at}").into_bytes();
        volume.create(directory, &name, &DIRECTORY).unwrap();
    }
    let more = volume.create(directory, b"more", &DIRECTORY);
    assert_eq!(failed(more), libc::EMLINK);
    volume.create(directory, b"file", &FILE).unwrap();
    assert_eq!(volume.attributes(directory).unwrap().nlink, 65_000);
    a_full_directory_takes_one_in_only_for_another(&volume, directory);
    assert_eq!(volume.attributes(directory).unwrap().nlink, 65_000);
}

/// `full` has as many subdirectories as it may, named by numbers, and `file`.
fn a_full_directory_takes_one_in_only_for_another(volume: &Volume, full: InodeNumber) {
    use RenameMode::{Exchange, NoReplace, Replace};
    volume.create(ROOT, b"e", &DIRECTORY).unwrap();
    let into = |name: &[u8], mode| volume.rename(ROOT, b"e", full, name, mode);
    assert_eq!(failed(into(b"more", Replace)), libc::EMLINK);
    assert_eq!(failed(into(b"more", NoReplace)), libc::EMLINK);
    assert_eq!(failed(into(b"file", Exchange)), libc::EMLINK);
    let from = volume.rename(full, b"file", ROOT, b"e", Exchange);
    assert_eq!(failed(from), libc::EMLINK, "the other way round");
    into(b"7", Replace).expect("in the place of an empty one");
    volume
        .rename(full, b"7", full, b"seven", Replace)
        .expect("inside itself");
    volume.create(ROOT, b"e", &DIRECTORY).unwrap();
    into(b"8", Exchange).expect("one for one");
    volume
        .rename(full, b"file", ROOT, b"file", Replace)
        .expect("files have no such limit");
    volume
        .rename(ROOT, b"file", full, b"file", Replace)
        .unwrap();
}

#[test]
fn s18_extended_attributes_of_three_namespaces_hold_3757_bytes() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file").ino();
    let set = |name: &[u8], bytes| volume.set_xattr(file, name, &vec![7; bytes], XattrMode::Any);
    for name in [&b"user.a"[..], b"trusted.a", b"security.a"] {
        set(name, 3757).unwrap();
        assert_eq!(volume.get_xattr(file, name).unwrap(), [7; 3757]);
    }
    set(b"user.empty", 0).unwrap();
    assert_eq!(volume.get_xattr(file, b"user.empty").unwrap(), b"");
    assert_eq!(failed(set(b"user.b", 3758)), libc::ENOSPC);
    assert_eq!(failed(set(b"user.b", 65_537)), libc::E2BIG);
    let longest = [&b"user."[..], &[b'n'; 250]].concat();
    set(&longest, 3757).unwrap();
    assert_eq!(failed(set(&[&longest[..], b"n"].concat(), 1)), libc::ERANGE);
    for name in [&b"user."[..], b"other.a", b"noname"] {
        assert_eq!(failed(set(name, 1)), libc::EOPNOTSUPP);
    }
    // As many as there is space for.
    for at in 0..100 {
        set(format!("user.{at}").as_bytes(), 3000).unwrap();
    }
    assert_eq!(volume.list_xattr(file).unwrap().len(), 105);
}

#[test]
fn s19_access_control_lists_are_refused() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let set = |name: &[u8]| volume.set_xattr(file.ino(), name, &[1, 2, 3], XattrMode::Any);
    for name in [
        &b"system.posix_acl_access"[..],
        b"system.posix_acl_default",
        b"system.nfs4_acl",
    ] {
        assert_eq!(failed(set(name)), libc::EOPNOTSUPP);
    }
    set(b"security.capability").unwrap();
    volume.write(file, 0, b"other program").unwrap();
    let kept = volume.get_xattr(file.ino(), b"security.capability");
    assert_eq!(
        kept.unwrap(),
        [1, 2, 3],
        "bytes like any, also when the file changes"
    );
    volume
        .set_xattr(file.ino(), b"user.a", b"b", XattrMode::Any)
        .unwrap();
    for _ in 0..2 {
        volume.drop_capability(file).unwrap();
        let names = volume.list_xattr(file.ino()).unwrap();
        assert_eq!(names, [b"user.a"], "what the mount asks for");
        set(b"security.capability").unwrap();
        volume.drop_capability(file).unwrap();
    }
    drop(volume);
    let volume = scratch.attach();
    let ino = volume.lookup(ROOT, b"file").unwrap().ino;
    assert_eq!(volume.list_xattr(ino).unwrap(), [b"user.a"]);
}

#[test]
fn s30_threads_beyond_4096_get_eagain() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    use_a_slot(&volume).expect("this thread's slot");
    const THREADS: usize = 4100;
    let all_done = Barrier::new(THREADS);
    let (sender, outcomes) = channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (volume, all_done, sender) = (&volume, &all_done, sender.clone());
            let builder = std::thread::Builder::new().stack_size(128 << 10);
            let thread = builder.spawn_scoped(scope, move || {
                let outcome = use_a_slot(volume);
                // Nobody ends, and so gives a slot back, before all had their turn.
                all_done.wait();
                sender.send(outcome).unwrap();
            });
            thread.expect("a thread");
        }
    });
    drop(sender);
    let (served, refused): (Vec<_>, Vec<_>) = outcomes.iter().partition(Result::is_ok);
    assert!(
        refused
            .iter()
            .all(|outcome| *outcome == Err(Errno(libc::EAGAIN)))
    );
    assert_eq!((served.len(), refused.len()), (4095, 5));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| use_a_slot(&volume));
        assert_eq!(late.join().unwrap(), Ok(()), "slots come back");
    });
}

/// A change, for which a thread takes a slot; looking needs none.
fn use_a_slot(volume: &Volume) -> Outcome<()> {
    let nothing = AttributeChange::default();
    volume.set_attributes(ROOT, &nothing).map(drop)
}

#[test]
fn s31_processes_beyond_4096_get_eagain() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    // What a fork child does first: it takes slots of its own. The parent's stay taken.
    let mut attached = 0;
    let refused = loop {
        match use_a_slot(&volume) {
            Ok(_) => attached += 1,
            Err(errno) => break errno,
        }
        assert!(attached <= 4096);
        volume.after_fork_in_child();
    };
    assert_eq!((attached, refused), (4096, Errno(libc::EAGAIN)));
    drop(volume);
    // A child that never came in leaves the session for the next to remove.
    use_a_slot(&scratch.attach()).unwrap();
}

#[test]
fn s32_open_descriptions_beyond_65536_have_no_slot() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let slots: Vec<_> = (0..65_536)
        .map(|_| volume.description_allocate().expect("a slot"))
        .collect();
    assert_eq!(volume.description_allocate(), None);
    volume.description_free(slots[777]);
    assert_eq!(volume.description_allocate(), Some(slots[777]));
}

#[test]
fn s33_the_index_of_a_sparse_file_needs_session_memory() {
    let scratch = Scratch::new(1, 128 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"sparse");
    let refused = (0..25_000)
        .map(|at| volume.write(file, at << 40, b"x"))
        .find_map(Result::err);
    assert_eq!(refused, Some(Errno(libc::ENOMEM)), "with space still free");
    assert!(volume.space(None).free_blocks > 0);
    let other = open_new(&volume, b"other");
    assert_eq!(
        volume.write(other, 0, &[1; 30_000]),
        Ok(30_000),
        "eight blocks need none"
    );
    let (name, value) = (b"user.egeria.checksum", b"crc32c");
    let set = volume.set_xattr(ROOT, name, value, XattrMode::Any);
    assert_eq!(set, Ok(()));
    let checked = open_new(&volume, b"checked");
    let refused = Err(Errno(libc::ENOMEM));
    assert_eq!(volume.write(checked, 0, b"x"), refused, "checksums do");
    volume.remove_xattr(ROOT, name).unwrap();
    volume.close(file.ino());
    volume.unlink(ROOT, b"sparse").unwrap();
    let again = open_new(&volume, b"again");
    assert_eq!(volume.write(again, 5 << 40, b"x"), Ok(1), "it comes back");
}
