//! What the recorder holds possible after a crash, and what it holds impossible.

use std::collections::BTreeSet;

use egeria_media::recorder::{
    Choice, CrashImage, CrashImages, Event, Place, PlaceKind, PoolSet, Recorder, Recording,
};
use egeria_media::{BLOCK_BYTES, Pool, PoolIndex, PoolOffset};

const POOL: PoolIndex = PoolIndex(0);

fn recorded(blocks: u64) -> (Recorder, Pool) {
    let pool = Pool::anonymous(blocks * BLOCK_BYTES);
    let recorder = Recorder::new();
    recorder.attach(POOL, &pool).unwrap();
    (recorder, pool)
}

/// The values that a word may have after a crash at a point.
fn possible(images: &mut CrashImages, point: usize, at: u64) -> BTreeSet<u64> {
    let mut state = images.state_at(point);
    let choices = state.choices(1, 4096).into_iter();
    choices
        .map(|choice| {
            let image = state.image(&choice);
            image.pool(POOL).unwrap().load_u64(PoolOffset(at)).unwrap()
        })
        .collect()
}

fn set(values: &[u64]) -> BTreeSet<u64> {
    values.iter().copied().collect()
}

#[test]
fn only_a_fence_after_a_flush_makes_a_store_durable() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(64), 7).unwrap();
    pool.fence();
    pool.flush(PoolOffset(64), 8);
    pool.fence();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    assert_eq!(images.recording().events().len(), 4);
    assert_eq!(possible(&mut images, 0, 64), set(&[0]));
    for point in 1..=3 {
        assert_eq!(possible(&mut images, point, 64), set(&[0, 7]), "{point}");
    }
    assert_eq!(possible(&mut images, 4, 64), set(&[7]));
    assert_eq!(
        possible(&mut images, 2, 64),
        set(&[0, 7]),
        "going back works"
    );
}

#[test]
fn stores_to_one_line_arrive_in_program_order() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    pool.store_u64(PoolOffset(8), 2).unwrap();
    pool.store_u64(PoolOffset(64), 3).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let mut state = images.state_at(3);
    let seen: BTreeSet<[u64; 3]> = state
        .choices(9, 100)
        .iter()
        .map(|choice| {
            let image = state.image(choice);
            [0, 8, 64].map(|at| image.pool(POOL).unwrap().load_u64(PoolOffset(at)).unwrap())
        })
        .collect();
    let line = [[0, 0], [1, 0], [1, 2]];
    let expected = line
        .iter()
        .flat_map(|&[a, b]| [[a, b, 0], [a, b, 3]])
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_store_after_the_flush_is_not_covered_by_it() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    pool.flush(PoolOffset(0), 8);
    pool.store_u64(PoolOffset(0), 2).unwrap();
    pool.fence();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    assert_eq!(possible(&mut images, 4, 0), set(&[1, 2]));
}

#[test]
fn a_fence_covers_only_the_flushes_of_its_thread() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    pool.flush(PoolOffset(0), 8);
    std::thread::scope(|scope| {
        scope.spawn(|| pool.fence());
    });
    let mut images = CrashImages::new(recorder.take()).unwrap();
    assert_eq!(possible(&mut images, 3, 0), set(&[0, 1]));
}

#[test]
fn a_store_wider_than_a_word_can_be_cut_between_words_only() {
    let (recorder, pool) = recorded(1);
    pool.write_bytes(PoolOffset(4), &[0xAA; 16]).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let mut state = images.state_at(1);
    assert_eq!(state.pending()[0].steps, 3);
    let mut lengths = BTreeSet::new();
    for choice in state.choices(0, 10) {
        let mut bytes = [0u8; 24];
        state
            .image(&choice)
            .pool(POOL)
            .unwrap()
            .read_bytes(PoolOffset(0), &mut bytes)
            .unwrap();
        lengths.insert(bytes.iter().filter(|&&byte| byte == 0xAA).count());
        assert!(bytes[..4].iter().all(|&byte| byte == 0));
    }
    assert_eq!(lengths, [0, 4, 12, 16].into());
}

#[test]
fn copies_in_are_durable_after_one_fence_with_unaligned_ends() {
    let (recorder, pool) = recorded(8);
    let data = vec![0x5A; 5000];
    pool.copy_in(PoolOffset(37), data[..].into()).unwrap();
    pool.zero(PoolOffset(100), 200).unwrap();
    pool.fence();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let end = *images.recording().points().end();
    let mut state = images.state_at(end);
    assert!(state.pending().is_empty());
    let image = state.image(&Choice(vec![]));
    let mut read = vec![0u8; 5000];
    image
        .pool(POOL)
        .unwrap()
        .read_bytes(PoolOffset(37), &mut read)
        .unwrap();
    for (i, &byte) in read.iter().enumerate() {
        assert_eq!(byte, if (63..263).contains(&i) { 0 } else { 0x5A }, "{i}");
    }
}

