//! Inode numbers the kernel remembers.
//!
//! The kernel names inodes by number alone. It may do so long after the last name and the last open of an inode are
//! gone and its number was reused. So the mount keeps the generation of every number that the kernel got, until the
//! kernel forgets it. It holds the inode of exactly that generation open while a request works on it. The session
//! knows these numbers too, so that it reuses none of them as long as other numbers are free.

use crate::leases::Leases;
use egeria_engine::{
    Attributes, Errno, FileReference, InodeNumber, LookupReferences, Outcome, Volume,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SHARDS: usize = 16;
/// How long to wait for requests that mean an earlier generation of a number, when the number was reused. The kernel
/// sent them between the answer to a look-up and its last use.
const REST: Duration = Duration::from_millis(5);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    generation: u32,
    /// Look-ups answered with the number and not yet forgotten, over all its generations: the kernel forgets by number
    /// too.
    lookups: u64,
    /// Answers under way that name the number. While there are any, the session must know the number.
    answering: u64,
    /// Held open here since it lost a name: a process may use it without a request.
    held: bool,
}

/// Every number the kernel remembers. It always remembers the root.
#[derive(Default)]
pub(crate) struct KnownInodes {
    shards: [Mutex<HashMap<u64, Remembered>>; SHARDS],
    /// Where the session records them; `None` when it has no room.
    memory: Option<LookupReferences>,
    leases: Option<Arc<Leases>>,
}

impl KnownInodes {
    pub(crate) fn new(memory: Option<LookupReferences>, leases: Arc<Leases>) -> Self {
        KnownInodes {
            memory,
            leases: Some(leases),
            ..KnownInodes::default()
        }
    }

    /// Whether the kernel may know the number, or learn of it from an answer under way.
    pub(crate) fn is_known(&self, ino: InodeNumber) -> bool {
        self.shard(ino).contains_key(&ino.0)
    }

    /// Whether the session records the numbers.
    pub(crate) fn tracks_lookups(&self) -> bool {
        self.memory.is_some()
    }

    fn shard(&self, ino: InodeNumber) -> MutexGuard<'_, HashMap<u64, Remembered>> {
        let shard = &self.shards[ino.0 as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look-up of this inode is about to be answered; `ESTALE` when it is gone already, and then the kernel looks
    /// again. If the kernel still remembers an earlier generation of the number, requests for that generation may be
    /// on their way. This waits for them, because they would be answered with the wrong file. Returns whether this is
    /// the first answer that names the number.
    pub(crate) fn add_lookup(&self, volume: &Volume, attributes: &Attributes) -> Outcome<bool> {
        let remember =
            |memory| volume.add_lookup_reference(memory, attributes.ino, attributes.generation);
        let remember = || self.memory.map_or(Ok(()), remember);
        let forget = || self.forget_in_session(volume, attributes.ino);
        self.add_lookup_within(attributes, REST, remember, forget)
    }

    fn add_lookup_within(
        &self,
        attributes: &Attributes,
        patience: Duration,
        remember: impl FnOnce() -> Outcome<()>,
        forget: impl FnOnce(),
    ) -> Outcome<bool> {
        let deadline = Instant::now() + patience;
        while self.means_another(attributes) && Instant::now() < deadline {
            std::thread::sleep(LOOK_AGAIN);
        }
        let is_new = self.begin_lookup(attributes);
        // Without the shard's lock, because it may wait for the inode. The number is not forgotten during this time.
        let remembered = if is_new { remember() } else { Ok(()) };
        self.end_lookup(attributes, remembered.is_ok(), forget);
        remembered.map(|()| is_new)
    }

    /// Keep the number from being forgotten. Returns whether the session may not know it yet.
    fn begin_lookup(&self, attributes: &Attributes) -> bool {
        let mut shard = self.shard(attributes.ino);
        let known = shard.entry(attributes.ino.0).or_insert(Remembered {
            generation: attributes.generation,
            lookups: 0,
            answering: 0,
            held: false,
        });
        known.answering += 1;
        known.lookups == 0
    }

    fn end_lookup(&self, attributes: &Attributes, is_answered: bool, forget: impl FnOnce()) {
        let mut shard = self.shard(attributes.ino);
        let Some(known) = shard.get_mut(&attributes.ino.0) else {
            return;
        };
        known.answering -= 1;
        if is_answered {
            known.generation = attributes.generation;
            known.lookups += 1;
        } else if known.answering == 0 && known.lookups == 0 {
            // One store, under the shard's lock like all forgetting, so the next look-up comes after it.
            forget();
            shard.remove(&attributes.ino.0);
        }
    }

    fn means_another(&self, attributes: &Attributes) -> bool {
        let shard = self.shard(attributes.ino);
        let remembered = shard.get(&attributes.ino.0);
        remembered.is_some_and(|known| known.generation != attributes.generation)
    }

    /// The kernel forgets the number this many times.
    pub(crate) fn forget(&self, volume: &Volume, ino: InodeNumber, times: u64) {
        let forget = || self.forget_in_session(volume, ino);
        if self.forgotten(ino, times, forget) {
            volume.close(ino);
        }
    }

    /// End the lease first: without a reference the number may be reused.
    fn forget_in_session(&self, volume: &Volume, ino: InodeNumber) {
        if let Some(leases) = &self.leases {
            leases.forget(ino);
        }
        if let Some(memory) = self.memory {
            volume.drop_lookup_reference(memory, ino);
        }
    }

    /// Returns whether the inode was held, and must be closed.
    fn forgotten(&self, ino: InodeNumber, times: u64, forget: impl FnOnce()) -> bool {
        let mut shard = self.shard(ino);
        let Some(remembered) = shard.get_mut(&ino.0) else {
            return false;
        };
        remembered.lookups = remembered.lookups.saturating_sub(times);
        if remembered.lookups > 0 || remembered.answering > 0 {
            return false;
        }
        forget();
        shard
            .remove(&ino.0)
            .is_some_and(|remembered| remembered.held)
    }

    /// The mount ends.
    pub(crate) fn forget_all(&self, volume: &Volume) {
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let all = std::mem::take(&mut *shard);
            let held = all.iter().filter(|(_, remembered)| remembered.held);
            held.for_each(|(ino, _)| volume.close(InodeNumber(*ino)));
        }
        if let Some(memory) = self.memory {
            volume.drop_lookup_references(memory);
        }
    }

