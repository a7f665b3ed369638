//! Crash images: what recovery may find when the machine stopped at a point.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::choices::{Choice, choose};
use super::lines::{LineKey, Lines};
use super::{Recording, memory_file, save};
use crate::address::{CACHE_LINE_BYTES, PoolIndex, PoolOffset};
use crate::map::{self, Access};
use crate::pool::Pool;

/// Walks a recording and builds crash images.
///
/// The durable content is kept once, in memory files, and moved forward event by event;
/// each image is a private copy-on-write mapping of it, so that an image costs what
/// differs and what recovery writes, not the size of the pools.
pub struct CrashImages {
    recording: Recording,
    persisted: Vec<Persisted>,
    lines: Lines,
    point: usize,
}

/// The durable content of one pool.
struct Persisted {
    index: PoolIndex,
    file: Arc<File>,
    memory: Pool,
}

/// A line with stores that may or may not have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingLine {
    /// Where.
    pub pool: PoolIndex,
    /// First byte of the line.
    pub at: PoolOffset,
    /// Aligned words stored to it, one after another: 0 to so many of them arrived.
    pub steps: u32,
}

/// The possible crash images at one point.
pub struct CrashState<'a> {
    images: &'a CrashImages,
}

/// One crash image: a pool for each recorded one, writable, seen by nobody else.
pub struct CrashImage {
    pools: Vec<(PoolIndex, Pool)>,
}

impl CrashImages {
    /// Begins at point 0 of a recording.
    ///
    /// # Errors
    /// When there is no memory for the images.
    pub fn new(recording: Recording) -> io::Result<CrashImages> {
        let persisted = Persisted::of_bases(&recording)?;
        Ok(CrashImages {
            recording,
            persisted,
            lines: Lines::default(),
            point: 0,
        })
    }

    /// What was recorded.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The possible images after the first `point` events (beyond the last: after all).
    /// Moving forward is cheap, moving backward starts from the bases. Images taken
    /// before stay what they are.
    ///
    /// # Errors
    /// When there is no memory for the images.
    pub fn state_at(&mut self, point: usize) -> io::Result<CrashState<'_>> {
        let point = point.min(self.recording.events.len());
        if point < self.point {
            self.persisted = Persisted::of_bases(&self.recording)?;
            self.lines = Lines::default();
            self.point = 0;
        }
        if point > self.point {
            for persisted in &mut self.persisted {
                persisted.make_own()?;
            }
        }
        while self.point < point {
            self.step()?;
        }
        Ok(CrashState { images: self })
    }

    fn step(&mut self) -> io::Result<()> {
        let events = &self.recording.events;
        let persisted = &self.persisted;
        let mut result = Ok(());
        self.lines
            .step(self.point, &events[self.point], |key, piece| {
                let memory = persisted.iter().find(|persisted| persisted.index == key.0);
                let Some(memory) = memory.map(|persisted| &persisted.memory) else {
                    return;
                };
                if let Err(error) = memory.write_bytes(piece.at, piece.data(events)) {
                    result = Err(io::Error::other(error));
                }
            });
        self.point += 1;
        result
    }
}

impl Persisted {
    fn of_bases(recording: &Recording) -> io::Result<Vec<Persisted>> {
        let copy = |base: &super::Base| {
            let path = Path::new("(base image)");
            let mapping = map::map_private(&base.image, base.bytes)?;
            let from = Pool::from_mapping(mapping, path, Access::ReadOnly, None);
            Persisted::copy_of(base.pool, &from)
        };
        recording.bases().iter().map(copy).collect()
    }

    fn copy_of(index: PoolIndex, from: &Pool) -> io::Result<Persisted> {
        let file = memory_file(from.bytes())?;
        save(from, &file)?;
        let path = Path::new("(durable image)");
        let mapping = map::map_file(&file, path, Access::ReadWrite).map_err(io::Error::other)?;
        let memory = Pool::from_mapping(mapping, path, Access::ReadWrite, None);
        Ok(Persisted {
            index,
            file: Arc::new(file),
            memory,
        })
    }

