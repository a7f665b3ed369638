//! What each system and kind of access is drawn in.

use egeria_report::chart::Color;

/// The variables below, and what these pages add to the style of all pages.
pub(crate) const STYLE: &str = include_str!("colors.css");

/// Egeria at this machine's speed.
pub(crate) const EGERIA: Color = Color::Named("egeria");
/// Egeria on the emulated machine.
pub(crate) const EMULATED: Color = Color::Named("emulated");
pub(crate) const TMPFS: Color = Color::Named("tmpfs");
/// A mount without the preload library.
pub(crate) const MOUNT: Color = Color::Named("mount");
/// Bytes on the thread's own node.
pub(crate) const LOCAL: Color = Color::Named("local");
/// Bytes on other nodes.
pub(crate) const REMOTE: Color = Color::Named("remote");
pub(crate) const NOVA: Color = Color::Named("nova");
/// Blocks on random nodes.
pub(crate) const NOVA_N: Color = Color::Named("nova-n");
/// NThread without contention.
pub(crate) const RL: Color = Color::Named("rl");
/// NThread with contention for CPUs.
pub(crate) const CPU: Color = Color::Named("cpu");
/// NThread with all contention.
pub(crate) const NM: Color = Color::Named("nm");
pub(crate) const FULL: Color = Color::Named("full");
