//! What requests are answered from.

use crate::coherence::Coherence;
use crate::failures::Failures;
use crate::identity::Identity;
use crate::known::KnownInodes;
use crate::open_files::OpenFiles;
use egeria_fs::Volume;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// What requests are answered from.
pub(crate) struct Adapter {
    pub volume: Arc<Volume>,
    pub coherence: Arc<Coherence>,
    pub identity: Identity,
    pub known: KnownInodes,
    pub files: OpenFiles,
    pub failures: Arc<Failures>,
    /// Requests that wait on threads of their own.
    pub waiting: AtomicUsize,
}

impl Adapter {
    pub(crate) fn new(volume: Arc<Volume>, coherence: Arc<Coherence>, read_only: bool) -> Self {
        let identity = Identity::new(&volume, read_only);
        let (known, files) = (KnownInodes::new(&volume), OpenFiles::default());
        Adapter {
            volume,
            coherence,
            identity,
            known,
            files,
            failures: Arc::default(),
            waiting: AtomicUsize::new(0),
        }
    }
}
