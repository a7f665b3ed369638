//! What is done to the shared files: calls in the middle of which workers are stopped, and looks at the same files
//! meanwhile, each with what it changes.

use crate::kill::files::Files;
use crate::kill::processes::AccessPath;
use crate::names::named;
use egeria_engine::{Errno, Outcome};
use egeria_stats::rng::Rng;
use serde::Serialize;

/// The directory that holds everything, and what everybody uses in it.
pub const DIRECTORY: &str = "stopped";
pub const FILE: &str = "stopped/file";
const NEIGHBOUR: &str = "stopped/neighbour";
/// Size the file has most of the time, bytes.
const FILE_BYTES: u64 = 256 << 10;
const BLOCK: usize = 4096;

/// The file itself is changed.
const CHANGES_FILE: u8 = 1;
const CHANGES_DIRECTORY: u8 = 2;

named! {
    /// A call in the middle of which a worker is stopped.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Call {
        Overwrite = "overwrite of 4 KiB",
        WriteUnaligned = "write of some bytes",
        Append = "append",
        Truncate = "truncate",
        Punch = "punch of a hole",
        Create = "create",
        Rename = "rename",
        Unlink = "unlink",
        WriteNew = "write of an own file",
    }
}

impl Call {
    /// Any that changes something in this process: the kernel stops nobody in the middle of the others.
    pub fn drawn(access_path: AccessPath, rng: &mut Rng) -> Call {
        let all: &[Call] = match access_path {
            AccessPath::Engine => &Call::ALL,
            AccessPath::Preload | AccessPath::Mount => &Call::DIRECT,
        };
        match rng.below(4) {
            0 => Call::Overwrite,
            _ => all[rng.below(all.len() as u64) as usize],
        }
    }

    /// What of the shared it changes.
    fn changes(self) -> u8 {
        match self {
            Call::Create | Call::Rename | Call::Unlink => CHANGES_DIRECTORY,
            Call::WriteNew => 0,
            _ => CHANGES_FILE,
        }
    }

    /// What the preload library does itself.
    const DIRECT: [Call; 4] = [
        Call::Overwrite,
        Call::WriteUnaligned,
        Call::Append,
        Call::WriteNew,
    ];
}

named! {
    /// What somebody else does meanwhile.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Observation {
        StatFile = "stat of the file",
        StatNeighbour = "stat of another name",
        ListDirectory = "list of the directory",
        OpenFile = "open and close of the file",
        ReadFile = "read of the file",
        ListAttributes = "extended attributes",
        FindHole = "seek for a hole",
        StatFileSystem = "statfs",
        WriteOther = "write of another file",
        MakeOther = "create and unlink elsewhere",
        MakeNeighbour = "create and unlink beside it",
        WriteFile = "write of the file",
    }
}

impl Observation {
    /// Whether it may wait for a call: both change the same inode. Through the mount a listing may wait too, and a seek for
    /// a hole: the kernel keeps a directory locked for everybody while whoever makes a name in it waits, and a file while
    /// whoever writes to it waits.
    pub fn may_wait_for(self, access_path: AccessPath, call: Call) -> bool {
        let changes = match (self, access_path) {
            (Observation::WriteFile, _) => CHANGES_FILE,
            (Observation::MakeNeighbour, _) => CHANGES_DIRECTORY,
            (Observation::ListDirectory, AccessPath::Mount | AccessPath::Preload) => {
                CHANGES_DIRECTORY
            }
            (Observation::FindHole, AccessPath::Mount | AccessPath::Preload) => CHANGES_FILE,
            _ => 0,
        };
        changes & call.changes() != 0
    }
}

/// Make what everybody uses.
pub fn furnish<F: Files>(files: &F) -> Outcome<()> {
    files.make_directory(DIRECTORY)?;
    for name in [FILE, NEIGHBOUR] {
        files.create(name)?;
    }
    let file = files.open(FILE, false)?;
    let written = files.write_at(&file, 0, &vec![7; FILE_BYTES as usize]);
    files.close(file);
    written.map(drop)?;
    // Without any, no log is read for them.
    files.set_attribute(FILE, (c"user.some", b"value"))
}

/// A worker's files.
pub struct CallRunner<'a, F: Files> {
    files: &'a F,
    file: F::File,
    log: F::File,
    own: F::File,
    /// Names of this worker's begin so.
    prefix: String,
    data: Vec<u8>,
    /// How far the names were taken: made, renamed, removed.
    turn: u64,
}

