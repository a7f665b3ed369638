//! A mount from its making to its end.

use crate::kernel::notify::Kernel;
use crate::options::{LeaseTiming, MountOptions};
use crate::point::endpoint::{self, Endpoint};
use crate::point::error::MountError;
use crate::point::{helper, unmount};
use crate::replies::request_counts::RequestCounts;
use crate::serving::recalls::Recalls;
use crate::serving::requests::Requests;
use crate::state::adapter::Adapter;
use crate::state::coherence::{Coherence, Invalidations, Range, send_invalidations};
use egeria_engine::{FileReference, InodeNumber, Volume};
use fuser::{Config, Session, SessionACL};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often to look for dead processes, and for changes of marked files by processes that do not announce them.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// How long a mount may be served after it was unmounted.
const LINGER: Duration = Duration::from_secs(10);

/// Serve the volume at the directory until it is unmounted. `ready` is called once, as soon as requests are answered.
///
/// # Errors
/// Those of [`spawn`]; [`MountError::System`] when the connection to the kernel broke (`ENODEV` when it was aborted,
/// `EIO`).
pub fn serve(
    volume: Arc<Volume>,
    directory: &Path,
    options: &MountOptions,
    ready: impl FnOnce(),
) -> Result<(), MountError> {
    serve_counted(volume, directory, options, Arc::default(), ready)
}

/// Serve the volume at the directory until it is unmounted, with counts that other code may read.
///
/// # Errors
/// Those of [`serve`].
pub fn serve_counted(
    volume: Arc<Volume>,
    directory: &Path,
    options: &MountOptions,
    counts: Arc<RequestCounts>,
    ready: impl FnOnce(),
) -> Result<(), MountError> {
    let server = Server::start(volume, directory, options, counts)?;
    ready();
    server.run()
}

/// Answer requests from a socket, one message each, on one thread, until its other end is closed. This is for programs
/// that take the kernel's place, such as fuzzers. Faults of pool memory are not caught.
///
/// # Errors
/// [`MountError::System`], also at the end of the requests (`ENODEV`), and with `ENOMEM` or `EAGAIN` when threads
/// cannot be started.
pub fn serve_socket(
    volume: Arc<Volume>,
    socket: OwnedFd,
    read_only: bool,
) -> Result<(), MountError> {
    volume.works_on_behalf();
    let mut config = Config::default();
    config.n_threads = Some(1);
    let (session, _, helpers) = Server::answer(
        volume,
        socket,
        read_only,
        (LeaseTiming::AtOnce, None),
        Arc::default(),
        config,
    )?;
    let served = session.run();
    helpers.stop();
    served.map_err(ended)
}

/// Serve the volume at the directory in the background. Requests are answered when this returns.
///
/// This process may use the mount, but must not touch mappings of its files: a page fault may
/// hold the lock of the address space that the serving threads need to answer it.
///
/// # Errors
/// [`MountError::Missing`] (`ENOENT`), [`MountError::NotADirectory`] (`ENOTDIR`), [`MountError::AlreadyMounted`]
/// (`EBUSY`), [`MountError::DeadEndpoint`] (`ENOTCONN`), [`MountError::NoFuse`] (`ENOENT`, `EPERM`),
/// [`MountError::NoPermission`] (`EPERM`, `EACCES`), [`MountError::AllowOtherForbidden`], [`MountError::NoHelper`],
/// [`MountError::NotRoot`]; [`MountError::System`] with any other errno of the system.
pub fn spawn(
    volume: Arc<Volume>,
    directory: &Path,
    options: &MountOptions,
) -> Result<MountHandle, MountError> {
    let server = Server::start(volume, directory, options, Arc::default())?;
    let directory = server.directory.clone();
    let coherence = server.coherence.clone();
    let thread = thread("egeria-mount", move || server.run())?;
    Ok(MountHandle {
        directory,
        coherence,
        thread: Some(thread),
    })
}

/// A mount served in the background. Dropping it detaches the mount point at once; the mount goes on for processes
/// that still use it.
pub struct MountHandle {
    directory: PathBuf,
    coherence: Arc<Coherence>,
    thread: Option<JoinHandle<Result<(), MountError>>>,
}

