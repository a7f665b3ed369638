//! OdinFS's claims.

use crate::answer::Answer::Unanswered;
use crate::answer::Entry;

const NOT_YET: &str = "the model does not run delegation";

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("O01", &[Unanswered(NOT_YET)]),
    entry("O02", &[Unanswered(NOT_YET)]),
    entry("O03", &[Unanswered(NOT_YET)]),
    entry("O04", &[Unanswered(NOT_YET)]),
    entry("O05", &[Unanswered(NOT_YET)]),
    entry("O06", &[Unanswered(NOT_YET)]),
    entry("O07", &[Unanswered(NOT_YET)]),
    entry("O08", &[Unanswered(NOT_YET)]),
    entry("O09", &[Unanswered(NOT_YET)]),
    entry("O10", &[Unanswered(NOT_YET)]),
    entry("O11", &[Unanswered(NOT_YET)]),
    entry("O12", &[Unanswered(NOT_YET)]),
    entry("O13", &[Unanswered(NOT_YET)]),
    entry("O14", &[Unanswered(NOT_YET)]),
    entry("O15", &[Unanswered(NOT_YET)]),
];
