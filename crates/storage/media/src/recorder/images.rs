//! Crash images: what recovery may find when the machine stopped at a point.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::choices::{Choice, PossibleSteps, choose};
use super::content::{Line, PoolSet, save};
use super::event::Event;
use super::lines::{LineKey, Lines, Piece};
use super::undo::Undo;
use super::{Recorder, Recording};
use crate::address::{CACHE_LINE_BYTES, PoolIndex, PoolOffset};
use crate::pool::Pool;

/// Walks a recording and builds crash images, one at a time.
///
/// One set of pools in memory holds the durable content and is moved forward event by event. An image adds the lines
/// that arrived. When it is dropped, all stores to it are taken back. So an image costs what differs and what recovery
/// writes, not the size of the pools.
pub struct CrashImages {
    recording: Recording,
    pools: PoolSet,
    /// Sees what users of an image store.
    watch: Recorder,
    lines: Lines,
    point: usize,
    /// What became durable since the base.
    persisted: Undo,
    /// Of the difference to the base; independent of the order of events.
    hash: u64,
}

/// A line with stores that may or may not have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingLine {
    pub pool: PoolIndex,
    /// First byte of the line.
    pub at: PoolOffset,
    /// Aligned words stored to it, in order: the first 0 to `steps` of them arrived.
    pub steps: u32,
}

/// The possible crash images at one point.
pub struct CrashState<'a> {
    images: &'a mut CrashImages,
}

/// One crash image: a writable pool for each recorded one. Stores to them are taken back when this is dropped.
pub struct CrashImage<'a> {
    images: &'a CrashImages,
    hash: u64,
    /// Lines that arrived, with what stood there.
    arrived: Vec<(LineKey, Line)>,
}

impl CrashImages {
    /// Begins at point 0 of a recording.
    ///
    /// # Errors
    /// `EIO` when a base cannot be read.
    pub fn new(recording: Recording) -> io::Result<CrashImages> {
        let bases = recording.bases().iter();
        let bases = bases.map(|base| (base.index, base.pool.clone()));
        let pools = PoolSet(bases.collect()).copy()?;
        let mut images = CrashImages::over(pools);
        images.restart(recording);
        Ok(images)
    }

    /// Uses pools that hold the durable base content of future recordings, and owns them.
    pub fn over(pools: PoolSet) -> CrashImages {
        let watch = Recorder::reversible();
        pools.follow(&watch);
        CrashImages {
            recording: Recording::from(Vec::new()),
            pools,
            watch,
            lines: Lines::default(),
            point: 0,
            persisted: Undo::default(),
            hash: 0,
        }
    }

    /// Begins at point 0 of another recording over the same base.
    pub fn restart(&mut self, recording: Recording) {
        self.recording = recording;
        self.persisted.take_back(&self.pools);
        self.lines = Lines::default();
        self.point = 0;
        self.hash = 0;
    }

    /// Begins at point 0 of a recording that was made of this image. The image has the same base as this value.
    pub fn restart_from(&mut self, image: &CrashImage<'_>, recording: Recording) {
        self.restart(recording);
        for key in image.differing_lines() {
            self.persist_line(&key, &image.images.pools.line(&key));
        }
    }

    /// What was recorded.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The possible images after the first `point` events (beyond the last: after all).
    /// Moving forward is cheap, moving backward starts from the base (and is for recordings
    /// of the base only).
    pub fn state_at(&mut self, point: usize) -> CrashState<'_> {
        let point = point.min(self.recording.events.len());
        if point < self.point {
            let recording = std::mem::replace(&mut self.recording, Vec::new().into());
            self.restart(recording);
        }
        while self.point < point {
            self.step();
        }
        CrashState { images: self }
    }

    fn step(&mut self) {
        let mut durable: Vec<(LineKey, Piece)> = Vec::new();
        let event = &self.recording.events[self.point];
        self.lines
            .step(self.point, event, |key, piece| durable.push((*key, *piece)));
        for (key, piece) in durable {
            let mut line = self.pools.line(&key);
            piece.apply(&mut line, &self.recording.events);
            self.persist_line(&key, &line);
        }
        self.point += 1;
    }

    fn persist_line(&mut self, key: &LineKey, line: &Line) {
        let at = PoolOffset(key.1 * CACHE_LINE_BYTES);
        if let Some(pool) = self.pools.get(key.0) {
            self.persisted.note(pool, key.0, at, line.len());
        }
        self.hash ^= hash_of(key, &self.pools.line(key)) ^ hash_of(key, line);
        // In bounds: it was stored to when it was recorded.
        let _ = self.pools.store_line(key, line);
    }
}

/// Of a line's content and place.
fn hash_of(key: &LineKey, line: &Line) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key.0.0, key.1, line).hash(&mut hasher);
    hasher.finish()
}

