//! What the metrics are. Names are documented in docs/reference/metrics.md; a test compares.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use egeria_fs::{Counters, PoolAdmission, Volume};
use egeria_media::BLOCK_BYTES;
use egeria_steward::Summary;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::session::{self, PoolLabel};

type Labels = Vec<(&'static str, String)>;
type Values<T> = Vec<(Labels, T)>;

/// Writes families one after the other.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn counter<T: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: Values<T>,
    ) -> fmt::Result {
        let kind = MetricType::Counter;
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: Values<f64>,
    ) -> fmt::Result {
        let kind = MetricType::Gauge;
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Metrics of a volume in use: sums over all processes that use it.
#[derive(Debug)]
pub struct VolumeMetrics(pub Source);

/// A volume as long as others keep it open: metrics keep nothing from being closed.
pub struct Source(Weak<Volume>);

impl fmt::Debug for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Source")
    }
}

impl VolumeMetrics {
    /// Of this volume.
    pub fn of(volume: &Arc<Volume>) -> VolumeMetrics {
        VolumeMetrics(Source(Arc::downgrade(volume)))
    }
}

impl Collector for VolumeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(volume) = self.0.0.upgrade() else {
            return Ok(());
        };
        let mut families = Families(encoder);
        let base: Labels = vec![("volume", volume.uuid().to_string())];
        let pools = session::pool_labels(&volume);
        let counters = volume.counters();
        traffic(&mut families, &base, &pools, &counters)?;
        requests(&mut families, &base, &counters)?;
        admission(&mut families, &base, &pools, &volume.admission(false))?;
        space(&mut families, &base, &pools, &volume)?;
        damage(&mut families, &base, &counters, &volume)
    }
}

fn with(base: &Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    base.iter().cloned().chain(more).collect()
}

fn at(base: &Labels, pool: &PoolLabel) -> Labels {
    with(
        base,
        [
            ("pool", pool.pool.to_string()),
            ("node", pool.node.to_string()),
        ],
    )
}

/// One value of each pool.
fn of_pools<T>(base: &Labels, pools: &[PoolLabel], value: impl Fn(usize) -> T) -> Values<T> {
    let each = |pool: &PoolLabel| (at(base, pool), value(pool.pool));
    pools.iter().map(each).collect()
}

/// Values of one family that a label tells apart.
fn apart<T, const N: usize>(
    base: &Labels,
    label: &'static str,
    values: [(&str, T); N],
) -> Values<T> {
    let each = |(name, value): (&str, T)| (with(base, [(label, name.to_owned())]), value);
    values.into_iter().map(each).collect()
}

fn traffic(
    families: &mut Families<'_>,
    base: &Labels,
    pools: &[PoolLabel],
    counters: &Counters,
) -> fmt::Result {
    let bytes = Some(&Unit::Bytes);
    let read = of_pools(base, pools, |pool| counters.read_bytes[pool]);
    families.counter("read", "Read from each pool", bytes, read)?;
    let written = of_pools(base, pools, |pool| counters.written_bytes[pool]);
    families.counter("written", "Written to each pool", bytes, written)?;
    let places = [
        ("local", counters.local_bytes),
        ("remote", counters.remote_bytes),
    ];
    families.counter(
        "accessed",
        "Read or written by threads on the node of the pool (local) and by others (remote)",
        bytes,
        apart(base, "place", places),
    )?;
    families.counter(
        "delegated",
        "Read or written by delegates for other threads",
        bytes,
        vec![(base.clone(), counters.delegated_bytes)],
    )
}

fn requests(families: &mut Families<'_>, base: &Labels, counters: &Counters) -> fmt::Result {
    let kinds = [
        ("mount", counters.mount_requests),
        ("direct", counters.direct_calls),
        ("passed", counters.passed_calls),
    ];
    families.counter(
        "requests",
        "Requests that the mount served, calls that the preload library served itself, and calls that it passed on to the kernel",
        None,
        apart(base, "kind", kinds),
    )
}

