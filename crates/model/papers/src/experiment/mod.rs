//! The experiments of the papers, run in the model.
//!
//! What the papers say of a workload is taken from them. What they do not say is assumed, and noted in
//! `workloads/*.toml`. Some of it was chosen with results in view: docs/explanation/papers.md says what.

pub(crate) mod asymsched;
pub(crate) mod beyond;
mod file_system;
mod filebench;
mod fio;
pub(crate) mod managed;
mod micro;
pub(crate) mod migration;
pub(crate) mod odin;
pub(crate) mod pats;
mod rocksdb;
mod stage;

use crate::error::Result;
use crate::results::Results;

pub use stage::Extent;
pub(crate) use stage::Stage;

pub(crate) use filebench::PERSONALITIES;
pub(crate) use fio::MIXES;

/// One experiment: the figures it is of, and how it is run.
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Stage, &mut Results) -> Result<()>,
}

pub(crate) const ALL: [Experiment; 20] = [
    Experiment {
        name: "NThread §III-C1",
        run: micro::migration,
    },
    Experiment {
        name: "NThread §III-B",
        run: fio::contention,
    },
    Experiment {
        name: "NThread Fig. 4",
        run: fio::figure_4,
    },
    Experiment {
        name: "NThread Fig. 5",
        run: fio::figure_5,
    },
    Experiment {
        name: "NThread Fig. 8 and 9",
        run: fio::figures_8_and_9,
    },
    Experiment {
        name: "NThread Fig. 6",
        run: filebench::figure_6,
    },
    Experiment {
        name: "NThread Fig. 7a and 7b",
        run: rocksdb::figure_7,
    },
    Experiment {
        name: "NThread Fig. 7c",
        run: rocksdb::four_nodes,
    },
    Experiment {
        name: "NThread Fig. 2",
        run: rocksdb::figure_2,
    },
    Experiment {
        name: "PATS",
        run: pats::curves,
    },
    Experiment {
        name: "OdinFS, 224 threads",
        run: odin::performance,
    },
    Experiment {
        name: "OdinFS, one node",
        run: odin::nodes,
    },
    Experiment {
        name: "AsymSched, three nodes",
        run: asymsched::three_nodes,
    },
    Experiment {
        name: "AsymSched, two and five nodes",
        run: asymsched::two_nodes,
    },
    Experiment {
        name: "AsymSched, streamcluster",
        run: managed::streamcluster,
    },
    Experiment {
        name: "AsymSched, three programs",
        run: managed::three_programs,
    },
    Experiment {
        name: "AsymSched, migration",
        run: migration::migration,
    },
    Experiment {
        name: "AsymSched, search",
        run: migration::search,
    },
    Experiment {
        name: "limits, beyond the papers",
        run: beyond::limits,
    },
    Experiment {
        name: "hot data, beyond the papers",
        run: beyond::hot_data,
    },
];
