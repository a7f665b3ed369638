//! Machine code that closes or replaces descriptors by system call instructions of its own.
//!
//! The two bytes of the instruction also occur inside others, and in tables of constants between functions. So code is decoded
//! from the start of its function on, which the tables for unwinding tell, and the number of the call is what was last put into
//! `eax`.

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
    pub functions: Option<&'m Functions<'m>>,
}

/// What is known of two bytes that may be a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Site {
    /// They are in the middle of another instruction, or among constants.
    NoCall,
    /// A call with this number.
    Call(u64),
    /// A call whose number is not plain.
    AnyCall,
}

impl Code<'_> {
    /// Whether there is a system call that closes or replaces a descriptor, or may.
    pub fn closes_descriptors(&self) -> bool {
        memmem::find_iter(self.bytes, &SYSCALL).any(|at| match self.site(at) {
            Site::Call(number) => CLOSING.contains(&(number as i64)),
            Site::AnyCall => true,
            Site::NoCall => false,
        })
    }

    fn site(&self, at: usize) -> Site {
        let address = self.bytes.as_ptr() as usize;
        let function = self.functions.and_then(|all| all.around(address + at));
        let guessed = at.saturating_sub(GUESSED_BYTES_BEFORE);
        let start = function.map_or(guessed, |start| start.saturating_sub(address));
        let start = start.max(at.saturating_sub(MAX_BYTES_BEFORE)).min(at);
        let decoder = InstDecoder::default();
        let (mut position, mut values) = (start, Values::default());
        while position < at {
            position += values.step_over(&decoder, &self.bytes[position..]);
        }
        match (position == at, values.eax()) {
            (false, _) => Site::NoCall,
            (true, Some(number)) => Site::Call(number),
            // Without the start of the function, it is too often the middle of another instruction, or of a table.
            (true, None) if function.is_none() => Site::NoCall,
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

/// Registers that a system call changes: `rax`, `rcx`, `r11`.
const CHANGED_BY_KERNEL: [usize; 3] = [0, 1, 11];

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
            (Opcode::CALL | Opcode::CALLF | Opcode::SYSENTER, _) => self.forget_all_but(&KEPT),
            (Opcode::SYSCALL, _) => {
                for changed in CHANGED_BY_KERNEL {
                    self.registers[changed] = None;
                }
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

/// Functions, sorted by where they start: the table of `.eh_frame_hdr`. Entries are two offsets from its beginning, of a
/// function and of the record that describes it.
pub struct Functions<'m> {
    header: usize,
    entries: &'m [[u8; 8]],
    /// The segment in which the records lie.
    records: &'m [u8],
}

/// Of a record: its length, a place, the function's start from this field on, and its length; each of 4 bytes.
const RECORD_WORDS: usize = 4;

impl<'m> Functions<'m> {
    /// Of the header's bytes, and of those of the segment it lies in. Version 1; a pointer of 4 bytes; a count of 4 bytes; pairs
    /// of 4 bytes: what compilers write. Else there are no entries.
    pub fn new(bytes: &'m [u8], records: &'m [u8]) -> Functions<'m> {
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
        Functions {
            header: bytes.as_ptr() as usize,
            entries: entries.get(..count as usize).unwrap_or_default(),
            records,
        }
    }

    /// Address of the function that an address belongs to. Tables of constants lie between functions.
    fn around(&self, address: usize) -> Option<usize> {
        let place = |entry: &[u8; 8], half: usize| {
            let offset = &entry.as_chunks::<4>().0[half];
            self.header
                .wrapping_add_signed(i32::from_le_bytes(*offset) as isize)
        };
        let after = self
            .entries
            .partition_point(|entry| place(entry, 0) <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        let start = place(entry, 0);
        let bytes = self.bytes_of(start, place(entry, 1));
        bytes
            .is_none_or(|bytes| address - start < bytes)
            .then_some(start)
    }

    /// How long a function is, by its record; `None` where the record is not of the usual form.
    fn bytes_of(&self, start: usize, record: usize) -> Option<usize> {
        let at = record.checked_sub(self.records.as_ptr() as usize)?;
        let (words, _) = self.records.get(at..)?.as_chunks::<4>();
        let words = words.first_chunk::<RECORD_WORDS>()?;
        let [length, _, from_here, bytes] = words.map(u32::from_le_bytes);
        let begins_at = (record + 8).wrapping_add_signed(from_here as i32 as isize);
        let is_usual = length != 0 && length != u32::MAX && begins_at == start;
        is_usual.then_some(bytes as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mov r8d, NUMBER`, twice `mov eax, r8d` and `syscall`, `ret`.
    fn calls(number: u8) -> Vec<u8> {
        let call = [0x44, 0x89, 0xc0, 0x0f, 0x05];
        let mut code = vec![0x41, 0xb8, number, 0, 0, 0];
        code.extend(call.iter().chain(&call).chain(&[0xc3]));
        code
    }

    /// Whether there is a sign in code whose first bytes, so many, are a function with a record.
    fn has_sign(code: &[u8], function_bytes: u32) -> bool {
        // Header, its one entry, the record, the code.
        const RECORD: usize = 20;
        const CODE: usize = RECORD + 4 * RECORD_WORDS;
        let mut memory = vec![1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0];
        let from_record = (CODE - RECORD - 8) as u32;
        for word in [
            CODE as u32,
            RECORD as u32,
            12,
            1,
            from_record,
            function_bytes,
        ] {
            memory.extend(word.to_le_bytes());
        }
        memory.extend(code);
        let functions = Functions::new(&memory[..RECORD], &memory);
        let code = Code {
            bytes: &memory[CODE..],
            functions: Some(&functions),
        };
        code.closes_descriptors()
    }

    #[test]
    fn the_number_of_a_call_is_what_was_put_into_eax() {
        let len = calls(0).len() as u32;
        for number in [libc::SYS_close, libc::SYS_dup2] {
            assert!(has_sign(&calls(number as u8), len), "{number}");
        }
        assert!(!has_sign(&calls(libc::SYS_futex as u8), len));
    }

    #[test]
    fn constants_between_functions_are_no_calls() {
        // `ret`; then what could be `add edx, eax`, `syscall`.
        let code = [0xc3, 0x01, 0xc2, 0x0f, 0x05, 0x09, 0xe6];
        assert!(!has_sign(&code, 1));
        // In a function, it is a call whose number is not known.
        assert!(has_sign(&code, code.len() as u32));
    }

    #[test]
    fn records_that_are_cut_off_or_odd_do_not_hide_calls() {
        let code = [0xc3, 0x01, 0xc2, 0x0f, 0x05];
        let header = [1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0];
        for record in [20_u32, 40, 1 << 20, u32::MAX] {
            let mut memory = header.to_vec();
            memory.extend([20_u32, record].map(u32::to_le_bytes).concat());
            memory.extend(code);
            let functions = Functions::new(&memory[..20], &memory);
            let code = Code {
                bytes: &memory[20..],
                functions: Some(&functions),
            };
            assert!(code.closes_descriptors(), "{record}");
        }
    }
}
