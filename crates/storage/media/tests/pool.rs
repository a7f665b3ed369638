//! What a pool promises, on files of tmpfs and of the disk.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use egeria_media::{
    Access, AccessFault, BLOCK_BYTES, HUGE_PAGE_BYTES, MediaError, Persistence, Pool, PoolOffset,
};

/// A folder of one test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(format!(
            "/dev/shm/egeria-media-{name}-{}",
            std::process::id()
        ));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn pool(&self, bytes: u64) -> Pool {
        let path = self.0.join("pool");
        Pool::create(&path, bytes).unwrap();
        Pool::open(&path, Access::ReadWrite).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bytes_are_copied_between_pools_and_inside_one() {
    let (one, other) = (Pool::anonymous(1 << 20), Pool::anonymous(1 << 20));
    let data: Vec<u8> = (0..8192u32).map(|at| (at % 251) as u8).collect();
    one.copy_in(PoolOffset(4096), data[..].into()).unwrap();
    for (to, at, from_at, bytes) in [
        (&other, 37, 4096, 8192),
        (&other, 0, 4099, 1),
        (&one, 65_536, 4100, 700),
        (&one, 0, 4096, 4096),
    ] {
        to.copy_from(PoolOffset(at), &one, PoolOffset(from_at), bytes)
            .unwrap();
        let mut read = vec![0; bytes];
        to.read_bytes(PoolOffset(at), &mut read).unwrap();
        assert!(read[..] == data[from_at as usize - 4096..][..bytes]);
    }
    let end = PoolOffset((1 << 20) - 64);
    let fault = Err(AccessFault::Pool);
    assert_eq!(other.copy_from(PoolOffset(0), &one, end, 65), fault);
    assert_eq!(other.copy_from(end, &one, PoolOffset(0), 65), fault);
    assert_eq!(other.copy_from(end, &one, PoolOffset(0), 0), Ok(()));
}

#[test]
fn what_is_stored_is_there_after_reopening() {
    let folder = Folder::new("reopen");
    let pool = folder.pool(4 << 20);
    pool.commit_u64(PoolOffset(4096), 0x1234_5678_9abc_def0)
        .unwrap();
    pool.write_bytes(PoolOffset(5000), b"metadata").unwrap();
    let data: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
    pool.copy_in(PoolOffset(1_000_001), data[..].into())
        .unwrap();
    drop(pool);
    let pool = Pool::open(&folder.0.join("pool"), Access::ReadOnly).unwrap();
    assert_eq!(
        pool.load_u64(PoolOffset(4096)).unwrap(),
        0x1234_5678_9abc_def0
    );
    let mut metadata = [0u8; 8];
    pool.read_bytes(PoolOffset(5000), &mut metadata).unwrap();
    assert_eq!(&metadata, b"metadata");
    let mut read = vec![0u8; data.len()];
    pool.copy_out(PoolOffset(1_000_001), read[..].as_mut().into())
        .unwrap();
    assert_eq!(read, data);
}

#[test]
fn pools_lie_at_huge_page_addresses_in_whole_blocks() {
    let folder = Folder::new("aligned");
    for bytes in [BLOCK_BYTES, 3 << 20, (5 << 20) + BLOCK_BYTES] {
        let path = folder.0.join(bytes.to_string());
        Pool::create(&path, bytes).unwrap();
        let pool = Pool::open(&path, Access::ReadWrite).unwrap();
        assert_eq!(pool.base() as u64 % HUGE_PAGE_BYTES, 0);
        assert_eq!((pool.bytes(), pool.blocks()), (bytes, bytes / BLOCK_BYTES));
        assert_eq!(pool.persistence(), Persistence::Volatile);
    }
}

#[test]
fn lines_of_words_are_stored_whole_and_aligned() {
    let folder = Folder::new("lines");
    let pool = folder.pool(4 << 20);
    let words = [1, 2, 3, 4, 5, 6, u64::MAX, 8];
    pool.store_line(PoolOffset(128), words).unwrap();
    for (at, word) in (0..).zip(words) {
        assert_eq!(pool.load_u64(PoolOffset(128 + 8 * at)).unwrap(), word);
    }
    for neighbour in [120, 192] {
        assert_eq!(pool.load_u64(PoolOffset(neighbour)).unwrap(), 0);
    }
    for at in [1, 8, 32, 4 << 20, (4 << 20) - 32, u64::MAX - 63] {
        let stored = pool.store_line(PoolOffset(at), words);
        assert_eq!(stored, Err(AccessFault::Pool), "{at}");
    }
    let read_only = Pool::open(&folder.0.join("pool"), Access::ReadOnly).unwrap();
    let stored = read_only.store_line(PoolOffset(0), words);
    assert_eq!(stored, Err(AccessFault::Pool));
}

#[test]
fn accesses_beyond_the_end_are_errors_not_faults() {
    let pool = Pool::anonymous(BLOCK_BYTES);
    let mut buffer = [0u8; 16];
    for at in [
        BLOCK_BYTES - 7,
        BLOCK_BYTES,
        BLOCK_BYTES + 8,
        u64::MAX - 7,
        u64::MAX,
    ] {
        let at = PoolOffset(at);
        assert!(pool.load_u64(at).is_err());
        assert!(pool.store_u64(at, 1).is_err());
        assert!(pool.commit_u64(at, 1).is_err());
        assert!(matches!(
            pool.read_bytes(at, &mut buffer),
            Err(MediaError::OutOfBounds { .. })
        ));
        assert!(matches!(
            pool.write_bytes(at, &buffer),
            Err(MediaError::OutOfBounds { .. })
        ));
        assert_eq!(pool.zero(at, 16), Err(AccessFault::Pool));
        let fault = Err(AccessFault::Pool);
        assert_eq!(pool.copy_out(at, buffer[..].as_mut().into()), fault);
        assert_eq!(pool.copy_in(at, buffer[..].into()), fault);
        assert_eq!(pool.copy_in_order(at, buffer[..].into()), fault);
        pool.flush(at, u64::MAX);
    }
    assert!(matches!(
        pool.load_u64(PoolOffset(4)),
        Err(MediaError::Misaligned { offset: 4 })
    ));
}

#[test]
fn copies_of_all_lengths_and_places_arrive() {
    let folder = Folder::new("lengths");
    let pool = folder.pool(1 << 20);
    let data: Vec<u8> = (0..20_000u32).map(|i| (i * 7 / 8) as u8).collect();
    type CopyIn = fn(&Pool, PoolOffset, &[u8]) -> Result<(), AccessFault>;
    let ways: [CopyIn; 2] = [
        |pool, at, from| pool.copy_in(at, from.into()),
        |pool, at, from| pool.copy_in_order(at, from.into()),
    ];
    for bytes in [
        1, 63, 64, 65, 2047, 2048, 4096, 8191, 16_383, 16_384, 20_000,
    ] {
        for at in [4096u64, 4097, 4159] {
            for copy_in in ways {
                pool.zero(PoolOffset(0), 32 << 10).unwrap();
                copy_in(&pool, PoolOffset(at), &data[..bytes]).unwrap();
                let mut read = vec![0xffu8; bytes + 128];
                pool.read_bytes(PoolOffset(at - 64), &mut read).unwrap();
                assert_eq!(read[64..64 + bytes], data[..bytes], "{bytes} at {at}");
                let around = read[..64].iter().chain(&read[64 + bytes..]);
                assert!(around.copied().all(|byte| byte == 0), "{bytes} at {at}");
            }
        }
    }
}

#[test]
fn a_read_only_pool_refuses_every_store() {
    let folder = Folder::new("read-only");
    drop(folder.pool(1 << 20));
    let pool = Pool::open(&folder.0.join("pool"), Access::ReadOnly).unwrap();
    assert!(pool.is_read_only());
    assert!(matches!(
        pool.store_u64(PoolOffset(0), 1),
        Err(MediaError::ReadOnly { .. })
    ));
    assert!(matches!(
        pool.write_bytes(PoolOffset(0), b"x"),
        Err(MediaError::ReadOnly { .. })
    ));
    assert_eq!(pool.zero(PoolOffset(0), 8), Err(AccessFault::Pool));
    let refused = pool.copy_in(PoolOffset(0), b"x"[..].into());
    assert_eq!(refused, Err(AccessFault::Pool));
    let refused = pool.copy_in_order(PoolOffset(0), b"x"[..].into());
    assert_eq!(refused, Err(AccessFault::Pool));
    assert_eq!(pool.load_u64(PoolOffset(0)).unwrap(), 0);
}

#[test]
fn creating_over_data_wants_force() {
    let folder = Folder::new("exists");
    let pool = folder.pool(1 << 20);
    pool.commit_u64(PoolOffset(0), 7).unwrap();
    drop(pool);
    let path = folder.0.join("pool");
    assert!(matches!(
        Pool::create(&path, 1 << 20),
        Err(MediaError::Exists { .. })
    ));
    Pool::create_forced(&path, 2 << 20).unwrap();
    let pool = Pool::open(&path, Access::ReadWrite).unwrap();
    assert_eq!(
        (pool.bytes(), pool.load_u64(PoolOffset(0)).unwrap()),
        (2 << 20, 0)
    );
}

#[test]
fn a_pool_that_cannot_fit_is_refused_and_leaves_nothing() {
    let folder = Folder::new("no-room");
    for bytes in [1u64 << 50, i64::MAX as u64 / 4096 * 4096] {
        let path = folder.0.join("huge");
        let error = Pool::create(&path, bytes).unwrap_err();
        assert!(
            error.to_string().contains("make the pool smaller"),
            "{error}"
        );
        assert!(!path.exists());
    }
    for bytes in [0, 1, BLOCK_BYTES + 1, u64::MAX] {
        let error = Pool::create(&folder.0.join("odd"), bytes).unwrap_err();
        assert!(matches!(error, MediaError::BadSize { .. }), "{error}");
    }
}

#[test]
fn what_is_no_pool_says_so() {
    let folder = Folder::new("no-pool");
    let open = |path: &str| {
        Pool::open(path.as_ref(), Access::ReadOnly)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(open("/dev/null").contains("character device"));
    assert!(open("/dev/shm").contains("directory"));
    assert!(open("/dev/shm/egeria-there-is-none").contains("check the path"));
    let empty = folder.0.join("empty");
    std::fs::write(&empty, b"short").unwrap();
    assert!(open(empty.to_str().unwrap()).contains("truncated"));
}

#[test]
fn an_open_pool_keeps_no_descriptor_and_the_locks_of_its_file() {
    let folder = Folder::new("locks");
    drop(folder.pool(1 << 20));
    let path = folder.0.join("pool");
    let open = || {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap()
    };
    let lock = |file: &std::fs::File| {
        let locked = egeria_harness::locks::lock_description(file, libc::F_WRLCK, 0, 0);
        locked.map_err(|error| error.raw_os_error())
    };
    let file = open();
    assert_eq!(lock(&file), Ok(()));
    let pool = Pool::open_with_file(file, &path, Access::ReadWrite).unwrap();
    for descriptor in std::fs::read_dir("/proc/self/fd").unwrap() {
        // Other tests open and close descriptors meanwhile; those may be gone.
        let target = std::fs::read_link(descriptor.unwrap().path()).unwrap_or_default();
        assert_ne!(target, path);
    }
    let other = open();
    assert_eq!(lock(&other), Err(Some(libc::EAGAIN)), "held by the mapping");
    drop(pool);
    assert_eq!(lock(&other), Ok(()), "released with the mapping");
}

#[test]
fn pools_on_a_disk_have_their_space_reserved() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pool-{}", std::process::id()));
    Pool::create(&path, 1 << 20).unwrap();
    let pool = Pool::open(&path, Access::ReadWrite).unwrap();
    pool.commit_u64(PoolOffset(8), 3).unwrap();
    let facts = std::fs::metadata(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    if pool.persistence() != Persistence::Volatile {
        assert!(facts.blocks() * 512 >= 1 << 20, "{}", facts.blocks());
    }
    assert_eq!(pool.load_u64(PoolOffset(8)).unwrap(), 3);
}
