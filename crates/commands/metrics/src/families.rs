//! What the metrics are. Names are documented in docs/reference/metrics.md; a test compares.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use egeria_engine::{Counters, PoolAdmission, Volume};
use egeria_media::BLOCK_BYTES;
use egeria_mount::{LATENCY_BOUNDS_NS, RequestCounts};
use egeria_policy::planner::Balance;
use egeria_steward::{ActionCount, NodeRates, Summary};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeMetric, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::reports::Reports;

type Labels = Vec<(&'static str, String)>;
type Values<T> = Vec<(Labels, T)>;

/// A pool, as labels name it.
struct PoolPlace {
    pool: usize,
    node: u16,
}

fn pools_of(volume: &Volume) -> Vec<PoolPlace> {
    let nodes = volume.pool_nodes().into_iter().enumerate();
    let there = nodes.filter(|(pool, _)| volume.has_pool(*pool));
    there.map(|(pool, node)| PoolPlace { pool, node }).collect()
}

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

    /// Times by [`LATENCY_BOUNDS_NS`]: labels, their sum in seconds, and how many are in each bucket.
    fn histogram<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        unit: &Unit,
        values: impl Iterator<Item = (Labels, f64, [u64; N])>,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, help, Some(unit), kind)?;
        let bounds = LATENCY_BOUNDS_NS.map(|bound| bound as f64 / 1e9);
        for (labels, sum, counts) in values {
            let bounds = bounds.into_iter().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
            let mut metric = family.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)?;
        }
        Ok(())
    }
}

/// Metrics of a mounted volume: sums over all processes that use it, and what its mount was asked for.
pub struct VolumeMetrics {
    /// As long as others keep it open: metrics keep nothing from being closed.
    volume: Weak<Volume>,
    requests: Arc<RequestCounts>,
    reports: Arc<Reports>,
}

impl fmt::Debug for VolumeMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("VolumeMetrics")
    }
}

impl VolumeMetrics {
    /// Of this volume, its mount, and what is reported of it.
    pub fn of(
        volume: &Arc<Volume>,
        requests: &Arc<RequestCounts>,
        reports: Arc<Reports>,
    ) -> VolumeMetrics {
        VolumeMetrics {
            volume: Arc::downgrade(volume),
            requests: Arc::clone(requests),
            reports,
        }
    }
}

impl Collector for VolumeMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(volume) = self.volume.upgrade() else {
            return Ok(());
        };
        let mut families = Families(encoder);
        let base: Labels = vec![("volume", volume.uuid().to_string())];
        let pools = pools_of(&volume);
        let counters = volume.counters();
        traffic(&mut families, &base, &pools, &counters)?;
        requests(&mut families, &base, &counters)?;
        latencies(&mut families, &base, &self.requests)?;
        errors(&mut families, &base, &self.requests)?;
        admission(&mut families, &base, &pools, &volume.admission(false))?;
        waits(&mut families, &base, &counters)?;
        space(&mut families, &base, &pools, &volume)?;
        damage(&mut families, &base, &counters, &volume)?;
        reports(&mut families, &base, &self.reports)
    }
}

fn with(base: &Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    base.iter().cloned().chain(more).collect()
}

fn at(base: &Labels, pool: &PoolPlace) -> Labels {
    with(
        base,
        [
            ("pool", pool.pool.to_string()),
            ("node", pool.node.to_string()),
        ],
    )
}

fn of_pools<T>(base: &Labels, pools: &[PoolPlace], value: impl Fn(usize) -> T) -> Values<T> {
    let each = |pool: &PoolPlace| (at(base, pool), value(pool.pool));
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
    pools: &[PoolPlace],
    counters: &Counters,
) -> fmt::Result {
    let bytes = Some(&Unit::Bytes);
    let read = of_pools(base, pools, |pool| counters.read_bytes[pool]);
    families.counter("read", "Read from each pool", bytes, read)?;
    let written = of_pools(base, pools, |pool| counters.written_bytes[pool]);
    families.counter("written", "Written to each pool", bytes, written)?;
    let places = |pool: &PoolPlace| {
        let remote = counters.remote_of_pool_bytes[pool.pool];
        let all = counters.read_bytes[pool.pool] + counters.written_bytes[pool.pool];
        // Threads count while the counters are read.
        let local = all.saturating_sub(remote);
        apart(
            &at(base, pool),
            "place",
            [("local", local), ("remote", remote)],
        )
    };
    families.counter(
        "accessed",
        "Read or written by threads on the node of the pool (local) and by others (remote)",
        bytes,
        pools.iter().flat_map(places).collect(),
    )?;
    families.counter(
        "delegated",
        "Read or written by delegates for other threads",
        bytes,
        vec![(base.clone(), counters.delegated_bytes)],
    )
}

fn requests(families: &mut Families<'_>, base: &Labels, counters: &Counters) -> fmt::Result {
    let ways = [
        ("mount", counters.mount_requests),
        ("direct", counters.direct_calls),
        ("passed", counters.passed_calls),
    ];
    families.counter(
        "requests",
        "Requests that the mount served, calls that the preload library served itself, and calls that it passed on to the kernel",
        None,
        apart(base, "way", ways),
    )
}