#[test]
fn a_line_of_words_is_durable_after_one_fence() {
    let (recorder, pool) = recorded(1);
    pool.store_line(PoolOffset(64), [1, 2, 3, 4, 5, 6, 7, 8])
        .unwrap();
    pool.fence_and_commit_u64(PoolOffset(256), 9).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let events = images.recording().events().len();
    let committed = |images: &mut CrashImages, point| possible(images, point, 256);
    assert_eq!(possible(&mut images, 1, 64), set(&[0, 1]));
    // A store, its flush, and the fence.
    assert_eq!(possible(&mut images, 2, 120), set(&[0, 8]));
    assert_eq!(possible(&mut images, 3, 120), set(&[8]));
    assert_eq!(committed(&mut images, 3), set(&[0]));
    assert_eq!(committed(&mut images, events), set(&[9]));
}

#[test]
fn bases_marks_and_several_pools_come_back() {
    let pools = [
        Pool::anonymous(BLOCK_BYTES),
        Pool::anonymous(2 * BLOCK_BYTES),
    ];
    pools[1].commit_u64(PoolOffset(4096), 42).unwrap();
    let recorder = Recorder::new();
    for (index, pool) in pools.iter().enumerate() {
        recorder.attach(PoolIndex(index as u8), pool).unwrap();
    }
    pools[0].commit_u64(PoolOffset(0), 1).unwrap();
    recorder.mark(1);
    pools[1].store_u64(PoolOffset(0), 2).unwrap();
    pools[1].flush(PoolOffset(0), 8);
    pools[0].fence();
    recorder.mark(2);
    let recording = recorder.take();
    pools[0].commit_u64(PoolOffset(8), 9).unwrap();
    assert!(recorder.take().events().is_empty(), "nothing after the end");
    assert_eq!(recording.telling_points(), [2, 4, 6, 8]);
    assert_eq!(recording.marks_before(7).collect::<Vec<_>>(), [1]);
    let mut images = CrashImages::new(recording).unwrap();
    let mut state = images.state_at(8);
    let image = state.image(&Choice(vec![]));
    let word = |pool: u8, at| {
        image
            .pool(PoolIndex(pool))
            .unwrap()
            .load_u64(PoolOffset(at))
            .unwrap()
    };
    assert_eq!(
        (word(0, 0), word(0, 8), word(1, 0), word(1, 4096)),
        (1, 0, 2, 42)
    );
}

#[test]
fn a_left_out_flush_or_fence_shows() {
    let (recorder, pool) = recorded(1);
    pool.commit_u64(PoolOffset(0), 1).unwrap();
    pool.commit_u64(PoolOffset(64), 2).unwrap();
    let recording = recorder.take();
    let places: Vec<Place> = recording.places().into_iter().collect();
    let kinds = places.iter().map(|place| place.kind);
    use PlaceKind::{Fence, Flush};
    assert_eq!(kinds.collect::<Vec<_>>(), [Flush, Flush, Fence, Fence]);
    assert!(
        places[0].to_string().contains("tests/recorder.rs"),
        "not the library"
    );
    let durable = |recording: Recording| {
        let mut images = CrashImages::new(recording).unwrap();
        let end = *images.recording().points().end();
        [0, 64].map(|at| possible(&mut images, end, at).len() == 1)
    };
    assert_eq!(durable(recording.clone()), [true, true]);
    let without = places.iter().map(|place| durable(recording.without(place)));
    let expected = [
        [false, true],
        [true, false],
        [true, true], // the later fence covers
        [true, false],
    ];
    assert_eq!(without.collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_stored_to_an_image_goes_with_it() {
    let (recorder, pool) = recorded(1);
    for value in 1..=3 {
        pool.commit_u64(PoolOffset(0), value).unwrap();
    }
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let words = |image: &CrashImage<'_>| {
        [0, 8].map(|at| image.pool(POOL).unwrap().load_u64(PoolOffset(at)).unwrap())
    };
    let mut state = images.state_at(3);
    let image = state.image(&Choice(vec![]));
    let stored_to = image.pool(POOL).unwrap();
    stored_to.commit_u64(PoolOffset(8), 98).unwrap();
    stored_to.commit_u64(PoolOffset(8), 99).unwrap();
    assert_eq!(words(&image), [1, 99]);
    assert_eq!(image.drain().events().len(), 6);
    drop(image);
    assert_eq!(words(&state.image(&Choice(vec![]))), [1, 0]);
    assert_eq!(words(&images.state_at(9).image(&Choice(vec![]))), [3, 0]);
}

#[test]
fn images_of_the_same_content_have_the_same_hash() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    pool.store_u64(PoolOffset(64), 2).unwrap();
    pool.flush(PoolOffset(0), 72);
    pool.fence();
    pool.commit_u64(PoolOffset(64), 0).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let mut hash = |point, choice: &[u32]| images.state_at(point).hash(&Choice(choice.to_vec()));
    let nothing = hash(0, &[]);
    assert_eq!(hash(2, &[0, 0]), nothing);
    assert_ne!(hash(2, &[1, 0]), nothing);
    assert_ne!(hash(2, &[1, 0]), hash(2, &[0, 1]));
    assert_eq!(hash(2, &[1, 1]), hash(4, &[]));
    assert_eq!(hash(2, &[1, 0]), hash(7, &[]), "stored and taken back");
}

