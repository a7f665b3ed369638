//! Room that runs out at every place where something is taken: the right error, nothing changed, nothing
//! leaked, and the volume goes on.

pub mod acts;
mod picture;

use crate::common::*;
use acts::{ACTS, Act, prepare};
use egeria_engine::failpoint::{Resource, with_failures};
use egeria_engine::*;
use picture::{Picture, picture};
use std::ops::Range;
use std::sync::Arc;

/// Takings of one operation are fewer than this.
const MAX_TAKEN: u64 = 200;

/// A volume on which an operation is about to happen.
struct Scene {
    scratch: Scratch,
    volume: Arc<Volume>,
    before: Picture,
}

impl Scene {
    fn new(act: &Act, way: Way) -> Scene {
        let scratch = Scratch::new(2, 8 << 20);
        let mut volume = scratch.attach();
        if way.checksums {
            set_checksums(&volume, InodeNumber::ROOT, b"crc32c").expect("checksums");
        }
        prepare(&volume);
        (act.prepare)(&volume);
        let before = picture(&volume);
        if way.fresh {
            // No inode is loaded.
            drop(volume);
            volume = scratch.attach();
        }
        Scene {
            scratch,
            volume,
            before,
        }
    }

    /// The same operation again must do what it does where nothing was ever refused.
    fn goes_on(&self, act: &Act, whole: &Picture) -> Result<(), String> {
        let done = (act.run)(&self.volume).map_err(|errno| format!("again: {errno}"))?;
        if done == act.bytes {
            picture(&self.volume).is_like(whole)
        } else {
            Err(format!("again: {done} bytes"))
        }
    }

    fn end(self) -> Result<(), String> {
        let space = self.volume.space(None);
        drop(self.volume);
        let report = check_volume(&self.scratch.pools[0], false, &mut |_, _| {})
            .map_err(|error| error.to_string())?;
        if !report.findings.is_empty() {
            return Err(format!("{:?}", report.findings));
        }
        let blocks = (space.blocks - space.free_blocks) as i64 - report.used_blocks as i64;
        let inodes = (space.inodes - space.free_inodes) as i64 - report.inodes as i64;
        match (blocks, inodes) {
            (0, 0) => Ok(()),
            _ => Err(format!("{blocks} blocks and {inodes} inodes leaked")),
        }
    }
}

fn errno_of(resource: Resource) -> i32 {
    match resource {
        Resource::Blocks | Resource::InodeNumber => libc::ENOSPC,
        Resource::SessionPages => libc::ENOMEM,
    }
}

/// How an operation meets the volume.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// In a session that knows nothing yet.
    fresh: bool,
    /// All files have checksums of data.
    checksums: bool,
}

/// Refuse these takings; tells how many were asked for.
fn refuse(
    act: &Act,
    way: Way,
    resource: Resource,
    refused: Range<u64>,
    whole: &Picture,
) -> Result<u64, String> {
    let scene = Scene::new(act, way);
    let first = refused.start;
    let (outcome, asked) = with_failures(resource, refused, || (act.run)(&scene.volume));
    match outcome {
        Ok(bytes) if bytes == act.bytes => picture(&scene.volume).is_like(whole)?,
        // Part of the bytes: what is there is of before or of after.
        Ok(bytes) if bytes > 0 => picture(&scene.volume).is_between(&scene.before, whole)?,
        Err(Errno(errno)) if asked > first && errno == errno_of(resource) => {
            picture(&scene.volume).is_same(&scene.before, act.reserves)?;
            scene.goes_on(act, whole)?;
        }
        outcome => return Err(format!("{outcome:?}")),
    }
    scene.end()?;
    Ok(asked)
}

/// Refuse one taking after the other, alone and with all that follow.
fn refuse_each(act: &Act, way: Way, resource: Resource) -> u64 {
    let scene = Scene::new(act, way);
    let done = (act.run)(&scene.volume);
    assert_eq!(done, Ok(act.bytes), "{}: refused nothing", act.name);
    let whole = picture(&scene.volume);
    scene
        .end()
        .unwrap_or_else(|fault| panic!("{}: {fault}", act.name));
    let mut refusals = 0;
    for number in 0..MAX_TAKEN {
        for refused in [number..number + 1, number..u64::MAX] {
            let what = format!("{}, {way:?}, {resource:?} {refused:?}", act.name);
            match refuse(act, way, resource, refused, &whole) {
                Ok(asked) if asked <= number => return refusals,
                Ok(_) => refusals += 1,
                Err(fault) => panic!("{what}: {fault}"),
            }
        }
    }
    panic!("{}: no end", act.name);
}

fn refuse_all(resource: Resource) -> u64 {
    let mut refusals = 0;
    for act in ACTS {
        for (fresh, checksums) in [(false, false), (true, false), (false, true), (true, true)] {
            let way = Way { fresh, checksums };
            refusals += refuse_each(act, way, resource);
        }
    }
    refusals
}

#[test]
fn enospc_at_any_block_allocation_leaks_nothing() {
    assert!(refuse_all(Resource::Blocks) > 100);
}

#[test]
fn enospc_at_any_inode_allocation_leaks_nothing() {
    assert!(refuse_all(Resource::InodeNumber) > 10);
}

#[test]
fn enomem_at_any_page_allocation_leaks_nothing() {
    assert!(refuse_all(Resource::SessionPages) > 50);
}
