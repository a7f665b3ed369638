//! The system call `bpf`, of which libc has no structures.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOK_UP: libc::c_long = 1;
const PROGRAM_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;
const MAP_LOOK_UP_AND_DELETE_BATCH: libc::c_long = 25;

const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_PER_CPU_ARRAY: u32 = 6;
const PROGRAM_TYPE_RAW_TRACEPOINT: u32 = 17;
/// Helpers that read the kernel's memory are for programs under such a licence; ours is the MIT half.
const LICENCE: &CStr = c"Dual MIT/GPL";

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    program: i32,
    padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    map: i32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Batch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: i32,
    element_flags: u64,
    flags: u64,
}

/// # Safety
/// The addresses in the attributes must be of what the command expects there.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<libc::c_long> {
    let bytes = size_of::<T>();
    // SAFETY: the structure lives and may be written as long as the call lasts; for what it points to the caller
    // answers.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, bytes) };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// # Safety
/// As of [`bpf`], and the command must answer a descriptor.
unsafe fn open<T>(command: libc::c_long, mut attributes: T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's; the kernel opened the descriptor for us.
    unsafe {
        let descriptor = bpf(command, &mut attributes)?;
        Ok(OwnedFd::from_raw_fd(descriptor as RawFd))
    }
}

/// A table that takes memory as it fills.
pub(crate) fn create_map(
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
) -> io::Result<OwnedFd> {
    const NO_MEMORY_AHEAD: u32 = 1;
    let attributes = MapCreate {
        kind: MAP_TYPE_HASH,
        key_bytes,
        value_bytes,
        max_entries,
        flags: NO_MEMORY_AHEAD,
        name: *b"egeria_files\0\0\0\0",
        ..MapCreate::default()
    };
    // SAFETY: no addresses.
    unsafe { open(MAP_CREATE, attributes) }
}

/// One number of 64 bits for each CPU.
pub(crate) fn create_numbers() -> io::Result<OwnedFd> {
    let attributes = MapCreate {
        kind: MAP_TYPE_PER_CPU_ARRAY,
        key_bytes: 4,
        value_bytes: 8,
        max_entries: 1,
        name: *b"egeria_runs\0\0\0\0\0",
        ..MapCreate::default()
    };
    // SAFETY: no addresses.
    unsafe { open(MAP_CREATE, attributes) }
}

/// The sum of the counters made by [`create_numbers`], over `cpus` CPUs that the kernel may have.
///
/// # Safety
/// The kernel must not have more.
pub(crate) unsafe fn sum(numbers: BorrowedFd<'_>, cpus: usize) -> io::Result<u64> {
    let (key, mut each) = (0_u32, vec![0_u64; cpus]);
    let mut element = Element {
        map: numbers.as_raw_fd(),
        key: &raw const key as u64,
        value: each.as_mut_ptr() as u64,
        ..Element::default()
    };
    // SAFETY: a key of four bytes, and eight for each CPU, as the caller says.
    unsafe { bpf(MAP_LOOK_UP, &mut element) }?;
    Ok(each.into_iter().fold(0, u64::wrapping_add))
}

/// A program for a raw tracepoint, once the kernel's verifier has passed it.
pub(crate) fn load(instructions: &[[u8; 8]]) -> io::Result<OwnedFd> {
    let attributes = ProgramLoad {
        kind: PROGRAM_TYPE_RAW_TRACEPOINT,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        name: *b"egeria_files\0\0\0\0",
        ..ProgramLoad::default()
    };
    // SAFETY: the pointers are to this number of instructions and a terminated text; both live until the call is over.
    unsafe { open(PROGRAM_LOAD, attributes) }
}

/// Runs the program at each such event until the descriptor is closed.
pub(crate) fn attach(tracepoint: &CStr, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let attributes = RawTracepointOpen {
        name: tracepoint.as_ptr() as u64,
        program: program.as_raw_fd(),
        padding: 0,
    };
    // SAFETY: a text with its end, which lives until the call is over.
    unsafe { open(RAW_TRACEPOINT_OPEN, attributes) }
}

/// Takes all entries out of a table: each as key and value, one after the other.
pub(crate) fn take_all<const KEY: usize, const VALUE: usize>(
    map: BorrowedFd<'_>,
    most: usize,
) -> io::Result<Vec<([u8; KEY], [u8; VALUE])>> {
    const AT_ONCE: usize = 4096;
    let mut keys = vec![[0; KEY]; AT_ONCE];
    let mut values = vec![[0; VALUE]; AT_ONCE];
    let mut found = Vec::new();
    let (mut from, mut to) = (None, 0_u64);
    // Entries may come as fast as they are taken.
    while found.len() < most {
        let mut batch = Batch {
            from: from
                .as_ref()
                .map_or(0, |from: &u64| &raw const *from as u64),
            to: &raw mut to as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: AT_ONCE as u32,
            map: map.as_raw_fd(),
            ..Batch::default()
        };
        // SAFETY: the table was made for keys and values of these sizes, there is room for as many as are asked for,
        // and a place in a table of this kind has four bytes.
        let answer = unsafe { bpf(MAP_LOOK_UP_AND_DELETE_BATCH, &mut batch) };
        let is_end = match answer {
            Ok(_) => false,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
            Err(error) => return Err(error),
        };
        let count = (batch.count as usize).min(AT_ONCE);
        found.extend(keys.iter().copied().zip(values.iter().copied()).take(count));
        if is_end {
            break;
        }
        from = Some(to);
    }
    Ok(found)
}
