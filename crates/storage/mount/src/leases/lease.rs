//! The lease on one inode, as a state machine.
//!
//! ```text
//!           hold                 grant
//!   Idle ─────────▶ Held ◀───────────────▶ Granted      a change by the kernel ends a grant
//!    ▲                │                        │
//!    │ end_recall     └── begin_recall ────────┤
//!    └──────────────── Recalling ◀─────────────┘        also from Idle
//! ```

use super::given::Given;
use super::listing::Listing;
use super::times::{MAX_DOUBLINGS, Rests, UNTIL_CHANGED, UNTIL_REPLACED};
use egeria_engine::{Attributes, InodeNumber, Recall};
use std::collections::HashSet;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The thread that sent a request; 0 if the kernel does not report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker(pub u32);

impl Asker {
    /// Whether the first answer was processed: a thread processes an answer before it asks again.
    fn has_taken_in(self, first: Asker) -> bool {
        self.0 != 0 && self == first
    }
}

/// The threads that got attributes which may be remembered, since the lease was granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receivers {
    #[default]
    None,
    One(Asker),
    Several,
}

impl Receivers {
    fn add(&mut self, asker: Asker) {
        *self = match *self {
            Receivers::None => Receivers::One(asker),
            Receivers::One(only) if asker.has_taken_in(only) => *self,
            _ => Receivers::Several,
        };
    }
}

/// Identifies a grant of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(pub(super) u64);

/// What a lease that the engine has covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cover {
    /// The names in the directory, too.
    names: bool,
    /// The kernel's listing of the directory, if it has one, was read under this lease.
    listing: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The engine has no lease.
    #[default]
    Idle,
    /// The engine has the lease: a change of the inode past the kernel recalls it first. Answers may not be remembered.
    Held(Cover),
    /// As `Held`, and answers may be remembered.
    Granted {
        cover: Cover,
        epoch: Epoch,
        /// When attributes were first answered since the grant, and to which thread.
        shown: Option<(Instant, Asker)>,
        receivers: Receivers,
    },
    /// A process is about to change the inode, and the kernel is made to forget it. Nothing is granted.
    Recalling {
        recall: Recall,
        /// Pages or names were read since the recall began.
        is_read: bool,
        /// The kernel began to move a name here since the recall began.
        is_moved: bool,
    },
}

/// The lease on an inode, and what the kernel may have of it.
#[derive(Default)]
pub(super) struct Lease {
    state: State,
    /// Changes by the kernel that are about to be answered, after their notification.
    pub(super) notifying: u32,
    pub(super) listing: Listing,
    /// Names that the kernel may remember as missing.
    pub(super) missing: HashSet<Box<[u8]>>,
    /// Names by which the kernel may remember the inode, which is no directory.
    pub(super) names: Vec<FileName>,
    /// Pages of the file that the kernel may have read.
    pub(super) pages: Pages,
    /// Which of them it was given.
    pub(super) given: Given,
    /// Bytes counted for these pages.
    pub(super) paged_bytes: u64,
    /// When a look-up was last answered with a name, or with none; of a file, with its name.
    pub(super) answered: Option<Instant>,
    /// When the last recall ended, and how many came before it.
    recalled: Option<(Instant, u32)>,
    /// The thread whose last request here removed a name. The next name that it looks up is likely to go as well.
    removing: Option<Asker>,
    /// Change time of the inode after the last change by this kernel. If it is still the same, no other process
    /// changed the inode.
    pub(super) changed_by_kernel_ns: Option<i64>,
}

impl Lease {
    fn cover(&self) -> Option<Cover> {
        match self.state {
            State::Held(cover) | State::Granted { cover, .. } => Some(cover),
            State::Idle | State::Recalling { .. } => None,
        }
    }

