use super::*;
use crate::session::Admitting;
use crate::session::volume::Volume;
use crate::test_volume::{FILE, Stopped, new_volume};
use crate::types::Errno;
use crate::{FileReference, InodeNumber, within_patience};
use egeria_media::PoolIndex;

const POOL: PoolIndex = PoolIndex(0);
const WRITE: Request = Request {
    kind: AccessKind::Write,
    bytes: 4096,
};

fn limit(threads: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(threads)
}

fn limited(threads: u32) -> (std::sync::Arc<Volume>, tempfile::TempDir, FileReference) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    volume
        .limit_admission(POOL, limit(threads), LimitedBy::Hand)
        .expect("limit");
    let made = volume
        .create(InodeNumber::ROOT, b"file", &FILE)
        .expect("create");
    let file = volume.open(made.ino, None).expect("open");
    volume.write(file, 0, &[1; 65_536]).expect("write");
    (volume, directory, file)
}

fn ask(volume: &Volume) -> Outcome<Admitted<'_>> {
    let traffic = Traffic::of(0, WRITE.bytes);
    Admitting::of(volume).admit(volume.me()?, 1, WRITE.kind, &traffic)
}

#[test]
fn no_more_threads_than_the_limit_are_admitted() {
    const THREADS: usize = 8;
    let (volume, _directory, file) = limited(2);
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let work = |thread: usize| {
            let (volume, inside) = (&volume, &inside);
            move || {
                let mut data = vec![0; 8192];
                for round in 0..300 {
                    let place = ask(volume).expect("a place");
                    let beside = inside.fetch_add(1, Ordering::SeqCst);
                    // A thread that got no CPU for some time lends its place.
                    let lent = volume.admission(false)[0].lent;
                    assert!(
                        u64::from(beside) < 2 + lent,
                        "round {round}: {beside} others"
                    );
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(place);
                    let own = vec![thread as u8 + 1; 8192];
                    volume
                        .write(file, thread as u64 * 8192, &own)
                        .expect("write");
                    volume
                        .read(file, thread as u64 * 8192, &mut data)
                        .expect("read");
                    assert!(data == own, "thread {thread}, round {round}");
                    volume.append(file, b"some more").expect("append");
                }
            }
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(work(thread)))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a thread"));
    });
    let asked = volume.counters().asked[0];
    // Appends of a few bytes ask, too.
    assert_eq!(asked.requests, 1 + 4 * 300 * THREADS as u64);
    assert_eq!(asked.writes, 1 + 3 * 300 * THREADS as u64);
    let now = volume.admission(false)[0];
    assert_eq!((now.admitted, now.waiting, now.limit), (0, 0, limit(2)));
}

#[test]
fn who_is_dead_or_stopped_lends_its_place() {
    let (volume, _directory, file) = limited(1);
    for is_killed in [false, true] {
        let holder = Stopped::in_child(&volume, |volume| ask(volume).map(std::mem::forget));
        if is_killed {
            holder.kill();
        }
        let begun = Instant::now();
        volume.write(file, 0, &[2; 4096]).expect("write");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(volume.admission(false)[0].lent, 1 + u64::from(is_killed));
        if !is_killed {
            holder.kill();
        }
    }
    volume.reap();
    assert_eq!(volume.admission(false)[0].admitted, 0);
}