fn latencies(families: &mut Families<'_>, base: &Labels, requests: &RequestCounts) -> fmt::Result {
    let values = requests.latencies().map(|latencies| {
        let labels = with(base, [("kind", latencies.kind.to_owned())]);
        (labels, latencies.sum_ns as f64 / 1e9, latencies.buckets)
    });
    families.histogram(
        "mount_request_duration",
        "How long the mount took to answer requests of the kernel, by kind",
        &Unit::Seconds,
        values,
    )
}

fn errors(families: &mut Families<'_>, base: &Labels, requests: &RequestCounts) -> fmt::Result {
    let value = |(cause, count): (&str, u64)| (with(base, [("cause", cause.to_owned())]), count);
    families.counter(
        "mount_errors",
        "Requests that the mount answered with EIO, by cause",
        None,
        requests.errors().map(value).collect(),
    )
}

fn admission(
    families: &mut Families<'_>,
    base: &Labels,
    pools: &[PoolPlace],
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
    let limit = |pool: &PoolPlace| {
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
    pools: &[PoolPlace],
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

fn waits(families: &mut Families<'_>, base: &Labels, counters: &Counters) -> fmt::Result {
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
    )
}

fn damage(
    families: &mut Families<'_>,
    base: &Labels,
    counters: &Counters,
    volume: &Volume,
) -> fmt::Result {
    let failures = vec![(base.clone(), counters.checksum_failures)];
    families.counter(
        "checksum_failures",
        "Reads of data that does not match its checksum",
        None,
        failures,
    )?;
    let found = volume.recovery().map_or(0, |recovery| {
        recovery.more_damage + recovery.damage.len() as u64
    });
    families.gauge(
        "recovery_damage",
        "Damage that was met when the mount opened the volume",
        None,
        vec![(base.clone(), found as f64)],
    )?;
    let read_only = vec![(base.clone(), f64::from(u8::from(volume.is_read_only())))];
    families.gauge(
        "read_only",
        "1 where every change is refused",
        None,
        read_only,
    )
}

fn reports(families: &mut Families<'_>, base: &Labels, reports: &Reports) -> fmt::Result {
    families.counter(
        "reports",
        "Lines that the mount's log has of the volume: damage, blocks that fail, processes that died or stopped",
        None,
        apart(base, "severity", reports.counts()),
    )
}

/// Metrics of a steward.
#[derive(Debug)]
pub struct StewardMetrics(Arc<Mutex<Summary>>);

impl StewardMetrics {
    /// The metrics of the steward with this summary.
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
        let each = |counted: &ActionCount| {
            let labels = vec![
                ("action", counted.action.clone()),
                ("reason", counted.reason.clone()),
                ("outcome", counted.outcome.clone()),
            ];
            (labels, counted.count)
        };
        families.counter(
            "steward_actions",
            "Moves and other actions, by reason and outcome",
            None,
            summary.actions.iter().map(each).collect(),
        )?;
        let each = |(because, count): &(String, u64)| (vec![("because", because.clone())], *count);
        families.counter(
            "steward_kept",
            "Threads that stayed although they would have gained elsewhere, each window counted, by cause",
            None,
            summary.kept.iter().map(each).collect(),
        )?;
        of_budget(&mut families, &summary)?;
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
        of_last_window(&mut families, &summary)
    }
}

fn of_budget(families: &mut Families<'_>, summary: &Summary) -> fmt::Result {
    let seconds = Some(&Unit::Seconds);
    let one = |of: fn(&Balance) -> u64| {
        let value = summary.budget.as_ref().map(of);
        let value = value.map(|value_ns| (Labels::new(), value_ns as f64 / 1e9));
        value.into_iter().collect()
    };
    families.gauge(
        "steward_budget_spent",
        "Time that moves have taken from processes or will take, all together",
        seconds,
        one(|budget| budget.spent_ns),
    )?;
    families.gauge(
        "steward_budget_allowed",
        "Time that they may have taken until now",
        seconds,
        one(|budget| budget.allowed_ns),
    )?;
    families.counter(
        "steward_memory_moved",
        "Memory of processes that followed their threads",
        Some(&Unit::Bytes),
        vec![(Labels::new(), summary.memory_moved_bytes)],
    )
}

fn of_last_window(families: &mut Families<'_>, summary: &Summary) -> fmt::Result {
    let last = summary.series.last();
    let of_nodes = |value: fn(&NodeRates) -> f64| {
        let nodes = last.into_iter().flat_map(|window| &window.nodes);
        let each = |node: &NodeRates| (vec![("node", node.node.0.to_string())], value(node));
        nodes.map(each).collect()
    };
    families.gauge(
        "steward_cpu_ratio",
        "Share of a node's CPUs in use in the last window",
        None,
        of_nodes(|node| node.cpu_share),
    )?;
    families.gauge(
        "steward_read_bytes_per_second",
        "Read from the memory of a node in the last window, on the machine's clock",
        None,
        of_nodes(|node| node.read_bytes_s),
    )?;
    families.gauge(
        "steward_written_bytes_per_second",
        "Written to the memory of a node in the last window, on the machine's clock",
        None,
        of_nodes(|node| node.written_bytes_s),
    )?;
    let local = last.and_then(|window| window.local_share);
    families.gauge(
        "steward_local_ratio",
        "Share of local bytes in the last window; absent when nothing moved",
        None,
        local
            .map(|share| (Labels::new(), share))
            .into_iter()
            .collect(),
    )
}
