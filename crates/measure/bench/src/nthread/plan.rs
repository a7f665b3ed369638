//! Which runs there are, in which order, and how long they may take.

use std::time::Duration;

use super::figure::Figure;
use super::program::{Benchmark, Program};
use super::setup::*;

/// Most wall time of everything with three repetitions.
pub const FULL_BUDGET: Duration = Duration::from_secs(45 * 60);

/// Runs on one fresh volume, with data prepared once.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    pub figure: Figure,
    /// Run in this order.
    pub programs: Vec<Program>,
    /// Threads of each instance.
    pub threads: u32,
    /// Programs that run at once.
    pub instances: u32,
    /// What is compared.
    pub setup: Setup,
    /// How long, and how finely, it is looked at.
    pub pace: Pace,
}

/// Times of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Wall time per machine time. Chosen so that two host CPUs (and one, when all threads go to
    /// one node) keep up with the machine.
    pub dilation: f64,
    /// The steward's window, ns of machine time.
    pub window_ns: u64,
    /// Left out at the beginning, wall time.
    pub warmup: Duration,
    /// Measured after that, wall time.
    pub measured: Duration,
    /// What preparing, starting and ending a group take, wall time (for the budget).
    pub preparation: Duration,
}

/// fio of 4 KiB: what is written in the warm-up is several times a file, as in a run of a minute on the
/// paper's 4 GB, so that what threads that moved read has followed them.
const FIO: Pace = Pace {
    dilation: 24.0,
    window_ns: 5_000_000,
    warmup: Duration::from_millis(1600),
    measured: Duration::from_millis(1200),
    preparation: Duration::from_millis(600),
};
/// Small blocks: more calls in the same machine time.
const FIO_SMALL: Pace = Pace {
    dilation: 64.0,
    window_ns: 3_000_000,
    warmup: Duration::from_millis(1000),
    measured: Duration::from_millis(1300),
    preparation: Duration::from_millis(600),
};
/// No thread reads as much as the read margin, so nobody moves far into a run: little warm-up suffices.
const FILEBENCH: Pace = Pace {
    dilation: 16.0,
    window_ns: 20_000_000,
    warmup: Duration::from_millis(1000),
    measured: Duration::from_millis(1600),
    preparation: Duration::from_millis(700),
};
/// `db_bench` cannot leave out its beginning: all of it is measured.
const ROCKSDB: Pace = Pace {
    dilation: 16.0,
    window_ns: 8_000_000,
    warmup: Duration::ZERO,
    measured: Duration::from_millis(3000),
    preparation: Duration::from_millis(1400),
};

/// Read shares of Figs. 5 and 9, %.
pub const READ_PERCENTS: [u32; 6] = [100, 80, 60, 40, 20, 0];
const PERSONALITIES: [(&str, u32); 4] = [
    ("fileserver", 50),
    ("webserver", 100),
    ("webproxy", 100),
    ("varmail", 16),
];
/// As many as a node has cores (NThread §V-E), here 4.
const ROCKSDB_THREADS: u32 = 4;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    Full,
    /// A few rows of Figs. 5, 6 and 7.
    Subset,
    /// Two rows of Fig. 5, for `egeria-lab demo`: there is no time for more that can be repeated.
    Demo,
}

/// All groups of one repetition; of the given figures when there are any. Bars of one chart are
/// run one after another, so that what disturbs the host meets all alike.
pub fn groups(extent: Extent, figures: &[Figure]) -> Vec<Group> {
    let wanted = |figure: &Figure| figures.is_empty() || figures.contains(figure);
    let of = match extent {
        Extent::Subset if figures.is_empty() => subset_of,
        Extent::Demo if figures.is_empty() => demo_of,
        _ => of_figure,
    };
    Figure::ALL
        .into_iter()
        .filter(wanted)
        .flat_map(of)
        .collect()
}

/// The same bars in another order: each is first of its chart in some repetition.
pub fn in_turn(groups: &[Group], repetition: usize) -> Vec<&Group> {
    let same_chart =
        |one: &Group, other: &Group| one.figure == other.figure && one.programs == other.programs;
    let turned = |chart: &[Group]| egeria_stats::statistics::rotated_order(chart.len(), repetition);
    groups
        .chunk_by(same_chart)
        .flat_map(|chart| turned(chart).map(|place| &chart[place]).collect::<Vec<_>>())
        .collect()
}