    fn cover_mut(&mut self) -> Option<&mut Cover> {
        match &mut self.state {
            State::Held(cover) | State::Granted { cover, .. } => Some(cover),
            State::Idle | State::Recalling { .. } => None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.cover().is_some()
    }

    /// Whether the engine has the lease, with names if these are wanted.
    pub(super) fn is_held_for(&self, with_names: bool) -> bool {
        self.cover().is_some_and(|cover| cover.names || !with_names)
    }

    /// The engine has the lease from now on, if no recall is under way.
    pub(super) fn hold(&mut self, with_names: bool) {
        if matches!(self.state, State::Idle) {
            self.state = State::Held(Cover::default());
        }
        if let Some(cover) = self.cover_mut() {
            cover.names |= with_names;
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        matches!(self.state, State::Granted { .. })
    }

    /// The grant under which answers may be remembered, if it covers what is wanted.
    pub(super) fn epoch_for(&self, with_names: bool) -> Option<Epoch> {
        match self.state {
            State::Granted { cover, epoch, .. } if cover.names || !with_names => Some(epoch),
            _ => None,
        }
    }

    /// Whether this grant is still in force.
    pub(super) fn has(&self, wanted: Epoch) -> bool {
        matches!(self.state, State::Granted { epoch, .. } if epoch == wanted)
    }

    pub(super) fn may_be_granted(&self, rests: &Rests, now: &Attributes) -> bool {
        let is_rested = |(at, recalls): (Instant, u32)| {
            at.elapsed() >= rests.after_recall * (1 << recalls.min(MAX_DOUBLINGS))
        };
        let is_at_rest = self.changed_by_kernel_ns == Some(now.ctime_ns) || has_rested(rests, now);
        is_at_rest && !self.is_recalling() && self.recalled.is_none_or(is_rested)
    }

    /// Grant a held lease, unless it is granted already; `next` makes the number of the grant.
    pub(super) fn grant(&mut self, next: impl FnOnce() -> Epoch) -> Option<Epoch> {
        if let State::Held(cover) = self.state {
            self.state = State::Granted {
                cover,
                epoch: next(),
                shown: None,
                receivers: Receivers::None,
            };
        }
        self.epoch_for(false)
    }

    /// Answers may not be remembered any more; the engine keeps the lease.
    pub(super) fn end_grant(&mut self) {
        if let State::Granted { cover, .. } = self.state {
            self.state = State::Held(cover);
        }
    }

    /// Attributes are about to be answered under this grant. Returns whether the kernel may cache them.
    pub(super) fn show(&mut self, wanted: Epoch, is_new: bool, asker: Asker) -> bool {
        let State::Granted {
            epoch,
            shown,
            receivers,
            ..
        } = &mut self.state
        else {
            return false;
        };
        let is_replaced = match *shown {
            Some((at, first)) => asker.has_taken_in(first) || at.elapsed() >= UNTIL_REPLACED,
            None => {
                *shown = Some((Instant::now(), asker));
                false
            }
        };
        let may_be_remembered = *epoch == wanted && (is_new || is_replaced);
        if may_be_remembered {
            receivers.add(asker);
        }
        may_be_remembered
    }

    /// Whether no attributes that may be remembered are on their way while this thread asks: it alone got some.
    pub(super) fn has_answered_only(&self, asker: Asker) -> bool {
        match self.state {
            State::Granted { receivers, .. } => match receivers {
                Receivers::None => true,
                Receivers::One(only) => asker.has_taken_in(only),
                Receivers::Several => false,
            },
            _ => false,
        }
    }

    /// The kernel changed a name in the directory; `removes`: it removed one.
    pub(super) fn note_name_change(&mut self, asker: Asker, removes: bool) {
        self.removing = (removes && asker.0 != 0).then_some(asker);
    }

    /// Whether the name that this thread looks up is likely to be removed next.
    pub(super) fn take_removing(&mut self, asker: Asker) -> bool {
        self.removing
            .take_if(|removing| *removing == asker)
            .is_some()
    }

    pub(super) fn has_listing(&self) -> bool {
        self.cover().is_some_and(|cover| cover.listing)
    }

    /// A listing begins to be read under the lease.
    pub(super) fn note_listing(&mut self) {
        if let Some(cover) = self.cover_mut() {
            cover.listing = true;
        }
    }

    pub(super) fn is_recalling(&self) -> bool {
        matches!(self.state, State::Recalling { .. })
    }

    /// `false`: one is under way already.
    pub(super) fn begin_recall(&mut self, recall: Recall) -> bool {
        if self.is_recalling() {
            return false;
        }
        self.state = State::Recalling {
            recall,
            is_read: false,
            is_moved: false,
        };
        true
    }

    /// The kernel reads pages or names. Returns whether a recall is under way, which drops them.
    pub(super) fn note_read(&mut self) -> bool {
        if let State::Recalling { is_read, .. } = &mut self.state {
            *is_read = true;
        }
        self.is_recalling()
    }

    /// The kernel is about to move a name here.
    pub(super) fn note_move(&mut self) {
        if let State::Recalling { is_moved, .. } = &mut self.state {
            *is_moved = true;
        }
        self.answered = Some(Instant::now());
    }

    /// End a recall. `false`: repeat it, because a name was moved during the recall or, with `for_readers`, something
    /// was read.
    pub(super) fn end_recall(&mut self, for_readers: bool) -> bool {
        if let State::Recalling {
            recall,
            is_read,
            is_moved,
        } = &mut self.state
        {
            let is_read = std::mem::take(is_read) && for_readers;
            let is_moved = std::mem::take(is_moved) && recall.with_names;
            if is_read || is_moved {
                return false;
            }
        }
        let recalls = self.recalled.map_or(0, |(_, recalls)| recalls + 1);
        self.recalled = Some((Instant::now(), recalls));
        self.state = State::Idle;
        true
    }

    /// A recall ends without having done its work: the process that asked for it asks again.
    pub(super) fn abandon_recall(&mut self) {
        if self.is_recalling() {
            self.state = State::Idle;
        }
    }

    /// What is left when the kernel forgets the inode. During a recall nothing may be granted, because its end would
    /// also end the new grant.
    pub(super) fn after_forget(&self) -> Option<Lease> {
        self.is_recalling().then(|| Lease {
            state: self.state,
            ..Lease::default()
        })
    }

    /// The process that asked for the recall must get to its change before a new grant.
    pub(super) fn is_recalled_just_now(&self) -> bool {
        self.recalled
            .is_some_and(|(at, _)| at.elapsed() < UNTIL_CHANGED)
    }

    pub(super) fn has_name(&self, directory: InodeNumber, name: &[u8]) -> bool {
        self.names.iter().any(|known| known.is(directory, name))
    }

    pub(super) fn add_name(&mut self, directory: InodeNumber, name: &[u8]) {
        if !self.has_name(directory, name) {
            let name = name.into();
            self.names.push(FileName { directory, name });
        }
    }
}

/// Whether the last change is long enough ago.
fn has_rested(rests: &Rests, attributes: &Attributes) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.as_nanos() as i64);
    now_ns.saturating_sub(attributes.ctime_ns) >= rests.after_change.as_nanos() as i64
}

