//! One window of a volume that no steward looks after.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_fs::{AttachMode, Volume};
use egeria_machine::Machine;
use egeria_policy::NodeLoad;
use egeria_policy::nthread::{self, Configuration, Settings};
use egeria_steward::{Decision, NodeRecord, Scope, ThreadRecord};
use egeria_watch::live::LiveWatch;
use egeria_window::Window;

use super::super::decision_log::unix_ns;
use super::view::{Label, View};
use crate::failure::{Failure, Outcome};
use crate::machine_choice::{MachineArguments, attach_options};
use crate::session;
use crate::signals::Signals;

/// Watches for one window.
pub(super) fn one_window(pool: &Path, window_ns: u64, signals: &Signals) -> Outcome<View> {
    let volume = session::attach(pool, AttachMode::Join, &attach_options(None))?;
    volume.works_on_behalf();
    let machine = machine_of(&volume)?;
    let mut view = View::of_window(Label {
        volume: Some(volume.uuid().to_string()),
        machine: Some(machine.name.clone()),
        emulated: machine.is_emulated(),
        window_ns: Some(window_ns),
        ..Label::default()
    });
    let mut watch = LiveWatch::begin(volume, machine, Scope::All);
    wait(window_ns as f64 * watch.dilation(), signals)?;
    let window = watch.take();
    view.add(decision(watch.machine(), &window));
    Ok(view)
}

fn machine_of(volume: &Arc<Volume>) -> Outcome<Machine> {
    let machine = match volume.declared_machine() {
        Some(machine) => machine,
        None => MachineArguments::default().resolve()?,
    };
    match machine.is_emulated() == volume.emulation().is_configured() {
        true => Ok(machine),
        false => Err(Failure::new(
            "the volume is in use on a machine that its maker alone knows; look at the log of its steward with --log",
        )),
    }
}

/// Waits so many host ns, or until somebody asks to stop.
fn wait(host_ns: f64, signals: &Signals) -> Outcome {
    const LOOK: Duration = Duration::from_millis(20);
    let end = Instant::now() + Duration::from_nanos(host_ns as u64);
    loop {
        signals.check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// The window as a steward would log it, without moves: only looking.
fn decision(machine: &Machine, window: &Window) -> Decision {
    let settings = Settings::of(Configuration::Full);
    let loads = nthread::plan(machine, window, &settings).measured;
    let threads = window
        .threads
        .iter()
        .filter(|facts| facts.moved_total() > 0);
    let rates = |bytes: &[u64]| {
        bytes
            .iter()
            .map(|bytes| window.rate_bytes_s(*bytes))
            .collect()
    };
    Decision {
        number: window.number,
        start_ns: window.start_ns,
        duration_ns: window.duration_ns,
        time_unix_ns: unix_ns(std::time::SystemTime::now()),
        local_share: window.local_share(machine),
        nodes: nodes(machine, window, &loads),
        threads_omitted: 0,
        threads: threads
            .map(|facts| ThreadRecord {
                thread: facts.key,
                name: facts.name.clone(),
                node: facts.node,
                read_bytes_s: rates(&facts.read_bytes),
                written_bytes_s: rates(&facts.written_bytes),
                cpu_share: facts.busy_ns as f64 / window.duration_ns.max(1) as f64,
                is_shared: facts.is_shared,
            })
            .collect(),
        pm_contended: None,
        cpu_contended: None,
        moves: Vec::new(),
        kept: Vec::new(),
        results: Vec::new(),
    }
}

fn nodes(machine: &Machine, window: &Window, loads: &[NodeLoad]) -> Vec<NodeRecord> {
    let nodes = machine.nodes.iter().zip(&window.nodes);
    let records = nodes.map(|(node, facts)| {
        let load = loads.iter().find(|load| load.node == node.id);
        let declared = machine.emulated_node(node.id);
        let cores = declared.map_or(node.cpus.len(), |emulated| emulated.cores as usize);
        let here = window.threads.iter().filter(|each| each.node == node.id);
        NodeRecord {
            node: node.id,
            read_bytes_s: window.rate_bytes_s(facts.read_bytes),
            written_bytes_s: window.rate_bytes_s(facts.written_bytes),
            pm_bytes_s: load.map_or(0.0, |load| load.pm_bytes_s),
            pm_maximum_bytes_s: load.and_then(|load| load.pm_maximum_bytes_s),
            cpu_share: facts.busy_ns as f64
                / (window.duration_ns.max(1) as f64 * cores.max(1) as f64),
            threads: here.count() as u32,
        }
    });
    records.collect()
}

/// Reads milliseconds.
pub(super) fn window_ns(text: &str) -> Result<u64, String> {
    const NS_PER_MS: f64 = 1e6;
    let number = text.parse::<f64>().ok().map(|number| number * NS_PER_MS);
    number
        .filter(|window_ns| (NS_PER_MS..=6e10).contains(window_ns))
        .map(|window_ns| window_ns as u64)
        .ok_or_else(|| format!("{text:?} is no window; write milliseconds, 1 to 60000"))
}
