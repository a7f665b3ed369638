//! Machine code that closes or replaces descriptors by system call instructions of its own.
//!
//! The two bytes of the instruction also occur inside others. So code is decoded from the start of its function on, which the
//! tables for unwinding tell, and the number of the call is what was last put into `eax`.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use memchr::memmem;

const SYSCALL: [u8; 2] = [0x0f, 0x05];
/// Functions are decoded from here on at most: the decoder falls into step within a few instructions.
const MAX_BYTES_BEFORE: usize = 1 << 14;
/// Where no table tells starts: decoded from here on.
const GUESSED_BYTES_BEFORE: usize = 64;
/// System calls after which a number means nothing, or another file.
const CLOSING: [i64; 4] = [
    libc::SYS_close,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_close_range,
];

/// Executable bytes of an object.
pub struct Code<'m> {
    pub bytes: &'m [u8],
    pub starts: Option<&'m Starts<'m>>,
}

/// What is known of two bytes that may be a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Site {
    /// They are in the middle of another instruction.
    NoCall,
    /// A call with this number.
    Call(u64),
    /// A call whose number is not plain.
    AnyCall,
}

impl Code<'_> {
    /// Whether there is a system call that closes or replaces a descriptor, or may.
    pub fn closes_descriptors(&self) -> bool {
        memmem::find_iter(self.bytes, &SYSCALL).any(|at| match (self.site(at), self.starts) {
            (Site::Call(number), _) => CLOSING.contains(&(number as i64)),
            (Site::AnyCall, Some(_)) => true,
            // Without the start of the function, it is too often the middle of another instruction.
            (Site::AnyCall, None) | (Site::NoCall, _) => false,
        })
    }

    fn site(&self, at: usize) -> Site {
        let address = self.bytes.as_ptr() as usize;
        let start = self.starts.and_then(|starts| starts.before(address + at));
        let guessed = at.saturating_sub(GUESSED_BYTES_BEFORE);
        let start = start.map_or(guessed, |start| start.saturating_sub(address));
        let start = start.max(at.saturating_sub(MAX_BYTES_BEFORE)).min(at);
        let mut decoder = Decoder::new(64, &self.bytes[start..], DecoderOptions::NONE);
        let mut values = Values::default();
        while start + decoder.position() < at {
            values.step(&decoder.decode());
        }
        match (start + decoder.position() == at, values.eax()) {
            (false, _) => Site::NoCall,
            (true, Some(number)) => Site::Call(number),
            (true, None) => Site::AnyCall,
        }
    }
}

/// What code is known to have put into registers, and on the stack right before.
#[derive(Default)]
struct Values {
    registers: [Option<u64>; 16],
    pushed: Option<u64>,
}

/// Registers that a call leaves as they are.
const KEPT: [Register; 7] = [
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// The place of a general register in [`Values`].
fn place(register: Register) -> Option<usize> {
    (register.full_register() as usize)
        .checked_sub(Register::RAX as usize)
        .filter(|place| *place < 16)
}

impl Values {
    fn eax(&self) -> Option<u64> {
        self.registers[0]
    }

    fn step(&mut self, instruction: &Instruction) {
        use {Mnemonic::*, OpKind};
        let operand = |index| match instruction.op_kind(index) {
            OpKind::Register => {
                place(instruction.op_register(index)).and_then(|at| self.registers[at])
            }
            OpKind::Memory => None,
            _ => instruction.try_immediate(index).ok(),
        };
        let target = (instruction.op0_kind() == OpKind::Register)
            .then(|| place(instruction.op0_register()))
            .flatten();
        let is_same = instruction.op1_kind() == OpKind::Register
            && instruction.op1_register() == instruction.op0_register();
        let value = match instruction.mnemonic() {
            Mov => operand(1),
            Pop => self.pushed,
            Xor if is_same => Some(0),
            _ => None,
        };
        self.pushed = match instruction.mnemonic() {
            Push => operand(0),
            _ => None,
        };
        match (instruction.mnemonic(), target) {
            (Cmp | Test | Push, _) => {}
            (Mul | Div | Idiv | Cpuid | Syscall | Xchg | Cmpxchg, _) => self.registers[0] = None,
            (_, Some(target)) => self.registers[target] = value,
            _ => {}
        }
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => self.forget_all_but(&KEPT),
            FlowControl::Return | FlowControl::IndirectBranch => self.forget_all_but(&[]),
            FlowControl::UnconditionalBranch => self.registers[0] = None,
            _ => {}
        }
    }

    fn forget_all_but(&mut self, kept: &[Register]) {
        for (at, value) in self.registers.iter_mut().enumerate() {
            if !kept.iter().any(|kept| place(*kept) == Some(at)) {
                *value = None;
            }
        }
    }
}

/// Starts of functions, sorted: the table of `.eh_frame_hdr`. Entries are offsets from its beginning.
pub struct Starts<'m> {
    header: usize,
    entries: &'m [[u8; 8]],
}

impl<'m> Starts<'m> {
    /// Version 1; a pointer of 4 bytes; a count of 4 bytes; pairs of 4 bytes: what compilers write. Else it has no entries.
    pub fn new(bytes: &'m [u8]) -> Starts<'m> {
        let usual = bytes.starts_with(&[1, 0x1b, 0x03, 0x3b]);
        let (count, table) = if usual {
            (bytes.get(8..12), bytes.get(12..))
        } else {
            (None, None)
        };
        let count = count.map_or(0, |count| {
            u32::from_le_bytes(count.try_into().unwrap_or_default())
        });
        let entries = table.unwrap_or_default().as_chunks().0;
        Starts {
            header: bytes.as_ptr() as usize,
            entries: entries.get(..count as usize).unwrap_or_default(),
        }
    }

    /// Address of the last function that starts at an address or before.
    fn before(&self, address: usize) -> Option<usize> {
        let start = |entry: &[u8; 8]| {
            let [a, b, c, d, ..] = *entry;
            let offset = i32::from_le_bytes([a, b, c, d]) as isize;
            self.header.wrapping_add_signed(offset)
        };
        let after = self
            .entries
            .partition_point(|entry| start(entry) <= address);
        self.entries.get(after.checked_sub(1)?).map(start)
    }
}
