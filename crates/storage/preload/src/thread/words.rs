//! What the library keeps per thread: plain words in the initial-exec thread-local segment.
//!
//! Rust's `thread_local!` in a shared object costs a call of `__tls_get_addr`; this is one load and
//! one add, needs no initialisation and no destructor, and may be touched in a signal handler. A
//! library loaded at start always gets its initial-exec words; `dlopen` of this one is not meant.

use super::stack::Stacks;
use crate::description::pin::Pin;
use crate::system::raw;
use libc::c_void;
use std::arch::{asm, global_asm};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// The thread is inside the engine: its hooks go straight to the kernel, its handlers wait.
pub const INSIDE: u32 = 1;
/// The thread called `vfork`: whoever runs now may be the child, in the parent's memory.
pub const VFORK: u32 = 2;
/// The thread is in `fork`: data goes to the kernel, descriptors are still followed.
pub const FORKING: u32 = 4;

/// One thing to do when the thread ends.
pub struct Ending {
    pub run: *mut c_void,
    pub object: *mut c_void,
    /// The one added before.
    pub next: *mut Ending,
}

/// A place of the working directory; which thread looked knows what the words mean (`serve::start`).
#[repr(C)]
pub struct SeenDirectory {
    /// Count of changes when it was looked at.
    pub changes: AtomicU64,
    /// Processor's clock then.
    pub seen_at_ticks: AtomicU64,
    /// Mount of a volume, or null.
    pub mount: AtomicPtr<c_void>,
    pub ino: AtomicU64,
}

/// Classes of small pieces of memory that threads keep (see `allocator`).
pub const KEPT_CLASSES: usize = 7;

/// Free pieces of one class that a thread keeps for itself, which nobody else touches.
#[repr(C)]
pub struct KeptPieces {
    /// The first; each holds the address of the next.
    pub first: AtomicPtr<u8>,
    /// About how many.
    pub count: AtomicU32,
}

/// One thread's words. All zero at first.
#[repr(C, align(64))]
pub struct Thread {
    /// [`INSIDE`], [`VFORK`], [`FORKING`]: nonzero means "not the ordinary way".
    pub gate: AtomicU32,
    /// What the thread must do when it leaves the engine (see `signals`).
    pub pending: AtomicU32,
    /// The thread's pin; null until its first call on a file of ours.
    pub pin: AtomicPtr<Pin>,
    /// Signal mask to restore when leaving the engine.
    pub saved_mask: AtomicU64,
    /// SIGSEGV and SIGBUS bits that the program believes to have blocked.
    pub believed_mask: AtomicU64,
    /// Handlers of the program that run in this thread now.
    pub handler_depth: AtomicU32,
    /// Not 0: the engine may store to pools, until the thread leaves it. Handlers wait during that.
    pub pools_open: AtomicU32,
    /// Where the working directory was when this thread last looked.
    pub working_directory: SeenDirectory,
    /// What the engine asked to be done when the thread ends (see `endings`).
    pub endings: AtomicPtr<Ending>,
    /// What its calls run on.
    pub stacks: Stacks,
    /// Free memory, by class.
    pub kept: [KeptPieces; KEPT_CLASSES],
    /// The owner of the tables when the thread was last seen to belong to it, and in the lower half the kernel's number
    /// of the thread; 0: not seen yet.
    seen_of: AtomicU64,
}

global_asm!(
    ".pushsection .tbss.egeria_preload_thread,\"awT\",@nobits",
    ".p2align 6",
    ".globl egeria_preload_thread",
    ".hidden egeria_preload_thread",
    ".type egeria_preload_thread,@object",
    ".size egeria_preload_thread,{bytes}",
    "egeria_preload_thread:",
    ".zero {bytes}",
    ".popsection",
    bytes = const size_of::<Thread>(),
);

/// The calling thread's words. The reference is good while the thread lives.
#[inline(always)]
pub fn current() -> &'static Thread {
    let address: *const Thread;
    // SAFETY: the address is a constant of the thread; the words are zeroed before it runs.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + egeria_preload_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address,
            options(pure, nomem, nostack)
        );
        &*address
    }
}

impl Thread {
    /// Whether any of these gate bits is set.
    #[inline(always)]
    pub fn has(&self, bits: u32) -> bool {
        self.gate.load(Ordering::Relaxed) & bits != 0
    }