impl MountHandle {
    /// Absolute path of the mount point.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Unmount, if it is still mounted, and wait until all resources are released. If the mount is in use, the error
    /// lists its holders, and the mount point is detached all the same. If another mount namespace has a copy of the mount, the
    /// kernel does not end it. Then it is aborted after 10 s, as far as the kernel lets us; what was acknowledged is not lost.
    ///
    /// # Errors
    /// Those of [`crate::point::unmount`], the error with which serving failed, and [`MountError::Copied`].
    pub fn unmount(mut self) -> Result<(), MountError> {
        let mounts = crate::mounts().unwrap_or_default();
        let mut mounts = mounts.into_iter().rev();
        let own = mounts.find(|mount| mount.directory == self.directory);
        match unmount::unmount(&self.directory) {
            Ok(()) | Err(MountError::NotMounted(_)) => {}
            Err(error) => return Err(error),
        }
        if self.ends_within(LINGER) {
            return self.wait();
        }
        let is_aborted = own.is_some_and(|mount| abort(&mount.device).is_ok());
        if is_aborted && self.ends_within(LINGER) {
            // It ended as it was asked to.
            let _ = self.wait();
            return Ok(());
        }
        // Nothing can be done here; it is served until its last copy is gone.
        self.thread = None;
        Err(MountError::Copied(self.directory.clone()))
    }

    /// Whether it is not served any more, now or in this time.
    fn ends_within(&self, limit: Duration) -> bool {
        const PAUSE: Duration = Duration::from_millis(5);
        let begun = std::time::Instant::now();
        while self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            if begun.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Wait until the file system is unmounted.
    ///
    /// # Errors
    /// [`MountError::System`] with what serving failed with (`ENODEV` when the connection was aborted, `EIO`).
    pub fn join(mut self) -> Result<(), MountError> {
        self.wait()
    }

    /// Tell the kernel that this process changed a range of a file past it (length 0: to the
    /// end). Costs next to nothing unless the kernel holds pages of the file.
    pub fn invalidate(
        &self,
        ino: InodeNumber,
        file: FileReference,
        offset_bytes: u64,
        length_bytes: u64,
    ) {
        self.coherence.changed(
            ino,
            file,
            Range {
                offset_bytes,
                length_bytes,
            },
        );
    }

    fn wait(&mut self) -> Result<(), MountError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            None => Ok(()),
            Some(Err(_)) => Err(ended(io::Error::other("the serving thread panicked"))),
        }
    }
}

impl Drop for MountHandle {
    fn drop(&mut self) {
        if self
            .thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
        {
            let _ = unmount::unmount_lazily(&self.directory);
        }
    }
}

/// A mount whose requests queue until [`Server::run`].
struct Server {
    directory: PathBuf,
    session: Session<Requests>,
    coherence: Arc<Coherence>,
    helpers: Helpers,
    /// Unmounts when this process dies.
    guardian: Option<helper::Guardian>,
}

impl Server {
    fn start(
        volume: Arc<Volume>,
        directory: &Path,
        options: &MountOptions,
        counts: Arc<RequestCounts>,
    ) -> Result<Server, MountError> {
        volume.works_on_behalf();
        let read_only = options.read_only || volume.is_read_only();
        let options = MountOptions {
            read_only,
            ..options.clone()
        };
        let pools = volume.pool_paths();
        let source = pools
            .first()
            .map_or("egeria".as_ref(), |path| path.as_os_str());
        let endpoint = endpoint::make(directory, source, &options)?;
        let Endpoint {
            device,
            directory,
            guardian,
        } = endpoint;
        let config = config(options.threads);
        let kept = (options.leases, options.page_cache_bytes);
        let started = Server::answer(volume, device, read_only, kept, counts, config);
        let (session, coherence, helpers) = started.inspect_err(|_| {
            let _ = unmount::unmount_lazily(&directory);
        })?;
        endpoint::read_ahead_a_request(&directory);
        Ok(Server {
            directory,
            session,
            coherence,
            helpers,
            guardian,
        })
    }

    /// The code that answers requests from the device.
    fn answer(
        volume: Arc<Volume>,
        device: OwnedFd,
        read_only: bool,
        (lease_timing, page_cache_bytes): (LeaseTiming, Option<u64>),
        counts: Arc<RequestCounts>,
        config: Config,
    ) -> Result<(Session<Requests>, Arc<Coherence>, Helpers), MountError> {
        let (coherence, invalidations) = Coherence::new(volume.clone());
        let coherence = Arc::new(coherence);
        let kernel = device.try_clone().map_err(|source| MountError::System {
            what: "cannot copy the descriptor of the mount".to_owned(),
            hint: "raise the limit of open files (ulimit -n)",
            source,
        })?;
        let kernel = Kernel::new(kernel);
        let adapter = Adapter::new(
            volume.clone(),
            coherence.clone(),
            kernel,
            read_only,
            lease_timing,
            page_cache_bytes.unwrap_or_else(|| default_page_cache_bytes(&volume)),
            counts,
        );
        let requests = Requests::new(adapter);
        let adapter = requests.0.clone();
        let recalls = Recalls::start(adapter.clone())?;
        let session =
            Session::from_fd(requests, device, SessionACL::All, config).map_err(|source| {
                MountError::System {
                    what: "the kernel and the mount do not understand each other".to_owned(),
                    hint: "use Linux 5.4 or newer",
                    source,
                }
            })?;
        let helpers = Helpers::start(adapter, invalidations, recalls)?;
        Ok((session, coherence, helpers))
    }

