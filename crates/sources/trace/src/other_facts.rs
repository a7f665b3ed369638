//! Facts other than file I/O: accesses to memory, persistent memory, files.

use egeria_facts::{AccessWindow, Facts, FileFacts, MediumFacts, Window};
use serde::{Deserialize, Serialize};

use crate::KIND_OTHER_FACTS;
use crate::code::Damage;

/// What the frame before a window's holds.
#[derive(Serialize, Deserialize)]
pub(crate) struct OtherFacts {
    #[serde(default)]
    accesses: Option<AccessWindow>,
    #[serde(default)]
    media: Vec<MediumFacts>,
    #[serde(default)]
    files: Vec<FileFacts>,
}

/// The frame, if there is anything to say.
pub(crate) fn frame(facts: &Facts) -> Option<Vec<u8>> {
    let others = OtherFacts {
        accesses: (!facts.accesses.processes.is_empty()).then(|| facts.accesses.clone()),
        media: facts.media.clone(),
        files: facts.files.clone(),
    };
    let is_empty = others.accesses.is_none() && others.media.is_empty() && others.files.is_empty();
    if is_empty {
        return None;
    }
    let mut bytes = vec![KIND_OTHER_FACTS];
    serde_json::to_writer(&mut bytes, &others).expect("numbers and lists become JSON");
    Some(bytes)
}

/// What a frame holds, without its kind; not yet validated.
pub(crate) fn read(bytes: &[u8]) -> Result<OtherFacts, Damage> {
    serde_json::from_slice(bytes).map_err(|_| Damage::new("facts that make no sense"))
}

impl OtherFacts {
    /// Together with the window that they are about.
    pub(crate) fn of(self, window: Window) -> Facts {
        let mut facts = Facts::of(window);
        (facts.media, facts.files) = (self.media, self.files);
        facts.accesses = self.accesses.unwrap_or(facts.accesses);
        facts
    }
}
