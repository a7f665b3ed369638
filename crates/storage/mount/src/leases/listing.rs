//! Listings of directories that the kernel keeps.
//!
//! Linux keeps one listing of a directory, and fills it from all handles that read it at that time. It checks only at
//! the beginning of a listing whether the kept one is as old as the directory (`fuse_readdir_cached`). A handle in the
//! middle of a listing switches to the kept one as soon as that is complete, even if that one was begun earlier. It
//! then misses names that were made before its own listing began. So the kernel may only keep a listing that a single
//! handle read without a break, and it is dropped when another begins.

/// What the kernel may have of a directory's listing.
#[derive(Default)]
pub(super) enum Listing {
    #[default]
    None,
    /// A part, read only by this handle. `is_mixed`: others read too, or it began twice.
    Part { handle: u64, is_mixed: bool },
    /// The complete listing, read by one handle.
    Whole,
}

impl Listing {
    /// A handle is about to get a part. Returns whether the kernel may have something older.
    pub(super) fn read(&mut self, reader: u64, is_beginning: bool) -> bool {
        let is_older = is_beginning && !matches!(self, Listing::None);
        let is_mixed = match self {
            Listing::None | Listing::Whole => !is_beginning,
            Listing::Part { handle, is_mixed } => *is_mixed || is_beginning || *handle != reader,
        };
        *self = Listing::Part {
            handle: reader,
            is_mixed,
        };
        is_older
    }

    /// The part that is being read must not be kept.
    pub(super) fn spoil(&mut self) {
        if let Listing::Part { is_mixed, .. } = self {
            *is_mixed = true;
        }
    }

    /// A handle reaches the end. Returns whether the kernel may keep its listing.
    pub(super) fn end(&mut self, reader: u64) -> bool {
        let is_good =
            matches!(self, Listing::Part { handle, is_mixed: false } if *handle == reader);
        *self = if is_good {
            Listing::Whole
        } else {
            Listing::None
        };
        is_good
    }
}

#[cfg(test)]
mod tests {
    use super::Listing;

    #[test]
    fn only_what_one_handle_read_alone_is_kept() {
        let mut listing = Listing::default();
        assert!(!listing.read(1, true));
        assert!(!listing.read(1, false));
        assert!(listing.end(1));
        // A second listing begins; then another handle reads at the same time, or one that began before.
        for beside in [(2, true), (2, false), (1, true)] {
            assert!(listing.read(1, true));
            assert_eq!(listing.read(beside.0, beside.1), beside.1);
            listing.read(1, false);
            assert!(!listing.end(1));
            assert!(!listing.read(1, true));
            assert!(listing.end(1));
        }
        // A handle is in the middle of its listing when another complete one is kept.
        listing.read(2, false);
        assert!(!listing.end(2));
    }
}