impl<'a, F: Files> CallRunner<'a, F> {
    pub fn new(files: &'a F, number: usize) -> Outcome<CallRunner<'a, F>> {
        let prefix = format!("{DIRECTORY}/worker{number}-{}", std::process::id());
        let own = format!("own{number}-{}", std::process::id());
        files.create(&own)?;
        Ok(CallRunner {
            files,
            file: files.open(FILE, false)?,
            log: files.open(FILE, true)?,
            own: files.open(&own, false)?,
            prefix,
            data: vec![9; 3 * BLOCK],
            turn: 0,
        })
    }

    /// The call that can be made now when this one was drawn: what is renamed must be there.
    pub fn possible(&self, call: Call) -> Call {
        match (call, self.turn % 3) {
            (Call::Create | Call::Rename | Call::Unlink, 0) => Call::Create,
            (Call::Create | Call::Rename | Call::Unlink, 1) => Call::Rename,
            (Call::Create | Call::Rename | Call::Unlink, _) => Call::Unlink,
            _ => call,
        }
    }

    pub fn take(&mut self, call: Call, rng: &mut Rng) -> Outcome<()> {
        let at = rng.below(FILE_BYTES / BLOCK as u64) * BLOCK as u64;
        let some = rng.below(2 * BLOCK as u64) as usize + 1;
        let (files, data) = (self.files, &self.data);
        let (name, renamed) = (
            format!("{}-new", self.prefix),
            format!("{}-old", self.prefix),
        );
        self.turn += u64::from(call.changes() == CHANGES_DIRECTORY);
        match call {
            Call::Overwrite => files.write_at(&self.file, at, &data[..BLOCK]).map(drop),
            Call::WriteUnaligned => {
                let written = files.write_at(&self.file, at + some as u64, &data[..some]);
                written.map(drop)
            }
            Call::Append => files.append(&self.log, &data[..some]).map(drop),
            Call::Truncate => files.resize(&self.file, FILE_BYTES),
            Call::Punch => files.punch(&self.file, at, 2 * BLOCK as u64),
            Call::WriteNew => files.write_at(&self.own, at, data).map(drop),
            Call::Create => files.create(&name),
            Call::Rename => files.rename(&name, &renamed),
            Call::Unlink => files.unlink(&renamed),
        }
    }
}

/// An observer's files.
pub struct ObservationRunner<'a, F: Files> {
    files: &'a F,
    file: F::File,
    other: F::File,
    other_name: String,
    neighbour: String,
    data: Vec<u8>,
}

impl<'a, F: Files> ObservationRunner<'a, F> {
    pub fn new(files: &'a F, number: usize) -> Outcome<ObservationRunner<'a, F>> {
        let elsewhere = format!("elsewhere{number}");
        files.make_directory(&elsewhere)?;
        let other = format!("{elsewhere}/other");
        files.create(&other)?;
        Ok(ObservationRunner {
            files,
            file: files.open(FILE, false)?,
            other: files.open(&other, false)?,
            other_name: format!("{elsewhere}/new"),
            neighbour: format!("{DIRECTORY}/observer{number}"),
            data: vec![5; 2 * BLOCK],
        })
    }

    pub fn take(&mut self, look: Observation) -> Outcome<()> {
        let files = self.files;
        match look {
            Observation::StatFile => files.stat(FILE),
            Observation::StatNeighbour => files.stat(NEIGHBOUR),
            Observation::ListDirectory => files.list(DIRECTORY).map(drop),
            Observation::OpenFile => files.open(FILE, false).map(|file| files.close(file)),
            Observation::ReadFile => {
                let read = files.read_at(&self.file, BLOCK as u64 + 100, &mut self.data);
                read.map(drop)
            }
            Observation::ListAttributes => files.list_attributes(FILE),
            Observation::FindHole => files.find_hole(&self.file).map(drop),
            Observation::StatFileSystem => files.stat_file_system(),
            Observation::WriteOther => files.write_at(&self.other, 0, &self.data).map(drop),
            Observation::MakeOther => make_and_remove(files, &self.other_name),
            Observation::MakeNeighbour => make_and_remove(files, &self.neighbour),
            Observation::WriteFile => files.write_at(&self.file, 0, &self.data).map(drop),
        }
    }
}

fn make_and_remove<F: Files>(files: &F, name: &str) -> Outcome<()> {
    match files.create(name) {
        Err(Errno(libc::EEXIST)) | Ok(()) => files.unlink(name),
        refused => refused,
    }
}