impl Group {
    /// About how long it takes, wall time.
    pub fn wall_time(&self) -> Duration {
        let each = self.pace.warmup + self.pace.measured;
        self.pace.preparation * self.instances + each * self.programs.len() as u32
    }

    /// Whether one is prepared before: W makes its database itself.
    pub fn needs_database(&self) -> bool {
        matches!(self.programs.first(), Some(Program::Rocksdb(first)) if *first != Benchmark::Fill)
    }
}

fn of_figure(figure: Figure) -> Vec<Group> {
    match figure {
        Figure::Two => rocksdb(figure, 2, &[NOVA_EACH, NOVA_BEST, NOVA_WORST, NOVA_N]),
        Figure::Four => contention(),
        Figure::FiveA => fio(figure, 4, &READ_PERCENTS, &SIX_AND_ALL),
        Figure::FiveB => fio(figure, 8, &READ_PERCENTS, &SIX_AND_ALL),
        Figure::SixA => filebench(figure, 1, &PERSONALITIES, &SIX),
        Figure::SixB => filebench(figure, 2, &PERSONALITIES, &SIX_OF_TWO),
        Figure::SevenA => rocksdb(figure, 1, &SIX),
        Figure::SevenB => rocksdb(figure, 2, &SIX_OF_TWO),
        Figure::Eight => limits(),
        Figure::Nine => weights(),
    }
}

/// What shows the most in the least time.
fn demo_of(figure: Figure) -> Vec<Group> {
    match figure {
        Figure::FiveA => fio(figure, 4, &[80], &[NOVA, NOVA_N, FULL, ALL]),
        Figure::FiveB => fio(figure, 8, &[60], &[NOVA, NOVA_N, FULL, ALL]),
        _ => Vec::new(),
    }
}

/// What runs without `--full`.
fn subset_of(figure: Figure) -> Vec<Group> {
    match figure {
        Figure::FiveA => fio(figure, 4, &[80], &SIX_AND_ALL),
        Figure::FiveB => fio(figure, 8, &[60], &SIX_AND_ALL),
        Figure::SixA => filebench(figure, 1, &PERSONALITIES[..2], &[NOVA, NOVA_N, NM, FULL]),
        Figure::SevenA => rocksdb(figure, 1, &[NOVA, NOVA_N, FULL]),
        _ => Vec::new(),
    }
}

const SIX: [Setup; 6] = [NOVA, NOVA_N, RL, CPU, NM, FULL];
/// And all papers as one decision, to compare with NThread alone.
const SIX_AND_ALL: [Setup; 7] = [NOVA, NOVA_N, RL, CPU, NM, FULL, ALL];
const SIX_OF_TWO: [Setup; 6] = [NOVA_EACH, NOVA_N, RL, CPU, NM, FULL];

/// The bars of one chart.
fn chart(of: Group, setups: &[Setup]) -> Vec<Group> {
    let with = |setup: &Setup| Group {
        setup: setup.clone(),
        ..of.clone()
    };
    setups.iter().map(with).collect()
}

/// Runs of fio by one instance.
fn fio_of(
    figure: Figure,
    threads: u32,
    (read_percent, block_bytes): (u32, u32),
    pace: Pace,
) -> Group {
    Group {
        figure,
        programs: vec![Program::Fio {
            read_percent,
            block_bytes,
        }],
        threads,
        instances: 1,
        setup: NOVA,
        pace,
    }
}

fn fio(figure: Figure, threads: u32, reads: &[u32], setups: &[Setup]) -> Vec<Group> {
    let one = |read: &u32| chart(fio_of(figure, threads, (*read, 4096), FIO), setups);
    reads.iter().flat_map(one).collect()
}

/// Fig. 4: blocks of 1, 4 and 16 KiB, 8 and 16 threads on 4 cores.
fn contention() -> Vec<Group> {
    let blocks = [(1 << 10, FIO_SMALL), (4 << 10, FIO), (16 << 10, FIO)];
    let cases = blocks
        .into_iter()
        .flat_map(|block| [(block, 8), (block, 16)]);
    let one = |((block_bytes, pace), threads)| {
        let of = fio_of(Figure::Four, threads, (80, block_bytes), pace);
        chart(of, &[CROWDED, SPREAD])
    };
    cases.flat_map(one).collect()
}

