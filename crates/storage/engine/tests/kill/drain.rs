//! A drain of a pool that is killed: files stay whole, and another drain moves what is left.

use crate::cases::{Act, Case, Verify};
use crate::scene::{Scene, pattern};
use egeria_engine::*;

/// The pool that is drained.
const POOL: u8 = 1;

/// On volumes of two pools.
pub const CASES: &[Case] = &[
    Case {
        name: "drain",
        prepare: drain,
    },
    Case {
        name: "drain of a striped file",
        prepare: drain_striped,
    },
];

fn is_on_pool(scene: &Scene, ino: InodeNumber) -> bool {
    let extents = scene.volume.extents(ino).expect("extents");
    extents.iter().any(|extent| extent.pool == POOL)
}

fn prepared(scene: &Scene, ino: InodeNumber, bytes: Vec<u8>) -> (Act, Verify) {
    scene.write(ino, 0, &bytes);
    scene.volume.set_allocation(AllocationPolicy::Local);
    assert!(is_on_pool(scene, ino));
    let act = |volume: &Volume| {
        let report = volume
            .drain(POOL, Unreadable::default(), &mut |_| true)
            .expect("drain");
        assert!(report.is_drained(), "{report:?}");
    };
    let verify = move |scene: &Scene| {
        assert_eq!(scene.read(ino), bytes);
        let happened = !is_on_pool(scene, ino);
        scene.volume.reap();
        let report = scene
            .volume
            .drain(POOL, Unreadable::default(), &mut |_| true)
            .expect("drain");
        assert!(report.is_drained() && !is_on_pool(scene, ino), "{report:?}");
        assert_eq!(scene.read(ino), bytes);
        scene.volume.end_drain(POOL);
        happened
    };
    (Box::new(act), Box::new(verify))
}

fn drain(scene: &mut Scene) -> (Act, Verify) {
    scene.volume.set_allocation(AllocationPolicy::Pool(POOL));
    let ino = scene.file(scene.a, b"f", &[]);
    prepared(scene, ino, pattern(21, 150_000))
}

fn drain_striped(scene: &mut Scene) -> (Act, Verify) {
    scene.volume.set_allocation(AllocationPolicy::Pool(POOL));
    let ino = scene.file(scene.a, b"f", &[]);
    scene
        .volume
        .set_xattr(ino, b"user.egeria.layout", b"striped:4096", XattrMode::Any)
        .expect("layout");
    prepared(scene, ino, pattern(22, 60_000))
}
