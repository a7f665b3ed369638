//! Settings of limits and delegation that can be tried.

/// Which of the two stages act.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Arm {
    pub(super) limits: Level,
    pub(super) delegation: bool,
}

/// Which limits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) enum Level {
    /// None.
    #[default]
    Off,
    /// As the stage wants them.
    Wanted,
    /// Those of Eq. 1 where the stage wants higher ones.
    Formula,
}

impl Arm {
    pub(super) const NEITHER: Arm = Arm::of(Level::Off, false);
    pub(super) const LIMITS: [Arm; 2] = [
        Arm::of(Level::Wanted, false),
        Arm::of(Level::Formula, false),
    ];
    pub(super) const DELEGATION: Arm = Arm::of(Level::Off, true);

    const fn of(limits: Level, delegation: bool) -> Arm {
        Arm { limits, delegation }
    }

    /// Whether it does nothing that `wanted` does not.
    pub(super) fn is_within(self, wanted: Arm) -> bool {
        self.limits <= wanted.limits && (wanted.delegation || !self.delegation)
    }

    pub(super) fn both(self, other: Arm) -> Arm {
        let delegation = self.delegation || other.delegation;
        Arm::of(self.limits.max(other.limits), delegation)
    }
}
