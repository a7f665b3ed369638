//! Moving everything off a pool, and what cannot be read of it.

use std::path::{Path, PathBuf};

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::remark;
use egeria_engine::{DrainReport, LostRange, Unreadable, Volume};
use egeria_machine::printable;
use serde::Serialize;

use super::bad_sectors;
use super::until_stopped::until_stopped;

/// What is to become of blocks that cannot be read.
#[derive(Args, Debug)]
pub struct UnreadableArguments {
    /// Sectors of the pool that must not be read, one FIRST COUNT a line
    #[arg(long, value_name = "FILE")]
    bad: Option<PathBuf>,
    /// Give up what cannot be read of files: each range is named first
    #[arg(long)]
    give_up: bool,
}

/// Bytes of a file that were given up.
#[derive(Serialize)]
pub struct Lost {
    path: String,
    ino: u64,
    offset_bytes: u64,
    length_bytes: u64,
}

/// An inode that could not be moved.
#[derive(Serialize)]
pub struct Left {
    ino: u64,
    why: String,
}

/// What was moved off a pool, and what not.
#[derive(Serialize)]
pub struct Evacuation {
    pub moved_bytes: u64,
    pub drained: bool,
    /// Whether a signal stopped it.
    pub stopped: bool,
    /// Inodes that could not be moved, at most 20.
    pub left: Vec<Left>,
    /// What was given up.
    pub lost: Vec<Lost>,
}

/// Index of the pool at a path.
pub fn index_of(volume: &Volume, pool: &Path) -> Outcome<u8> {
    volume
        .pool_at(pool)
        .ok_or_else(|| Failure::new(format!("{} was moved just now; try again", pool.display())))
}

/// Drains the pool at a path.
pub fn drain(
    volume: &Volume,
    path: &Path,
    unreadable: &UnreadableArguments,
) -> Outcome<Evacuation> {
    let pool = index_of(volume, path)?;
    let bad = bad_sectors::read(path, unreadable.bad.as_deref())?;
    let mut lost = Vec::new();
    // At once, since the range is about to be overwritten.
    let mut note = |range: LostRange| {
        let range = Lost::of(range);
        remark(&range.line());
        lost.push(range);
    };
    let report = until_stopped("draining the pool", |go_on| {
        let give_up: &mut dyn FnMut(LostRange) = &mut note;
        let unreadable = Unreadable {
            bad,
            give_up: unreadable.give_up.then_some(give_up),
        };
        volume.drain(pool, unreadable, go_on)
    })?;
    Ok(Evacuation::of(report, lost))
}

impl Lost {
    fn of(range: LostRange) -> Lost {
        Lost {
            path: range.path,
            ino: range.ino.0,
            offset_bytes: range.bytes.start,
            length_bytes: range.bytes.end - range.bytes.start,
        }
    }

    fn line(&self) -> String {
        let last = self.offset_bytes + self.length_bytes - 1;
        format!(
            "lost: bytes {} to {last} of {}; restore them from a copy",
            self.offset_bytes,
            printable(&self.path)
        )
    }
}

impl Evacuation {
    pub fn of(report: DrainReport, lost: Vec<Lost>) -> Evacuation {
        let drained = report.is_drained();
        let left = report.left.iter().map(|(ino, errno)| Left {
            ino: ino.0,
            why: errno.to_string(),
        });
        Evacuation {
            moved_bytes: report.moved_blocks * egeria_media::BLOCK_BYTES,
            drained,
            stopped: report.is_stopped,
            left: left.collect(),
            lost,
        }
    }

    /// Lines about what is still on the pool.
    pub fn left_lines(&self) -> String {
        let lines = self.left.iter().map(|left| {
            let Left { ino, why } = left;
            format!("inode {ino} could not be moved: {why}\n")
        });
        lines.collect()
    }
}
