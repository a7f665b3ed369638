//! Streams as they should be, and hostile ones.

use super::*;
use crate::stream::{BaseFile, StreamWriter};
use std::fs;

const TOP: u64 = 1;

fn inode(mode: u32, size_bytes: u64) -> Inode {
    Inode {
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        size_bytes,
        atime_ns: 1_000_000_001,
        mtime_ns: -1_500_000_000,
        xattrs: Vec::new(),
    }
}

fn directory() -> LeadsTo {
    LeadsTo::Inode(inode(libc::S_IFDIR | 0o755, 0))
}

fn file(size_bytes: u64) -> LeadsTo {
    LeadsTo::Inode(inode(libc::S_IFREG | 0o640, size_bytes))
}

/// A file of which the base has these bytes.
fn changed(path: &[u8], base_bytes: u64, size_bytes: u64) -> LeadsTo {
    let file = inode(libc::S_IFREG | 0o600, size_bytes);
    LeadsTo::Changed {
        base: BaseFile {
            path: path.to_vec(),
            size_bytes: base_bytes,
            mtime_ns: file.mtime_ns,
        },
        inode: file,
    }
}

fn hole(offset_bytes: u64, length_bytes: u64) -> Frame {
    Frame::Hole {
        offset_bytes,
        length_bytes,
    }
}

fn symlink(size_bytes: u64) -> LeadsTo {
    LeadsTo::Inode(inode(libc::S_IFLNK | 0o777, size_bytes))
}

fn entry(parent: u64, name: &[u8], ino: u64, leads_to: LeadsTo) -> Frame {
    Frame::Entry(Entry {
        parent,
        name: name.to_vec(),
        ino,
        leads_to,
    })
}

fn data(offset_bytes: u64, bytes: &[u8]) -> Frame {
    Frame::Data {
        offset_bytes,
        bytes: bytes.to_vec(),
    }
}

fn top() -> Frame {
    entry(TOP, b"", TOP, directory())
}

fn stream(base: Option<[u8; 16]>, frames: Vec<Frame>) -> Vec<u8> {
    let begin = Begin {
        id: [7; 16],
        base,
        volume: [9; 16],
    };
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::begin(&mut bytes, &begin).unwrap();
    for frame in &frames {
        writer.frame(frame).unwrap();
    }
    writer.end().unwrap();
    bytes
}

