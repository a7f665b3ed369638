//! Why a tree could not be sent or received.

use std::io;
use std::path::PathBuf;

use egeria_machine::printable;

/// Cause and remedy, in one line.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The stream cannot be written.
    #[error("the stream cannot be written: {0}; send it again")]
    Write(#[source] io::Error),
    /// The stream cannot be read.
    #[error("the stream cannot be read: {0}; send it again")]
    Read(#[source] io::Error),
    /// It is something else, or from a later release.
    #[error(
        "this is no stream of `egeria send` that this release reads; send it with the same release"
    )]
    NoStream,
    /// It ends before its end.
    #[error("the stream ends early; send it again")]
    EndsEarly,
    /// A part is not what was sent.
    #[error("the stream is damaged: {0}; send it again")]
    Damaged(&'static str),
    /// The snapshot ended before it was sent: programs needed the space that it held.
    #[error(
        "the volume ran out of space while it was sent, and programs come first; remove files or add a pool, then send again"
    )]
    NoSpace,
    /// Something in the snapshot cannot be read.
    #[error("{} cannot be read: {what}; run `egeria scrub` on the volume", printable(.path))]
    Source {
        /// In the tree that is sent.
        path: String,
        what: String,
    },
    /// A process that is stopped holds an inode.
    #[error("{} is held by a process that is stopped in a change of it; continue or end it, then send again", printable(.0))]
    Held(String),
    /// The directory that is to be made is there.
    #[error("{} is there already; name a new directory", .0.display())]
    Exists(PathBuf),
    /// Something cannot be made or read where the tree is received.
    #[error("{}: {error}; {remedy}", .path.display())]
    Place {
        path: PathBuf,
        error: io::Error,
        remedy: &'static str,
    },
    /// The stream has only what changed since another one.
    #[error(
        "the stream has only what changed since stream {0}; give --base with the directory that was received from that one"
    )]
    NeedsBase(uuid::Uuid),
    /// The base is another tree.
    #[error("{} was not received from stream {wanted}; name the directory that was", .base.display())]
    OtherBase { base: PathBuf, wanted: uuid::Uuid },
    /// A file of the base is not as it was received.
    #[error("{} has changed since it was received; receive a full stream instead", .0.display())]
    BaseChanged(PathBuf),
}

pub(crate) type Outcome<T> = Result<T, TransferError>;
