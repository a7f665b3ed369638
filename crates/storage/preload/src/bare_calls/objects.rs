//! The program and its shared objects, as the dynamic linker has them.

use super::code::{self, Code};
use libc::{Elf64_Phdr, c_int, c_void, dl_phdr_info};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// glibc itself, whose calls the library stands in front of, and the kernel's own object.
const EXEMPT: [&[u8]; 11] = [
    b"linux-vdso.so",
    b"ld-linux",
    b"libc.so",
    b"libm.so",
    b"libmvec.so",
    b"libpthread.so",
    b"libdl.so",
    b"librt.so",
    b"libresolv.so",
    b"libnss_",
    b"libanl.so",
];
/// The note that Go's linker writes into every program.
const GO_NOTE: &[u8] = b"Go\0\0";

/// Objects that were looked at, each by a number that follows from its place and name; 0: none.
static SEEN: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// An object in memory.
struct Object<'m> {
    /// File name without directories; empty for the program.
    name: &'m [u8],
    base: usize,
    headers: &'m [Elf64_Phdr],
}

/// Whether an object that was not looked at before closes or replaces descriptors past the library. The caller must not hold
/// locks that a thread in the dynamic linker may wait for.
pub fn close_past_library() -> bool {
    let mut found = false;
    // SAFETY: the function takes what the linker passes, and a bool of this frame.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look(info: *mut dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the linker passes an object that stays loaded until this returns, with its headers and its name.
    let object = unsafe {
        let info = &*info;
        let path = if info.dlpi_name.is_null() {
            b""
        } else {
            CStr::from_ptr(info.dlpi_name).to_bytes()
        };
        Object {
            name: path.rsplit(|byte| *byte == b'/').next().unwrap_or(path),
            base: info.dlpi_addr as usize,
            headers: std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
        }
    };
    let is_sign = !object.is_exempt() && object.is_new() && object.has_sign();
    if is_sign {
        // SAFETY: the bool of the caller's frame.
        unsafe { *found.cast::<bool>() = true };
    }
    c_int::from(is_sign)
}

impl Object<'_> {
    /// Memory of a header, as far as it comes from the file.
    fn memory(&self, header: &Elf64_Phdr) -> &[u8] {
        let start = self.base.wrapping_add(header.p_vaddr as usize);
        // SAFETY: the linker mapped this part of the file, readable where the caller looks, until the object is unloaded.
        unsafe { std::slice::from_raw_parts(start as *const u8, header.p_filesz as usize) }
    }

    fn parts(&self, kind: u32) -> impl Iterator<Item = &Elf64_Phdr> {
        let is_kind = move |header: &&Elf64_Phdr| header.p_type == kind && header.p_filesz > 0;
        self.headers.iter().filter(is_kind)
    }

    fn is_exempt(&self) -> bool {
        let own = close_past_library as *const () as usize;
        let holds_own = |header: &Elf64_Phdr| {
            self.memory(header)
                .as_ptr_range()
                .contains(&(own as *const u8))
        };
        EXEMPT.iter().any(|name| self.name.starts_with(name))
            || self.parts(libc::PT_LOAD).any(holds_own)
    }

    /// Whether it was not looked at before. From now on it was.
    fn is_new(&self) -> bool {
        let size = self.headers.iter().map(|header| header.p_memsz);
        let words = [self.base as u64, size.sum()].into_iter();
        let bytes = words
            .flat_map(u64::to_le_bytes)
            .chain(self.name.iter().copied());
        // FNV-1a.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let number = bytes.fold(0xcbf2_9ce4_8422_2325, step) | 1;
        if SEEN
            .iter()
            .any(|seen| seen.load(Ordering::Relaxed) == number)
        {
            return false;
        }
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % SEEN.len();
        SEEN[place].store(number, Ordering::Relaxed);
        true
    }

    fn has_sign(&self) -> bool {
        let is_go = |header| notes(self.memory(header)).any(|name| name == GO_NOTE);
        self.parts(libc::PT_NOTE).any(is_go) || self.has_closing_call()
    }

    fn has_closing_call(&self) -> bool {
        const READ_EXECUTE: u32 = libc::PF_R | libc::PF_X;
        let table = self.parts(libc::PT_GNU_EH_FRAME).next();
        let functions = table.map(|header| {
            // The records are in the same segment as the table.
            let holds_table = |part: &&Elf64_Phdr| {
                let end = part.p_vaddr.saturating_add(part.p_filesz);
                part.p_flags & libc::PF_R != 0 && (part.p_vaddr..end).contains(&header.p_vaddr)
            };
            let segment = self.parts(libc::PT_LOAD).find(holds_table);
            let records = segment.map_or(&[][..], |part| self.memory(part));
            code::Functions::new(self.memory(header), records)
        });
        let is_code = |header: &&Elf64_Phdr| header.p_flags & READ_EXECUTE == READ_EXECUTE;
        self.parts(libc::PT_LOAD).filter(is_code).any(|header| {
            let code = Code {
                bytes: self.memory(header),
                functions: functions.as_ref(),
            };
            code.closes_descriptors()
        })
    }
}

/// Names of the notes in a note segment; what does not fit ends them.
fn notes(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().ok()?) as usize)
    };
    std::iter::from_fn(move || {
        let (name_bytes, rest_bytes) = (word(bytes, 0)?, word(bytes, 4)?);
        let name = bytes.get(12..12usize.checked_add(name_bytes)?)?;
        let end =
            (12 + name_bytes.next_multiple_of(4)).checked_add(rest_bytes.next_multiple_of(4))?;
        bytes = bytes.get(end..).unwrap_or(&[]);
        Some(name)
    })
}
