//! The program: at the end of a call that reads or writes, it adds the bytes to those of thread and file.

use crate::assembler::*;
use crate::btf::Btf;
use crate::error::{BpfError, Result};

/// Helpers of the kernel, as <linux/bpf.h> numbers them.
const MAP_LOOK_UP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const CURRENT_IDS: i32 = 14;
const CURRENT_NAME: i32 = 16;
const CURRENT_TASK: i32 = 35;
const CURRENT_NODE: i32 = 42;
const READ_KERNEL: i32 = 113;

/// Calls with the file as their first argument that answer how much was read: read, pread64, readv, preadv, preadv2.
const READS: [i32; 5] = [0, 17, 19, 295, 327];
/// write, pwrite64, writev, pwritev, pwritev2.
const WRITES: [i32; 5] = [1, 18, 20, 296, 328];
/// In `struct pt_regs`: `di`; 8, 16 and 24 bytes behind it are `orig_ax`, `ip` and `cs`.
const REGISTERS_FROM: i32 = 112;
const REGISTERS_BYTES: i32 = 32;
/// Code of 64 bits: others number their calls otherwise.
const CODE_SEGMENT: i32 = 0x33;
const FILE_TYPE: i32 = 0o170_000;
const REGULAR_FILE: i32 = 0o100_000;

/// Bytes of a key: inode (8), device, descriptor, thread, process (4 each).
pub(crate) const KEY_BYTES: u32 = 24;
/// Bytes of a value: read, written (8 each), node (4, and 4 unused), name, ancestors. But for the first two, they are
/// those of the first call.
pub(crate) const VALUE_BYTES: u32 = ANCESTORS_AT + 8 * ANCESTORS as u32;
pub(crate) const NODE_AT: u32 = 16;
pub(crate) const NAME_AT: u32 = 24;
pub(crate) const NAME_BYTES: usize = 16;
/// The thread that began the process, the one that began that one's, and so on: thread and process (4 bytes each).
pub(crate) const ANCESTORS_AT: u32 = NAME_AT + NAME_BYTES as u32;
/// A compiler below a driver, a shell and `make`.
pub(crate) const ANCESTORS: usize = 4;

const REGISTERS: i16 = -32;
const SCRATCH: i16 = -40;
const INODE: i16 = -48;
const KEY: i16 = -80;
const KEY_DEVICE: i16 = KEY + 8;
const KEY_DESCRIPTOR: i16 = KEY + 12;
const KEY_IDS: i16 = KEY + 16;
const VALUE: i16 = KEY - VALUE_BYTES as i16;

/// Where the kernel has what leads from a thread to a file.
pub(crate) struct Offsets {
    task_files: i32,
    task_parent: i32,
    /// Thread and process, 4 bytes each.
    task_ids: i32,
    files_table: i32,
    table_files: i32,
    file_inode: i32,
    inode_mode: i32,
    inode_number: i32,
    inode_super_block: i32,
    super_block_device: i32,
}

impl Offsets {
    pub(crate) fn of(btf: &Btf) -> Result<Offsets> {
        let offset = |structure, field| btf.offset(structure, field).map(|at| at as i32);
        let (thread, process) = (
            offset("task_struct", "pid")?,
            offset("task_struct", "tgid")?,
        );
        if process != thread + Width::Four.bytes() {
            return Err(BpfError::Btf(
                "ids of threads are in another order".to_owned(),
            ));
        }
        Ok(Offsets {
            task_files: offset("task_struct", "files")?,
            task_parent: offset("task_struct", "real_parent")?,
            task_ids: thread,
            files_table: offset("files_struct", "fdt")?,
            table_files: offset("fdtable", "fd")?,
            file_inode: offset("file", "f_inode")?,
            inode_mode: offset("inode", "i_mode")?,
            inode_number: offset("inode", "i_ino")?,
            inode_super_block: offset("inode", "i_sb")?,
            super_block_device: offset("super_block", "s_dev")?,
        })
    }
}

