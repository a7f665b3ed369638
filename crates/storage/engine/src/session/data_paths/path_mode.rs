//! Which ways data takes in a session.

/// A word of the session that describes what is between a data path and the pools. Fast paths are used only when it is
/// [`PathMode::NORMAL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PathMode(pub(crate) u32);

impl PathMode {
    pub(crate) const NORMAL: PathMode = PathMode(0);
    /// The nodes are declared, not detected: accesses take as long as on the declared machine.
    pub(crate) const EMULATED: PathMode = PathMode(1);

    /// The number of threads that access the pools at once is limited.
    pub(crate) const LIMITED: PathMode = PathMode(2);

    /// Accesses of this session take no time on the emulated machine, for example while data is prepared.
    pub(crate) const UNTIMED: PathMode = PathMode(4);

    /// Whether threads ask for admission.
    #[inline(always)]
    pub(crate) fn is_limited(self) -> bool {
        self.0 & PathMode::LIMITED.0 != 0
    }

    /// Whether accesses take as long as on the emulated machine.
    #[inline(always)]
    pub(crate) fn is_timed(self) -> bool {
        self.0 & (PathMode::EMULATED.0 | PathMode::UNTIMED.0) == PathMode::EMULATED.0
    }

    /// Whether the machine is an emulated one.
    #[inline(always)]
    pub(crate) fn is_emulated(self) -> bool {
        self.0 & PathMode::EMULATED.0 != 0
    }
}
