//! Drawing a request: its kind, fields that may make sense to this mount, and damage.

use super::super::values::HostileValues;
use super::kernel::{BATCH_FORGET, FORGET, Kernel, Request};
use egeria_stats::rng::Rng;

/// Chance, and what the kernel knows.
pub(super) struct Draw<'a> {
    rng: &'a mut Rng,
    kernel: &'a Kernel,
    body: Vec<u8>,
}

/// Opcodes that end the mount are the kernel's alone.
const DESTROY: u32 = 38;
const INIT: u32 = 26;
/// Opcodes whose lengths the kernel vouches for, and the FUSE library believes: FORGET, READ, WRITE, SETXATTR,
/// READDIR, IOCTL, BATCH_FORGET, READDIRPLUS.
const VOUCHED: [u32; 8] = [FORGET, 15, 16, 21, 28, 39, BATCH_FORGET, 44];
/// Most bytes the kernel asks for at once here.
const MAX_READ: u64 = 128 << 10;
/// As `time_t`.
const FIRST_SECOND: u64 = 1 << 63;
/// `ioctl` of the control call.
const CONTROL: u32 = egeria_engine::control::CONTROL_REQUEST;

impl<'a> Draw<'a> {
    pub(super) fn new(rng: &'a mut Rng, kernel: &'a Kernel) -> Draw<'a> {
        Draw {
            rng,
            kernel,
            body: Vec::new(),
        }
    }

    pub(super) fn request(mut self) -> Request {
        const COMMON: [u32; 24] = [
            1, 1, 1, 3, 4, 9, 10, 11, 12, 13, 14, 15, 16, 16, 18, 21, 22, 27, 28, 35, 35, 43, 45,
            47,
        ];
        let opcode = match self.rng.below(8) {
            0 => self.rng.below(56) as u32,
            1 if self.rng.one_in(20) => self.rng.boundary_value() as u32,
            _ => COMMON[self.rng.index(COMMON.len())],
        };
        let opcode = if opcode == DESTROY { INIT } else { opcode };
        self.fill(opcode);
        let node = self.node();
        let owner = match self.rng.below(3) {
            0 => (0, 0),
            1 => (1000, 1000),
            _ => (
                self.rng.boundary_value() as u32,
                self.rng.boundary_value() as u32,
            ),
        };
        if self.rng.one_in(6) && !VOUCHED.contains(&opcode) {
            self.damage();
        }
        Request {
            opcode,
            node,
            owner,
            body: self.body,
        }
    }

    fn fill(&mut self, opcode: u32) {
        let _ = match opcode {
            1 | 5 | 10 | 11 => self.name(),
            FORGET => self.count(),
            3 => self.words(&[0, 0]).handle(),
            4 => self.set_attributes(),
            6 => self.names(),
            8 => self.modes(3).word(0).name(),
            9 => self.modes(2).name(),
            12 => self.put(Self::node).names(),
            13 => self.put(Self::node).name(),
            14 | 27 => self.flags().word(0),
            15 | 28 | 44 => self.read(),
            16 => self.write(),
            18 | 29 => self.handle().flags().word(0).count(),
            20 | 30 => self.handle().word(1),
            21 => self.set_xattr(),
            22 => self.small().word(0).xattr_name(),
            23 => self.small().word(0),
            24 => self.xattr_name(),
            25 => self.handle().words(&[0, 0]).count(),
            31..=33 => self.handle().long(4).words(&[0, 0, 0, 0]),
            35 => self.flags().modes(2).word(0).name(),
            39 => self.control(),
            BATCH_FORGET => self.forgets(),
            43 => self.allocate(),
            45 => self.exchange(),
            46 => self.seek(),
            47 => self.copy(),
            _ => {
                let count = 1 + self.rng.below(6);
                self.long(count)
            }
        };
    }

    /// Flip, cut or lengthen.
    fn damage(&mut self) {
        let length = self.body.len();
        match self.rng.below(4) {
            0 if length > 0 => {
                let place = self.rng.index(length);
                self.body[place] = self.rng.boundary_value() as u8;
            }
            1 if length > 0 => {
                let place = self.rng.index(length);
                self.body[place] ^= 1 << self.rng.below(8);
            }
            2 => self.body.truncate(self.rng.index(length + 1)),
            _ => {
                let more = self.rng.index(300);
                let byte = self.rng.boundary_value() as u8;
                self.body.resize(length + more, byte);
            }
        }
    }

    fn node(&mut self) -> u64 {
        match self.rng.below(10) {
            0 => self.rng.boundary_value(),
            1 => self.rng.below(400),
            2..=4 => 1,
            _ => self.rng.choose(&self.kernel.nodes).copied().unwrap_or(1),
        }
    }

    fn offset(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => self.rng.boundary_value(),
            1 => self.rng.below(16) * 4096,
            _ => self.rng.below(50_000),
        }
    }

    fn put(&mut self, value: fn(&mut Self) -> u64) -> &mut Self {
        let value = value(self);
        self.body.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.body.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn words(&mut self, values: &[u32]) -> &mut Self {
        for value in values {
            self.word(*value);
        }
        self
    }

    /// So many words of 64 bits, of anything.
    fn long(&mut self, count: u64) -> &mut Self {
        for _ in 0..count {
            self.put(|draw| draw.rng.boundary_value());
        }
        self
    }

    fn count(&mut self) -> &mut Self {
        self.put(|draw| {
            if draw.rng.one_in(3) {
                draw.rng.boundary_value()
            } else {
                1
            }
        })
    }

    fn handle(&mut self) -> &mut Self {
        self.put(|draw| {
            if draw.rng.one_in(8) {
                draw.rng.boundary_value()
            } else {
                draw.rng.choose(&draw.kernel.handles).copied().unwrap_or(0)
            }
        });
        self
    }

    /// A size in 32 bits.
    fn small(&mut self) -> &mut Self {
        let value = match self.rng.below(4) {
            0 => self.rng.boundary_value() as u32,
            1 => 0,
            _ => self.rng.below(9000) as u32,
        };
        self.word(value)
    }

    fn flags(&mut self) -> &mut Self {
        const FLAGS: [i32; 7] = [
            0,
            libc::O_RDWR,
            libc::O_WRONLY | libc::O_APPEND,
            libc::O_TRUNC,
            libc::O_EXCL,
            libc::O_DIRECT,
            libc::O_DIRECTORY,
        ];
        let flags = if self.rng.one_in(8) {
            self.rng.boundary_value() as u32
        } else {
            FLAGS[self.rng.index(7)] as u32
        };
        self.word(flags)
    }

    fn modes(&mut self, count: usize) -> &mut Self {
        const KINDS: [u32; 6] = [
            libc::S_IFREG,
            libc::S_IFIFO,
            libc::S_IFSOCK,
            libc::S_IFCHR,
            libc::S_IFDIR,
            0,
        ];
        for _ in 0..count {
            let mode = if self.rng.one_in(8) {
                self.rng.boundary_value() as u32
            } else {
                KINDS[self.rng.index(6)] | self.rng.below(0o10000) as u32
            };
            self.word(mode);
        }
        self
    }

    fn name(&mut self) -> &mut Self {
        const KNOWN: [&str; 16] = [
            "d", "e", "small", "big", "twin", "symlink", "empty", "sub", "x", "y", "f", "a", "b",
            ".", "..", "a/b",
        ];
        let name = match self.rng.below(6) {
            0 => vec![b'n'; self.rng.index(300)],
            1 => format!("new-{}", self.rng.below(20)).into_bytes(),
            2 => vec![self.rng.boundary_value() as u8 | 1; self.rng.index(5)],
            _ => KNOWN[self.rng.index(KNOWN.len())].into(),
        };
        self.body.extend(name);
        self.body.push(0);
        self
    }

    fn names(&mut self) -> &mut Self {
        self.name();
        self.name();
        self
    }

    fn xattr_name(&mut self) -> &mut Self {
        const NAMES: [&str; 8] = [
            "user.a",
            "user.old",
            "trusted.x",
            "security.capability",
            "system.posix_acl_access",
            "user.",
            "",
            "nonsense",
        ];
        let name = NAMES[self.rng.index(NAMES.len())];
        self.body.extend_from_slice(name.as_bytes());
        if self.rng.one_in(6) {
            let length = self.body.len() + self.rng.index(300);
            self.body.resize(length, b'x');
        }
        self.body.push(0);
        self
    }

    fn read(&mut self) -> &mut Self {
        let bytes = self.rng.below(MAX_READ + 1) as u32;
        self.handle().put(Self::offset).word(bytes).word(0);
        self.long(1).flags().word(0);
        self
    }

    fn write(&mut self) -> &mut Self {
        let data = self.rng.index(9000);
        self.handle().put(Self::offset);
        let flags = if self.rng.one_in(8) {
            self.rng.boundary_value() as u32
        } else {
            self.rng.below(8) as u32
        };
        self.words(&[data as u32, flags]).long(1).flags().word(0);
        let length = self.body.len() + data;
        self.body.resize(length, 0xd5);
        self
    }

    fn set_attributes(&mut self) -> &mut Self {
        let valid = self.rng.boundary_value() as u32 & self.rng.next_u64() as u32;
        self.words(&[valid, 0]).handle();
        self.put(Self::offset).long(1);
        for _ in 0..3 {
            // The first second there is has no nanoseconds behind it: the kernel sees to that.
            self.put(
                |draw| match draw.rng.boundary_value() ^ (draw.rng.below(2) << 63) {
                    FIRST_SECOND => FIRST_SECOND + 1,
                    seconds => seconds,
                },
            );
        }
        // The kernel vouches for nanoseconds.
        for _ in 0..3 {
            let nanoseconds = self.rng.below(1_000_000_000) as u32;
            self.word(nanoseconds);
        }
        self.modes(1).word(0);
        let owners = [
            self.rng.boundary_value() as u32,
            self.rng.boundary_value() as u32,
        ];
        self.words(&owners).word(0);
        self
    }

    fn set_xattr(&mut self) -> &mut Self {
        let value = self.rng.index(4000);
        let flags = self.rng.below(4) as u32;
        self.words(&[value as u32, flags]).xattr_name();
        let length = self.body.len() + value;
        self.body.resize(length, 0xa7);
        self
    }

    fn control(&mut self) -> &mut Self {
        let command = if self.rng.one_in(2) {
            CONTROL
        } else {
            self.rng.boundary_value() as u32
        };
        let flags = self.rng.below(8) as u32;
        self.handle().words(&[flags, command]).long(1);
        let given = self.rng.index(64);
        self.word(given as u32).small();
        let length = self.body.len() + given;
        self.body.resize(length, 0);
        self
    }

    fn forgets(&mut self) -> &mut Self {
        let count = self.rng.below(6);
        self.words(&[count as u32, 0]);
        for _ in 0..count {
            self.put(Self::node).count();
        }
        self
    }

    fn allocate(&mut self) -> &mut Self {
        const MODES: [u32; 7] = [0, 1, 3, 16, 17, 8, 32];
        self.handle().put(Self::offset).put(Self::offset);
        let mode = if self.rng.one_in(8) {
            self.rng.boundary_value() as u32
        } else {
            MODES[self.rng.index(7)]
        };
        self.words(&[mode, 0]);
        self
    }

    fn exchange(&mut self) -> &mut Self {
        let flags = self.rng.below(8) as u32;
        self.put(Self::node).words(&[flags, 0]).names();
        self
    }

    fn seek(&mut self) -> &mut Self {
        let whence = self.rng.below(8) as u32;
        self.handle().put(Self::offset).words(&[whence, 0]);
        self
    }

    fn copy(&mut self) -> &mut Self {
        self.handle().put(Self::offset).put(Self::node);
        self.handle().put(Self::offset).put(Self::offset);
        self.put(|draw| draw.rng.below(2));
        self
    }
}