/// A name and the directory that it is in.
#[derive(PartialEq, Eq)]
pub(super) struct FileName {
    pub(super) directory: InodeNumber,
    pub(super) name: Box<[u8]>,
}

impl FileName {
    pub(super) fn is(&self, directory: InodeNumber, name: &[u8]) -> bool {
        self.directory == directory && *self.name == *name
    }
}

/// Pages of a file in the kernel.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Pages {
    /// None that a new handle may use.
    #[default]
    None,
    /// All of them were read under the lease.
    Leased,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECALL: Recall = Recall {
        ino: InodeNumber(7),
        with_names: true,
    };

    fn granted() -> Lease {
        let mut lease = Lease::default();
        lease.hold(true);
        assert_eq!(lease.grant(|| Epoch(1)), Some(Epoch(1)));
        lease
    }

    #[test]
    fn a_change_by_the_kernel_ends_the_grant_alone() {
        let mut lease = granted();
        lease.note_listing();
        lease.end_grant();
        assert!(!lease.has(Epoch(1)) && lease.is_held_for(true) && lease.has_listing());
        assert_eq!(lease.grant(|| Epoch(2)), Some(Epoch(2)));
        assert!(!lease.has(Epoch(1)) && lease.has(Epoch(2)));
    }

    #[test]
    fn nothing_is_held_or_granted_during_a_recall() {
        let mut lease = granted();
        assert!(lease.begin_recall(RECALL));
        assert!(!lease.begin_recall(RECALL), "one at a time");
        lease.hold(true);
        assert!(!lease.is_held() && lease.grant(|| Epoch(2)).is_none() && !lease.has_listing());
        assert!(lease.after_forget().is_some_and(|left| left.is_recalling()));
        assert!(lease.end_recall(true));
        assert!(!lease.is_recalling() && lease.is_recalled_just_now());
    }

    #[test]
    fn a_recall_is_repeated_for_reads_and_moves() {
        let mut lease = granted();
        assert!(!lease.note_read(), "there is no recall");
        assert!(lease.begin_recall(RECALL));
        assert!(lease.note_read());
        assert!(!lease.end_recall(true));
        lease.note_move();
        assert!(!lease.end_recall(false));
        lease.note_read();
        assert!(lease.end_recall(false), "no longer for readers");
    }

    #[test]
    fn answers_on_their_way_are_those_of_other_threads() {
        let mut lease = granted();
        assert!(lease.has_answered_only(Asker(1)), "there are none");
        lease.show(Epoch(1), false, Asker(1));
        assert!(lease.has_answered_only(Asker(2)), "it is not remembered");
        assert!(lease.show(Epoch(1), true, Asker(1)));
        assert!(lease.show(Epoch(1), true, Asker(1)));
        assert!(lease.has_answered_only(Asker(1)) && !lease.has_answered_only(Asker(2)));
        assert!(lease.show(Epoch(1), true, Asker(2)));
        assert!(!lease.has_answered_only(Asker(1)) && !lease.has_answered_only(Asker(2)));
    }

    #[test]
    fn a_thread_without_a_number_may_be_any() {
        let mut lease = granted();
        assert!(lease.show(Epoch(1), true, Asker(0)));
        assert!(!lease.has_answered_only(Asker(0)));
        lease.note_name_change(Asker(0), true);
        assert!(!lease.take_removing(Asker(0)));
    }

    #[test]
    fn one_look_up_after_a_removal_is_of_a_name_to_remove() {
        let mut lease = Lease::default();
        lease.note_name_change(Asker(1), true);
        assert!(!lease.take_removing(Asker(2)));
        assert!(lease.take_removing(Asker(1)) && !lease.take_removing(Asker(1)));
        lease.note_name_change(Asker(1), true);
        lease.note_name_change(Asker(1), false);
        assert!(!lease.take_removing(Asker(1)));
    }

    #[test]
    fn first_attributes_are_cached_when_the_thread_asks_again() {
        let mut lease = granted();
        assert!(!lease.show(Epoch(1), false, Asker(1)));
        assert!(lease.show(Epoch(1), false, Asker(1)));
        assert!(!lease.show(Epoch(2), true, Asker(1)), "another grant");
        lease.end_grant();
        assert!(!lease.show(Epoch(1), true, Asker(1)));
    }
}
