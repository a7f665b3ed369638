//! Sets of CPUs.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use egeria_machine::{CpuId, MAX_CPUS, format_cpu_list, parse_cpu_list};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const BITS: usize = u64::BITS as usize;

/// A set of CPUs, cheap to clone; written as the kernel writes it, `0-3,8`, and where text is not wanted as its words.
///
/// CPU numbers of [`MAX_CPUS`] and above are never members.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CpuSet {
    /// Bit `n` of word `w` is CPU `64 w + n`; the last word is not 0, so that equal sets are
    /// equal.
    words: Arc<[u64]>,
}

impl CpuSet {
    pub fn empty() -> CpuSet {
        CpuSet::from_words(Vec::new())
    }

    /// Whether the CPU is a member.
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        self.words
            .get(word)
            .is_some_and(|word| word >> bit & 1 == 1)
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        let ones = self.words.iter().map(|word| word.count_ones() as usize);
        ones.sum()
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let words = self.words.iter().enumerate();
        words.flat_map(|(index, &word)| {
            let members = (0..BITS).filter(move |bit| word >> bit & 1 == 1);
            members.filter_map(move |bit| u16::try_from(index * BITS + bit).ok().map(CpuId))
        })
    }

    /// Whether the two have a CPU in common.
    pub fn intersects(&self, other: &CpuSet) -> bool {
        let mut pairs = self.words.iter().zip(other.words.iter());
        pairs.any(|(mine, theirs)| mine & theirs != 0)
    }

    /// Whether every member is also in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.difference(other).is_empty()
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |mine, theirs| mine & theirs)
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |mine, theirs| mine | theirs)
    }

    /// What is in this one only.
    #[must_use]
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |mine, theirs| mine & !theirs)
    }

    fn combine(&self, other: &CpuSet, operation: impl Fn(u64, u64) -> u64) -> CpuSet {
        let length = self.words.len().max(other.words.len());
        let word = |words: &[u64], index| words.get(index).copied().unwrap_or_default();
        let combined =
            (0..length).map(|index| operation(word(&self.words, index), word(&other.words, index)));
        CpuSet::from_words(combined.collect())
    }

    fn from_words(mut words: Vec<u64>) -> CpuSet {
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet {
            words: words.into(),
        }
    }
}

fn place(CpuId(number): CpuId) -> (usize, usize) {
    (usize::from(number) / BITS, usize::from(number) % BITS)
}

impl Default for CpuSet {
    fn default() -> CpuSet {
        CpuSet::empty()
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> CpuSet {
        let mut words = Vec::new();
        for cpu in cpus {
            if usize::from(cpu.0) >= MAX_CPUS {
                continue;
            }
            let (word, bit) = place(cpu);
            if words.len() <= word {
                words.resize(word + 1, 0);
            }
            words[word] |= 1 << bit;
        }
        CpuSet::from_words(words)
    }
}

impl FromStr for CpuSet {
    type Err = String;

    /// Reads a CPU list; the error is one phrase, for the caller to put a place in front of.
    fn from_str(text: &str) -> Result<CpuSet, String> {
        Ok(parse_cpu_list(text)?.into_iter().collect())
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpus: Vec<CpuId> = self.iter().collect();
        formatter.write_str(&format_cpu_list(&cpus))
    }
}

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.words[..].serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<CpuSet, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?
                .parse()
                .map_err(D::Error::custom);
        }
        let words = Vec::deserialize(deserializer)?;
        if words.len() > MAX_CPUS.div_ceil(BITS) {
            return Err(D::Error::custom("CPUs that no machine has"));
        }
        Ok(CpuSet::from_words(words))
    }
}
