//! Volumes.

use crate::arguments::{Handle, Lent, Place, Returned, Text, hand_out};
use crate::call::{call, failure};
use egeria_client::Volume;
use libc::{c_int, c_uint};

/// An attached volume.
pub struct egeria_volume {
    pub(crate) volume: Volume,
}

impl Handle for egeria_volume {
    const MARK: u64 = 0xE6E1_A001_564F_4C55;
}

/// Flag of egeria_attach: every change is refused with EROFS.
pub const EGERIA_READ_ONLY: c_uint = 1;

/// Space for data, bytes.
#[repr(C)]
pub struct egeria_space_report {
    /// In all.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
}

argument_names! {
    VolumeHandle = Lent<egeria_volume>;
    OwnVolume = Returned<egeria_volume>;
    SpacePlace = Place<egeria_space_report>;
}

/// Attach a volume by the path of any of its pools: join its session if it is attached, otherwise recover it first.
/// NULL: it failed. Flags: 0 or EGERIA_READ_ONLY.
///
/// # Safety
/// `pool` is NULL or a string.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_attach(pool: Text, flags: c_uint) -> *mut egeria_volume {
    call(std::ptr::null_mut(), || {
        let pool = pool.path()?;
        let volume = match flags {
            0 => Volume::attach(pool)?,
            EGERIA_READ_ONLY => Volume::attach_read_only(pool)?,
            _ => {
                return Err(failure(
                    libc::EINVAL,
                    "unknown flags; 0 or EGERIA_READ_ONLY",
                ));
            }
        };
        Ok(hand_out(egeria_volume { volume }))
    })
}

/// Give the handle back. Files that are open stay usable; with the last of them the volume is detached.
///
/// # Safety
/// The handle is NULL or from `egeria_attach`, and not used any more.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_detach(volume: OwnVolume) -> c_int {
    call(-1, || {
        drop(volume.take()?);
        Ok(0)
    })
}

/// How much space the volume has for data.
///
/// # Safety
/// The handle is NULL or valid; `space` is NULL or has room for one.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_space(volume: VolumeHandle, space: SpacePlace) -> c_int {
    call(-1, || {
        let found = volume.get()?.volume.space()?;
        let report = egeria_space_report {
            total_bytes: found.total_bytes,
            free_bytes: found.free_bytes,
        };
        space.put(report)?;
        Ok(0)
    })
}
