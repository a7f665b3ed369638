//! NThread's claims, and those of its slides.

use egeria_policy::nthread::Settings;

use crate::answer::Answer::{Faster, Input, Setting, Similar, Unanswered};
use crate::answer::{Entry, Reading, change, compared, farthest, least, number};
use crate::experiment::{MIXES, PERSONALITIES};
use crate::results::Results;

const ROCKSDB: [&str; 3] = ["W", "R", "RW"];
const BASELINES: [&str; 4] = ["ext4-dax", "pmfs", "nova", "nova_n"];

fn mixes() -> [&'static str; 6] {
    MIXES.map(|(name, _)| name)
}

fn fio(results: &Results, figure: &str, over: &str, under: &str) -> Option<f64> {
    results.mean_ratio(figure, &mixes(), over, under)
}

fn filebench(results: &Results, figure: &str, over: &str, under: &str) -> Option<f64> {
    results.mean_ratio(figure, &PERSONALITIES, over, under)
}

fn rocksdb(results: &Results, figure: &str, under: &str) -> Option<f64> {
    results.mean_ratio(figure, &ROCKSDB, "full", under)
}

/// The settings of the paper.
fn defaults() -> Settings {
    Settings::default()
}

const fn entry(id: &'static str, answers: &'static [crate::answer::Answer]) -> Entry {
    Entry { id, answers }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry("N01", &[Input("optane-2s: remote_latency_factor")]),
    entry(
        "N02",
        &[Input(
            "optane-2s: remote_read_ and remote_write_bandwidth_factor",
        )],
    ),
    entry(
        "N03",
        &[Faster {
            said: |results| balanced(results, "reads"),
        }],
    ),
    entry("N04", &[Unanswered("as N03, which it repeats")]),
    entry(
        "N05",
        &[Faster {
            said: |results| results.ratio("contention", "cores", "8 cores", "4 cores"),
        }],
    ),
    entry("N06", &[Input("as N01, which it repeats")]),
    entry(
        "N07",
        &[Input("optane-2s: read bandwidth of the last-level cache")],
    ),
    entry(
        "N08",
        &[number(Reading::Plain, |results| {
            results.bar("micro", "16 KB", "migration_us")
        })],
    ),
    entry(
        "N09",
        &[Unanswered(
            "35 us / 2.8 on DRAM is mostly what the kernel computes to move a page, which no paper here gives",
        )],
    ),
    entry(
        "N10",
        &[Input(
            "optane-2s: latencies (the slides' table, S01 and S03, says 5)",
        )],
    ),
    entry("N11", &[Input("optane-2s: read bandwidth, beside DRAM's")]),
    entry("N12", &[Input("optane-2s: write bandwidth, beside DRAM's")]),
    entry("N13", &[Input("optane-2s: read and write bandwidth")]),
    entry("N14", &[Input("optane-2s: read_bytes_s")]),
    entry("N15", &[Input("optane-2s: write_bytes_s")]),
    entry("N16", &[Unanswered("endurance is not modelled")]),
    entry(
        "N17",
        &[Setting {
            reading: Reading::Plain,
            value: || Settings::WINDOW_NS as f64 / 1e9,
        }],
    ),
    entry(
        "N18",
        &[Setting {
            reading: Reading::Plain,
            value: || defaults().read_margin_bytes_s / 1e6,
        }],
    ),
    entry(
        "N19",
        &[Setting {
            reading: Reading::Plain,
            value: || defaults().read_weight,
        }],
    ),
    entry(
        "N20",
        &[Setting {
            reading: Reading::Share,
            value: || defaults().pm_limit,
        }],
    ),
    entry(
        "N21",
        &[Setting {
            reading: Reading::Plain,
            value: || 1.0 / defaults().pm_ratio,
        }],
    ),
    entry(
        "N22",
        &[Setting {
            reading: Reading::Share,
            value: || defaults().cpu_limit,
        }],
    ),
    entry(
        "N23",
        &[Setting {
            reading: Reading::Plain,
            value: || defaults().cpu_ratio,
        }],
    ),
    entry(
        "N24",
        &[compared(Reading::Share, |results| {
            results.bar("2 of all local", "RW", "ext4-dax")
        })],
    ),
    entry(
        "N25",
        &[compared(Reading::Share, |results| {
            results.bar("2 of all local", "RW", "pmfs")
        })],
    ),
    entry(
        "N26",
        &[compared(Reading::Share, |results| {
            results.ratio("2", "RW", "nova", "all local")
        })],
    ),
    entry(
        "N27",
        &[compared(Reading::Share, |results| {
            results.ratio("2", "RW", "nova_n", "all local")
        })],
    ),
    entry(
        "N28",
        &[change(|results| {
            results.mean_ratio(
                "4",
                &["1 KB, 8 threads", "1 KB, 16 threads"],
                "spread",
                "crowded",
            )
        })],
    ),
    entry(
        "N29",
        &[change(|results| {
            let group = |group| results.ratio("4", group, "spread", "crowded");
            least([
                group("4 KB, 8 threads"),
                group("4 KB, 16 threads"),
                group("16 KB, 8 threads"),
                group("16 KB, 16 threads"),
            ])
        })],
    ),
    entry(
        "N30",
        &[change(|results| fio(results, "5a", "rl", "ext4-dax")).across()],
    ),
    entry(
        "N31",
        &[change(|results| fio(results, "5a", "rl", "pmfs")).across()],
    ),
    entry("N32", &[change(|results| fio(results, "5a", "rl", "nova"))]),
    entry(
        "N33",
        &[change(|results| fio(results, "5a", "rl", "nova_n"))],
    ),
    entry(
        "N34",
        &[Similar {
            said: |results| fio(results, "5a", "cpu", "rl"),
        }],
    ),
    entry(
        "N35",
        &[change(|results| {
            results.mean_ratio("5a", &["rw80", "rw60"], "full", "rl")
        })],
    ),
    entry(
        "N36",
        &[change(|results| {
            results.mean_ratio("5a", &["rw80", "rw60"], "full", "cpu")
        })],
    ),
    entry(
        "N37",
        &[Similar {
            said: |results| {
                farthest(["rw40", "rw20"].map(|mix| results.ratio("5a", mix, "full", "rl")))
            },
        }],
    ),
    entry(
        "N38",
        &[Similar {
            said: |results| alike(results, "write-only"),
        }],
    ),
    entry(
        "N39",
        &[Similar {
            said: |results| alike(results, "read-only"),
        }],
    ),
    entry(
        "N40",
        &[change(|results| fio(results, "5b", "full", "ext4-dax")).across()],
    ),
    entry(
        "N41",
        &[change(|results| fio(results, "5b", "full", "pmfs")).across()],
    ),
    entry(
        "N42",
        &[change(|results| fio(results, "5b", "full", "nova"))],
    ),
    entry(
        "N43",
        &[change(|results| fio(results, "5b", "full", "nova_n"))],
    ),
    entry("N44", &[change(|results| fio(results, "5b", "full", "rl"))]),
    entry(
        "N45",
        &[number(Reading::Plain, |results| {
            results.bar("5b threads on node 1", "rw60", "cpu")
        })],
    ),
    entry(
        "N46",
        &[Similar {
            said: |results| fio(results, "5b", "cpu", "full"),
        }],
    ),
    entry(
        "N47",
        &[change(|results| {
            let of = |system| results.ratio("5b", "read-only", system, "rl");
            Some((of("cpu")? + of("full")?) / 2.0)
        })],
    ),
    entry("N48", &[Faster { said: mixed_order }]),
    entry(
        "N49",
        &[Faster {
            said: |results| {
                four_beside_eight(results, &["read-only", "rw80", "rw60", "rw40", "rw20"])
            },
        }],
    ),
    entry(
        "N50",
        &[Input(
            "optane-2s: write_stream_bytes_s, and read_curve of the same figure",
        )],
    ),
    entry(
        "N51",
        &[change(|results| filebench(results, "6a", "rl", "ext4-dax")).across()],
    ),
    entry(
        "N52",
        &[change(|results| filebench(results, "6a", "rl", "pmfs")).across()],
    ),
    entry(
        "N53",
        &[change(|results| filebench(results, "6a", "rl", "nova"))],
    ),
    entry(
        "N54",
        &[change(|results| filebench(results, "6a", "rl", "nova_n"))],
    ),
    entry(
        "N55",
        &[Faster {
            said: |results| {
                let mean = |over, under| filebench(results, "6a", over, under);
                least([
                    mean("rl", "cpu"),
                    mean("rl", "nm"),
                    mean("full", "cpu"),
                    mean("full", "nm"),
                ])
            },
        }],
    ),
    entry(
        "N56",
        &[change(|results| filebench(results, "6a", "full", "ext4-dax")).across()],
    ),
    entry(
        "N57",
        &[change(|results| filebench(results, "6a", "full", "pmfs")).across()],
    ),
    entry(
        "N58",
        &[change(|results| filebench(results, "6a", "full", "nova"))],
    ),
    entry(
        "N59",
        &[change(|results| filebench(results, "6b", "rl", "ext4-dax")).across()],
    ),
    entry(
        "N60",
        &[change(|results| filebench(results, "6b", "rl", "pmfs")).across()],
    ),
    entry(
        "N61",
        &[change(|results| filebench(results, "6b", "rl", "nova"))],
    ),
    entry(
        "N62",
        &[change(|results| filebench(results, "6b", "rl", "nova_n"))],
    ),
    entry(
        "N63",
        &[Similar {
            said: |results| {
                farthest(["cpu", "nm", "full"].map(|bar| filebench(results, "6b", bar, "rl")))
            },
        }],
    ),
    entry(
        "N64",
        &[change(|results| {
            let figure = |figure| {
                let ratios =
                    PERSONALITIES.map(|group| results.ratio(figure, group, "full", "nova"));
                crate::answer::most(ratios)
            };
            crate::answer::most([figure("6a"), figure("6b")])
        })],
    ),
    entry(
        "N65",
        &[change(|results| rocksdb(results, "7a", "ext4-dax")).across()],
    ),
    entry(
        "N66",
        &[change(|results| rocksdb(results, "7a", "pmfs")).across()],
    ),
    entry("N67", &[change(|results| rocksdb(results, "7a", "nova"))]),
    entry("N68", &[change(|results| rocksdb(results, "7a", "nova_n"))]),
    entry(
        "N69",
        &[change(|results| results.ratio("7a", "R", "full", "ext4-dax")).across()],
    ),
    entry(
        "N70",
        &[change(|results| results.ratio("7a", "R", "full", "pmfs")).across()],
    ),
    entry(
        "N71",
        &[change(|results| results.ratio("7a", "R", "full", "nova"))],
    ),
    entry(
        "N72",
        &[change(|results| results.ratio("7a", "R", "full", "nova_n"))],
    ),
    entry(
        "N73",
        &[change(|results| results.ratio("7a", "RW", "full", "ext4-dax")).across()],
    ),
    entry(
        "N74",
        &[change(|results| results.ratio("7a", "RW", "full", "pmfs")).across()],
    ),
    entry(
        "N75",
        &[change(|results| results.ratio("7a", "RW", "full", "nova"))],
    ),
    entry(
        "N76",
        &[change(|results| {
            results.ratio("7a", "RW", "full", "nova_n")
        })],
    ),
    entry(
        "N77",
        &[
            change(|results| results.ratio("7a", "W", "full", "ext4-dax"))
                .at(0, "ext4-dax")
                .across(),
            change(|results| results.ratio("7a", "W", "full", "pmfs"))
                .at(1, "PMFS")
                .across(),
            change(|results| results.ratio("7a", "W", "full", "nova")).at(2, "NOVA"),
            change(|results| results.ratio("7a", "W", "full", "nova_n")).at(3, "NOVA_n"),
        ],
    ),
    entry(
        "N78",
        &[Faster {
            said: |results| {
                least(
                    ["ext4-dax", "pmfs", "nova"]
                        .map(|other| results.ratio("7a", "R", "nova_n", other)),
                )
            },
        }],
    ),
    entry(
        "N79",
        &[change(|results| rocksdb(results, "7b", "ext4-dax")).across()],
    ),
    entry(
        "N80",
        &[change(|results| rocksdb(results, "7b", "pmfs")).across()],
    ),
    entry("N81", &[change(|results| rocksdb(results, "7b", "nova"))]),
    entry("N82", &[change(|results| rocksdb(results, "7b", "nova_n"))]),
    entry(
        "N83",
        &[Unanswered(
            "it contradicts N71 and N81, which are larger, and names no workload",
        )],
    ),
    entry(
        "N84",
        &[change(|results| rocksdb(results, "7c", "ext4-dax")).across()],
    ),
    entry(
        "N85",
        &[change(|results| rocksdb(results, "7c", "pmfs")).across()],
    ),
    entry("N86", &[change(|results| rocksdb(results, "7c", "nova"))]),
    entry("N87", &[change(|results| rocksdb(results, "7c", "nova_n"))]),
    entry(
        "N88",
        &[Faster {
            said: |results| {
                let over = |bar| results.ratio("8", "1 KB, 16 threads", "100 %", bar);
                least([over("110 %"), over("130 %"), over("none")])
            },
        }],
    ),
    entry("N89", &[Faster { said: steadiest }]),
    entry(
        "N90",
        &[Unanswered("the size of an implementation is not modelled")],
    ),
];

