//! Numbers of file systems: a file has the same key, whichever source saw it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A device as the kernel numbers it, major and minor.
pub type Device = (u32, u32);

/// The file systems that files were seen on, in the order they were found. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct FileSystems(Arc<Mutex<Vec<Known>>>);

#[derive(Debug)]
struct Known {
    device: Device,
    /// A session counts what is read and written there.
    is_of_session: bool,
}

impl FileSystems {
    /// The number of this device in keys of files.
    pub fn number(&self, device: Device) -> u32 {
        u32::try_from(find(&mut self.all(), device)).unwrap_or(u32::MAX)
    }

    /// A session begins to count what is read and written on this device, or ends. Returns the device's number.
    pub fn set_of_session(&self, device: Device, is_of_session: bool) -> u32 {
        let mut all = self.all();
        let at = find(&mut all, device);
        all[at].is_of_session = is_of_session;
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Whether a session counts what is read and written on this device: others then do not.
    pub fn is_of_session(&self, device: Device) -> bool {
        let all = self.all();
        all.iter()
            .any(|known| known.device == device && known.is_of_session)
    }

    fn all(&self) -> MutexGuard<'_, Vec<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find(all: &mut Vec<Known>, device: Device) -> usize {
    let known = all.iter().position(|known| known.device == device);
    known.unwrap_or_else(|| {
        all.push(Known {
            device,
            is_of_session: false,
        });
        all.len() - 1
    })
}