    /// It just lost a name: hold it until the kernel forgets it.
    pub(crate) fn hold_until_forgotten(&self, held: Held<'_>) {
        let mut shard = self.shard(held.ino);
        if let Some(remembered) = shard.get_mut(&held.ino.0)
            && !remembered.held
        {
            remembered.held = true;
            held.keep();
        }
    }

    /// The generation that the kernel means by the number; `None` for the root, which has only one.
    fn generation(&self, ino: InodeNumber) -> Outcome<Option<u32>> {
        if ino == InodeNumber::ROOT {
            return Ok(None);
        }
        let remembered = self.shard(ino).get(&ino.0).copied();
        remembered
            .map(|known| Some(known.generation))
            .ok_or(Errno(libc::ESTALE))
    }

    /// Hold the inode the kernel means; `ESTALE` when it is gone.
    pub(crate) fn hold<'a>(&self, volume: &'a Volume, ino: InodeNumber) -> Outcome<Held<'a>> {
        Held::open(volume, ino, self.generation(ino)?)
    }

    #[cfg(test)]
    fn remembers(&self, ino: InodeNumber) -> Option<Remembered> {
        self.shard(ino).get(&ino.0).copied()
    }
}

/// An inode that cannot vanish.
pub(crate) struct Held<'a> {
    volume: &'a Volume,
    pub ino: InodeNumber,
    pub file: FileReference,
}