pub(super) const SLIDES: &[Entry] = &[
    entry("S01", &[Input("optane-2s: DRAM's read latency")]),
    entry("S02", &[Input("optane-2s: DRAM's write latency")]),
    entry("S03", &[Input("optane-2s: read_latency_ns")]),
    entry("S04", &[Input("optane-2s: write_latency_ns")]),
    entry("S05", &[Input("optane-2s: DRAM's read bandwidth")]),
    entry("S06", &[Input("optane-2s: DRAM's write bandwidth")]),
    entry(
        "S07",
        &[Input(
            "optane-2s: read bandwidth (the paper's 6.8 GB/s, N14, is taken)",
        )],
    ),
    entry(
        "S08",
        &[Input(
            "optane-2s: write bandwidth (the paper's 1.85 GB/s, N15, is taken)",
        )],
    ),
    entry("S09", &[Unanswered("no machine here has an SSD")]),
    entry("S10", &[Unanswered("no machine here has an SSD")]),
    entry("S11", &[Input("as N01")]),
    entry(
        "S12",
        &[Faster {
            said: |results| least(["reads", "writes"].map(|kind| balanced(results, kind))),
        }],
    ),
    entry("S13", &[Input("as N06")]),
    entry(
        "S14",
        &[Setting {
            reading: Reading::Plain,
            value: || defaults().read_margin_bytes_s / 1e6,
        }],
    ),
    entry(
        "S15",
        &[Faster {
            // Which baseline is not named: every one.
            said: |results| least(BASELINES.map(|other| results.ratio("5a", "rw40", "rl", other))),
        }],
    ),
    entry(
        "S16",
        &[Faster {
            said: |results| {
                let least_of =
                    |figure| least(BASELINES.map(|other| fio(results, figure, "full", other)));
                least([least_of("5a"), least_of("5b")])
            },
        }],
    ),
    entry(
        "S17",
        &[Faster {
            said: |results| {
                let least_of =
                    |figure| least(BASELINES.map(|other| rocksdb(results, figure, other)));
                least([least_of("7a"), least_of("7b")])
            },
        }],
    ),
    entry("S18", &[Input("Figs. 2, 6 and 7: cores of a node")]),
    entry("S19", &[Input("optane-4s-emulated: memory of a node")]),
];