impl CrashState<'_> {
    /// The point this state is of.
    pub fn point(&self) -> usize {
        self.images.point
    }

    /// The pending lines: lines with a last store that may be missing, in order.
    pub fn pending(&self) -> Vec<PendingLine> {
        let lines = self.images.lines.pending.iter();
        lines
            .map(|(&(pool, line), pieces)| PendingLine {
                pool,
                at: PoolOffset(line * CACHE_LINE_BYTES),
                steps: pieces.iter().map(Piece::steps).sum(),
            })
            .collect()
    }

    /// At most `limit` combinations of arrived lines: all if there are no more, else a sample by `seed`. The first
    /// one: no line arrived.
    pub fn choices(&self, seed: u64, limit: usize) -> Vec<Choice> {
        choose(&self.possible_steps(None), seed, limit)
    }

    /// As [`CrashState::choices`]. But when the last event is a store to one line, returns only those with a part of
    /// that store: the others were possible before it.
    pub fn new_choices(&self, seed: u64, limit: usize) -> Vec<Choice> {
        choose(&self.possible_steps(self.last_store()), seed, limit)
    }

    /// The last event, if it is a store to one line.
    fn last_store(&self) -> Option<usize> {
        let last = self.images.point.checked_sub(1)?;
        match &self.images.recording.events[last] {
            Event::Store { at, bytes, .. } => {
                let ends_at = at.0 + bytes.len() as u64 - 1;
                (at.0 / CACHE_LINE_BYTES == ends_at / CACHE_LINE_BYTES).then_some(last)
            }
            _ => None,
        }
    }

    fn possible_steps(&self, wanted: Option<usize>) -> Vec<PossibleSteps> {
        let lines = self.images.lines.pending.values();
        let steps_of = |pieces: &std::collections::VecDeque<Piece>| {
            let mut possible = PossibleSteps::default();
            let mut steps = 0;
            for piece in pieces {
                if Some(piece.event) == wanted {
                    possible.least = steps + 1;
                }
                steps += piece.steps();
                possible.ends.push(steps);
            }
            possible
        };
        lines.map(steps_of).collect()
    }

    /// The lines that differ from the durable content after this choice.
    fn arrived(&self, choice: &Choice) -> Vec<(LineKey, Line, Line)> {
        let images = &self.images;
        let mut arrived = Vec::new();
        for ((key, pieces), &steps) in images.lines.pending.iter().zip(&choice.0) {
            let before = images.pools.line(key);
            let mut line = before;
            let mut left = steps;
            for piece in pieces {
                if left == 0 {
                    break;
                }
                piece.cut(left).apply(&mut line, &images.recording.events);
                left = left.saturating_sub(piece.steps());
            }
            if line != before {
                arrived.push((*key, before, line));
            }
        }
        arrived
    }

    /// A hash of the image's content: images over one base are equal when their hashes are.
    pub fn hash(&self, choice: &Choice) -> u64 {
        self.hash_with(&self.arrived(choice))
    }

    fn hash_with(&self, arrived: &[(LineKey, Line, Line)]) -> u64 {
        let changes = arrived
            .iter()
            .map(|(key, before, line)| hash_of(key, before) ^ hash_of(key, line));
        changes.fold(self.images.hash, |hash, change| hash ^ change)
    }

    /// The image after this choice. Lines that the choice does not name did not arrive.
    pub fn image(&mut self, choice: &Choice) -> CrashImage<'_> {
        let arrived = self.arrived(choice);
        let hash = self.hash_with(&arrived);
        for (key, _, line) in &arrived {
            // In bounds: it was stored to when it was recorded.
            let _ = self.images.pools.store_line(key, line);
        }
        let arrived = arrived.into_iter().map(|(key, before, _)| (key, before));
        CrashImage {
            images: self.images,
            hash,
            arrived: arrived.collect(),
        }
    }
}

impl CrashImage<'_> {
    /// One pool of the image.
    pub fn pool(&self, index: PoolIndex) -> Option<&Arc<Pool>> {
        self.images.pools.get(index)
    }

    pub fn pools(&self) -> &PoolSet {
        &self.images.pools
    }

    /// See [`CrashState::hash`].
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Events in the image (stores, flushes, fences) since the last call.
    pub fn drain(&self) -> Recording {
        self.images.watch.drain().into()
    }

    /// Takes back all that was stored to the image.
    pub fn take_back(&self) {
        self.images.watch.undo(&self.images.pools);
    }

    fn differing_lines(&self) -> Vec<LineKey> {
        let ranges = self.images.persisted.ranges();
        let lines = ranges.map(|(pool, at, _)| (pool, at.0 / CACHE_LINE_BYTES));
        let mut lines: Vec<LineKey> = lines
            .chain(self.arrived.iter().map(|(key, _)| *key))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// Writes a pool of the image to a new file, for programs that open pools by path.
    ///
    /// # Errors
    /// `EEXIST` when the file exists, `ENOENT` when there is no such pool, else what `open` or `write` failed with
    /// (`EACCES`, `ENOSPC`, `EIO`).
    pub fn write_to(&self, index: PoolIndex, path: &Path) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such pool was recorded");
        let pool = self.pool(index).ok_or_else(missing)?;
        let file = File::create_new(path)?;
        file.set_len(pool.bytes())?;
        save(pool, &file)
    }
}

impl Drop for CrashImage<'_> {
    fn drop(&mut self) {
        self.take_back();
        for (key, before) in &self.arrived {
            // In bounds: it was read from there.
            let _ = self.images.pools.store_line(key, before);
        }
    }
}