#[test]
fn a_recording_of_an_image_is_walked_from_that_image() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let base = PoolSet::new([std::sync::Arc::new(Pool::anonymous(BLOCK_BYTES))]);
    let mut second = CrashImages::over(base);
    let mut state = images.state_at(1);
    let image = state.image(&Choice(vec![1]));
    image
        .pool(POOL)
        .unwrap()
        .commit_u64(PoolOffset(64), 2)
        .unwrap();
    let recovery = image.drain();
    image.take_back();
    second.restart_from(&image, recovery);
    assert_eq!(second.state_at(0).hash(&Choice(vec![])), image.hash());
    assert_eq!(possible(&mut second, 1, 0), set(&[1]));
    assert_eq!(possible(&mut second, 1, 64), set(&[0, 2]));
    assert_eq!(possible(&mut second, 3, 64), set(&[2]));
}

#[test]
fn only_images_with_the_last_store_are_new() {
    let (recorder, pool) = recorded(1);
    pool.store_u64(PoolOffset(0), 1).unwrap();
    pool.write_bytes(PoolOffset(64), &[2; 16]).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let state = images.state_at(2);
    let new = state.new_choices(1, 100);
    assert_eq!(new.len(), 4, "{new:?}");
    assert!(new.iter().all(|choice| choice.0[1] > 0));
    assert_eq!(state.choices(1, 100).len(), 6);
    assert!(state.new_choices(1, 3).iter().all(|choice| choice.0[1] > 0));
}

#[test]
fn samples_are_seeded_bounded_distinct_and_hold_the_extremes() {
    let (recorder, pool) = recorded(4);
    for line in 0..200 {
        pool.write_bytes(PoolOffset(line * 64), &[1; 64]).unwrap();
    }
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let state = images.state_at(200);
    let choices = state.choices(5, 300);
    assert_eq!(choices, state.choices(5, 300));
    assert_ne!(choices, state.choices(6, 300));
    assert_eq!(choices.len(), 300);
    let distinct: BTreeSet<String> = choices.iter().map(Choice::to_string).collect();
    assert_eq!(distinct.len(), 300);
    assert_eq!(choices[0], Choice(vec![0; 200]));
    assert!(choices.contains(&Choice(vec![8; 200])));
    assert!(
        choices
            .iter()
            .any(|choice| choice.0.iter().any(|&steps| steps % 8 != 0)),
        "torn stores"
    );
}

#[test]
fn thousands_of_images_of_a_large_pool_are_cheap() {
    let (recorder, pool) = recorded(4096);
    for round in 0..50u64 {
        pool.write_bytes(PoolOffset(round * 300_000), &[round as u8; 640])
            .unwrap();
        pool.flush(PoolOffset(round * 300_000), 640);
        pool.fence();
    }
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let mut looked_at = 0;
    for point in images.recording().telling_points() {
        let mut state = images.state_at(point);
        for choice in state.choices(point as u64, 60) {
            state
                .image(&choice)
                .pool(POOL)
                .unwrap()
                .commit_u64(PoolOffset(1 << 20), 1)
                .unwrap();
            looked_at += 1;
        }
    }
    // Copying 16 MiB for each would take half a minute; the harness would notice.
    assert!(looked_at > 2900, "{looked_at}");
}

#[test]
fn pools_can_be_recorded_by_several_threads_in_one_order() {
    let (recorder, pool) = recorded(1);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let pool = &pool;
            scope.spawn(move || {
                for value in 0..100 {
                    pool.commit_u64(PoolOffset(thread * 8), value).unwrap();
                }
            });
        }
    });
    let recording = recorder.take();
    let stores = recording
        .events()
        .iter()
        .filter(|event| matches!(event, Event::Store { .. }));
    assert_eq!(stores.count(), 400);
    let mut images = CrashImages::new(recording).unwrap();
    let end = *images.recording().points().end();
    for thread in 0..4 {
        assert_eq!(possible(&mut images, end, thread * 8), set(&[99]));
    }
}

#[test]
fn an_image_can_be_written_to_a_file_and_opened_by_path() {
    let (recorder, pool) = recorded(2);
    pool.commit_u64(PoolOffset(4096), 5).unwrap();
    let mut images = CrashImages::new(recorder.take()).unwrap();
    let path = std::path::PathBuf::from(format!(
        "/dev/shm/egeria-media-image-{}",
        std::process::id()
    ));
    images
        .state_at(3)
        .image(&Choice(vec![]))
        .write_to(POOL, &path)
        .unwrap();
    let opened = Pool::open(&path, egeria_media::Access::ReadOnly).unwrap();
    assert_eq!(
        (opened.blocks(), opened.load_u64(PoolOffset(4096)).unwrap()),
        (2, 5)
    );
    std::fs::remove_file(&path).unwrap();
}