fn limits() -> Vec<Group> {
    let of = fio_of(Figure::Eight, 16, (80, 1024), FIO_SMALL);
    chart(of, &CPU_LIMITS)
}

fn weights() -> Vec<Group> {
    fio(Figure::Nine, 4, &READ_PERCENTS, &[CROWDED])
}

fn filebench(
    figure: Figure,
    instances: u32,
    personalities: &[(&'static str, u32)],
    setups: &[Setup],
) -> Vec<Group> {
    let one = |(personality, threads): &(&'static str, u32)| {
        let of = Group {
            figure,
            programs: vec![Program::Filebench(personality)],
            threads: *threads,
            instances,
            setup: NOVA,
            pace: FILEBENCH,
        };
        chart(of, setups)
    };
    personalities.iter().flat_map(one).collect()
}

fn rocksdb(figure: Figure, instances: u32, setups: &[Setup]) -> Vec<Group> {
    let fill = vec![Program::Rocksdb(Benchmark::Fill)];
    let read = [Benchmark::Read, Benchmark::ReadWhileWriting].map(Program::Rocksdb);
    let one = |programs| {
        let of = Group {
            figure,
            programs,
            threads: ROCKSDB_THREADS,
            instances,
            setup: NOVA,
            pace: ROCKSDB,
        };
        chart(of, setups)
    };
    [fill, read.to_vec()].into_iter().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn everything_three_times_is_within_the_budget() {
        let once: Duration = groups(Extent::Full, &[]).iter().map(Group::wall_time).sum();
        assert!(once * 3 < FULL_BUDGET * 9 / 10, "{:?}", once * 3);
        let of = |extent| -> Duration { groups(extent, &[]).iter().map(Group::wall_time).sum() };
        let (subset, demo) = (of(Extent::Subset), of(Extent::Demo));
        assert!(subset < Duration::from_secs(110), "{subset:?}");
        assert!(demo < Duration::from_secs(30), "{demo:?}");
    }

    #[test]
    fn every_row_of_the_paper_is_there_once() {
        let mut seen = HashSet::new();
        let mut count = std::collections::HashMap::new();
        for group in groups(Extent::Full, &[]) {
            for program in &group.programs {
                let key = (
                    group.figure,
                    program.workload(),
                    group.threads,
                    group.setup.name,
                );
                assert!(seen.insert(key.clone()), "{key:?} twice");
                *count.entry(group.figure).or_insert(0) += 1;
            }
        }
        let of = |figure| count[&figure];
        assert_eq!((of(Figure::FiveA), of(Figure::FiveB)), (42, 42));
        assert_eq!((of(Figure::SixA), of(Figure::SixB)), (24, 24));
        assert_eq!((of(Figure::SevenA), of(Figure::SevenB)), (18, 18));
        assert_eq!((of(Figure::Two), of(Figure::Four)), (12, 12));
        assert_eq!((of(Figure::Eight), of(Figure::Nine)), (6, 6));
    }

    #[test]
    fn two_instances_of_nova_have_a_file_system_each() {
        for group in groups(Extent::Full, &[]) {
            let each = group.setup.allocation == Allocation::NodeOfInstance;
            let nova = group.setup.name.starts_with("nova") && group.setup.name != "nova_n";
            assert_eq!(each, nova && group.instances == 2, "{group:?}");
        }
    }

    #[test]
    fn each_bar_is_first_in_some_repetition_and_none_is_left_out() {
        let all = groups(Extent::Full, &[Figure::FiveA]);
        let first = |repetition| in_turn(&all, repetition)[0].setup.name;
        assert_eq!([first(0), first(1), first(5)], ["nova", "nova_n", "full"]);
        assert_eq!(in_turn(&all, 4).len(), all.len());
        assert!(
            in_turn(&all, 2)[..6]
                .iter()
                .all(|group| group.programs == all[0].programs)
        );
    }

    #[test]
    fn chosen_figures_are_run_whole() {
        assert_eq!(groups(Extent::Subset, &[Figure::FiveA]).len(), 42);
        let subset = groups(Extent::Subset, &[]);
        assert!(subset.iter().any(|group| group.setup.name == "full"));
    }
}
