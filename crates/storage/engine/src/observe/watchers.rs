//! Processes that need the kernel to see changes of names: those with inotify or fanotify watches on a mount. While
//! there is such a process, programs change names through the mount, where the kernel raises the events.

use crate::observe::Users;
use std::sync::atomic::Ordering;

impl Users<'_> {
    /// A process leaves, or is dead.
    pub(crate) fn end_watch(self, process: usize) {
        if self.volume.session.processes()[process]
            .watches
            .swap(0, Ordering::SeqCst)
            != 0
        {
            self.volume
                .session
                .header()
                .watchers
                .fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::test_volume::new_volume;
    use crate::*;

    #[test]
    fn names_are_watched_until_the_last_watcher_detaches() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path) = new_volume(&directory);
        let options = AttachOptions::default();
        let other = || Volume::attach(&path, AttachMode::ReadOnly, &options).expect("attach");
        let (one, two) = (other(), other());
        assert!(!volume.are_names_watched());
        for watcher in [&one, &two, &one] {
            watcher.watch_names().expect("a place");
        }
        assert!(volume.are_names_watched());
        drop(one);
        drop(two);
        assert!(!volume.are_names_watched());
    }
}
