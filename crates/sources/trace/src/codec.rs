//! The facts of a window as bytes: postcard, compressed with LZ4. The window before is LZ4's dictionary, because most
//! threads are the same in both.

use egeria_facts::{AccessWindow, Facts, FileFacts, MAX_THREADS, MediumFacts, Window};
use lz4_flex::block;
use serde::Deserialize;

use crate::{KIND_WINDOW, MAX_FRAME_BYTES, MAX_OTHER_FACTS_BYTES};

/// Distances in LZ4 have 16 bits, so earlier bytes are of no use.
const DICTIONARY_BYTES: usize = 1 << 16;
/// No byte of an LZ4 block stands for more bytes than this.
const MAX_RATIO: usize = 255;
/// Kind, and length of what the block expands to.
const HEAD_BYTES: usize = 5;

/// What is wrong with bytes, in a phrase.
pub(crate) struct Damage(pub(crate) String);

impl Damage {
    pub(crate) fn new(what: impl Into<String>) -> Damage {
        Damage(what.into())
    }
}

/// The end of the last window's bytes.
#[derive(Default)]
pub(crate) struct Dictionary(Vec<u8>);

impl Dictionary {
    /// The frame of validated facts, and the dictionary for the next window. The error says what there is too much of.
    pub(crate) fn pack(&self, facts: &Facts) -> Result<(Vec<u8>, Dictionary), String> {
        let window = postcard::to_stdvec(&facts.window).expect("all lengths are known");
        let others = (&facts.accesses, &facts.media, &facts.files);
        let others = postcard::to_stdvec(&others).expect("all lengths are known");
        at_most(others.len(), MAX_OTHER_FACTS_BYTES)?;
        let bytes = [window, others].concat();
        at_most(bytes.len(), MAX_FRAME_BYTES)?;
        let mut payload = vec![KIND_WINDOW];
        payload.extend((bytes.len() as u32).to_le_bytes());
        payload.extend(block::compress_with_dict(&bytes, &self.0));
        at_most(payload.len(), MAX_FRAME_BYTES)?;
        Ok((payload, Dictionary::of(bytes)))
    }

    /// The facts of a frame; not yet validated. They are then the dictionary.
    pub(crate) fn unpack(&mut self, payload: &[u8]) -> Result<Facts, Damage> {
        let bytes = self.expand(payload)?;
        let facts = decode(&bytes)?;
        *self = Dictionary::of(bytes);
        Ok(facts)
    }

    /// Memory follows the length of the payload, not what it claims.
    fn expand(&self, payload: &[u8]) -> Result<Vec<u8>, Damage> {
        let nonsense = || Damage::new("a window that cannot be expanded");
        let (head, packed) = payload.split_at_checked(HEAD_BYTES).ok_or_else(nonsense)?;
        let length = u32::from_le_bytes(std::array::from_fn(|byte| head[1 + byte])) as usize;
        let most = packed.len().saturating_mul(MAX_RATIO).min(MAX_FRAME_BYTES);
        if length > most {
            let what = format!("a window of {length} bytes, at most {most} can be");
            return Err(Damage(what));
        }
        let bytes = block::decompress_with_dict(packed, length, &self.0);
        let bytes = bytes.map_err(|_| nonsense())?;
        if bytes.len() == length {
            Ok(bytes)
        } else {
            Err(nonsense())
        }
    }

    fn of(mut bytes: Vec<u8>) -> Dictionary {
        bytes.drain(..bytes.len().saturating_sub(DICTIONARY_BYTES));
        Dictionary(bytes)
    }
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
    let others: (AccessWindow, Vec<MediumFacts>, Vec<FileFacts>) = whole(others, "other facts")?;
    let (accesses, media, files) = others;
    Ok(Facts {
        window,
        accesses,
        media,
        files,
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
