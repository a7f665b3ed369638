//! What volumes hold before they are forged: the explorer's scenes, the corpus, and machines that stopped
//! in the middle of an operation.

use super::layout::Layout;
use crate::crash::{Actor, DAMAGES, InitialState, Operation};
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::recorder::{Event, PoolSet, Recorder};
use egeria_media::{Pool, PoolIndex};
use std::fmt;
use std::sync::Arc;

/// Volumes by the operations that fill them: `pools N`, operations, and at the end perhaps `cut OPERATION`,
/// in which the machine stops as soon as the journal holds it.
const CORPUS: [(&str, &str); 10] = [
    (
        "attributes",
        include_str!("../../../fuzz/image/attributes.txt"),
    ),
    (
        "checksums",
        include_str!("../../../fuzz/image/checksums.txt"),
    ),
    (
        "cut-rename",
        include_str!("../../../fuzz/image/cut-rename.txt"),
    ),
    (
        "cut-unlink",
        include_str!("../../../fuzz/image/cut-unlink.txt"),
    ),
    ("deep", include_str!("../../../fuzz/image/deep.txt")),
    ("holes", include_str!("../../../fuzz/image/holes.txt")),
    ("links", include_str!("../../../fuzz/image/links.txt")),
    (
        "long-names",
        include_str!("../../../fuzz/image/long-names.txt"),
    ),
    (
        "sixteen-pools",
        include_str!("../../../fuzz/image/sixteen-pools.txt"),
    ),
    ("striped", include_str!("../../../fuzz/image/striped.txt")),
];

/// How a sample is made.
pub(super) enum Recipe {
    /// A state on so many pools.
    InitialState(InitialState, usize),
    Corpus(&'static str, &'static str),
}

pub(super) fn recipes() -> Vec<Recipe> {
    let scenes = [
        InitialState::Tree,
        InitialState::PageEnd(0),
        InitialState::PageEnd(1),
        InitialState::PageEnd(3),
        InitialState::LongLog,
        InitialState::LongDirectory,
        InitialState::InodesFull,
        InitialState::Full,
        InitialState::Orphan,
    ];
    let damaged = DAMAGES.map(InitialState::Damaged);
    let all = scenes
        .into_iter()
        .chain(damaged)
        .chain([InitialState::Blank]);
    let mut recipes: Vec<Recipe> = all
        .flat_map(|state| [1, 2].map(|pools| Recipe::InitialState(state, pools)))
        .collect();
    recipes.extend(CORPUS.map(|(name, text)| Recipe::Corpus(name, text)));
    recipes
}

impl fmt::Display for Recipe {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recipe::InitialState(state, pools) => write!(out, "{state:?} on {pools} pools"),
            Recipe::Corpus(name, _) => write!(out, "{name}"),
        }
    }
}

impl Recipe {
    /// Whether nothing is wrong with it.
    pub(super) fn is_sound(&self) -> bool {
        !matches!(
            self,
            Recipe::InitialState(InitialState::Damaged(_) | InitialState::Blank, _)
        )
    }

    pub(super) fn make(&self) -> Result<Sample, String> {
        let pools = match self {
            Recipe::InitialState(state, pools) => state.build(*pools)?,
            Recipe::Corpus(name, text) => {
                build(text).map_err(|fault| format!("corpus {name}: {fault}"))?
            }
        };
        let layout = Layout::of(&pools);
        let recorder = Recorder::reversible();
        pools.follow(&recorder);
        Ok(Sample {
            pools,
            recorder,
            layout,
        })
    }
}

/// Pools that come back to what they hold now.
pub(super) struct Sample {
    pools: PoolSet,
    recorder: Recorder,
    pub(super) layout: Layout,
}

impl Sample {
    pub(super) fn pools(&self) -> Vec<Arc<Pool>> {
        self.pools.iter().cloned().collect()
    }

    pub(super) fn pool(&self, index: usize) -> Option<&Arc<Pool>> {
        self.pools.get(PoolIndex(u8::try_from(index).ok()?))
    }

    /// Take back whatever was stored.
    pub(super) fn restore(&self) {
        self.recorder.undo(&self.pools);
    }
}

/// Run a text of the corpus.
fn build(text: &str) -> Result<PoolSet, String> {
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let count = lines.next().and_then(|line| line.strip_prefix("pools "));
    let count: u8 = count
        .and_then(|count| count.parse().ok())
        .filter(|count| (1..=MAX_POOLS as u8).contains(count))
        .ok_or("it begins with `pools N`")?;
    let pools = PoolSet::new((0..count).map(|_| Arc::new(Pool::anonymous(MIN_POOL_BYTES))));
    let all: Vec<Arc<Pool>> = pools.iter().cloned().collect();
    let options = CreateOptions {
        force: false,
        root: Some((0, 0, 0o755)),
    };
    create_private(&all, 1, &options).map_err(|error| error.to_string())?;
    let volume = Volume::attach_private(
        &all,
        &mut PrivateMemory::default(),
        &AttachOptions::default(),
    )
    .map_err(|error| error.to_string())?;
    let mut actor = Actor::new(&volume);
    for (step, line) in lines.enumerate() {
        match line.strip_prefix("cut ") {
            None => run(&mut actor, line, step)?,
            Some(line) => return cut(&pools, &mut actor, line, step),
        }
    }
    drop(volume);
    Ok(pools)
}

fn run(actor: &mut Actor<'_>, line: &str, step: usize) -> Result<(), String> {
    let operation: Operation = line.parse()?;
    let ran = actor.run(&operation, step);
    ran.map_err(|errno| format!("{line}: {errno}"))
}

/// Run an operation, and have the media as it was when the journal had just taken it.
fn cut(pools: &PoolSet, actor: &mut Actor<'_>, line: &str, step: usize) -> Result<PoolSet, String> {
    let copy = pools.copy().map_err(|error| error.to_string())?;
    let recorder = Recorder::reversible();
    pools.follow(&recorder);
    run(actor, line, step)?;
    let journal = journal_slot(0).0..journal_slot(JOURNAL_SLOTS).0;
    for event in recorder.drain() {
        let Event::Store {
            pool, at, bytes, ..
        } = event
        else {
            continue;
        };
        let stored = copy.get(pool).map(|copy| copy.write_bytes(at, &bytes));
        stored
            .transpose()
            .map_err(|error| error.to_string())?
            .ok_or("a pool too many")?;
        let is_slot = pool.0 == 0 && journal.contains(&at.0) && at.0 % JOURNAL_SLOT_BYTES == 0;
        if is_slot && bytes.len() == 8 {
            return Ok(copy);
        }
    }
    Err(format!("{line} needs no journal"))
}
