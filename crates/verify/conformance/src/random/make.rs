//! How programs are made from a number.

use super::program::{
    Access, Action, Actors, FILES, Flags, MAPS, Memory, PAGE, Program, SLOTS, Step,
};
use egeria_stats::rng::Rng;
use libc::{
    FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR,
    O_TRUNC, O_WRONLY, PROT_READ, PROT_WRITE, SEEK_CUR, SEEK_END, SEEK_SET,
};

/// The same program for the same number.
pub fn from_seed(seed: u64) -> Program {
    Maker::new(seed).program()
}

/// A program in the making.
struct Maker {
    rng: Rng,
    steps: Vec<Step>,
    actors: Actors,
}

const OPENINGS: [i32; 8] = [
    O_RDWR,
    O_RDWR | O_CREAT,
    O_RDWR | O_CREAT,
    O_RDWR | O_APPEND | O_CREAT,
    O_RDWR | O_CREAT | O_TRUNC,
    O_WRONLY | O_CREAT,
    O_RDWR | O_CREAT | O_EXCL,
    O_RDONLY,
];

impl Maker {
    /// Nothing yet; everything follows from the number.
    fn new(seed: u64) -> Maker {
        let mut rng = Rng::of(&[seed]);
        let actors = match rng.index(4) {
            0 | 1 => Actors::Threads,
            2 => Actors::ProcessesFrom(0),
            _ => Actors::ProcessesFrom(1 + rng.index(8)),
        };
        Maker {
            rng,
            steps: Vec::new(),
            actors,
        }
    }

    fn program(mut self) -> Program {
        let seed_of_data = self.rng.next_u64();
        let count = 6 + self.rng.index(30);
        self.begin();
        while self.steps.len() < count {
            match self.rng.index(6) {
                0 => self.write_from_a_mapping(),
                1 => self.grow_behind_a_mapping(),
                _ => self.single(),
            }
        }
        self.look_at_everything();
        Program {
            seed: seed_of_data,
            actors: self.actors,
            steps: self.steps,
        }
    }

    fn actor(&mut self) -> usize {
        match self.actors {
            Actors::ProcessesFrom(step) if self.steps.len() < step => 0,
            _ => self.rng.index(2),
        }
    }

    fn push(&mut self, actor: usize, action: Action) {
        self.steps.push(Step { actor, action });
    }

    fn slot(&mut self) -> usize {
        self.rng.index(SLOTS)
    }

    fn map(&mut self) -> usize {
        self.rng.index(MAPS)
    }

    fn file(&mut self) -> usize {
        // One of them is everybody's favourite.
        self.rng.index(FILES + 2).saturating_sub(2)
    }

    /// An offset: near the edge of a page, as often as not.
    fn place(&mut self) -> usize {
        let page = self.rng.index(20);
        match self.rng.index(8) {
            0..4 => page * PAGE,
            4 => (page * PAGE).saturating_sub(1),
            5 => page * PAGE + 1,
            6 => page * PAGE + PAGE / 2,
            _ => self.rng.index(20 * PAGE),
        }
    }

    fn bytes(&mut self) -> usize {
        match self.rng.index(12) {
            0 => 1,
            1 => 8,
            2 => 100 + self.rng.index(1_000),
            3..7 => PAGE,
            7 => 2 * PAGE + 1,
            8 => self.rng.index(3 * PAGE),
            9 => 5 * PAGE,
            10 => self.rng.index(12 * PAGE),
            _ => 0,
        }
    }

    fn memory(&mut self) -> Memory {
        match self.rng.index(3) {
            0 => Memory::Mapped(self.map(), self.place() / 2),
            _ => Memory::Own,
        }
    }

    fn access(&mut self) -> Access {
        let all = [PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE];
        Access(all[self.rng.index(3)])
    }

    /// Two files with something in them, and some descriptors.
    fn begin(&mut self) {
        for file in 0..2 {
            let actor = self.actor();
            let (slot, bytes) = (self.slot(), self.bytes() + self.bytes());
            let flags = Flags(O_RDWR | O_CREAT);
            self.push(actor, Action::Open { slot, file, flags });
            let from = Memory::Own;
            self.push(actor, Action::Write { slot, bytes, from });
            if self.rng.index(3) > 0 {
                self.push(actor, Action::Close { slot });
            }
        }
    }

    fn open(&mut self) -> Action {
        Action::Open {
            slot: self.slot(),
            file: self.file(),
            flags: Flags(OPENINGS[self.rng.index(OPENINGS.len())]),
        }
    }

    fn new_map(&mut self, slot: usize) -> Action {
        Action::Map {
            map: self.map(),
            slot,
            page: self.rng.index(4) * self.rng.index(4),
            pages: 1 + self.rng.index(16),
            access: self.access(),
            shared: self.rng.index(3) > 0,
        }
    }