    /// Serve until unmounted.
    fn run(self) -> Result<(), MountError> {
        let served = self.session.run();
        self.helpers.stop();
        drop(self.guardian);
        match served {
            // The kernel's other answer after an unmount: it closed the connection during this request.
            Err(error)
                if error.raw_os_error() == Some(libc::ECONNABORTED)
                    && is_unmounted(&self.directory) =>
            {
                Ok(())
            }
            served => served.map_err(ended),
        }
    }
}

/// Aborts the connection of a FUSE mount with this device (`major:minor`).
fn abort(device: &str) -> io::Result<()> {
    let (_, minor) = device.split_once(':').ok_or(io::ErrorKind::InvalidInput)?;
    let minor: u32 = minor.parse().map_err(io::Error::other)?;
    std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1")
}

/// Whether no mount of ours is there, or will be gone in a moment.
fn is_unmounted(directory: &Path) -> bool {
    const LOOKS: u32 = 20;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
    (0..LOOKS).any(|look| {
        if look > 0 {
            std::thread::sleep(PAUSE);
        }
        crate::mounts().is_ok_and(|mounts| mounts.iter().all(|mount| mount.directory != directory))
    })
}

fn ended(source: io::Error) -> MountError {
    MountError::System {
        what: "the mount ended early".to_owned(),
        hint: "mount again, no acknowledged operation is lost",
        source,
    }
}

fn default_page_cache_bytes(volume: &Volume) -> u64 {
    if volume.is_emulated() {
        0
    } else {
        let system = rustix::system::sysinfo();
        system.totalram as u64 * u64::from(system.mem_unit) / 4
    }
}

/// The kernel checks permissions, so fuser accepts every user that the kernel accepts.
fn config(threads: usize) -> Config {
    let mut config = Config::default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    config.n_threads = Some(if threads == 0 {
        (2 * cpus).clamp(4, 32)
    } else {
        threads
    });
    // A queue for each thread, if the device can be opened again.
    config.clone_fd = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .is_ok();
    config
}

fn thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, MountError> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(body).map_err(|source| MountError::System {
        what: "cannot start a thread".to_owned(),
        hint: "raise the limit of processes (ulimit -u)",
        source,
    })
}

/// The threads that serve no requests: one invalidates, one does periodic checks, some recall leases.
struct Helpers {
    coherence: Arc<Coherence>,
    stop: Arc<AtomicBool>,
    invalidating: JoinHandle<()>,
    looking: JoinHandle<()>,
    recalls: Recalls,
}

impl Helpers {
    fn start(
        adapter: Arc<Adapter>,
        queue: Invalidations,
        recalls: Recalls,
    ) -> Result<Helpers, MountError> {
        let stop = Arc::new(AtomicBool::new(false));
        let teller = adapter.clone();
        let invalidating = thread("egeria-invalidate", move || {
            send_invalidations(queue, &teller.kernel, &teller.leases)
        })?;
        let (stopped, coherence) = (stop.clone(), adapter.coherence.clone());
        let looking = thread("egeria-reap", move || look_around(&adapter, &stopped))?;
        Ok(Helpers {
            coherence,
            stop,
            invalidating,
            looking,
            recalls,
        })
    }

    /// Stop after the session is over; queued work is still done.
    fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.looking.thread().unpark();
        self.coherence.stop();
        let _ = self.looking.join();
        let _ = self.invalidating.join();
        self.recalls.stop();
    }
}

fn look_around(adapter: &Adapter, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        adapter.leases.work_for_kernel();
        adapter.volume.reap();
        adapter.volume.report_noted_waits();
        // Another mount that granted leases may have ended.
        adapter.leases.try_to_begin();
        adapter.kernel.look_after_notifiers();
        adapter
            .coherence
            .watch(|ino| adapter.leases.has_leased_pages(ino));
        adapter.failures.log_left_out();
        if adapter.kernel.has_ended() {
            // A thread that served nothing may have been the only one that read.
            adapter.readers.end();
        }
        std::thread::park_timeout(LOOK_AROUND);
    }
    adapter.failures.log_all_left_out();
}