#[test]
fn a_released_waiter_that_is_stopped_lends_its_place() {
    let (volume, _directory, file) = limited(1);
    let waiter = Stopped::in_child(&volume, |volume| {
        let me = volume.me()?;
        let thread = ThreadId(me.index as u32);
        let selector = selector(&volume.session.gates()[0]);
        let published = selector
            .claim_own(thread)
            .and_then(|()| selector.publish(thread, WRITE));
        published.map(drop).map_err(|_| Errno(libc::EIO))
    });
    let begun = Instant::now();
    while volume.admission(false)[0].lent == 0 {
        // A few of them before the waiter's turn.
        volume.write(file, 0, &[2; 4096]).expect("write");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    assert_eq!(volume.admission(false)[0].waiting, 0);
    waiter.kill();
}

#[test]
fn who_waits_goes_on_when_there_is_no_limit_any_more() {
    let (volume, _directory, file) = limited(1);
    std::thread::scope(|scope| {
        let held = ask(&volume).expect("a place");
        let waiting = scope.spawn(|| volume.write(file, 0, &[2; 4096]));
        while volume.admission(false)[0].waiting == 0 && !waiting.is_finished() {
            std::thread::yield_now();
        }
        volume
            .limit_admission(POOL, None, LimitedBy::Hand)
            .expect("no limit");
        assert_eq!(waiting.join().expect("a thread"), Ok(4096));
        drop(held);
    });
    assert_eq!(volume.admission(false)[0].limit, None);
    volume.write(file, 0, &[3; 4096]).expect("write");
}

#[test]
fn small_requests_nested_ones_and_impatient_ones_do_not_wait() {
    let (volume, _directory, file) = limited(1);
    std::thread::scope(|scope| {
        let held = ask(&volume).expect("a place");
        assert!(held.holds_any());
        let nested = ask(&volume).expect("no error");
        assert!(!nested.holds_any(), "the same thread has one");
        let other = scope.spawn(|| {
            volume.read(file, 0, &mut [0; 100]).expect("read");
            volume.write(file, 0, &[3; 100]).expect("write");
            let soon = Duration::from_millis(5);
            assert!(within_patience(soon, || volume.write(file, 0, &[3; 4096])).is_none());
        });
        other.join().expect("a thread");
        drop(held);
    });
    assert_eq!(volume.admission(false)[0].waiting, 0);
    volume.write(file, 0, &[2; 4096]).expect("write");
    assert_eq!(volume.admission(false)[0].lent, 0);
}

#[test]
fn limits_of_pools_that_there_are_not_are_refused() {
    let (volume, _directory, _) = limited(1);
    let refused = volume.limit_admission(PoolIndex(1), limit(1), LimitedBy::Hand);
    assert_eq!(refused, Err(Errno(libc::EINVAL)));
}

#[test]
fn a_planner_leaves_limits_that_were_set_by_hand() {
    let (volume, _directory, file) = limited(3);
    let by_planner = |limit| volume.limit_admission(POOL, limit, LimitedBy::Planner);
    assert_eq!(by_planner(limit(2)), Err(Errno(libc::EBUSY)));
    volume.lift_planned_limits().expect("lifted");
    assert_eq!(volume.admission(false)[0].limit, limit(3));
    volume
        .limit_admission(POOL, None, LimitedBy::Hand)
        .expect("lifted");
    assert_eq!(by_planner(limit(2)), Ok(()));
    assert_eq!(volume.admission(false)[0].limit, limit(2));
    volume.lift_planned_limits().expect("lifted");
    assert_eq!(volume.admission(false)[0].limit, None);
    // Without limits nothing is counted, unless demand is measured.
    let asked = || volume.counters().asked[0].requests;
    let before = asked();
    volume.write(file, 0, &[2; 4096]).expect("write");
    assert_eq!(asked(), before);
    volume.measure_admission(true).expect("measured");
    volume.write(file, 0, &[2; 4096]).expect("write");
    assert_eq!(asked(), before + 1);
    assert_eq!(volume.admission(true)[0].max_demand, 1);
    volume.measure_admission(false).expect("not measured");
    volume.write(file, 0, &[2; 4096]).expect("write");
    assert_eq!(asked(), before + 1);
}

/// A volume without a limit on its pool, while demand is measured.
fn measured() -> (std::sync::Arc<Volume>, tempfile::TempDir) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&directory);
    volume.measure_admission(true).expect("measured");
    (volume, directory)
}

#[test]
fn threads_at_a_pool_without_a_limit_are_its_demand() {
    const THREADS: usize = 5;
    let (volume, _directory) = measured();
    let there = std::sync::Barrier::new(THREADS + 1);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let place = ask(&volume).expect("no error");
                assert!(place.holds_any());
                assert!(!ask(&volume).expect("no error").holds_any(), "nested");
                there.wait();
                there.wait();
                drop(place);
            });
        }
        there.wait();
        assert_eq!(volume.admission(true)[0].max_demand, THREADS as u32);
        there.wait();
    });
    // The first thread counts, although no other thread reads the demand at that time.
    volume.admission(true);
    drop(ask(&volume).expect("no error"));
    assert_eq!(volume.admission(true)[0].max_demand, 1);
    assert_eq!(volume.admission(true)[0].max_demand, 0);
}

#[test]
fn of_a_long_row_of_requests_some_count_the_others() {
    let (volume, _directory) = measured();
    let held = ask(&volume).expect("no error");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // Another thread stored a demand of one thread before.
            volume.session.gates()[0]
                .max_demand
                .store(1, Ordering::Relaxed);
            for _ in 0..64 {
                drop(ask(&volume).expect("no error"));
            }
        });
        other.join().expect("a thread");
    });
    drop(held);
    assert_eq!(volume.admission(false)[0].max_demand, 2);
}

#[test]
fn the_dead_are_not_at_a_pool() {
    let (volume, _directory) = measured();
    let there = Stopped::in_child(&volume, |volume| ask(volume).map(std::mem::forget));
    assert_eq!(volume.admission(true)[0].max_demand, 1);
    there.kill();
    volume.reap();
    volume.admission(true);
    assert_eq!(volume.admission(true)[0].max_demand, 0);
}

#[test]
fn who_was_at_a_pool_before_it_got_a_limit_does_not_wait() {
    let (volume, _directory) = measured();
    let held = ask(&volume).expect("no error");
    volume
        .limit_admission(POOL, limit(1), LimitedBy::Hand)
        .expect("limit");
    let other = Stopped::in_child(&volume, |volume| ask(volume).map(std::mem::forget));
    assert!(!ask(&volume).expect("no error").holds_any(), "nested");
    drop(held);
    other.kill();
}