fn admission(
    families: &mut Families<'_>,
    base: &Labels,
    pools: &[PoolLabel],
    gates: &[PoolAdmission],
) -> fmt::Result {
    let number = |of: fn(&PoolAdmission) -> u32| {
        of_pools(base, pools, |pool| {
            gates.get(pool).map_or(0.0, |gate| of(gate).into())
        })
    };
    let admitted = number(|gate| gate.admitted);
    families.gauge(
        "admitted_threads",
        "Threads that hold a place at a pool",
        None,
        admitted,
    )?;
    let waiting = number(|gate| gate.waiting);
    families.gauge(
        "waiting_threads",
        "Threads that wait for a place at a pool",
        None,
        waiting,
    )?;
    let limit = |pool: &PoolLabel| {
        Some((
            at(base, pool),
            f64::from(gates.get(pool.pool)?.limit?.get()),
        ))
    };
    let limits = pools.iter().filter_map(limit).collect();
    families.gauge(
        "admission_limit_threads",
        "Threads that may access a pool at once; absent without a limit",
        None,
        limits,
    )
}

fn space(
    families: &mut Families<'_>,
    base: &Labels,
    pools: &[PoolLabel],
    volume: &Volume,
) -> fmt::Result {
    let of = |pool: usize| volume.space(Some(pool as u8));
    let bytes = Some(&Unit::Bytes);
    let size = of_pools(base, pools, |pool| (of(pool).blocks * BLOCK_BYTES) as f64);
    families.gauge("pool_size", "Data that a pool has room for", bytes, size)?;
    let free = of_pools(base, pools, |pool| {
        (of(pool).free_blocks * BLOCK_BYTES) as f64
    });
    families.gauge("pool_free", "Of that, what is free", bytes, free)?;
    let inodes = of_pools(base, pools, |pool| of(pool).inodes as f64);
    families.gauge("pool_inodes", "Inodes of a pool", None, inodes)?;
    let free = of_pools(base, pools, |pool| of(pool).free_inodes as f64);
    families.gauge("pool_free_inodes", "Of these, the free ones", None, free)
}

fn damage(
    families: &mut Families<'_>,
    base: &Labels,
    counters: &Counters,
    volume: &Volume,
) -> fmt::Result {
    let waits = vec![(base.clone(), counters.admission_waits)];
    families.counter(
        "admission_waits",
        "Requests that waited for a place at a pool",
        None,
        waits,
    )?;
    let waited = vec![(base.clone(), counters.admission_waited_ns as f64 / 1e9)];
    families.counter(
        "admission_waited",
        "How long, in all",
        Some(&Unit::Seconds),
        waited,
    )?;
    let failures = vec![(base.clone(), counters.checksum_failures)];
    families.counter(
        "checksum_failures",
        "Reads of data that does not match its checksum",
        None,
        failures,
    )?;
    let read_only = vec![(base.clone(), f64::from(u8::from(volume.is_read_only())))];
    families.gauge(
        "read_only",
        "1 where every change is refused",
        None,
        read_only,
    )
}

/// Metrics of a steward.
#[derive(Debug)]
pub struct StewardMetrics(Arc<Mutex<Summary>>);

impl StewardMetrics {
    /// Of the steward whose summary this is.
    pub fn of(summary: Arc<Mutex<Summary>>) -> StewardMetrics {
        StewardMetrics(summary)
    }
}

impl Collector for StewardMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let summary = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut families = Families(encoder);
        let one = |value: u64| vec![(Labels::new(), value)];
        families.counter(
            "steward_windows",
            "Windows looked at",
            None,
            one(summary.windows),
        )?;
        let outcomes = [("done", summary.moves), ("failed", summary.moves_failed)];
        let outcomes = apart(&Labels::new(), "outcome", outcomes);
        families.counter(
            "steward_migrations",
            "Migrations of threads by outcome",
            None,
            outcomes,
        )?;
        let each = |(reason, count): &(String, u64)| (vec![("reason", reason.clone())], *count);
        let reasons = summary.reasons.iter().map(each).collect();
        families.counter(
            "steward_reasons",
            "Migrations done, by reason",
            None,
            reasons,
        )?;
        let missed = one(summary.missed);
        families.counter(
            "steward_missed",
            "Actions that brought less than half of what was expected",
            None,
            missed,
        )?;
        let moved = vec![(Labels::new(), summary.moved_threads as f64)];
        families.gauge(
            "steward_migrated_threads",
            "Threads migrated at least once",
            None,
            moved,
        )?;
        let last = summary.series.last();
        let nodes = last.into_iter().flat_map(|window| &window.nodes);
        let share = |node: &egeria_steward::NodeRates| {
            (vec![("node", node.node.0.to_string())], node.cpu_share)
        };
        families.gauge(
            "steward_cpu_ratio",
            "Share of a node's CPUs in use in the last window",
            None,
            nodes.map(share).collect(),
        )
    }
}
