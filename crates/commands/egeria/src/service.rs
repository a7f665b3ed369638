//! Notifications to a service manager (systemd's protocol). Without one, nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;

/// The command works; `status` is shown with that.
pub fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The command is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the service manager, where it wants to know, that the command still works: as long as `works` says so, asked
/// twice in the interval that was agreed on.
pub fn keep_telling(mut works: impl FnMut() -> bool + Send + 'static) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return;
    };
    let pause = (interval / 2).max(Duration::from_millis(1));
    let watchdog = std::thread::Builder::new().name("watchdog".to_owned());
    let started = watchdog.spawn(move || {
        loop {
            if works() {
                tell(&[NotifyState::Watchdog]);
            }
            std::thread::sleep(pause);
        }
    });
    if let Err(error) = started {
        tracing::warn!("cannot start the watchdog's thread: {error}");
    }
}

/// A service manager that does not listen is no reason to stop working.
fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("the service manager cannot be told: {error}");
    }
}
