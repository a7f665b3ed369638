//! Bad buffers and vanished pools become errors; everybody else's faults stay theirs.

use std::path::PathBuf;
use std::ptr;

use egeria_harness::memory::Mapping;
use egeria_media::{
    Access, AccessFault, CallerDestination, CallerSource, MediaError, Pool, PoolOffset, guard,
};

const PAGE: usize = 4096;

/// One accessible page followed by one that is not.
struct Cliff(Mapping);

impl Cliff {
    fn new() -> Cliff {
        guard::install().unwrap();
        let mapping = Mapping::of_zeros(2 * PAGE).unwrap();
        mapping.protect_from(PAGE, libc::PROT_NONE).unwrap();
        Cliff(mapping)
    }

    /// So many bytes before the edge.
    fn before(&self, bytes: usize) -> *mut u8 {
        self.0.address(PAGE - bytes)
    }
}

/// These bytes, to be written and to be read.
fn both<'a>(start: *mut u8, bytes: usize) -> (CallerDestination<'a>, CallerSource<'a>) {
    // SAFETY: what is mapped of them is a cliff's own.
    unsafe {
        (
            CallerDestination::new(start, bytes),
            CallerSource::new(start, bytes),
        )
    }
}

#[test]
fn a_bad_destination_is_the_callers_fault_at_every_size() {
    let cliff = Cliff::new();
    let pool = Pool::anonymous(1 << 20);
    for bytes in [
        1usize, 2, 4, 8, 16, 40, 64, 100, 300, 4000, 4096, 20_000, 65_536,
    ] {
        // The last byte that can be written is followed by one that cannot.
        let (to, from) = both(cliff.before((bytes - 1).min(PAGE)), bytes);
        let fault = Err(AccessFault::Caller);
        assert_eq!(pool.copy_out(PoolOffset(0), to), fault, "{bytes}");
        assert_eq!(pool.copy_in(PoolOffset(37), from), fault, "{bytes}");
        assert_eq!(pool.copy_in_order(PoolOffset(37), from), fault, "{bytes}");
        if bytes <= PAGE {
            let (to, from) = both(cliff.before(bytes), bytes);
            assert_eq!(pool.copy_out(PoolOffset(0), to), Ok(()));
            assert_eq!(pool.copy_in(PoolOffset(37), from), Ok(()));
            assert_eq!(pool.copy_in_order(PoolOffset(37), from), Ok(()));
        }
    }
}

#[test]
fn wild_pointers_are_the_callers_fault() {
    guard::install().unwrap();
    let pool = Pool::anonymous(1 << 20);
    // Null, the kernel's half, and an address no x86-64 CPU accepts.
    for address in [
        0usize,
        8,
        0xffff_8000_0000_0000,
        0x8000_0000_0000_0000,
        usize::MAX - 63,
    ] {
        let wild = ptr::without_provenance_mut::<u8>(address);
        for bytes in [1, 64, 4096, 65_536] {
            let (to, from) = both(wild, bytes);
            let fault = Err(AccessFault::Caller);
            assert_eq!(pool.copy_out(PoolOffset(0), to), fault);
            assert_eq!(pool.copy_in(PoolOffset(0), from), fault);
            assert_eq!(pool.copy_in_order(PoolOffset(0), from), fault);
        }
    }
}

#[test]
fn a_pool_truncated_under_its_mapping_is_an_error_not_death() {
    guard::install().unwrap();
    let path = PathBuf::from(format!(
        "/dev/shm/egeria-media-truncated-{}",
        std::process::id()
    ));
    Pool::create(&path, 1 << 20).unwrap();
    let pool = Pool::open(&path, Access::ReadWrite).unwrap();
    pool.commit_u64(PoolOffset(512 << 10), 1).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(64 << 10)
        .unwrap();
    let gone = PoolOffset(512 << 10);
    let mut buffer = vec![0u8; 16 << 10];
    assert!(matches!(pool.load_u64(gone), Err(MediaError::Fault { offset }) if offset == gone.0));
    assert!(matches!(
        pool.store_u64(gone, 1),
        Err(MediaError::Fault { .. })
    ));
    assert!(matches!(
        pool.commit_u64(gone, 1),
        Err(MediaError::Fault { .. })
    ));
    assert!(matches!(
        pool.read_bytes(gone, &mut buffer),
        Err(MediaError::Fault { .. })
    ));
    assert!(matches!(
        pool.write_bytes(gone, &buffer),
        Err(MediaError::Fault { .. })
    ));
    assert_eq!(pool.zero(gone + 3, 5000), Err(AccessFault::Pool));
    for bytes in [1, 60, 64, 4096, 16 << 10] {
        let out = pool.copy_out(gone + 1, buffer[..bytes].as_mut().into());
        assert_eq!(out, Err(AccessFault::Pool), "{bytes}");
        let back = pool.copy_in(gone + 1, buffer[..bytes].into());
        assert_eq!(back, Err(AccessFault::Pool), "{bytes}");
    }
    let other = Pool::anonymous(1 << 20);
    for bytes in [1, 64, 4096] {
        egeria_media::forget_failure();
        let copied = other.copy_from(PoolOffset(0), &pool, gone, bytes);
        assert_eq!(copied, Err(AccessFault::Pool), "{bytes}");
        assert_eq!(pool.failure(), Some(gone), "{bytes}");
    }
    pool.flush(gone, 4096);
    pool.fence();
    assert_eq!(
        pool.load_u64(PoolOffset(0)).unwrap(),
        0,
        "the rest is still there"
    );
    std::fs::remove_file(&path).unwrap();
}