/// Threads with their data on two nodes, compared with all on one. The paper does not say what it ran, so only the
/// order is judged.
fn balanced(results: &Results, kind: &str) -> Option<f64> {
    results.ratio("contention", kind, "two nodes", "one node")
}

/// rl, cpu and full of Fig. 5a, each compared with each.
fn alike(results: &Results, mix: &str) -> Option<f64> {
    let ratio = |over, under| results.ratio("5a", mix, over, under);
    farthest([
        ratio("full", "rl"),
        ratio("full", "cpu"),
        ratio("cpu", "rl"),
    ])
}

/// Fig. 5b, in every mix of reads and writes: full and cpu above `NOVA_n`, and that above rl.
fn mixed_order(results: &Results) -> Option<f64> {
    let mixed = ["rw80", "rw60", "rw40", "rw20"];
    let of = |over, under| least(mixed.map(|mix| results.ratio("5b", mix, over, under)));
    least([
        of("full", "nova_n"),
        of("cpu", "nova_n"),
        of("nova_n", "rl"),
    ])
}

/// rl with 4 threads divided by rl with 8: the least of these mixes.
fn four_beside_eight(results: &Results, mixes: &[&str]) -> Option<f64> {
    let ratio = |mix: &&str| Some(results.bar("5a", mix, "rl")? / results.bar("5b", mix, "rl")?);
    let ratios: Option<Vec<f64>> = mixes.iter().map(ratio).collect();
    ratios?.into_iter().reduce(f64::min)
}

/// How much steadier Eq. 1's bandwidth is with 1/3 than as the plain sum, which the slides compare it with: the
/// spreads (largest over least) of both.
fn steadiest(results: &Results) -> Option<f64> {
    let spread = |weight| {
        let points = results.curve("9", weight)?;
        let values = || points.iter().map(|(_, value)| *value);
        Some(values().reduce(f64::max)? / values().reduce(f64::min)?)
    };
    Some(spread("1")? / spread("1/3")?)
}
