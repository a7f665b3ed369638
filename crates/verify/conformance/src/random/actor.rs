//! One of the two who do the steps of a program: its descriptors and mappings, and what calls answer.

use super::names::{facts, name, of_names};
use super::outcome::{Outcome, done, hash, nothing_there, outcome, touched};
use super::program::{Action, MAPS, Memory, PAGE, SLOTS};
use super::touch;
use crate::call::{self, Answer, Fd};
use crate::mapping::Map;
use libc::{MAP_PRIVATE, MAP_SHARED, iovec};
use std::ptr;

/// A mapping and a descriptor of its file, for looking only.
pub(super) struct Mapped {
    pub map: Map,
    pub file: Option<Fd>,
    pub begins_at: usize,
    pub access: i32,
}

/// A mistake that is made on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Some writes are answered, and not done.
    LostWrites,
    /// Some calls never return.
    Hang,
}

/// Descriptors and mappings of a process.
#[derive(Default)]
pub struct State {
    pub(super) slots: [Option<Fd>; SLOTS],
    pub(super) maps: [Option<Mapped>; MAPS],
    /// Whether sizes are looked at, which those who are tested must not do by the way.
    pub looks: bool,
    /// What goes wrong here.
    pub mistake: Option<Mistake>,
}

/// Data that no other step writes.
fn data(seed: u64, bytes: usize) -> Vec<u8> {
    let word = |at: u64| (seed ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 0x0101_0101_0101_0101;
    let words = (0..bytes.div_ceil(8) as u64).flat_map(|at| word(at).to_ne_bytes());
    words.take(bytes).collect()
}

impl State {
    fn fd(&self, slot: usize) -> Option<i32> {
        self.slots[slot].as_ref().map(|fd| fd.0)
    }

    /// Do it, at most so many bytes of it, with data of its own.
    pub fn perform(&mut self, action: Action, limit: usize, seed: u64) -> Outcome {
        self.attempt(action, limit, seed)
            .unwrap_or_else(nothing_there)
    }

    fn attempt(&mut self, action: Action, limit: usize, seed: u64) -> Option<Outcome> {
        if let Some(mistake) = self.mistake
            && let Some(outcome) = self.go_wrong(mistake, action, limit)
        {
            return Some(outcome);
        }
        Some(match action {
            Action::Open { slot, file, flags } => self.open(slot, file, flags.0),
            Action::Close { slot } => done(self.slots[slot].take()?.close()),
            Action::Write { slot, bytes, from } => {
                let fd = self.fd(slot)?;
                self.send(from, bytes.min(limit), seed, |address, bytes| {
                    call::transfer_raw(true, fd, address, bytes)
                })?
            }
            Action::WriteAt {
                slot,
                at,
                bytes,
                from,
            } => {
                let fd = self.fd(slot)?;
                self.send(from, bytes.min(limit), seed, |address, bytes| {
                    call::transfer_raw_at(true, fd, address, bytes, at as i64)
                })?
            }
            Action::WriteParts { slot, bytes, from } => {
                let fd = self.fd(slot)?;
                self.send(from, bytes.min(limit), seed, |address, bytes| {
                    let parts = halves(address, bytes);
                    call::vector_raw(true, fd, &parts, 2)
                })?
            }
            Action::Read { slot, bytes, to } => {
                let fd = self.fd(slot)?;
                self.receive(to, bytes.min(limit), |address, bytes| {
                    call::transfer_raw(false, fd, address, bytes)
                })?
            }
            Action::ReadAt {
                slot,
                at,
                bytes,
                to,
            } => {
                let fd = self.fd(slot)?;
                self.receive(to, bytes.min(limit), |address, bytes| {
                    call::transfer_raw_at(false, fd, address, bytes, at as i64)
                })?
            }
            Action::Map { .. } | Action::Unmap { .. } | Action::SyncMap { .. } => {
                self.mapping(action)?
            }
            Action::Load { map, at, bytes } => self.load(map, at, bytes)?,
            Action::Store { map, at, bytes } => self.store(map, at, bytes.min(limit), seed)?,
            other => self.of_files(other, limit)?,
        })
    }

    fn go_wrong(&self, mistake: Mistake, action: Action, limit: usize) -> Option<Outcome> {
        match (mistake, action) {
            (
                Mistake::LostWrites,
                Action::WriteAt {
                    slot, at, bytes, ..
                },
            ) if at >= 8 * PAGE => {
                self.fd(slot)?;
                Some(outcome(Ok(bytes.min(limit) as i64)))
            }
            (Mistake::Hang, Action::SyncMap { map }) if self.maps[map].is_some() => loop {
                std::thread::park();
            },
            _ => None,
        }
    }

    fn of_files(&mut self, action: Action, limit: usize) -> Option<Outcome> {
        Some(match action {
            Action::Seek { slot, at, whence } => {
                outcome(call::lseek(self.fd(slot)?, at as i64, whence))
            }
            Action::TruncateOpen { slot, size } => {
                done(call::ftruncate(self.fd(slot)?, size as i64))
            }
            Action::Allocate {
                slot,
                mode,
                at,
                bytes,
            } => done(call::fallocate(
                self.fd(slot)?,
                mode,
                at as i64,
                bytes as i64,
            )),
            Action::Sync {
                slot,
                data_alone: true,
            } => done(call::with_fd(libc::fdatasync, self.fd(slot)?)),
            Action::Sync { slot, .. } => done(call::with_fd(libc::fsync, self.fd(slot)?)),
            Action::CopyRange {
                from,
                at,
                to,
                to_at,
                bytes,
            } => {
                let (from, to) = (self.fd(from)?, self.fd(to)?);
                let (mut at, mut to_at) = (at as i64, to_at as i64);
                let bytes = bytes.min(limit);
                outcome(call::copy_file_range(
                    (from, Some(&mut at)),
                    (to, Some(&mut to_at)),
                    bytes,
                    0,
                ))
            }
            Action::SendFile {
                from,
                at,
                to,
                bytes,
            } => {
                let (from, to) = (self.fd(from)?, self.fd(to)?);
                let bytes = bytes.min(limit);
                outcome(call::sendfile(to, from, Some(&mut (at as i64)), bytes))
            }
            Action::SizeOpen { slot } => facts(call::fstat(self.fd(slot)?)),
            other => of_names(other),
        })
    }

    fn open(&mut self, slot: usize, file: usize, flags: i32) -> Outcome {
        // The old one goes first, as it does when programs use a variable again.
        self.slots[slot] = None;
        match call::open(name(file), flags, 0o644) {
            Ok(fd) => {
                self.slots[slot] = Some(fd);
                Outcome::default()
            }
            Err(error) => outcome(Err(error)),
        }
    }

    fn mapping(&mut self, action: Action) -> Option<Outcome> {
        Some(match action {
            Action::Map {
                map,
                slot,
                page,
                pages,
                access,
                shared,
            } => {
                let fd = self.fd(slot)?;
                self.maps[map] = None;
                let kind = if shared { MAP_SHARED } else { MAP_PRIVATE };
                let begins_at = page * PAGE;
                match Map::make(fd, pages * PAGE, access.0, kind, begins_at as i64) {
                    Err(error) => outcome(Err(error)),
                    Ok(made) => {
                        self.maps[map] = Some(Mapped {
                            map: made,
                            file: self.looks.then(|| call::dup(fd).expect("a descriptor")),
                            begins_at,
                            access: access.0,
                        });
                        Outcome::default()
                    }
                }
            }
            Action::Unmap { map } => {
                self.maps[map].take()?;
                Outcome::default()
            }
            Action::SyncMap { map } => done(self.maps[map].as_ref()?.map.sync()),
            _ => return None,
        })
    }

    /// The mapping, and what of `at..at + bytes` is in it.
    fn place(&self, map: usize, at: usize, bytes: usize) -> Option<(&Map, usize, usize)> {
        let map = &self.maps[map].as_ref()?.map;
        let at = at.min(map.bytes());
        Some((map, at, bytes.min(map.bytes() - at)))
    }

    fn load(&self, map: usize, at: usize, bytes: usize) -> Option<Outcome> {
        let (map, at, bytes) = self.place(map, at, bytes)?;
        let mut data = vec![0; bytes];
        let (count, signal) = touch::copy(map, at, &mut data, false);
        Some(touched(count, signal, hash(&data[..count])))
    }

    fn store(&self, map: usize, at: usize, bytes: usize, seed: u64) -> Option<Outcome> {
        let (map, at, bytes) = self.place(map, at, bytes)?;
        let (count, signal) = touch::copy(map, at, &mut data(seed, bytes), true);
        Some(touched(count, signal, 0))
    }

    fn send(
        &self,
        from: Memory,
        bytes: usize,
        seed: u64,
        write: impl FnOnce(usize, usize) -> Answer,
    ) -> Option<Outcome> {
        Some(outcome(match from {
            Memory::Own => {
                let data = data(seed, bytes);
                write(data.as_ptr().expose_provenance(), bytes)
            }
            Memory::Mapped(map, at) => {
                let (map, at, bytes) = self.place(map, at, bytes)?;
                write(map.address(at), bytes)
            }
        }))
    }

    fn receive(
        &self,
        to: Memory,
        bytes: usize,
        read: impl FnOnce(usize, usize) -> Answer,
    ) -> Option<Outcome> {
        match to {
            Memory::Own => {
                let mut data = vec![0u8; bytes];
                let mut found = outcome(read(data.as_mut_ptr().expose_provenance(), bytes));
                found.hash = hash(&data);
                Some(found)
            }
            Memory::Mapped(map, at) => {
                let (map, at, bytes) = self.place(map, at, bytes)?;
                Some(outcome(read(map.address(at), bytes)))
            }
        }
    }
}

fn halves(address: usize, bytes: usize) -> [iovec; 2] {
    let part = |at: usize, bytes: usize| iovec {
        iov_base: ptr::with_exposed_provenance_mut(address + at),
        iov_len: bytes,
    };
    [part(0, bytes / 2), part(bytes / 2, bytes - bytes / 2)]
}
