//! The proof that the explorer sees: with any one flush or fence left out of what the media got, it must
//! find something wrong.
//!
//! Leaving one out changes nothing in how a program runs, so each workload is run once, and its recording
//! looked at once more for each place, without it.

use super::damage::DAMAGES;
use super::explore::{Limits, Tally, explore};
use super::grammar;
use super::initial_state::InitialState;
use super::operation::Operation;
use super::plan::POOL_CHANGES;
use super::task_runner::TaskRunner;
use super::workload::{Setup, Workload};
use super::workspace::Recorded;
use egeria_harness::{Error, Result};
use egeria_media::recorder::Place;
use std::collections::BTreeMap;

/// A flush or fence of the engine, and how it was missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaceProof {
    /// What and where: `flush at FILE:LINE:COLUMN`.
    pub place: String,
    /// The workload in which its absence was noticed, and how it showed; `None`: never.
    pub noticed: Option<(String, String)>,
}

/// Leave out each flush and fence that any workload passes; whether that is noticed.
///
/// # Errors
/// When a workload cannot be run.
pub fn prove(images: usize) -> Result<Vec<PlaceProof>> {
    let mut worker = TaskRunner::new(1, None);
    let mut places: BTreeMap<Place, Option<(String, String)>> = BTreeMap::new();
    let limits = Limits {
        images,
        images_in_recovery: 2,
        seed: 1,
    };
    for (setup, workload) in workloads() {
        let workspace = worker.workspace(setup).map_err(Error::failed)?;
        let Some(recorded) = workspace.record(&workload).map_err(Error::failed)? else {
            continue;
        };
        for place in recorded.recording.places() {
            let noticed = places.entry(place).or_default();
            if noticed.is_some() {
                continue;
            }
            let Recorded {
                kind,
                recording,
                legal,
                ..
            } = &recorded;
            let sabotaged = Recorded {
                kind: *kind,
                recording: recording.without(&place),
                from: 0,
                legal: legal.clone(),
            };
            let found = explore(workspace, sabotaged, limits, &mut Tally::default());
            *noticed = found.err().map(|wrong| (workload.to_string(), wrong.why));
        }
    }
    let proofs = places.into_iter().map(|(place, noticed)| PlaceProof {
        place: place.to_string(),
        noticed,
    });
    Ok(proofs.collect())
}

/// Workloads that pass every place, the telling ones first.
fn workloads() -> impl Iterator<Item = (Setup, Workload)> {
    let setup = Setup::new;
    let single = |operation: Operation| Workload::Sequence {
        operations: vec![operation],
        loaded: false,
    };
    let tree = grammar::all()
        .into_iter()
        .map(move |one| (setup(InitialState::Tree, 1), single(one)));
    let initial_states = [
        InitialState::Orphan,
        InitialState::PageEnd(0),
        InitialState::LongLog,
        InitialState::LongDirectory,
        InitialState::InodesFull,
    ];
    let others = initial_states.into_iter().flat_map(move |initial_state| {
        let all = grammar::few().into_iter();
        all.map(move |one| (setup(initial_state, 1), single(one)))
    });
    let making = [
        (InitialState::Blank, 1),
        (InitialState::Tree, 1),
        (InitialState::Tree, 2),
    ]
    .map(|(initial_state, pools)| (setup(initial_state, pools), Workload::Making));
    let repair = DAMAGES.map(|damage| (setup(InitialState::Damaged(damage), 1), Workload::Repair));
    let pool_changes = POOL_CHANGES.map(|(initial_state, pools, change)| {
        (setup(initial_state, pools), Workload::PoolChange(change))
    });
    tree.chain(others)
        .chain(making)
        .chain(repair)
        .chain(pool_changes)
        .chain(two_in_new_block())
        .chain(two_by_two())
}

/// Two files are made at once where a block of inodes is missing: one makes it, the other relies on it.
fn two_in_new_block() -> impl Iterator<Item = (Setup, Workload)> {
    let setup = Setup::new(InitialState::InodesFull, 1);
    let created = |path: &str| Operation::Create {
        path: path.to_owned(),
    };
    let operations = ["d/one", "e/two"].map(created);
    (0..24).map(Some).map(move |switch| {
        let operations = operations.clone();
        (setup, Workload::Pair { operations, switch })
    })
}

/// Two operations, one after the other and by two attachments: what the first forgot hurts the second.
fn two_by_two() -> impl Iterator<Item = (Setup, Workload)> {
    let few = grammar::few();
    let pairs = few.clone().into_iter().flat_map(move |first| {
        let seconds = few.clone().into_iter();
        seconds.map(move |second| [first.clone(), second])
    });
    pairs.flat_map(|operations| {
        let setup = Setup::new(InitialState::Tree, 1);
        let after = Workload::Sequence {
            operations: operations.to_vec(),
            loaded: false,
        };
        let elsewhere = Workload::Pair {
            operations,
            switch: None,
        };
        [(setup, after), (setup, elsewhere)]
    })
}
