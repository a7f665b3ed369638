//! What checksums of data cost: the same calls on a file without and one with them, interleaved, medians, and the
//! share of calls that is left. Reports; asserts nothing.
//!
//! `cargo run --release -p egeria-fs --example checksum_cost`

use egeria_fs::*;
use std::time::Instant;

const FILE_BYTES: u64 = 128 << 20;
const ROUNDS: usize = 5;
const CALLS: u64 = 40_000;

fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Nanoseconds of one call.
fn ns_of(calls: u64, mut call: impl FnMut(u64)) -> f64 {
    let mut state = 88_172_645_463_325_252;
    let start = Instant::now();
    for _ in 0..calls {
        call(next(&mut state));
    }
    start.elapsed().as_nanos() as f64 / calls as f64
}

struct Subject<'v> {
    volume: &'v Volume,
    file: FileReference,
    buffer: Vec<u8>,
}

impl Subject<'_> {
    fn read(&mut self, bytes: usize) -> f64 {
        let places = FILE_BYTES / bytes as u64;
        ns_of(CALLS, |random| {
            let at = random % places * bytes as u64;
            let buffer = &mut self.buffer[..bytes];
            self.volume.read(self.file, at, buffer).expect("read");
        })
    }

    fn write(&mut self, bytes: usize) -> f64 {
        let places = FILE_BYTES / bytes as u64;
        let calls = CALLS * 4096 / bytes.max(4096) as u64;
        ns_of(calls, |random| {
            let at = random % places * bytes as u64;
            let buffer = &self.buffer[..bytes];
            self.volume.write(self.file, at, buffer).expect("write");
        })
    }

    fn append(&mut self, bytes: usize) -> f64 {
        let taken = ns_of(CALLS / 4, |_| {
            let buffer = &self.buffer[..bytes];
            self.volume.append(self.file, buffer).expect("append");
        });
        let change = AttributeChange {
            size_bytes: Some(FILE_BYTES),
            ..AttributeChange::default()
        };
        let ino = self.file.ino();
        let cut = self.volume.set_attributes(ino, &change, false);
        cut.expect("truncate");
        taken
    }
}

/// A file of its own directory, filled.
fn subject<'v>(volume: &'v Volume, name: &[u8], checksums: bool) -> Subject<'v> {
    let new = |kind| NewInode {
        mode: kind | 0o755,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let made = volume.create(InodeNumber::ROOT, name, &new(libc::S_IFDIR));
    let directory = made.expect("mkdir").ino;
    if checksums {
        let (name, value) = (b"user.egeria.checksum", b"crc32c");
        let set = volume.set_xattr(directory, name, value, XattrMode::Any);
        set.expect("setxattr");
    }
    let made = volume.create_open(directory, b"file", &new(libc::S_IFREG));
    let file = volume.open(made.expect("create").ino, None).expect("open");
    let buffer = vec![7u8; 1 << 20];
    for at in (0..FILE_BYTES).step_by(buffer.len()) {
        volume.write(file, at, &buffer).expect("fill");
    }
    Subject {
        volume,
        file,
        buffer,
    }
}

type Measure = fn(&mut Subject<'_>) -> f64;

const MEASURES: [(&str, Measure); 8] = [
    ("read 4 KiB", |of| of.read(4096)),
    ("read 256 B", |of| of.read(256)),
    ("read 64 KiB", |of| of.read(65_536)),
    ("overwrite 4 KiB", |of| of.write(4096)),
    ("overwrite 256 B", |of| of.write(256)),
    ("overwrite 64 KiB", |of| of.write(65_536)),
    ("append 256 B", |of| of.append(256)),
    ("append 4 KiB", |of| of.append(4096)),
];

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let name = format!("/dev/shm/egeria-checksum-cost-{}", std::process::id());
    let path = std::path::PathBuf::from(name);
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(1 << 30),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let options = AttachOptions::default();
    let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
    let mut subjects = [
        subject(&volume, b"plain", false),
        subject(&volume, b"checked", true),
    ];
    for (what, measure) in MEASURES {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (subject, times) in subjects.iter_mut().zip(&mut times) {
                times.push(measure(subject));
            }
        }
        let [plain, checked] = times.each_mut().map(|times| median(times));
        let share = plain / checked;
        println!(
            "{what:18} {plain:8.0} ns, with checksums {checked:8.0} ns: {share:.2} of the calls"
        );
    }
    drop(volume);
    let _ = std::fs::remove_file(&path);
}