    /// Images that are still alive keep the content they were made from.
    fn make_own(&mut self) -> io::Result<()> {
        if Arc::strong_count(&self.file) > 1 {
            *self = Persisted::copy_of(self.index, &self.memory)?;
        }
        Ok(())
    }
}

impl CrashState<'_> {
    /// The point this state is of.
    pub fn point(&self) -> usize {
        self.images.point
    }

    /// The lines whose last stores may be missing, in order.
    pub fn pending(&self) -> Vec<PendingLine> {
        let lines = self.images.lines.pending.iter();
        lines
            .map(|(&(pool, line), pieces)| PendingLine {
                pool,
                at: PoolOffset(line * CACHE_LINE_BYTES),
                steps: pieces.iter().map(|piece| piece.steps()).sum(),
            })
            .collect()
    }

    /// At most `limit` ways the pending lines may have arrived: all when there are no
    /// more, else a sample that `seed` decides. The first is: nothing of them.
    pub fn choices(&self, seed: u64, limit: usize) -> Vec<Choice> {
        let lines = self.images.lines.pending.values();
        let ends: Vec<Vec<u32>> = lines
            .map(|pieces| {
                let add = |steps: &mut u32, piece: &super::lines::Piece| {
                    *steps += piece.steps();
                    Some(*steps)
                };
                pieces.iter().scan(0, add).collect()
            })
            .collect();
        choose(&ends, seed, limit)
    }

    /// The image in which so much of each pending line arrived. Lines the choice does
    /// not name did not arrive.
    ///
    /// # Errors
    /// When there is no memory or address space for it.
    pub fn image(&self, choice: &Choice) -> io::Result<CrashImage> {
        let mut pools = Vec::with_capacity(self.images.persisted.len());
        for persisted in &self.images.persisted {
            let mapping = map::map_private(&persisted.file, persisted.memory.bytes())?;
            let path = Path::new("(crash image)");
            let backing = Some(Arc::clone(&persisted.file));
            let pool = Pool::from_mapping(mapping, path, Access::ReadWrite, backing);
            pools.push((persisted.index, pool));
        }
        let image = CrashImage { pools };
        for (key, &steps) in self.images.lines.pending.keys().zip(&choice.0) {
            self.arrive(&image, key, steps)?;
        }
        Ok(image)
    }

    /// The images of [`CrashState::choices`], each with its choice.
    pub fn images(
        &self,
        seed: u64,
        limit: usize,
    ) -> impl Iterator<Item = io::Result<(Choice, CrashImage)>> + '_ {
        let choices = self.choices(seed, limit).into_iter();
        choices.map(|choice| self.image(&choice).map(|image| (choice, image)))
    }

    fn arrive(&self, image: &CrashImage, key: &LineKey, steps: u32) -> io::Result<()> {
        let Some(pool) = image.pool(key.0) else {
            return Ok(());
        };
        let mut left = steps;
        for piece in &self.images.lines.pending[key] {
            if left == 0 {
                break;
            }
            let arrived = piece.cut(left);
            let data = arrived.data(&self.images.recording.events);
            pool.write_bytes(arrived.at, data)
                .map_err(io::Error::other)?;
            left = left.saturating_sub(piece.steps());
        }
        Ok(())
    }
}

impl CrashImage {
    /// One pool of the image.
    pub fn pool(&self, index: PoolIndex) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|(own, _)| *own == index)
            .map(|(_, pool)| pool)
    }

    /// The pools, in the order in which they were attached.
    pub fn into_pools(self) -> Vec<(PoolIndex, Pool)> {
        self.pools
    }

    /// Writes a pool of the image to a new file, for those who open pools by path.
    ///
    /// # Errors
    /// When the file exists or cannot be written, or there is no such pool.
    pub fn write_to(&self, index: PoolIndex, path: &Path) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such pool was recorded");
        let pool = self.pool(index).ok_or_else(missing)?;
        let file = File::create_new(path)?;
        file.set_len(pool.bytes())?;
        save(pool, &file)
    }
}
