//! Machine code that closes or replaces descriptors by system call instructions of its own.
//!
//! The two bytes of the instruction also occur inside others. So code is decoded from the start of its function on, which the
//! tables for unwinding tell, and the number of the call is what was last put into `eax`.

use memchr::memmem;
use yaxpeax_arch::LengthedInstruction;
use yaxpeax_x86::amd64::{InstDecoder, Instruction, Opcode, Operand, RegSpec, register_class};

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
        let decoder = InstDecoder::default();
        let (mut position, mut values) = (start, Values::default());
        while position < at {
            position += values.step_over(&decoder, &self.bytes[position..]);
        }
        match (position == at, values.eax()) {
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

/// Registers that a call leaves as they are: `rbx`, `rsp`, `rbp`, `r12` to `r15`.
const KEPT: [usize; 7] = [3, 4, 5, 12, 13, 14, 15];

/// The place of a general register, or of the one it is a part of, in [`Values`].
fn place(register: RegSpec) -> Option<usize> {
    let number = usize::from(register.num());
    match register.class() {
        register_class::Q | register_class::D | register_class::W | register_class::RB => {
            Some(number)
        }
        // `ah` to `bh` are parts of the first four.
        register_class::B => Some(number % 4),
        _ => None,
    }
    .filter(|place| *place < 16)
}

fn immediate(operand: &Operand) -> Option<u64> {
    match *operand {
        Operand::ImmediateI8 { imm } => Some(imm as u64),
        Operand::ImmediateU8 { imm } => Some(imm.into()),
        Operand::ImmediateI16 { imm } => Some(imm as u64),
        Operand::ImmediateU16 { imm } => Some(imm.into()),
        Operand::ImmediateI32 { imm } => Some(imm as u64),
        Operand::ImmediateU32 { imm } => Some(imm.into()),
        Operand::ImmediateI64 { imm } => Some(imm as u64),
        Operand::ImmediateU64 { imm } => Some(imm),
        _ => None,
    }
}

impl Values {
    fn eax(&self) -> Option<u64> {
        self.registers[0]
    }

    /// Take in what the first instruction does; how many bytes it has. What is none is a byte after which nothing is known.
    fn step_over(&mut self, decoder: &InstDecoder, bytes: &[u8]) -> usize {
        match decoder.decode_slice(bytes) {
            Ok(instruction) => {
                self.step(&instruction);
                instruction.len().to_const() as usize
            }
            Err(_) => {
                *self = Values::default();
                1
            }
        }
    }

    fn step(&mut self, instruction: &Instruction) {
        let [first, second] = [0, 1].map(|index| instruction.operand(index));
        let known = |operand: &Operand| match operand {
            Operand::Register { reg } => place(*reg).and_then(|at| self.registers[at]),
            other => immediate(other),
        };
        let target = match first {
            Operand::Register { reg } => place(reg),
            _ => None,
        };
        let opcode = instruction.opcode();
        let value = match opcode {
            Opcode::MOV => known(&second),
            Opcode::POP => self.pushed,
            Opcode::XOR if first == second => Some(0),
            _ => None,
        };
        self.pushed = match opcode {
            Opcode::PUSH => known(&first),
            _ => None,
        };
        match (opcode, target) {
            (Opcode::CMP | Opcode::TEST | Opcode::PUSH, _) => {}
            (Opcode::CALL | Opcode::CALLF | Opcode::SYSCALL | Opcode::SYSENTER, _) => {
                self.forget_all_but(&KEPT)
            }
            (
                Opcode::MUL
                | Opcode::DIV
                | Opcode::IDIV
                | Opcode::CPUID
                | Opcode::XCHG
                | Opcode::CMPXCHG,
                _,
            ) => self.registers[0] = None,
            (Opcode::JMP, _) if immediate(&first).is_some() => self.registers[0] = None,
            (
                Opcode::JMP
                | Opcode::JMPF
                | Opcode::RETURN
                | Opcode::RETF
                | Opcode::IRET
                | Opcode::IRETD
                | Opcode::IRETQ,
                _,
            ) => self.forget_all_but(&[]),
            (_, Some(target)) => self.registers[target] = value,
            _ => {}
        }
    }

    fn forget_all_but(&mut self, kept: &[usize]) {
        for (at, value) in self.registers.iter_mut().enumerate() {
            if !kept.contains(&at) {
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