    /// The thread's pin; `None` until its first call on a file of ours.
    #[inline(always)]
    pub fn pin(&self) -> Option<&'static Pin> {
        // SAFETY: a thread's pin lies in memory that is mapped for ever.
        unsafe { self.pin.load(Ordering::Relaxed).as_ref() }
    }

    /// Whether it has a pin that no fork has wiped.
    #[inline(always)]
    pub fn has_live_pin(&self) -> bool {
        self.id_in_pin() != 0
    }

    #[inline(always)]
    fn id_in_pin(&self) -> u32 {
        self.pin()
            .map_or(0, |pin| pin.thread.load(Ordering::Relaxed))
    }

    /// The kernel's number of the thread that calls, whose process is `owner`, as far as anybody knows.
    pub fn id(&self, owner: u32) -> u32 {
        match self.id_in_pin() {
            0 if self.belongs_to(owner) => self.seen_of.load(Ordering::Relaxed) as u32,
            0 => raw::gettid() as u32,
            id => id,
        }
    }

    /// Whether the thread was seen to belong to this process, and made no child since that uses its memory.
    #[inline]
    pub fn belongs_to(&self, owner: u32) -> bool {
        let seen = (self.seen_of.load(Ordering::Relaxed) >> 32) as u32;
        owner != 0 && seen == owner && !self.has(VFORK)
    }

    /// The calling thread belongs to this process.
    pub fn note_owner(&self, owner: u32) {
        let seen = u64::from(owner) << 32 | raw::gettid() as u64;
        self.seen_of.store(seen, Ordering::Relaxed);
    }

    /// The calling thread is another one: that of a fork child.
    pub fn forget_owner(&self) {
        self.seen_of.store(0, Ordering::Relaxed);
    }

    /// Set gate bits. Only the thread itself changes its gate; a handler leaves it as it found it.
    #[inline(always)]
    pub fn set(&self, bits: u32) {
        self.gate
            .store(self.gate.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Clear gate bits.
    #[inline(always)]
    pub fn clear(&self, bits: u32) {
        compiler_fence(Ordering::SeqCst);
        self.gate
            .store(self.gate.load(Ordering::Relaxed) & !bits, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// Whether a handler of the program runs on it.
    pub fn is_in_handler(&self) -> bool {
        self.handler_depth.load(Ordering::Relaxed) > 0
    }

    /// Leave the engine: handlers that came meanwhile run now.
    #[inline(always)]
    pub fn leave(&self) {
        self.close_pools();
        self.clear(INSIDE);
        self.deliver();
    }

    /// Forbid stores to pools again. Before handlers may run: they call the library, too.
    #[inline(always)]
    pub fn close_pools(&self) {
        if self.pools_open.load(Ordering::Relaxed) != 0 {
            self.pools_open.store(0, Ordering::Relaxed);
            egeria_media::protection::close();
        }
    }

    /// It ends: others may have its memory.
    pub fn end(&self) {
        self.set(INSIDE);
        self.stacks.give_back();
        self.leave();
    }

    /// Run the handlers that came while the thread was inside.
    #[inline(always)]
    pub fn deliver(&self) {
        if self.pending.load(Ordering::Relaxed) != 0 {
            deliver_pending(self);
        }
    }
}

/// What delivers the signals that came while a thread was inside.
static DELIVERY: OnceLock<fn(&Thread)> = OnceLock::new();

/// Before the first signal can come while a thread is inside: what delivers it.
pub fn set_delivery(deliver: fn(&Thread)) {
    let _ = DELIVERY.set(deliver);
}

#[cold]
#[inline(never)]
fn deliver_pending(thread: &Thread) {
    if let Some(deliver) = DELIVERY.get() {
        deliver(thread);
    }
}

/// Whether the calling thread is in the engine.
#[inline(always)]
pub fn is_inside() -> bool {
    current().has(INSIDE)
}

/// Run `body` marked as inside, on memory of our own, unless the thread is inside already.
pub fn inside<T>(body: impl FnOnce() -> T) -> T {
    let thread = current();
    if thread.has(INSIDE) {
        return Stacks::run_here(body);
    }
    thread.set(INSIDE);
    let outcome = thread.stacks.run(body);
    thread.leave();
    outcome
}
