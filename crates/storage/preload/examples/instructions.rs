//! Counts the instructions of calls under the library, by stepping through them: per function (with `llvm-symbolizer`),
//! and those that wait for earlier stores.
//!
//! `cargo build --release -p egeria-preload && cargo run --release -p egeria-preload --example instructions [CASE]`

use egeria_engine::{AttachMode, AttachOptions, CreateOptions, PoolRequest, Volume, create_volume};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use yaxpeax_x86::amd64::{InstDecoder, Opcode};

const FILE_BYTES: usize = 64 << 20;
const BLOCK: usize = 4096;
/// Calls of each case that are counted; the middle one is shown.
const COUNTED: usize = 9;

/// What the traced process does, in its order.
const CASES: [&str; 9] = [
    "pread 4 KiB",
    "pwrite 4 KiB, random",
    "pwrite 4 KiB, sequential",
    "pwrite 256 B in place",
    "append 256 B",
    "append 4 KiB",
    "pwrite 64 KiB",
    "writev 2 x 2 KiB",
    "pwrite 4 KiB in two blocks",
];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--traced") => calls(Path::new(&arguments[2])),
        only => count(only),
    }
}

fn trap() {
    // SAFETY: the tracer takes the trap and continues behind it.
    unsafe { std::arch::asm!("int3") };
}

/// In the traced process.
fn calls(path: &Path) {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let file = options.open(path).unwrap();
    let appended = options.append(true).open(path.with_extension("appended"));
    let appended = appended.unwrap();
    let (fd, to_end) = (file.as_raw_fd(), appended.as_raw_fd());
    let mut buffer = vec![7_u8; 64 << 10];
    let start = buffer.as_mut_ptr();
    let at = |round: usize| ((round * 7919) % (FILE_BYTES / BLOCK) * BLOCK) as i64;
    let parts = [0, 2048].map(|first| libc::iovec {
        iov_base: start.wrapping_add(first).cast(),
        iov_len: 2048,
    });
    for at in (0..FILE_BYTES).step_by(64 << 10) {
        // SAFETY: the buffer is as long.
        unsafe { libc::pwrite(fd, start.cast(), 64 << 10, at as i64) };
    }
    for case in 0..CASES.len() {
        for round in 0..400 + COUNTED {
            let is_counted = round >= 400;
            let (place, next) = (at(round), (round * BLOCK) as i64);
            if is_counted {
                trap();
            }
            // SAFETY: the buffer is longer than every call's length.
            let done = unsafe {
                match case {
                    0 => libc::pread(fd, start.cast(), BLOCK, place),
                    1 => libc::pwrite(fd, start.cast(), BLOCK, place),
                    2 => libc::pwrite(fd, start.cast(), BLOCK, next),
                    3 => libc::pwrite(fd, start.cast(), 256, place),
                    4 => libc::write(to_end, start.cast(), 256),
                    5 => libc::write(to_end, start.cast(), BLOCK),
                    6 => libc::pwrite(fd, start.cast(), 64 << 10, place & !0xffff),
                    7 => libc::pwritev(fd, parts.as_ptr(), 2, place),
                    _ => libc::pwrite(fd, start.cast(), BLOCK, place + 24),
                }
            };
            if is_counted {
                trap();
            }
            assert!(done > 0);
        }
    }
}

fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program
        .ancestors()
        .nth(2)
        .unwrap()
        .join("libegeria_preload.so")
}

fn count(only: Option<&str>) {
    let pools = tempfile::tempdir_in("/dev/shm").unwrap();
    let point = tempfile::tempdir().unwrap();
    let request = PoolRequest {
        node: 0,
        path: pools.path().join("pool"),
        bytes: Some(512 << 20),
    };
    create_volume(std::slice::from_ref(&request), &CreateOptions::default()).unwrap();
    let options = AttachOptions::default();
    let volume = Volume::attach(&request.path, AttachMode::CreateOrJoin, &options).unwrap();
    let handle = egeria_mount::spawn(volume.clone(), point.path(), &Default::default()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--traced").arg(point.path().join("file"));
    command.env("LD_PRELOAD", library());
    // SAFETY: one system call between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            Ok(())
        })
    };
    #[allow(clippy::zombie_processes)]
    let child = command.spawn().unwrap();
    let traced = Traced(child.id() as i32);
    traced.wait();
    traced.go(libc::PTRACE_CONT);
    for case in CASES {
        let mut runs: Vec<Vec<u64>> = (0..COUNTED).map(|_| traced.count()).collect();
        runs.sort_by_key(Vec::len);
        if only.is_none_or(|only| case.contains(only)) {
            println!("{case}: {} instructions", runs[COUNTED / 2].len());
            traced.show(&runs[COUNTED / 2]);
        }
    }
    traced.wait();
    handle.unmount().unwrap();
}

