//! Where pages are said to lie, and that looking changes nothing. Any machine has a node; more are tried in `scripts/guest`.

use egeria_harness::testing::{has_numa_maps, skip};
use rustix::fs::{Advice, CWD, Mode, fadvise, mkfifoat};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use egeria_pages::file::{self, Locator, Store};
use egeria_pages::users::{self, Used};
use egeria_pages::{mount, process};

const PAGE: u64 = 4096;

/// A file on a disk, whose pages can leave the cache; `None`, loudly, where temporary files are in memory.
fn on_disk(directory: &Path, pages: u64) -> Option<PathBuf> {
    let path = directory.join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![7; (pages * PAGE) as usize]).unwrap();
    file.sync_all().unwrap();
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    let is_memory = matches!(mount::file_system(&file).as_deref(), Some("tmpfs"));
    if is_memory || cached_bytes(&path) != 0 {
        skip(format_args!(
            "pages of {} do not leave the cache",
            path.display()
        ));
        return None;
    }
    Some(path)
}

fn cached_bytes(path: &Path) -> u64 {
    look(path, 1 << 20).cached_bytes
}

fn look(path: &Path, pages: u64) -> file::FilePages {
    let file = file::open(path).unwrap();
    file::look(&file, &mut Locator::for_one(pages).unwrap()).unwrap()
}

/// Reads pages without reading others ahead.
fn read(path: &Path, pages: impl Iterator<Item = u64>) {
    let file = File::open(path).unwrap();
    let _ = fadvise(&file, 0, None, Advice::Random);
    for page in pages {
        file.read_exact_at(&mut [0; 1], page * PAGE).unwrap();
    }
}

#[test]
fn looking_reads_nothing_into_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    let Some(path) = on_disk(directory.path(), 2000) else {
        return;
    };
    // The kernel may drop pages at any time, but never adds any by itself.
    let mut is_whole = false;
    for _ in 0..20 {
        read(&path, [0, 1, 17, 40, 41, 1999].into_iter());
        for _ in 0..3 {
            let pages = look(&path, 1 << 20);
            assert!(pages.cached_bytes <= 6 * PAGE, "{pages:?}");
            assert!(!pages.sampled && pages.problem.is_none(), "{pages:?}");
            is_whole |= pages.by_node.total() == 6 * PAGE && pages.unknown_bytes == 0;
        }
    }
    assert!(is_whole);
}

#[test]
fn looking_leaves_the_access_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    let times = fs::FileTimes::new().set_accessed(long_ago);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_times(times)
        .unwrap();
    look(&path, 1 << 20);
    assert_eq!(fs::metadata(&path).unwrap().atime(), 1000);
}

#[test]
fn a_sample_stands_for_the_whole() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("large");
    fs::write(&path, vec![1; 64 << 20]).unwrap();
    for budget in [3000, 1000, 300, 0] {
        let pages = look(&path, budget);
        assert!(pages.sampled);
        assert_eq!(pages.store, Store::Tmpfs);
        assert_eq!(pages.cached_bytes, 64 << 20);
        assert_eq!(pages.by_node.total(), 64 << 20);
    }
}

#[test]
fn a_sparse_file_of_a_tebibyte_costs_what_it_holds() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    for gib in [0, 3, 1023] {
        file.write_at(b"x", gib << 30).unwrap();
    }
    let blocks = file.metadata().unwrap().blocks();
    let pages = look(&path, 1 << 20);
    assert_eq!(pages.cached_bytes, 3 * PAGE);
    assert_eq!(pages.by_node.total(), 3 * PAGE);
    // Holes of tmpfs that are touched become pages.
    assert_eq!(file.metadata().unwrap().blocks(), blocks);
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    // Opening it would wait for a writer.
    assert!(file::open(&pipe).is_err());
    assert!(file::open(Path::new("/dev/null")).is_err());
}

#[test]
fn memory_of_a_process_is_found() {
    if !has_numa_maps() {
        return;
    }
    let held = vec![1_u8; 256 << 20];
    let memory = process::memory(std::process::id()).unwrap();
    assert!(memory.anonymous.total() >= held.len() as u64);
    assert!(memory.by_file.keys().any(|path| path.starts_with(b"/")));
    assert!(memory.files.total() > 0);
}

#[test]
fn users_of_a_file_are_found_by_any_name() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("a b"), directory.path().join("other"));
    fs::write(&path, "x").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut user = std::process::Command::new("sleep");
    let mut user = user
        .arg("600")
        .stdin(File::open(&other).unwrap())
        .spawn()
        .unwrap();
    let metadata = fs::metadata(&path).unwrap();
    let by_inode = Used::File {
        path: path.canonicalize().unwrap(),
        device: metadata.dev(),
        inode: metadata.ino(),
    };
    let by_place = Used::Below(directory.path().canonicalize().unwrap());
    let found = [by_inode, by_place].map(|used| users::of(&used).found);
    user.kill().unwrap();
    user.wait().unwrap();
    for users in found {
        let open = users.iter().find(|found| found.process_id == user.id());
        assert_eq!(open.map(|user| user.open), Some(1), "{users:?}");
    }
}

/// Mounted on its last directory until dropped.
struct Overlay(tempfile::TempDir);

impl Overlay {
    /// With a file below it; `None`, loudly, where it cannot be mounted.
    fn with(name: &str, content: &[u8]) -> Option<Overlay> {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let part = |name: &str| directory.path().join(name);
        for name in ["lower", "upper", "work", "mounted"] {
            fs::create_dir(part(name)).unwrap();
        }
        fs::write(part("lower").join(name), content).unwrap();
        let options = ["lower", "upper", "work"].map(|name| {
            let place = part(name);
            format!("{name}dir={}", place.display())
        });
        let mounted = Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options.join(",")])
            .arg(part("mounted"))
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        if !is_mounted {
            skip("overlayfs cannot be mounted here; run as root");
            return None;
        }
        Some(Overlay(directory))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("mounted").join(name)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let place = self.0.path().join("mounted");
        let _ = Command::new("umount").arg(place).status();
    }
}

#[test]
fn pages_below_overlayfs_are_found() {
    let content = vec![7; 40 * PAGE as usize];
    let Some(overlay) = Overlay::with("below", &content) else {
        return;
    };
    fs::write(overlay.path("above"), &content).unwrap();
    for name in ["below", "above"] {
        let pages = look(&overlay.path(name), 1 << 20);
        // Both are on tmpfs, which always holds what there is.
        assert_eq!(pages.cached_bytes, 40 * PAGE, "{name}: {pages:?}");
        assert_eq!(pages.by_node.total(), 40 * PAGE, "{name}: {pages:?}");
    }
}
