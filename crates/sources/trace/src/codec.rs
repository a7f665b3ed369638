//! The facts of a window as bytes: postcard, compressed with LZ4 in parts. The dictionary of a part is what the window
//! before has at that place, because most threads are the same in both.

use egeria_facts::{
    AccessWindow, Facts, FileFacts, KindFacts, MAX_THREADS, MediumFacts, MemoryTraffic, Window,
};
use lz4_flex::block;
use serde::Deserialize;

use crate::{KIND_WINDOW, MAX_FRAME_BYTES, MAX_OTHER_FACTS_BYTES};

/// Bytes that are compressed together. LZ4 finds the same place in the dictionary at a distance of this and [`DRIFT`],
/// and distances have 16 bits.
const PART_BYTES: usize = 32 << 10;
/// So far may a thread's bytes be from where they were in the window before.
const DRIFT: usize = 8 << 10;

/// What is wrong with bytes, in a phrase.
pub(crate) struct Damage(pub(crate) String);

impl Damage {
    pub(crate) fn new(what: impl Into<String>) -> Damage {
        Damage(what.into())
    }
}

/// The last window's bytes.
#[derive(Default)]
pub(crate) struct Dictionary(Vec<u8>);

impl Dictionary {
    /// The frame of validated facts, and the dictionary for the next window. The error says what there is too much of.
    pub(crate) fn pack(&self, facts: &Facts) -> Result<(Vec<u8>, Dictionary), String> {
        let window = postcard::to_stdvec(&facts.window).expect("all lengths are known");
        let others = (
            &facts.accesses,
            &facts.media,
            &facts.files,
            &facts.memories,
            &facts.kinds,
        );
        let others = postcard::to_stdvec(&others).expect("all lengths are known");
        at_most(others.len(), MAX_OTHER_FACTS_BYTES)?;
        let bytes = [window, others].concat();
        at_most(bytes.len(), MAX_FRAME_BYTES)?;
        let mut payload = vec![KIND_WINDOW];
        payload.extend((bytes.len() as u32).to_le_bytes());
        for (index, part) in bytes.chunks(PART_BYTES).enumerate() {
            let block = block::compress_with_dict(part, self.around(index * PART_BYTES));
            payload.extend((block.len() as u32).to_le_bytes());
            payload.extend(block);
        }
        at_most(payload.len(), MAX_FRAME_BYTES)?;
        Ok((payload, Dictionary(bytes)))
    }

    /// The facts of a frame; not yet validated. They are then the dictionary.
    pub(crate) fn unpack(&mut self, payload: &[u8]) -> Result<Facts, Damage> {
        let bytes = self.expand(payload)?;
        let facts = decode(&bytes)?;
        self.0 = bytes;
        Ok(facts)
    }

    /// Memory follows the parts that are there, not the length that is claimed.
    fn expand(&self, payload: &[u8]) -> Result<Vec<u8>, Damage> {
        let nonsense = || Damage::new("a window that cannot be expanded");
        let mut rest = payload.get(1..).unwrap_or_default();
        let length = number(&mut rest).ok_or_else(nonsense)?;
        at_most(length, MAX_FRAME_BYTES).map_err(Damage)?;
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let packed = number(&mut rest).and_then(|packed| rest.split_off(..packed));
            let part_bytes = PART_BYTES.min(length - bytes.len());
            let dictionary = self.around(bytes.len());
            let part =
                block::decompress_with_dict(packed.ok_or_else(nonsense)?, part_bytes, dictionary);
            match part {
                Ok(part) if part.len() == part_bytes => bytes.extend(part),
                _ => return Err(nonsense()),
            }
        }
        if rest.is_empty() {
            Ok(bytes)
        } else {
            Err(nonsense())
        }
    }

    /// The bytes near this place.
    fn around(&self, at: usize) -> &[u8] {
        let end = self.0.len().min(at + PART_BYTES + DRIFT);
        &self.0[at.saturating_sub(DRIFT).min(end)..end]
    }
}

/// The number in front, which is taken away.
fn number(bytes: &mut &[u8]) -> Option<usize> {
    let number = bytes.split_off(..4)?;
    Some(u32::from_le_bytes(number.try_into().ok()?) as usize)
}

fn at_most(bytes: usize, most: usize) -> Result<(), String> {
    if bytes > most {
        return Err(format!("it takes {bytes} of {most} bytes"));
    }
    Ok(())
}

/// A thread takes more memory than bytes, and so do lists of lists in the other facts: both are bounded before.
fn decode(bytes: &[u8]) -> Result<Facts, Damage> {
    let nonsense = |_| Damage::new("a window makes no sense");
    // Number, start, duration, and how many threads follow.
    let head: Result<((u64, u64, u64, u64), _), _> = postcard::take_from_bytes(bytes);
    let ((_, _, _, threads), _) = head.map_err(nonsense)?;
    if threads > MAX_THREADS as u64 {
        return Err(Damage(format!(
            "{threads} threads, at most {MAX_THREADS} can be"
        )));
    }
    let window: Result<(Window, &[u8]), _> = postcard::take_from_bytes(bytes);
    let (window, others) = window.map_err(nonsense)?;
    at_most(others.len(), MAX_OTHER_FACTS_BYTES).map_err(Damage)?;
    type Others = (
        AccessWindow,
        Vec<MediumFacts>,
        Vec<FileFacts>,
        Vec<MemoryTraffic>,
        Vec<KindFacts>,
    );
    let (accesses, media, files, memories, kinds): Others = whole(others, "other facts")?;
    Ok(Facts {
        window,
        accesses,
        media,
        files,
        memories,
        kinds,
    })
}

/// A value that takes all bytes. What lists in it take of memory is bounded by the bytes.
pub(crate) fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8], what: &str) -> Result<T, Damage> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(Damage(format!("{} bytes too many in a frame", rest.len()))),
        Err(_) => Err(Damage(format!("{what} makes no sense"))),
    }
}
