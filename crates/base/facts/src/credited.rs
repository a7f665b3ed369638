//! Facts with short-lived processes counted in, and at their parents.

use std::borrow::Cow;
use std::collections::HashMap;

use egeria_machine::Machine;

use crate::window::share;
use crate::{Facts, FileUse, KindFacts, MAX_COUNTER, MAX_FILES, ThreadFacts, ThreadKey};

impl Facts {
    /// Bytes that threads and short-lived processes read and wrote.
    pub fn moved_total(&self) -> u64 {
        let window = &self.window;
        let kinds = self.kinds.iter().map(KindFacts::moved_total);
        let threads = [window.read_total(), window.written_total()];
        kinds.chain(threads).fold(0, u64::saturating_add)
    }

    /// Share of these bytes that were on the node of the thread or process, in [0, 1]; `None` when there are none.
    pub fn local_share(&self, machine: &Machine) -> Option<f64> {
        let (mut local, mut all) = self.window.local_bytes(machine);
        for kind in &self.kinds {
            local = local.saturating_add(kind.local_bytes);
            all = all.saturating_add(kind.moved_total());
        }
        share(local, all).map(|share| share.min(1.0))
    }

    /// The same facts, where each parent did what its short-lived processes did, if these come again and again: the place
    /// that is right for it is right for those that it begins. It counts at the node where they moved most bytes.
    pub fn credited(&self) -> Cow<'_, Facts> {
        if self.kinds.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut facts = self.clone();
        let kinds = std::mem::take(&mut facts.kinds).into_iter();
        let kinds = kinds.filter(KindFacts::is_credited);
        let mut kinds: HashMap<ThreadKey, KindFacts> =
            kinds.map(|kind| (kind.parent, kind)).collect();
        for thread in &mut facts.window.threads {
            if let Some(kind) = kinds.remove(&thread.key) {
                thread.credit(kind);
            }
        }
        Cow::Owned(facts)
    }
}

impl ThreadFacts {
    fn credit(&mut self, kind: KindFacts) {
        self.node = kind.node.unwrap_or(self.node);
        self.busy_ns = bounded(self.busy_ns, kind.busy_ns);
        let pairs = self.read_bytes.iter_mut().zip(&kind.read_bytes);
        let written = self.written_bytes.iter_mut().zip(&kind.written_bytes);
        for (own, more) in pairs.chain(written) {
            *own = bounded(*own, *more);
        }
        for each in kind.files {
            match self.files.iter_mut().find(|own| own.file == each.file) {
                Some(own) => {
                    own.read_bytes = bounded(own.read_bytes, each.read_bytes);
                    own.written_bytes = bounded(own.written_bytes, each.written_bytes);
                }
                None => self.files.push(each),
            }
        }
        let moved = |each: &FileUse| each.read_bytes.saturating_add(each.written_bytes);
        (self.files).sort_by_key(|each| (std::cmp::Reverse(moved(each)), each.file));
        self.files.truncate(MAX_FILES);
    }
}

fn bounded(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MAX_COUNTER)
}