/// Receives it; an error leaves nothing, and nothing outside the directory is ever made.
fn received(frames: Vec<Frame>) -> Outcome<(Received, tempfile::TempDir)> {
    let place = tempfile::tempdir().unwrap();
    let outcome = receive(
        &stream(None, frames)[..],
        &place.path().join("made"),
        None,
        &mut |_| {},
    );
    let entries = fs::read_dir(place.path()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    match outcome {
        Ok(received) => {
            assert_eq!(names, ["made"]);
            Ok((received, place))
        }
        Err(error) => {
            assert!(names.is_empty(), "{names:?}");
            let line = error.to_string();
            assert!(line.contains("; ") && !line.contains('\n'), "{line}");
            Err(error)
        }
    }
}

#[test]
fn a_tree_is_made_as_it_was_sent() {
    use std::os::unix::fs::MetadataExt;
    let (outcome, place) = received(vec![
        top(),
        entry(TOP, b"file", 2, file(10_000)),
        data(5000, b"here"),
        entry(TOP, b"inner", 3, directory()),
        entry(3, b"again", 2, LeadsTo::Link),
        entry(3, b"link", 4, symlink(4)),
        data(0, b"file"),
    ])
    .unwrap();
    assert_eq!((outcome.inodes, outcome.data_bytes), (4, 4));
    let made = place.path().join("made");
    let content = fs::read(made.join("file")).unwrap();
    assert_eq!(
        (content.len(), &content[5000..5004]),
        (10_000, &b"here"[..])
    );
    let facts = fs::metadata(made.join("inner/again")).unwrap();
    assert_eq!((facts.nlink(), facts.mode() & 0o7777), (2, 0o640));
    assert_eq!((facts.mtime(), facts.mtime_nsec()), (-2, 500_000_000));
    let target = fs::read_link(made.join("inner/link")).unwrap();
    assert_eq!(target, Path::new("file"));
    let top = fs::metadata(&made).unwrap();
    assert_eq!((top.mode() & 0o7777, top.mtime()), (0o755, -2));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in [
        &b".."[..],
        b".",
        b"",
        b"a/b",
        b"/etc",
        b"a\0b",
        &[b'n'; 256],
    ] {
        for leads_to in [file(0), directory(), symlink(1), LeadsTo::Link] {
            let refused = received(vec![top(), entry(TOP, name, 2, leads_to)]);
            assert!(matches!(refused, Err(TransferError::Damaged(_))));
        }
    }
}

#[test]
fn nothing_is_made_behind_a_symbolic_link() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().as_os_str().as_encoded_bytes();
    let link = || entry(TOP, b"link", 2, symlink(target.len() as u64));
    for more in [
        vec![entry(2, b"file", 3, file(0))],
        vec![
            entry(TOP, b"link", 3, directory()),
            entry(3, b"file", 4, file(0)),
        ],
        vec![entry(TOP, b"link", 3, file(4)), data(0, b"evil")],
    ] {
        let mut frames = vec![top(), link(), data(0, target)];
        frames.extend(more);
        assert!(received(frames).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let late = || {
        Frame::Begin(Begin {
            id: [1; 16],
            base: None,
            volume: [0; 16],
        })
    };
    for frames in [
        vec![],
        vec![data(0, b"x")],
        vec![entry(TOP, b"", TOP, file(0))],
        vec![entry(TOP, b"top", TOP, directory())],
        vec![entry(TOP, b"", TOP, LeadsTo::Link)],
        vec![top(), top()],
        vec![top(), data(0, b"x")],
        vec![top(), late()],
        vec![top(), entry(5, b"a", 2, file(0))],
        vec![
            top(),
            entry(TOP, b"a", 2, file(0)),
            entry(2, b"b", 3, file(0)),
        ],
        vec![
            top(),
            entry(TOP, b"a", 2, file(0)),
            entry(TOP, b"b", 2, file(0)),
        ],
        vec![
            top(),
            entry(TOP, b"a", 2, file(0)),
            entry(TOP, b"a", 3, file(0)),
        ],
        vec![top(), entry(TOP, b"a", TOP, LeadsTo::Link)],
        vec![top(), entry(TOP, b"a", 9, LeadsTo::Link)],
        vec![top(), entry(TOP, b"a", 2, file(3)), data(0, b"long")],
        vec![top(), entry(TOP, b"a", 2, file(3)), data(u64::MAX, b"x")],
        vec![top(), entry(TOP, b"a", 2, symlink(8)), data(4, b"gap")],
        vec![top(), entry(TOP, b"a", 2, symlink(5000))],
        vec![top(), entry(TOP, b"a", 2, file(u64::MAX))],
        vec![top(), entry(TOP, b"a", 2, LeadsTo::Inode(inode(0, 0)))],
        vec![top(), entry(TOP, b"a", 2, changed(b"a", 4, 4))],
        vec![top(), hole(0, 1)],
        vec![top(), entry(TOP, b"a", 2, file(3)), hole(0, 4)],
        vec![top(), entry(TOP, b"a", 2, file(3)), hole(1, u64::MAX)],
        vec![top(), entry(TOP, b"a", 2, file(3)), hole(0, 0)],
        vec![top(), entry(TOP, b"a", 2, symlink(3)), hole(0, 3)],
    ] {
        let shown = format!("{frames:?}");
        assert!(received(frames).is_err(), "{shown}");
    }
}

#[test]
fn a_base_is_the_one_that_was_received_and_unchanged() {
    let place = tempfile::tempdir_in(".").unwrap();
    let path = |name: &str| place.path().join(name);
    let full = stream(
        None,
        vec![top(), entry(TOP, b"a", 2, file(4)), data(0, b"kept")],
    );
    let first = receive(&full[..], &path("first"), None, &mut |_| {}).unwrap();
    if !first.can_be_base {
        return;
    }
    let later = |base_path: &[u8]| {
        let same = changed(base_path, 4, 4);
        stream(Some([7; 16]), vec![top(), entry(TOP, b"b", 2, same)])
    };
    let onto = |bytes: &[u8], base: Option<&str>| {
        let base = base.map(path);
        receive(bytes, &path("second"), base.as_deref(), &mut |_| {})
    };
    let second = onto(&later(b"a"), Some("first")).unwrap();
    assert_eq!((second.copied_bytes, second.data_bytes), (4, 0));
    assert_eq!(fs::read(path("second/b")).unwrap(), b"kept");
    fs::remove_dir_all(path("second")).unwrap();

    assert!(matches!(
        onto(&later(b"a"), None),
        Err(TransferError::NeedsBase(_))
    ));
    fs::create_dir(path("other")).unwrap();
    let other = onto(&later(b"a"), Some("other"));
    assert!(matches!(other, Err(TransferError::OtherBase { .. })));
    std::os::unix::fs::symlink("/etc/passwd", path("first/evil")).unwrap();
    for outside in [&b"evil"[..], b"../first/a", b"/etc/passwd", b"none", b"."] {
        let refused = onto(&later(outside), Some("first"));
        assert!(matches!(refused, Err(TransferError::BaseChanged(_))));
    }
    fs::write(path("first/a"), b"else").unwrap();
    let changed = onto(&later(b"a"), Some("first"));
    assert!(matches!(changed, Err(TransferError::BaseChanged(_))));
    assert!(!path("second").exists());
    fs::write(path("second"), b"").unwrap();
    let there = onto(&full, None);
    assert!(matches!(there, Err(TransferError::Exists(_))));
}

#[test]
fn what_changed_is_put_over_the_base() {
    let place = tempfile::tempdir_in(".").unwrap();
    let path = |name: &str| place.path().join(name);
    let base: Vec<u8> = (1..=100_000u32).map(|at| (at % 251) as u8 | 1).collect();
    let mut frames = vec![top(), entry(TOP, b"a", 2, file(100_000))];
    frames.push(data(0, &base));
    let full = stream(None, frames);
    let first = receive(&full[..], &path("first"), None, &mut |_| {}).unwrap();
    if !first.can_be_base {
        return;
    }
    for (number, size_bytes) in [99_000, 120_000].into_iter().enumerate() {
        let later = stream(
            Some([7; 16]),
            vec![
                top(),
                entry(TOP, b"b", 2, changed(b"a", 100_000, size_bytes)),
                data(10, b"new"),
                hole(8192, 50_000),
                data(size_bytes - 3, b"end"),
            ],
        );
        let name = format!("second{number}");
        receive(&later[..], &path(&name), Some(&path("first")), &mut |_| {}).unwrap();
        let mut expected = base.clone();
        expected.resize(size_bytes as usize, 0);
        expected[10..13].copy_from_slice(b"new");
        expected[8192..58_192].fill(0);
        expected[size_bytes as usize - 3..].copy_from_slice(b"end");
        assert!(
            fs::read(path(&name).join("b")).unwrap() == expected,
            "{name}"
        );
    }
}
