//! Memory of programs goes to other nodes.

use crate::rates::model::Model;
use crate::state::State;
use crate::workload::MediumKind;

/// Up to `max_bytes` of a group's memory go from the one node of each pair to the other; all pairs at once, as nodes may
/// exchange what they have. Returns how many bytes went.
pub(crate) fn follow(
    model: &Model,
    state: &mut State,
    group: usize,
    pairs: &[(usize, usize)],
    max_bytes: f64,
) -> f64 {
    let place = |node: &usize| model.place_of(*node, MediumKind::Memory);
    let places = pairs
        .iter()
        .filter_map(|(from, to)| Some((place(from)?, place(to)?)));
    let places: Vec<(usize, usize)> = places.collect();
    let files = files_of(state, group);
    let left = files.iter().map(|file| {
        let file = &state.files[*file];
        places
            .iter()
            .map(|(from, _)| file.shares[*from] * file.bytes)
            .sum::<f64>()
    });
    let left_bytes: f64 = left.sum();
    let part = (max_bytes / left_bytes.max(1.0)).min(1.0);
    for file in files {
        let file = &mut state.files[file];
        let before = file.shares.clone();
        for (from, to) in &places {
            file.shares[*from] -= before[*from] * part;
            file.shares[*to] += before[*from] * part;
        }
    }
    left_bytes * part
}

/// Up to `max_bytes` of a group's memory go where they are used: what one node uses goes there, what several use is
/// spread over them (AsymSched §4.1). Returns how many bytes went.
pub(crate) fn gather(model: &Model, state: &mut State, group: usize, max_bytes: f64) -> f64 {
    let mut gone = 0.0;
    for index in files_of(state, group) {
        let users = state.threads.iter().filter(|thread| thread.file == index);
        let mut nodes: Vec<usize> = users.map(|thread| thread.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let there = nodes.into_iter();
        let there: Vec<usize> = there
            .filter_map(|node| model.place_of(node, MediumKind::Memory))
            .collect();
        let file = &mut state.files[index];
        let wanted = crate::file::over(&there, file.shares.len());
        let both = || file.shares.iter().zip(&wanted);
        let wrong: f64 = both().map(|(is, should)| (is - should).max(0.0)).sum();
        let leaving = wrong * file.bytes;
        if leaving <= 1.0 {
            continue;
        }
        let part = ((max_bytes - gone).max(0.0) / leaving).min(1.0);
        for (is, should) in file.shares.iter_mut().zip(&wanted) {
            *is += (should - *is) * part;
        }
        gone += leaving * part;
    }
    gone
}

/// How often two full nodes may exchange what one of them has room for, in one step.
const MAX_EXCHANGES: u32 = 64;

/// What of a program's memory goes first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    /// What threads of the target node alone use.
    Own,
    LeastUsed,
    MostUsed,
}

/// Up to `max_bytes` of a group's memory go as ordered, as far as there is room: first what is said. Returns how many bytes went; `copies` have what is left.
pub(crate) fn gather_as_ordered(
    model: &Model,
    state: &mut State,
    group: usize,
    (copies, first): (&mut [(usize, usize, f64)], First),
    max_bytes: f64,
) -> f64 {
    let mut gone = 0.0;
    let files = files_of(state, group);
    for _ in 0..MAX_EXCHANGES {
        let ordered: f64 = copies.iter().map(|(_, _, left)| left).sum();
        // All at once: nodes may exchange what they have.
        let part = ((max_bytes - gone) / ordered.max(1.0)).min(1.0);
        let mut moved = 0.0;
        for (from, to, left) in copies.iter_mut() {
            let went = bring(model, state, (&files, first), (*from, *to), *left * part);
            *left -= went;
            moved += went;
        }
        gone += moved;
        if moved < 1.0 || part >= 1.0 {
            break;
        }
    }
    gone
}

/// Up to `max_bytes` of these memories go from one node to another that has room. Returns how many bytes went.
fn bring(
    model: &Model,
    state: &mut State,
    (files, first): (&[usize], First),
    (from, to): (usize, usize),
    max_bytes: f64,
) -> f64 {
    let place = |node: usize| model.place_of(node, MediumKind::Memory);
    let Some((source, target)) = place(from).zip(place(to)) else {
        return 0.0;
    };
    let room = state.free_bytes(model, target);
    let most = room.map_or(max_bytes, |room| max_bytes.min(room as f64));
    let urgency = |file: usize| match first {
        First::Own => used_from(state, file, to),
        First::LeastUsed => -state.files[file].heat,
        First::MostUsed => state.files[file].heat,
    };
    let used = files.iter().map(|file| (urgency(*file), *file));
    let mut files: Vec<(f64, usize)> = used.collect();
    files.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut gone = 0.0;
    for (_, file) in files {
        let file = &mut state.files[file];
        let bytes = (file.shares[source] * file.bytes).min(most - gone).max(0.0);
        file.shares[source] -= bytes / file.bytes;
        file.shares[target] += bytes / file.bytes;
        gone += bytes;
    }
    gone
}

/// Part of the threads that use a memory and run on this node.
fn used_from(state: &State, file: usize, node: usize) -> f64 {
    let users = state.threads.iter().filter(|thread| thread.file == file);
    let (mut here, mut all) = (0.0, 0.0);
    for thread in users {
        all += 1.0;
        here += if thread.node == node { 1.0 } else { 0.0 };
    }
    if all > 0.0 { here / all } else { 0.0 }
}

/// Memory that the threads of a group use.
fn files_of(state: &State, group: usize) -> Vec<usize> {
    let own = state.threads.iter().filter(|thread| thread.group == group);
    let mut files: Vec<usize> = own.map(|thread| thread.file).collect();
    files.sort_unstable();
    files.dedup();
    files.retain(|file| state.files[*file].medium == MediumKind::Memory);
    files
}
