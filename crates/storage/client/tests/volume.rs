//! The Rust interface on a real volume; the C and Python interfaces have their own tests.

use egeria_client::{File, FileType, OpenOptions, Volume};
use egeria_engine::{
    AttachMode, AttachOptions, CreateOptions, InodeNumber, PoolRequest, create_volume,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn pool() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("pool");
    let request = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(32 << 20),
    };
    create_volume(&[request], &CreateOptions::default()).unwrap();
    (directory, path)
}

fn written(volume: &Volume, path: &str, text: &[u8]) -> File {
    let mut options = OpenOptions::new();
    let file = volume.open(path, options.read(true).write(true).create(true));
    let file = file.unwrap();
    file.write_all_at(text, 0).unwrap();
    file
}

/// The engine's volume: it attaches once per process, so this is the client's volume.
fn engine(pool: &Path) -> Arc<egeria_engine::Volume> {
    let options = AttachOptions::default();
    egeria_engine::Volume::attach(pool, AttachMode::CreateOrJoin, &options).unwrap()
}

fn errno<T>(outcome: egeria_client::Result<T>) -> i32 {
    outcome.map(drop).unwrap_err().errno()
}

#[test]
fn links_are_followed_and_lead_nowhere_else() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    let engine = engine(&pool);
    volume.create_directory("/a", 0o755).unwrap();
    written(&volume, "/a/file", b"found");
    let link = |name: &str, target: &str| {
        let (name, target) = (name.as_bytes(), target.as_bytes());
        engine
            .symlink(InodeNumber::ROOT, name, target, 0, 0)
            .unwrap();
    };
    link("to-file", "a/../a/./file");
    link("to-directory", "a/");
    link("to-itself", "to-itself");
    link("to-nothing", "a/new");
    link("out", "../secret");
    link("absolute", "/a/file");
    let size = |path: &str| volume.metadata(path).map(|found| found.size_bytes);
    for path in [
        "/to-file",
        "to-directory/file",
        "//to-directory//file",
        "/a/file",
    ] {
        assert_eq!(size(path).unwrap(), 5, "{path}");
    }
    let link = volume.symlink_metadata("/to-file").unwrap();
    assert_eq!(link.file_type(), FileType::Symlink);
    let followed = volume.symlink_metadata("/to-directory/").unwrap();
    assert_eq!(followed.file_type(), FileType::Directory);
    assert_eq!(errno(size("/to-itself")), libc::ELOOP);
    assert_eq!(errno(size("/to-file/")), libc::ENOTDIR);
    for path in ["/out", "/absolute", "/..", "/a/../../b"] {
        assert_eq!(errno(size(path)), libc::EXDEV, "{path}");
    }
    let mut options = OpenOptions::new();
    let refused = volume.open("/to-file", options.read(true).follow(false));
    assert_eq!(errno(refused), libc::ELOOP);
    // A dangling link: the target is created, as in Linux; but not with `create_new`.
    options.follow(true).write(true).create_new(true);
    assert_eq!(errno(volume.open("/to-nothing", &options)), libc::EEXIST);
    written(&volume, "/to-nothing", b"new");
    assert_eq!(size("/a/new").unwrap(), 3);
    volume.remove_file("/to-nothing").unwrap();
    assert_eq!(size("/a/new").unwrap(), 3);
}

#[test]
fn what_a_kernel_holds_pages_of_is_busy() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    let file = written(&volume, "/mapped", b"old");
    let engine = engine(&pool);
    let ino = InodeNumber(file.metadata().unwrap().inode);
    engine.mark_kernel_cached(ino).unwrap();
    let mut buffer = [0; 3];
    assert_eq!(errno(file.read_at(&mut buffer, 0)), libc::EBUSY);
    assert_eq!(errno(file.append(b"x")), libc::EBUSY);
    assert_eq!(errno(file.set_size(0)), libc::EBUSY);
    let error = file.write_at(b"new", 0).unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY);
    assert!(error.to_string().contains("through the mount"), "{error}");
    engine.unmark_kernel_cached(ino);
    file.write_all_at(b"new", 0).unwrap();
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 3);
    assert_eq!(&buffer, b"new");
}

#[test]
fn names_are_listed_changed_and_removed() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    volume.create_directory("/d", 0o700).unwrap();
    let file = written(&volume, "/d/old", &[7; 10_000]);
    volume.rename("/d/old", "/d/new").unwrap();
    let listed = volume.read_directory("/d").unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (listed[0].name.to_str(), listed[0].file_type),
        (Some("new"), FileType::File)
    );
    let parts = volume.locate("/d/new").unwrap();
    assert_eq!(
        parts.iter().map(|part| part.length_bytes).sum::<u64>(),
        12_288
    );
    assert_eq!(errno(volume.remove_directory("/d")), libc::ENOTEMPTY);
    volume.remove_file("/d/new").unwrap();
    volume.remove_directory("/d").unwrap();
    // Open, it lives on without a name.
    let mut buffer = [0; 3];
    assert_eq!(file.read_at(&mut buffer, 9_999).unwrap(), 1);
    let error = volume.rename("/d/new", "/x").unwrap_err();
    assert_eq!(
        error.to_string(),
        "rename to /x: /d/new: No such file or directory"
    );
}

