//! The places a machine comes from, and the file it can be written to.

pub(crate) mod facts;
pub mod file;
pub(crate) mod input;
pub(crate) mod profile;
pub(crate) mod sysfs;

use std::path::Path;

use crate::{CpuId, EmulatedMachine, Fact, Machine, MachineError, Source, check, format_cpu_list};

/// The machine file that root has had written for this machine, used where none is named.
pub const CALIBRATED: &str = "/etc/egeria/machine.toml";

impl Machine {
    /// The running machine, from `/sys` and `/proc`.
    ///
    /// # Errors
    /// When the kernel's files are missing or make no sense.
    pub fn detect() -> Result<Machine, MachineError> {
        Machine::from_sysfs(Path::new("/"))
    }

    /// The machine with `sys` and `proc` directories below `root`.
    ///
    /// # Errors
    /// When those files are missing or make no sense.
    pub fn from_sysfs(root: &Path) -> Result<Machine, MachineError> {
        sysfs::read_machine(root)
    }

    /// The machine a TOML text describes; `origin` names it in errors.
    ///
    /// Emulated nodes that name no CPUs have none yet: see [`Machine::stand_on_cpus`].
    ///
    /// # Errors
    /// When the text is not TOML, has unknown keys, or says something impossible.
    pub fn from_toml(text: &str, origin: &Path) -> Result<Machine, MachineError> {
        file::parse(text, origin)
    }

    /// The machine a TOML file describes, standing on the CPUs of the running machine.
    ///
    /// # Errors
    /// As [`Machine::from_toml`], and when the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Machine, MachineError> {
        Machine::from_toml(&file::read(path)?, path)?.standing_below(Path::new("/"))
    }

    /// A profile that ships with Egeria, standing on the CPUs of the running machine.
    ///
    /// # Errors
    /// When there is no profile of that name.
    pub fn profile(name: &str) -> Result<Machine, MachineError> {
        profile::load(name)?.standing_below(Path::new("/"))
    }

    /// The names [`Machine::profile`] knows.
    pub fn profile_names() -> &'static [&'static str] {
        profile::NAMES
    }

    /// The measurements that a profile cites.
    ///
    /// # Errors
    /// When there is no profile of that name.
    pub fn profile_facts(name: &str) -> Result<Vec<Fact>, MachineError> {
        facts::of(name)
    }

    /// The measurements of a TOML text as those of a profile; `origin` names it in errors.
    ///
    /// # Errors
    /// When it is no such text.
    pub fn read_facts(text: &str, origin: &str) -> Result<Vec<Fact>, MachineError> {
        facts::read(text, origin)
    }

    /// What `--machine` and `--sysfs-root` mean: no `spec` is the machine below `sysfs_root`
    /// (default `/`); else `spec` is a profile's name, else the path of a TOML file.
    ///
    /// # Errors
    /// Those of the source chosen.
    pub fn resolve(spec: Option<&str>, sysfs_root: Option<&Path>) -> Result<Machine, MachineError> {
        let root = sysfs_root.unwrap_or(Path::new("/"));
        match spec {
            None => Machine::from_sysfs(root),
            Some(name) if profile::NAMES.contains(&name) => {
                profile::load(name)?.standing_below(root)
            }
            Some(spec) => {
                let path = Path::new(spec);
                let looks_like_a_path = spec.contains(['/', '.']) || path.exists();
                if !looks_like_a_path {
                    return Err(profile::unknown(spec));
                }
                Machine::from_toml(&file::read(path)?, path)?.standing_below(root)
            }
        }
    }

    /// The same machine, emulated: what its nodes have in cores, memories, controllers, caches and links, at so much
    /// wall time per machine time. One that is emulated already gets this dilation.
    ///
    /// # Errors
    /// When nothing is known of its memories, or the dilation is none.
    pub fn emulate(mut self, dilation: f64) -> Result<Machine, MachineError> {
        let origin = match &self.source {
            Source::File(path) | Source::Sysfs(path) => path.to_path_buf(),
            Source::Profile(name) => format!("profile {name}").into(),
        };
        match &mut self.emulated {
            Some(emulated) => emulated.dilation = dilation,
            None => {
                let cores = self.nodes.iter().map(|node| node.cpus.len() as u32);
                self.emulated = Some(EmulatedMachine {
                    dilation,
                    timing: true,
                    nodes: Vec::new(),
                    cores: cores.collect(),
                });
                // The host's take their place.
                self.nodes.iter_mut().for_each(|node| node.cpus.clear());
            }
        }
        check::machine(&self).map_err(|fault| fault.of(&origin))?;
        Ok(self)
    }

    /// The machine without all but its first nodes, and without the links that lead elsewhere.
    ///
    /// # Errors
    /// When no node is left, or some cannot reach each other.
    pub fn first_nodes(mut self, count: usize) -> Result<Machine, MachineError> {
        self.nodes.truncate(count);
        self.distances.truncate(count);
        self.distances
            .iter_mut()
            .for_each(|row| row.truncate(count));
        if let Some(emulated) = &mut self.emulated {
            emulated.nodes.truncate(count);
            emulated.cores.truncate(count);
        }
        let ids: Vec<_> = self.nodes.iter().map(|node| node.id).collect();
        let links = &mut self.interconnect;
        links
            .links
            .retain(|link| ids.contains(&link.from) && ids.contains(&link.to));
        links.routes.retain(|route| {
            let stops = [route.from, route.to];
            stops
                .iter()
                .chain(&route.via)
                .all(|stop| ids.contains(stop))
        });
        check::machine(&self).map_err(|fault| fault.of(self.name.as_ref()))?;
        Ok(self)
    }

    /// Looks at a machine that another process wrote down.
    ///
    /// # Errors
    /// What is wrong with it, as of a file.
    pub fn validate(&self) -> Result<(), MachineError> {
        let mut machine = self.clone();
        if machine.is_emulated() {
            // They are the host's, and nodes may share them.
            machine.nodes.iter_mut().for_each(|node| node.cpus.clear());
        }
        check::machine(&machine).map_err(|fault| fault.of("shared memory".as_ref()))
    }

    /// The same machine, its emulated nodes on the running machine's CPUs where they name none.
    ///
    /// # Errors
    /// When the kernel does not say which CPUs there are.
    pub fn standing_here(self) -> Result<Machine, MachineError> {
        self.standing_below(Path::new("/"))
    }

    fn standing_below(self, root: &Path) -> Result<Machine, MachineError> {
        if self.emulated.is_none() {
            return Ok(self);
        }
        let online = sysfs::online_cpus(root)?;
        Ok(self.stand_on_cpus(&online).warned_of_offline_cpus(&online))
    }

    fn warned_of_offline_cpus(mut self, online: &[CpuId]) -> Machine {
        for node in &self.nodes {
            let is_offline = |cpu: &CpuId| online.binary_search(cpu).is_err();
            let offline: Vec<CpuId> = node.cpus.iter().copied().filter(is_offline).collect();
            if !offline.is_empty() {
                let (id, list) = (node.id.0, format_cpu_list(&offline));
                let hint = "change cpus in the machine file";
                let warning = format!("node {id} names CPUs that are not online: {list}; {hint}");
                self.warnings.push(warning);
            }
        }
        self
    }

    /// The machine as a TOML machine file ([`mod@file`]) that reads back as the same machine.
    pub fn to_toml(&self) -> String {
        file::write(self)
    }
}
