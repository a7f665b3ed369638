//! One window of a volume that no steward looks after.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_engine::{AttachMode, AttachOptions, Volume};
use egeria_facts::Window;
use egeria_machine::Machine;
use egeria_policy::Plan;
use egeria_policy::nthread::{self, Configuration, Settings};
use egeria_session::SessionSource;
use egeria_steward::{Scope, WindowRecord};

use super::super::decision_log::unix_ns;
use super::view::{Label, View};
use crate::machine_choice::MachineArguments;
use crate::session;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;

/// Watches for one window.
pub(super) fn one_window(pool: &Path, window_ns: u64, signals: &Signals) -> Outcome<View> {
    let volume = session::attach(pool, AttachMode::Join, &AttachOptions::default())?;
    volume.works_on_behalf();
    let machine = machine_of(&volume)?;
    let mut view = View::of_window(Label {
        volume: Some(volume.uuid().to_string()),
        machine: Some(machine.name.clone()),
        emulated: machine.is_emulated(),
        window_ns: Some(window_ns),
        ..Label::default()
    });
    let mut watch = SessionSource::begin(volume, machine, Scope::All);
    wait(window_ns as f64 * watch.dilation(), signals)?;
    let window = watch.take();
    let machine = watch.machine();
    view.add(record(machine, &window));
    Ok(view)
}

pub(in crate::commands::look) fn machine_of(volume: &Arc<Volume>) -> Outcome<Machine> {
    let machine = match volume.declared_machine() {
        Some(machine) => machine,
        None => MachineArguments::default().resolve()?,
    };
    if machine.is_emulated() == volume.emulation().is_configured() {
        Ok(machine)
    } else {
        Err(Failure::new(
            "the volume is in use on a machine that its maker alone knows; look at the log of its steward with --log",
        ))
    }
}

/// Waits for this number of host ns, or until a signal asks to stop.
pub(in crate::commands::look) fn wait(host_ns: f64, signals: &Signals) -> Outcome {
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

/// The window as a steward would log it: only looked at, so nothing of the plan but the loads.
pub(in crate::commands::look) fn record(machine: &Machine, window: &Window) -> WindowRecord {
    let settings = Settings::of(Configuration::Full);
    let looked_at = Plan {
        measured: nthread::plan(machine, window, &settings).measured,
        ..Plan::default()
    };
    WindowRecord {
        time_unix_ns: unix_ns(std::time::SystemTime::now()),
        ..WindowRecord::seen(machine, window, &looked_at)
    }
}