#[test]
fn the_last_handle_detaches() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    let file = written(&volume, "/file", b"text");
    drop(volume);
    let mut nothing = |_, _| {};
    let check = |nothing: &mut dyn FnMut(u64, u64)| {
        egeria_engine::check_volume(&pool, egeria_engine::Repair::No, nothing).map(drop)
    };
    assert_eq!(check(&mut nothing).unwrap_err().errno, libc::EBUSY);
    drop(file);
    check(&mut nothing).unwrap();
}

#[test]
fn links_are_made_and_read() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    written(&volume, "/file", b"content");
    volume.symlink("file", "/soft").unwrap();
    volume.symlink("/etc/passwd", "/out").unwrap();
    volume.hard_link("/file", "/hard").unwrap();
    assert_eq!(volume.read_link("/soft").unwrap(), Path::new("file"));
    assert_eq!(volume.read_link("/out").unwrap(), Path::new("/etc/passwd"));
    let [file, hard, soft] = ["/file", "/hard", "/soft"].map(|path| volume.metadata(path).unwrap());
    assert_eq!(
        (file.links, file.inode, soft.inode),
        (2, hard.inode, file.inode)
    );
    assert!(volume.exists("/soft").unwrap() && !volume.exists("/none").unwrap());
    volume.remove_file("/file").unwrap();
    assert!(!volume.exists("/soft").unwrap() && volume.exists("/hard").unwrap());
    assert_eq!(errno(volume.symlink("x", "/hard")), libc::EEXIST);
    assert_eq!(errno(volume.symlink("", "/new")), libc::ENOENT);
    assert_eq!(errno(volume.symlink("x", "/new/")), libc::ENOENT);
    assert_eq!(errno(volume.hard_link("/none", "/new")), libc::ENOENT);
    assert_eq!(errno(volume.hard_link("/", "/new")), libc::EPERM);
    assert_eq!(errno(volume.read_link("/hard")), libc::EINVAL);
    assert_eq!(errno(volume.exists("/hard/below")), libc::ENOTDIR);
    let read_only = Volume::attach_read_only(&pool).unwrap();
    assert_eq!(errno(read_only.symlink("x", "/new")), libc::EROFS);
}

#[test]
fn extended_attributes_are_set_listed_and_removed() {
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    volume.create_directory("/d", 0o755).unwrap();
    volume
        .set_xattr("/d", "user.egeria.checksum", b"crc32c")
        .unwrap();
    written(&volume, "/d/file", b"content");
    assert_eq!(
        volume.xattr("/d/file", "user.egeria.checksum").unwrap(),
        b"crc32c"
    );
    volume.set_xattr("/d/file", "user.one", b"1").unwrap();
    volume.set_xattr("/d/file", "user.one", b"2").unwrap();
    assert_eq!(volume.xattr("/d/file", "user.one").unwrap(), b"2");
    assert!(
        volume
            .xattr_names("/d/file")
            .unwrap()
            .contains(&"user.one".into())
    );
    volume.remove_xattr("/d/file", "user.one").unwrap();
    assert_eq!(errno(volume.xattr("/d/file", "user.one")), libc::ENODATA);
    assert_eq!(
        errno(volume.remove_xattr("/d/file", "user.one")),
        libc::ENODATA
    );
    assert_eq!(
        errno(volume.set_xattr("/d/file", "security.capability", b"")),
        libc::EOPNOTSUPP
    );
    assert_eq!(
        errno(volume.set_xattr("/d", "user.egeria.checksum", b"md5")),
        libc::EINVAL
    );
    assert_eq!(errno(volume.xattr("/none", "user.one")), libc::ENOENT);
}

#[test]
fn a_stream_reads_writes_and_seeks() {
    use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
    let (_directory, pool) = pool();
    let volume = Volume::attach(&pool).unwrap();
    let file = written(&volume, "/file", b"");
    assert!(file.is_empty().unwrap());
    let mut stream = egeria_client::Stream::from(file);
    writeln!(stream, "one\ntwo").unwrap();
    stream.flush().unwrap();
    assert_eq!(stream.file().len().unwrap(), 8);
    assert_eq!(stream.seek(SeekFrom::End(-4)).unwrap(), 4);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(
        (rest.as_str(), stream.stream_position().unwrap()),
        ("two\n", 8)
    );
    let before = stream.seek(SeekFrom::Current(-9)).unwrap_err();
    assert_eq!(before.kind(), std::io::ErrorKind::InvalidInput);
    assert!(stream.seek(SeekFrom::Start(u64::MAX)).is_err());
    stream.rewind().unwrap();
    let lines: Vec<String> = BufReader::new(stream).lines().map(Result::unwrap).collect();
    assert_eq!(lines, ["one", "two"]);
}
