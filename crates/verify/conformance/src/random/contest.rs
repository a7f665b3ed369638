//! Two actors change the same files at the same time, each what is its own: nothing may be lost.
//!
//! Every eight bytes, record and name has one owner. What its owner did last is what everybody finds, by
//! whatever way it was done: write, store, append, rename.

use super::actor::Mistake;
use super::board::{Board, WORDS};
use crate::call::{self, Fd};
use crate::check::{self, name};
use crate::mapping::Map;
use crate::process::Child;
use egeria_stats::rng::Rng;
use libc::{MAP_PRIVATE, O_APPEND, O_CREAT, O_RDWR, O_WRONLY, PROT_READ};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells the numbers of contests from those of other programs of the same seed.
const CONTESTS: u64 = 1 << 32;
/// The same of the division of cells, which all owners draw alike.
const WHO_OWNS: u64 = CONTESTS + 1;
const PAGE: usize = 4096;
/// Cells of the file; their values are on the board.
const CELLS: usize = 256;
/// Where the numbers of records that were appended are on the board.
const RECORDS: usize = CELLS;
/// Where the sets of names are.
const NAMES: usize = CELLS + 2;
const OWN_NAMES: usize = 12;
const _: () = assert!(NAMES + 2 <= WORDS);

/// What two actors do at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contest {
    /// The number it was made from.
    pub seed: u64,
    /// Two processes, or two threads.
    pub processes: bool,
    /// From one cell to the next.
    pub stride: usize,
    /// How much each does.
    pub operations: usize,
}

impl Contest {
    /// The same for the same number.
    pub fn from_seed(seed: u64) -> Contest {
        let mut rng = Rng::of(&[seed, CONTESTS]);
        Contest {
            seed,
            processes: rng.index(2) == 0,
            stride: [8, 64, 520, 2_048][rng.index(4)],
            operations: 100 + rng.index(300),
        }
    }

    fn bytes(&self) -> usize {
        (CELLS * self.stride).next_multiple_of(PAGE)
    }

    /// Play it in the working directory; panics where something is lost.
    pub fn play(&self, board: &Board, mistake: Option<Mistake>) {
        drop(check::make(c"log"));
        call::ftruncate(check::make(c"cells").0, self.bytes() as i64).expect("a file of zeros");
        if self.processes {
            let other = Child::begin(|| Player::new(self, board, 1, mistake).play());
            Player::new(self, board, 0, mistake).play();
            other.join();
        } else {
            std::thread::scope(|scope| {
                scope.spawn(|| Player::new(self, board, 1, mistake).play());
                Player::new(self, board, 0, mistake).play();
            });
        }
        self.judge(board);
        for each in check::names_here() {
            call::unlink(&each).expect("a name to remove");
        }
    }

    /// When both have ended.
    fn judge(&self, board: &Board) {
        let cells = check::content_of(c"cells");
        for cell in 0..CELLS {
            let at = cell * self.stride;
            let found = u64::from_ne_bytes(cells[at..at + 8].try_into().expect("eight bytes"));
            let last = board.words()[cell].load(Ordering::SeqCst);
            assert_eq!(found, last, "cell {cell} in the end");
        }
        let log = check::content_of(c"log");
        let mut counts = [0; 2];
        for record in log.as_chunks::<16>().0 {
            let owner = usize::from(record[0]);
            let count = u64::from_ne_bytes(record[8..].try_into().expect("eight bytes"));
            counts[owner] += 1;
            assert_eq!(count, counts[owner], "record of actor {owner} in the log");
        }
        for (owner, count) in counts.into_iter().enumerate() {
            let appended = board.words()[RECORDS + owner].load(Ordering::SeqCst);
            assert_eq!(count, appended, "records of actor {owner} in the log");
        }
        for owner in 0..2 {
            let names = board.words()[NAMES + owner].load(Ordering::SeqCst);
            assert_eq!(listed(owner), own_names(owner, names), "names of {owner}");
        }
    }
}

fn own_name(owner: usize, number: usize) -> CString {
    name(format!("n{owner}-{number:02}"))
}

fn own_names(owner: usize, names: u64) -> Vec<CString> {
    (0..OWN_NAMES)
        .filter(|number| names >> number & 1 == 1)
        .map(|number| own_name(owner, number))
        .collect()
}

/// The names of one, each as often as it is listed.
fn listed(owner: usize) -> Vec<CString> {
    let prefix = format!("n{owner}-");
    let mut names = check::names_here();
    names.retain(|name| name.to_bytes().starts_with(prefix.as_bytes()));
    names.sort();
    names
}

struct Player<'c> {
    contest: &'c Contest,
    words: &'c [AtomicU64; WORDS],
    rng: Rng,
    owner: usize,
    cells: Vec<usize>,
    file: Fd,
    log: Fd,
    map: Map,
    count: u64,
    mistake: Option<Mistake>,
}

