//! Memory that a thread can store to only after it allows this: protection keys of the CPU (Linux: `pkeys(7)`).
//!
//! A register of each thread says what a key forbids. Loads shall cost nothing; a store costs one instruction before
//! and one after, which change the register. A thread older than the key, or in a signal handler, may first not even
//! load. Then a fault in a guarded routine shows this, loads are allowed, and the load is repeated.
//!
//! A key stops accidental stores of a faulty program. It does not stop deliberate stores: any thread may change its
//! register.

use std::arch::asm;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells whether the caller will surely [`close`] soon what its thread opened.
type ClosesLater = fn() -> bool;

/// Set: pools are protected in this process, as far as the CPU and the kernel can.
static WANTED: OnceLock<ClosesLater> = OnceLock::new();
/// The one key of all pools, once there is one. Key 0 is that of all other memory.
static KEY: AtomicU32 = AtomicU32::new(0);
/// The key, or none on this CPU or for this process; allocated at the first store.
static ALLOCATED: OnceLock<Option<u32>> = OnceLock::new();

/// Bit of a key in the register: neither loads nor stores.
const NO_ACCESS: u32 = 1;
/// Bit of a key in the register: no stores.
const NO_STORES: u32 = 2;

/// Protects all pools of this process that are written from now on against stores outside of [`crate::Pool`], if the
/// CPU has protection keys and the kernel provides one. `closes_later` is called on a thread that opens them for a
/// store. If it returns true, they stay open until the thread calls [`close`]; else they are closed right after the
/// store.
pub fn protect_stores(closes_later: fn() -> bool) {
    let _ = WANTED.set(closes_later);
}

/// Whether this process has a key.
pub fn has_key() -> bool {
    KEY.load(Ordering::Relaxed) != 0
}

/// Forbids stores by the calling thread again.
#[inline]
pub fn close() {
    let key = KEY.load(Ordering::Relaxed);
    if key != 0 {
        set_rights(rights() & !bits(key) | NO_STORES << (2 * key));
    }
}

/// The key for a pool that is to be written; `None`: not wanted, or not available.
pub(crate) fn key() -> Option<u32> {
    WANTED.get()?;
    *ALLOCATED.get_or_init(|| {
        // SAFETY: allocates a key, and forbids stores by it in the register of this thread; nothing carries it yet.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, NO_STORES) };
        let key = u32::try_from(key).ok().filter(|key| *key > 0)?;
        KEY.store(key, Ordering::Relaxed);
        Some(key)
    })
}

/// The calling thread may store until this is dropped, or until [`close`] if it closes later.
pub(crate) struct Open {
    closes: bool,
}

impl Open {
    pub(crate) fn begin() -> Open {
        let stays_open = opens_until_close();
        if !stays_open {
            set_rights(rights() & !bits(KEY.load(Ordering::Relaxed)));
        }
        Open {
            closes: !stays_open,
        }
    }
}

/// Whether the calling thread may store: it may already, or it may from now on until it calls [`close`]. Otherwise it needs
/// an [`Open`] for each store.
#[inline(always)]
pub(crate) fn opens_until_close() -> bool {
    let key = KEY.load(Ordering::Relaxed);
    if key == 0 {
        return true;
    }
    let rights = rights();
    rights & bits(key) == 0 || open_until_close(key, rights)
}

#[inline(never)]
fn open_until_close(key: u32, rights: u32) -> bool {
    // The thread notes that it has to close them, and only then opens them.
    let closes_later = WANTED.get().is_some_and(|closes_later| closes_later());
    if closes_later {
        set_rights(rights & !bits(key));
    }
    closes_later
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.closes {
            close();
        }
    }
}

/// Allows loads if the calling thread could not load; false when that was not the cause of a fault.
#[cold]
#[inline(never)]
pub(crate) fn allow_loads() -> bool {
    let key = KEY.load(Ordering::Relaxed);
    if key == 0 || rights() & NO_ACCESS << (2 * key) == 0 {
        return false;
    }
    close();
    true
}

#[inline(always)]
fn bits(key: u32) -> u32 {
    (NO_ACCESS | NO_STORES) << (2 * key)
}

/// The register, two bits per key. Only if there is a key: other CPUs do not have the instruction.
#[inline(always)]
fn rights() -> u32 {
    let rights;
    // SAFETY: reads a register of the thread; there is a key, so the CPU has it and the kernel switched it on.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nostack)) };
    rights
}

#[inline(always)]
fn set_rights(rights: u32) {
    // SAFETY: as for `rights`; only bits of our own key differ. No load or store is moved over it.
    unsafe { asm!("wrpkru", in("eax") rights, in("ecx") 0, in("edx") 0, options(nostack)) };
}