/// The program for raw tracepoint `sys_exit`. The arguments of the tracepoint are the registers of the call and its
/// result. The program has a table of uses, and one that counts on each CPU how often it ran.
pub(crate) fn assemble(offsets: &Offsets, uses: i32, runs: i32) -> Vec<[u8; 8]> {
    let mut program = Assembler::default();
    let p = &mut program;
    let (out, counts, is_new) = (p.label(), p.label(), p.label());
    p.copy(R6, R1);
    p.store_value(Width::Four, R10, SCRATCH, 0);
    p.map(R1, runs);
    address(p, R2, SCRATCH);
    p.call(MAP_LOOK_UP);
    p.jump_if_equal(R0, 0, out);
    p.load(Width::Eight, R1, R0, 0);
    p.add(R1, 1);
    p.store(Width::Eight, R0, 0, R1);

    p.load(Width::Eight, R7, R6, 8);
    p.jump_if_at_most(R7, 0, out);
    p.load(Width::Eight, R3, R6, 0);
    p.add(R3, REGISTERS_FROM);
    read(p, REGISTERS, REGISTERS_BYTES, out);
    p.load(Width::Eight, R1, R10, REGISTERS + 24);
    p.jump_unless_equal(R1, CODE_SEGMENT, out);
    p.load(Width::Eight, R1, R10, REGISTERS + 8);
    // R8: where in the value to add.
    p.set(R8, 0);
    for call in READS {
        p.jump_if_equal(R1, call, counts);
    }
    p.set(R8, 8);
    for call in WRITES {
        p.jump_if_equal(R1, call, counts);
    }
    p.jump(out);

    p.place(counts);
    p.load(Width::Eight, R9, R10, REGISTERS);
    p.copy_half(R9, R9);
    p.call(CURRENT_TASK);
    p.copy(R3, R0);
    follow(p, offsets.task_files, out);
    follow(p, offsets.files_table, out);
    follow(p, offsets.table_files, out);
    p.copy(R1, R9);
    p.shift_left(R1, 3);
    p.add_register(R3, R1);
    follow(p, 0, out);
    follow(p, offsets.file_inode, out);
    p.store(Width::Eight, R10, INODE, R3);
    p.add(R3, offsets.inode_mode);
    read(p, SCRATCH, Width::Two.bytes(), out);
    p.load(Width::Two, R1, R10, SCRATCH);
    p.and(R1, FILE_TYPE);
    p.jump_unless_equal(R1, REGULAR_FILE, out);
    p.load(Width::Eight, R3, R10, INODE);
    p.add(R3, offsets.inode_number);
    read(p, KEY, Width::Eight.bytes(), out);
    p.load(Width::Eight, R3, R10, INODE);
    follow(p, offsets.inode_super_block, out);
    p.add(R3, offsets.super_block_device);
    read(p, KEY_DEVICE, Width::Four.bytes(), out);
    p.store(Width::Four, R10, KEY_DESCRIPTOR, R9);
    p.call(CURRENT_IDS);
    p.store(Width::Eight, R10, KEY_IDS, R0);

    p.map(R1, uses);
    address(p, R2, KEY);
    p.call(MAP_LOOK_UP);
    p.jump_if_equal(R0, 0, is_new);
    // No other thread has this key.
    p.add_register(R0, R8);
    p.load(Width::Eight, R1, R0, 0);
    p.add_register(R1, R7);
    p.store(Width::Eight, R0, 0, R1);
    p.jump(out);

    p.place(is_new);
    for at in (0..VALUE_BYTES as i16).step_by(8) {
        p.store_value(Width::Eight, R10, VALUE + at, 0);
    }
    address(p, R1, VALUE);
    p.add_register(R1, R8);
    p.store(Width::Eight, R1, 0, R7);
    origin(p, offsets);
    p.map(R1, uses);
    address(p, R2, KEY);
    address(p, R3, VALUE);
    p.set(R4, 0);
    p.call(MAP_UPDATE);

    p.place(out);
    p.set(R0, 0);
    p.exit();
    program.finish()
}

/// Into the value: where the thread runs, what it is called and what it descends from, as far as that can be read.
fn origin(p: &mut Assembler, offsets: &Offsets) {
    let enough = p.label();
    p.call(CURRENT_NODE);
    p.store(Width::Four, R10, VALUE + NODE_AT as i16, R0);
    address(p, R1, VALUE + NAME_AT as i16);
    p.set(R2, NAME_BYTES as i32);
    p.call(CURRENT_NAME);
    p.call(CURRENT_TASK);
    p.copy(R9, R0);
    for generation in 0..ANCESTORS as i16 {
        p.copy(R3, R9);
        follow(p, offsets.task_parent, enough);
        p.copy(R9, R3);
        p.add(R3, offsets.task_ids);
        let at = VALUE + ANCESTORS_AT as i16 + 8 * generation;
        read(p, at, Width::Eight.bytes(), enough);
    }
    p.place(enough);
}

fn address(p: &mut Assembler, to: Register, at: i16) {
    p.copy(to, R10);
    p.add(to, i32::from(at));
}

/// Copies from the kernel's address in `R3` to the stack; what is not there ends the program.
fn read(p: &mut Assembler, to: i16, bytes: i32, out: Label) {
    address(p, R1, to);
    p.set(R2, bytes);
    p.call(READ_KERNEL);
    p.jump_unless_equal(R0, 0, out);
}

/// The pointer that is so far behind `R3`, into `R3`.
fn follow(p: &mut Assembler, offset: i32, out: Label) {
    p.add(R3, offset);
    read(p, SCRATCH, Width::Eight.bytes(), out);
    p.load(Width::Eight, R3, R10, SCRATCH);
    p.jump_if_equal(R3, 0, out);
}
