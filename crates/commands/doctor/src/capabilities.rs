//! What the kernel lets this process do beyond what its user may.

/// Those that something of Egeria needs, by their numbers in <linux/capability.h>.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// Looking at programs of other users.
    SysPtrace = 19,
    /// Mounting.
    SysAdmin = 21,
    /// Moving pages of other users, memory policies in some containers.
    SysNice = 23,
    /// Counting accesses of other programs.
    Perfmon = 38,
    /// Programs in the kernel.
    Bpf = 39,
}

/// All of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Those that the text of `/proc/PID/status` calls effective.
    pub(crate) fn of(status: &str) -> Capabilities {
        Capabilities::in_set(status, "CapEff:")
    }

    /// Those that the text of `/proc/PID/status` calls bounding, and that a program with the set-user-id bit can thus
    /// have; none where such programs give none (`NoNewPrivs`).
    pub(crate) fn reachable(status: &str) -> Capabilities {
        let kept = status
            .lines()
            .find_map(|line| line.strip_prefix("NoNewPrivs:"));
        match kept.map(str::trim) {
            Some("1") => Capabilities::of(status),
            _ => Capabilities::in_set(status, "CapBnd:"),
        }
    }

    fn in_set(status: &str, key: &str) -> Capabilities {
        let word = status.lines().find_map(|line| line.strip_prefix(key));
        let bits = word.and_then(|word| u64::from_str_radix(word.trim(), 16).ok());
        Capabilities(bits.unwrap_or(0))
    }

    /// Whether this one is among them.
    pub fn has(self, capability: Capability) -> bool {
        self.0 >> capability as u32 & 1 == 1
    }

    /// The names of those that Egeria knows, as `CAP_SYS_NICE`.
    pub fn names(self) -> Vec<&'static str> {
        let known = [
            (Capability::SysAdmin, "CAP_SYS_ADMIN"),
            (Capability::SysNice, "CAP_SYS_NICE"),
            (Capability::SysPtrace, "CAP_SYS_PTRACE"),
            (Capability::Perfmon, "CAP_PERFMON"),
            (Capability::Bpf, "CAP_BPF"),
        ];
        let had = known
            .into_iter()
            .filter(|(capability, _)| self.has(*capability));
        had.map(|(_, name)| name).collect()
    }
}