impl<'a> Held<'a> {
    fn open(volume: &'a Volume, ino: InodeNumber, generation: Option<u32>) -> Outcome<Held<'a>> {
        let file = volume.open(ino, generation)?;
        Ok(Held { volume, ino, file })
    }

    /// Hold the inode that has the number now, known or not; `ESTALE` when there is none.
    pub(crate) fn of_number(volume: &'a Volume, ino: InodeNumber) -> Outcome<Held<'a>> {
        Held::open(volume, ino, None)
    }

    /// Keep it open beyond this request; the caller must then call `Volume::close`.
    pub(crate) fn keep(self) -> FileReference {
        let file = self.file;
        std::mem::forget(self);
        file
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.volume.close(self.ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(ino: u64, generation: u32) -> Attributes {
        Attributes {
            ino: InodeNumber(ino),
            generation,
            mode: libc::S_IFREG,
            nlink: 1,
            ..Attributes::NONE
        }
    }

    #[test]
    fn a_number_is_known_until_forgotten_as_often_as_looked_up() {
        let known = KnownInodes::default();
        known
            .add_lookup_within(&attributes(7, 1), REST, || Ok(()), || {})
            .unwrap();
        known
            .add_lookup_within(&attributes(7, 1), REST, || Ok(()), || {})
            .unwrap();
        known.forgotten(InodeNumber(7), 1, || {});
        assert_eq!(known.generation(InodeNumber(7)), Ok(Some(1)));
        known.forgotten(InodeNumber(7), 1, || {});
        assert_eq!(known.generation(InodeNumber(7)), Err(Errno(libc::ESTALE)));
        assert_eq!(known.remembers(InodeNumber(7)), None);
    }

    #[test]
    fn a_reused_number_means_its_newest_generation() {
        let known = KnownInodes::default();
        known
            .add_lookup_within(&attributes(9, 1), REST, || Ok(()), || {})
            .unwrap();
        known
            .add_lookup_within(&attributes(9, 2), REST, || Ok(()), || {})
            .unwrap();
        known.forgotten(InodeNumber(9), 1, || {});
        assert_eq!(known.generation(InodeNumber(9)), Ok(Some(2)));
    }

    #[test]
    fn a_number_means_its_earlier_life_while_the_kernel_may() {
        let known = KnownInodes::default();
        known
            .add_lookup_within(&attributes(7, 1), REST, || Ok(()), || {})
            .unwrap();
        std::thread::scope(|scope| {
            let answering = scope.spawn(|| {
                known.add_lookup_within(
                    &attributes(7, 2),
                    Duration::from_secs(600),
                    || Ok(()),
                    || {},
                )
            });
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(known.generation(InodeNumber(7)), Ok(Some(1)));
            known.forgotten(InodeNumber(7), 1, || {});
            answering.join().unwrap().unwrap();
        });
        assert_eq!(known.generation(InodeNumber(7)), Ok(Some(2)));
    }

    /// A reused number is answered with its new generation only after a rest.
    #[test]
    fn earlier_requests_are_let_pass() {
        const { assert!(!REST.is_zero()) };
    }

    #[test]
    fn the_root_is_always_known_and_other_numbers_are_stale() {
        let known = KnownInodes::default();
        assert_eq!(known.generation(InodeNumber::ROOT), Ok(None));
        assert_eq!(known.generation(InodeNumber(5)), Err(Errno(libc::ESTALE)));
    }

    #[test]
    fn an_inode_that_is_waited_for_holds_up_no_other_number() {
        let known = KnownInodes::default();
        let others = InodeNumber(7 + SHARDS as u64);
        known
            .add_lookup_within(&attributes(others.0, 3), REST, || Ok(()), || {})
            .unwrap();
        let (done, waited_for) = std::sync::mpsc::channel();
        let (known, done) = (&known, &done);
        std::thread::scope(|scope| {
            let looking = || {
                scope.spawn(move || {
                    let _ = done.clone().send(known.generation(others));
                });
                waited_for.recv_timeout(Duration::from_secs(60))
            };
            let mut seen = None;
            let remember = || {
                seen = Some(looking());
                Ok(())
            };
            known
                .add_lookup_within(&attributes(7, 1), REST, remember, || {})
                .unwrap();
            assert_eq!(seen, Some(Ok(Ok(Some(3)))));
        });
    }

    #[test]
    fn a_number_stays_known_during_a_lookup() {
        let known = KnownInodes::default();
        let ino = InodeNumber(7);
        known
            .add_lookup_within(&attributes(7, 1), REST, || Ok(()), || {})
            .unwrap();
        known.begin_lookup(&attributes(7, 1));
        known.forgotten(ino, 1, || panic!("a lookup is under way"));
        known.end_lookup(&attributes(7, 1), true, || panic!("it was answered"));
        assert_eq!(known.generation(ino), Ok(Some(1)));
        let mut forgotten = false;
        known.forgotten(ino, 1, || {});
        let stale = || Err(Errno(libc::ESTALE));
        let outcome = known.add_lookup_within(&attributes(7, 2), REST, stale, || forgotten = true);
        assert_eq!(outcome.map(drop), stale());
        assert!(forgotten);
        assert_eq!(known.remembers(ino), None);
    }
}