struct Traced(i32);

impl Traced {
    /// Wait for the next stop; false when the process is gone.
    fn wait(&self) -> bool {
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL) };
        libc::WIFSTOPPED(status)
    }

    fn go(&self, how: libc::c_uint) {
        // SAFETY: stopped by this tracer.
        unsafe { libc::ptrace(how, self.0, 0, 0) };
    }

    fn instruction_pointer(&self) -> u64 {
        // SAFETY: plain registers; the process is stopped.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETREGS, self.0, 0, &raw mut registers);
            registers.rip
        }
    }

    fn bytes(&self, at: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        for word in 0..2 {
            // SAFETY: reads a word of the stopped process.
            let value = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, self.0, at + 8 * word, 0) };
            bytes[8 * word as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Addresses of the instructions between the next two traps.
    fn count(&self) -> Vec<u64> {
        assert!(self.wait(), "the traced process ended");
        let mut executed = Vec::new();
        loop {
            self.go(libc::PTRACE_SINGLESTEP);
            self.wait();
            let at = self.instruction_pointer();
            if self.bytes(at)[0] == 0xcc {
                break;
            }
            if executed.last() != Some(&at) {
                executed.push(at);
            }
        }
        self.go(libc::PTRACE_SINGLESTEP);
        self.wait();
        self.go(libc::PTRACE_CONT);
        executed
    }

    /// The functions of the library and of libc that they belong to, and those that wait for earlier stores.
    fn show(&self, executed: &[u64]) {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0)).unwrap();
        let mut by_object: BTreeMap<String, BTreeMap<u64, Vec<u64>>> = BTreeMap::new();
        for address in executed {
            let (object, at) = place_of(&maps, *address);
            let places = by_object.entry(object).or_default();
            places.entry(at).or_default().push(*address);
        }
        let mut functions: BTreeMap<String, usize> = BTreeMap::new();
        for (object, places) in by_object {
            let names = functions_of(&object, places.keys());
            for (name, addresses) in names.into_iter().zip(places.values()) {
                if let Some(text) = self.waiting(addresses[0]) {
                    println!("        {text} in {name}");
                }
                *functions.entry(name).or_default() += addresses.len();
            }
        }
        let mut sorted: Vec<(&String, &usize)> = functions.iter().collect();
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (name, count) in sorted {
            println!("{count:6}  {name}");
        }
    }

    /// The instruction, if it waits for earlier stores: a locked one, an exchange with memory, or a fence.
    fn waiting(&self, address: u64) -> Option<String> {
        let bytes = self.bytes(address);
        let instruction = InstDecoder::default().decode_slice(&bytes).ok()?;
        let opcode = instruction.opcode();
        let exchanges =
            opcode == Opcode::XCHG && (0..2).any(|at| instruction.operand(at).is_memory());
        let is_fence = matches!(opcode, Opcode::MFENCE | Opcode::SFENCE | Opcode::LFENCE);
        let waits = instruction.prefixes.lock() || exchanges || is_fence;
        waits.then(|| format!("{opcode:?}").to_lowercase())
    }
}

/// Object file and address in it.
fn place_of(maps: &str, at: u64) -> (String, u64) {
    let mut first: BTreeMap<&str, u64> = BTreeMap::new();
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
        let name = fields.get(5).copied().unwrap_or("?");
        let base = *first.entry(name).or_insert(start);
        if (start..end).contains(&at) {
            return (name.to_owned(), at - base);
        }
    }
    ("?".to_owned(), at)
}

/// The function that each address of an object belongs to, inlined ones included.
fn functions_of<'a>(object: &str, at: impl Iterator<Item = &'a u64>) -> Vec<String> {
    let at: Vec<String> = at.map(|at| format!("{at:#x}")).collect();
    let mut command = Command::new("llvm-symbolizer");
    command.args(["--obj", object, "--functions=linkage", "--demangle"]);
    let output = command.args(&at).output();
    let text = output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    });
    let name = |part: &str| part.lines().next().unwrap_or("?").to_owned();
    let mut names: Vec<String> = text.split("\n\n").map(name).collect();
    names.resize(at.len(), object.to_owned());
    names
}
