//! What the mount and the kernel agree on, and notifications to the kernel.

pub(crate) mod negotiation;
pub(crate) mod notifiers;
pub(crate) mod notify;