    /// Open and map a file, and write to it from the mapping before anything else.
    fn write_from_a_mapping(&mut self) {
        let (actor, slot, map) = (self.actor(), self.slot(), self.map());
        let append = self.rng.index(3) == 0;
        let flags = Flags(O_RDWR | if append { O_APPEND } else { 0 });
        let file = self.file();
        self.push(actor, Action::Open { slot, file, flags });
        let pages = 1 + self.rng.index(16);
        let (access, shared) = (self.access(), self.rng.index(3) > 0);
        self.push(
            actor,
            Action::Map {
                map,
                slot,
                page: 0,
                pages,
                access,
                shared,
            },
        );
        let from = Memory::Mapped(map, self.place());
        let (at, bytes) = (self.place(), self.bytes());
        let write = match self.rng.index(3) {
            0 => Action::Write { slot, bytes, from },
            1 => Action::WriteAt {
                slot,
                at,
                bytes,
                from,
            },
            _ => Action::WriteParts { slot, bytes, from },
        };
        self.push(actor, write);
    }

    /// Map behind the end of a file, let somebody write there, then touch it.
    fn grow_behind_a_mapping(&mut self) {
        let (actor, slot, map) = (self.actor(), self.slot(), self.map());
        let (file, flags) = (self.file(), Flags(O_RDWR | O_CREAT));
        self.push(actor, Action::Open { slot, file, flags });
        let (access, shared) = (self.access(), self.rng.index(3) > 0);
        self.push(
            actor,
            Action::Map {
                map,
                slot,
                page: 0,
                pages: 16,
                access,
                shared,
            },
        );
        let (grower, from) = (self.actor(), Memory::Own);
        let (at, bytes) = (self.place(), self.bytes());
        let own = if grower == actor { slot } else { self.slot() };
        if own != slot {
            self.push(
                grower,
                Action::Open {
                    slot: own,
                    file,
                    flags,
                },
            );
        }
        self.push(
            grower,
            Action::WriteAt {
                slot: own,
                at,
                bytes,
                from,
            },
        );
        self.push(actor, Action::Load { map, at, bytes });
    }

    fn single(&mut self) {
        let (actor, slot, map) = (self.actor(), self.slot(), self.map());
        let (at, bytes) = (self.place(), self.bytes());
        let action = match self.rng.index(40) {
            0..4 => self.open(),
            4 => Action::Close { slot },
            5..9 => self.new_map(slot),
            9 => Action::Unmap { map },
            10 => Action::SyncMap { map },
            11..15 => Action::Load { map, at, bytes },
            15..20 => Action::Store { map, at, bytes },
            20..33 => self.transfer(slot, at, bytes),
            33..37 => self.resize(slot, at, bytes),
            _ => self.names(),
        };
        self.push(actor, action);
    }

    fn transfer(&mut self, slot: usize, at: usize, bytes: usize) -> Action {
        let (memory, other, to_at) = (self.memory(), self.slot(), self.place());
        match self.rng.index(13) {
            0 | 1 => Action::Write {
                slot,
                bytes,
                from: memory,
            },
            2..5 => Action::WriteAt {
                slot,
                at,
                bytes,
                from: memory,
            },
            5 => Action::WriteParts {
                slot,
                bytes,
                from: memory,
            },
            6 => Action::Read {
                slot,
                bytes,
                to: memory,
            },
            7 | 8 => Action::ReadAt {
                slot,
                at,
                bytes,
                to: memory,
            },
            9 => Action::CopyRange {
                from: slot,
                at,
                to: other,
                to_at,
                bytes,
            },
            10 => Action::SendFile {
                from: slot,
                at,
                to: other,
                bytes,
            },
            11 => {
                let whence = [SEEK_SET, SEEK_CUR, SEEK_END][self.rng.index(3)];
                Action::Seek { slot, at, whence }
            }
            _ => Action::Content { file: self.file() },
        }
    }

    fn resize(&mut self, slot: usize, at: usize, bytes: usize) -> Action {
        match self.rng.index(5) {
            0 => Action::Truncate {
                file: self.file(),
                size: at,
            },
            1 | 2 => Action::TruncateOpen { slot, size: at },
            3 => {
                let punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
                let mode = [0, FALLOC_FL_KEEP_SIZE, punch][self.rng.index(3)];
                Action::Allocate {
                    slot,
                    mode,
                    at,
                    bytes,
                }
            }
            _ => Action::Sync {
                slot,
                data_alone: bytes.is_multiple_of(2),
            },
        }
    }

    fn names(&mut self) -> Action {
        let (from, to) = (self.rng.index(FILES), self.rng.index(FILES));
        match self.rng.index(7) {
            0 | 1 => Action::Rename { from, to },
            2 => Action::Link { from, to },
            3 => Action::Unlink { file: from },
            4 => Action::List,
            5 => Action::Size { file: from },
            _ => Action::SizeOpen { slot: self.slot() },
        }
    }

    /// What each of the two sees in the end.
    fn look_at_everything(&mut self) {
        self.push(0, Action::List);
        for file in 0..FILES {
            self.push(0, Action::ContentPastLibraries { file });
            self.push(1, Action::Content { file });
            self.push(0, Action::Size { file });
        }
        for map in 0..MAPS {
            for actor in 0..2 {
                self.push(
                    actor,
                    Action::Load {
                        map,
                        at: 0,
                        bytes: 16 * PAGE,
                    },
                );
            }
        }
    }
}
