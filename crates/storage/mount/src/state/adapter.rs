//! The state from which requests are answered.

use crate::kernel::notify::Kernel;
use crate::leases::Leases;
use crate::options::LeaseTiming;
use crate::point::identity::Identity;
use crate::replies::failures::Failures;
use crate::replies::request_counts::RequestCounts;
use crate::state::caller_cpu::cpu_of;
use crate::state::coherence::Coherence;
use crate::state::known::KnownInodes;
use crate::state::open_files::OpenFiles;
use crate::state::preloaded::Preloaded;
use crate::state::readers::Readers;
use crate::state::tickets::Tickets;
use egeria_engine::Volume;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The state from which requests are answered.
pub(crate) struct Adapter {
    pub volume: Arc<Volume>,
    pub coherence: Arc<Coherence>,
    pub identity: Identity,
    pub known: KnownInodes,
    pub leases: Arc<Leases>,
    pub kernel: Kernel,
    pub files: OpenFiles,
    pub tickets: Tickets,
    pub failures: Arc<Failures>,
    pub readers: Arc<Readers>,
    pub preloaded: Preloaded,
    /// Requests that wait on threads of their own.
    pub waiting: AtomicUsize,
}

impl Adapter {
    /// Whether the program of this thread has the preload library, or uses the volume without the mount in another way. The
    /// environment that a program was started with does not always tell: some, such as PostgreSQL, write a title there.
    pub(crate) fn has_library(&self, thread_id: u32) -> bool {
        self.volume.is_attached_by(thread_id) || self.preloaded.has(thread_id)
    }

    /// Do the work of a request of a thread that writes: its new data goes to that thread's node, and bytes count as
    /// the thread's.
    pub(crate) fn write_for<T>(&self, thread_id: u32, work: impl FnOnce() -> T) -> T {
        let has_nodes = self.volume.pools().len() > 1;
        let cpu = has_nodes.then(|| cpu_of(thread_id)).flatten();
        let work = || self.volume.write_from_cpu(cpu, work);
        self.volume.for_caller(thread_id, work)
    }

    pub(crate) fn new(
        volume: Arc<Volume>,
        coherence: Arc<Coherence>,
        kernel: Kernel,
        read_only: bool,
        lease_timing: LeaseTiming,
        max_page_bytes: u64,
        counts: Arc<RequestCounts>,
    ) -> Self {
        let identity = Identity::new(&volume, read_only);
        let references = volume.track_lookups();
        let leases = Arc::new(Leases::new(
            volume.clone(),
            references,
            kernel.can_forget_names(),
            lease_timing,
            max_page_bytes,
        ));
        let known = KnownInodes::new(references, leases.clone());
        let files = OpenFiles::default();
        Adapter {
            volume,
            coherence,
            identity,
            known,
            leases,
            kernel,
            files,
            tickets: Tickets::default(),
            failures: Arc::new(Failures::new(counts)),
            readers: Readers::new(
                std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1),
            ),
            preloaded: Preloaded::default(),
            waiting: AtomicUsize::new(0),
        }
    }
}