impl<'c> Player<'c> {
    fn new(
        contest: &'c Contest,
        board: &'c Board,
        owner: usize,
        mistake: Option<Mistake>,
    ) -> Player<'c> {
        let mut owners = Rng::of(&[contest.seed, WHO_OWNS]);
        let cells = (0..CELLS).filter(|_| owners.index(2) == owner).collect();
        let file = open_cells();
        Player {
            words: board.words(),
            rng: Rng::of(&[contest.seed, owner as u64]),
            owner,
            cells,
            log: call::open(c"log", O_WRONLY | O_APPEND, 0).expect("the log"),
            map: Map::shared(file.0, contest.bytes()),
            file,
            count: 0,
            contest,
            mistake,
        }
    }

    fn play(mut self) {
        for _ in 0..self.contest.operations {
            self.operation();
        }
        for &cell in &self.cells {
            assert_eq!(self.read(cell), self.last(cell), "read of cell {cell}");
            assert_eq!(self.load(cell), self.last(cell), "load of cell {cell}");
        }
    }

    fn last(&self, cell: usize) -> u64 {
        self.words[cell].load(Ordering::SeqCst)
    }

    fn cell(&mut self) -> usize {
        self.cells[self.rng.index(self.cells.len())]
    }

    fn at(&self, cell: usize) -> usize {
        cell * self.contest.stride
    }

    fn read(&self, cell: usize) -> u64 {
        let mut found = [0; 8];
        assert_eq!(
            call::pread(self.file.0, &mut found, self.at(cell) as i64),
            Ok(8)
        );
        u64::from_ne_bytes(found)
    }

    fn load(&self, cell: usize) -> u64 {
        self.map.load_word(self.at(cell))
    }

    fn operation(&mut self) {
        let cell = self.cell();
        self.count += 1;
        match self.rng.index(40) {
            0..12 => self.write(cell),
            12..20 => self.store(cell),
            20..23 => assert_eq!(self.read(cell), self.last(cell), "read of cell {cell}"),
            23..26 => assert_eq!(self.load(cell), self.last(cell), "load of cell {cell}"),
            26 => self.map.sync().expect("msync"),
            27 => call::with_fd(libc::fsync, self.file.0).expect("fsync"),
            28 => self.map = Map::shared(self.file.0, self.contest.bytes()),
            29 => self.file = open_cells(),
            30 => self.look_privately(cell),
            31 | 32 => self.write_from_mapping(cell),
            33..36 => self.append(),
            36 => self.resize(),
            _ => self.change_names(),
        }
    }

    fn write(&mut self, cell: usize) {
        let (value, at) = (self.count, self.at(cell) as i64);
        let data = value.to_ne_bytes();
        let written = match self.rng.index(3) {
            _ if self.mistake == Some(Mistake::LostWrites) && self.count.is_multiple_of(50) => {
                Ok(8)
            }
            0 => call::pwritev(self.file.0, &[&data[..3], &data[3..]], at),
            _ => call::pwrite(self.file.0, &data, at).map(|bytes| bytes as i64),
        };
        assert_eq!(written, Ok(8));
        self.words[cell].store(value, Ordering::SeqCst);
    }

    fn store(&mut self, cell: usize) {
        self.map.store_word(self.at(cell), self.count);
        self.words[cell].store(self.count, Ordering::SeqCst);
    }

    /// One of the own cells gets the value of another, straight from the mapping.
    fn write_from_mapping(&mut self, to: usize) {
        let from = self.cell();
        let (address, at) = (self.map.address(self.at(from)), self.at(to) as i64);
        let written = call::transfer_raw_at(true, self.file.0, address, 8, at);
        assert_eq!(written, Ok(8));
        self.words[to].store(self.last(from), Ordering::SeqCst);
    }

    fn look_privately(&self, cell: usize) {
        let map = Map::make(self.file.0, self.contest.bytes(), PROT_READ, MAP_PRIVATE, 0);
        let found = map.expect("a mapping").load_word(self.at(cell));
        assert_eq!(found, self.last(cell), "private load of cell {cell}");
    }

    fn append(&mut self) {
        let number = &self.words[RECORDS + self.owner];
        let count = number.load(Ordering::SeqCst) + 1;
        let data = [self.owner as u64, count].map(u64::to_le_bytes).concat();
        check::put(self.log.0, &data);
        number.store(count, Ordering::SeqCst);
    }

    /// Behind all cells.
    fn resize(&mut self) {
        let size = self.contest.bytes() + self.rng.index(5 * PAGE);
        call::ftruncate(self.file.0, size as i64).expect("another size");
    }

    fn change_names(&mut self) {
        let (one, other) = (self.rng.index(OWN_NAMES), self.rng.index(OWN_NAMES));
        let word = &self.words[NAMES + self.owner];
        let names = word.load(Ordering::SeqCst);
        let [path, to] = [one, other].map(|number| own_name(self.owner, number));
        let is_there = names >> one & 1 == 1;
        let changed = match (is_there, self.rng.index(3)) {
            (false, _) => {
                drop(call::open(&path, O_CREAT | O_WRONLY, 0o644).expect("a new file"));
                names | 1 << one
            }
            (true, 0) => {
                call::unlink(&path).expect("a name to remove");
                names & !(1 << one)
            }
            (true, 1) if one != other => {
                call::rename(&path, &to).expect("another name");
                names & !(1 << one) | 1 << other
            }
            _ => names,
        };
        word.store(changed, Ordering::SeqCst);
        let found = listed(self.owner);
        let unique: BTreeSet<_> = found.iter().collect();
        assert_eq!(
            unique.len(),
            found.len(),
            "a name is listed twice: {found:?}"
        );
        assert_eq!(found, own_names(self.owner, changed), "own names");
    }
}

fn open_cells() -> Fd {
    call::open(c"cells", O_RDWR, 0).expect("the file of cells")
}