const POOLS: usize = 4;
const STRIPE: usize = 8192;
const FILE_BYTES: usize = 2 * POOLS * STRIPE;

/// A volume of several pools that one thread may access at a time each, and a striped file on all of them.
fn striped() -> (std::sync::Arc<Volume>, tempfile::TempDir, FileReference) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let pool = |node: usize| crate::PoolRequest {
        node: node as u16,
        path: directory.path().join(format!("pool{node}")),
        bytes: Some(16 << 20),
    };
    let pools: Vec<_> = (0..POOLS).map(pool).collect();
    crate::create_volume(&pools, &crate::CreateOptions::default()).expect("mkfs");
    let options = crate::AttachOptions::default();
    let mode = crate::AttachMode::CreateOrJoin;
    let volume = Volume::attach(&pools[0].path, mode, &options).expect("attach");
    let made = volume.create(InodeNumber::ROOT, b"striped", &FILE);
    let ino = made.expect("create").ino;
    let layout = format!("striped:{STRIPE}");
    let set = volume.set_xattr(
        ino,
        b"user.egeria.layout",
        layout.as_bytes(),
        crate::XattrMode::Any,
    );
    set.expect("setxattr");
    let file = volume.open(ino, None).expect("open");
    volume.write(file, 0, &[1; FILE_BYTES]).expect("write");
    for pool in 0..POOLS as u8 {
        volume
            .limit_admission(PoolIndex(pool), limit(1), LimitedBy::Hand)
            .expect("limit");
    }
    (volume, directory, file)
}

#[test]
fn a_striped_access_asks_each_of_its_pools() {
    let (volume, _directory, file) = striped();
    volume.write(file, 0, &[2; FILE_BYTES]).expect("write");
    volume.read(file, 0, &mut [0; FILE_BYTES]).expect("read");
    for (pool, asked) in volume.counters().asked.iter().enumerate().take(POOLS) {
        assert_eq!((asked.requests, asked.writes), (2, 1), "pool {pool}");
        assert_eq!(asked.bytes, 2 * (FILE_BYTES / POOLS) as u64, "pool {pool}");
    }
}

#[test]
fn a_striped_access_waits_for_each_of_its_pools() {
    let (volume, _directory, file) = striped();
    for pool in 0..POOLS as u8 {
        let holder = Stopped::in_child(&volume, |volume| {
            let traffic = Traffic::of(pool, WRITE.bytes);
            let admitted = Admitting::of(volume).admit(volume.me()?, 1, WRITE.kind, &traffic);
            admitted.map(std::mem::forget)
        });
        let soon = Duration::from_millis(10);
        let written = within_patience(soon, || volume.write(file, 0, &[3; FILE_BYTES]));
        assert_eq!(written, None, "pool {pool}");
        let mut data = [0; FILE_BYTES];
        let read = within_patience(soon, || volume.read(file, 0, &mut data));
        assert_eq!(read, None, "pool {pool}");
        holder.kill();
        volume.reap();
        assert_eq!(volume.write(file, 0, &[4; FILE_BYTES]), Ok(FILE_BYTES));
        assert!(volume.admission(false).iter().all(|now| now.admitted == 0));
    }
}

#[test]
fn striped_accesses_that_begin_at_different_pools_all_end() {
    let (volume, _directory, file) = striped();
    std::thread::scope(|scope| {
        for thread in 0..2 * POOLS {
            let volume = &volume;
            scope.spawn(move || {
                let at = (thread % POOLS * STRIPE) as u64;
                let mut data = vec![0; POOLS * STRIPE];
                for _ in 0..100 {
                    volume.write(file, at, &data).expect("write");
                    volume.read(file, at, &mut data).expect("read");
                }
            });
        }
    });
    let admission = volume.admission(false);
    assert!(admission.iter().all(|now| now.admitted + now.waiting == 0));
}

#[test]
fn delegates_of_all_processes_share_one_bound() {
    let (volume, _directory, _) = striped();
    let rule = crate::DelegationRule {
        delegates: NonZeroU8::new(2).expect("two"),
        min_read_bytes: 1,
        min_write_bytes: 1,
        always: true,
    };
    volume.set_delegation(Some(rule), true).expect("set");
    fn work(volume: &Volume) -> Outcome<Option<Place<'_>>> {
        Admitting::of(volume).admit_delegate(volume.me()?, 3, WRITE)
    }
    let at_work = || Stopped::in_child(&volume, |volume| work(volume).map(std::mem::forget));
    let (first, second) = (at_work(), at_work());
    let soon = Duration::from_millis(10);
    assert!(within_patience(soon, || work(&volume)).is_none());
    first.kill();
    volume.reap();
    let third = within_patience(Duration::from_secs(60), || work(&volume));
    assert!(third.expect("in time").expect("no error").is_some());
    volume.set_delegation(None, true).expect("set");
    assert!(work(&volume).expect("no error").is_none(), "no bound");
    second.kill();
}
