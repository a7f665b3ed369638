//! One set-up of DAMON: what is written into its files, how it is recognised later, and how it goes.
//!
//! ```text
//!   kdamonds/0/contexts/0   operations = vaddr, update_us = 10 s and a mark
//!                targets/0 …  one for each process
//!                schemes/0 …  one for each target: action stat, of what was accessed, with a filter for that target
//! ```
//!
//! A region does not say which process it is of. So each target has a scheme of its own.

use std::io;

use serde::{Deserialize, Serialize};

use super::kernel::{Kernel, free, has_addresses, invalid, number, read, write};
use super::unusable::Unusable;

/// Processes observed at once.
pub(super) const MAX_TARGETS: usize = 8;
/// Regions of all of them together, and at least of each.
const MAX_REGIONS: usize = 1000;
const MIN_REGIONS: usize = 10;
/// Of each process, if there are few.
const REGIONS_OF_EACH: usize = 200;
/// After this number of samples, the kernel says how many of them saw an access, and cuts and joins regions.
pub(super) const SAMPLES: u64 = 10;
/// How often the kernel looks for new mappings, µs. The mark is added to it.
const UPDATE_US: u64 = 10_000_000;
const CONTEXT: &str = "0/contexts/0";

/// A line of the journal: what is about to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "damon", rename_all = "snake_case")]
pub enum Change {
    /// DAMON is set up, and has this mark.
    Made { mark: u32 },
    /// It is not any more.
    Over,
}

/// Whose set-up there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    None,
    /// It has our mark.
    Own,
    /// It has no mark, no target, and does not run: so it is of a program that has just begun, maybe of this one.
    New,
    Other,
}

/// The set-up that has this mark, which is the number of the process that made it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setup {
    pub(super) mark: u32,
}

impl Setup {
    /// Makes it, without targets. Nothing runs yet.
    ///
    /// # Errors
    /// Why DAMON cannot be used; nothing is left then.
    pub(super) fn make(self, kernel: &dyn Kernel) -> Result<(), Unusable> {
        free(kernel)?;
        let made = self.make_files(kernel);
        if made.is_err() {
            let _ = self.remove(kernel);
        }
        made
    }

    fn make_files(self, kernel: &dyn Kernel) -> Result<(), Unusable> {
        let put = |file: &str, line: &str| {
            write(kernel, file, line).map_err(|error| Unusable::of(&error))
        };
        put("nr_kdamonds", "1")?;
        put("0/contexts/nr_contexts", "1")?;
        let update_us = self.update_us().to_string();
        put(&update_file(), &update_us)?;
        let operations = kernel.read(&format!("{CONTEXT}/avail_operations"));
        let operations = operations.map_err(|error| Unusable::of(&error))?;
        if !has_addresses(&operations) {
            return Err(Unusable::NoAddresses);
        }
        put(&format!("{CONTEXT}/operations"), "vaddr")
    }

    /// Begins to observe these processes, with a sample in this number of µs.
    ///
    /// # Errors
    /// Those of the kernel: `EINVAL` if one of them is gone, `EBUSY` if the kernel uses DAMON for itself.
    pub(super) fn observe(
        self,
        kernel: &dyn Kernel,
        processes: &[u32],
        sample_us: u64,
    ) -> io::Result<()> {
        self.stop(kernel)?;
        let put = |file: &str, line: &str| write(kernel, &format!("{CONTEXT}/{file}"), line);
        self.put_intervals(kernel, sample_us)?;
        let regions = (REGIONS_OF_EACH * processes.len()).min(MAX_REGIONS);
        put("monitoring_attrs/nr_regions/min", &MIN_REGIONS.to_string())?;
        put("monitoring_attrs/nr_regions/max", &regions.to_string())?;
        let count = processes.len().to_string();
        put("targets/nr_targets", &count)?;
        put("schemes/nr_schemes", &count)?;
        for (index, process) in processes.iter().enumerate() {
            put(&format!("targets/{index}/pid_target"), &process.to_string())?;
            for (file, line) in scheme(index) {
                put(&format!("schemes/{index}/{file}"), &line)?;
            }
        }
        write(kernel, "0/state", "on")
    }

    /// Changes the time between samples of what runs.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn set_interval(self, kernel: &dyn Kernel, sample_us: u64) -> io::Result<()> {
        self.put_intervals(kernel, sample_us)?;
        write(kernel, "0/state", "commit")
    }

    fn put_intervals(self, kernel: &dyn Kernel, sample_us: u64) -> io::Result<()> {
        for (name, us) in [("sample_us", sample_us), ("aggr_us", sample_us * SAMPLES)] {
            let file = format!("{CONTEXT}/monitoring_attrs/intervals/{name}");
            write(kernel, &file, &us.to_string())?;
        }
        Ok(())
    }

    fn stop(self, kernel: &dyn Kernel) -> io::Result<()> {
        if is_running(kernel)? {
            match write(kernel, "0/state", "off") {
                // Its processes have ended just now.
                Err(_) if !is_running(kernel)? => Ok(()),
                answer => answer,
            }
        } else {
            Ok(())
        }
    }

    /// Whose set-up there is.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn holder(self, kernel: &dyn Kernel) -> io::Result<Holder> {
        match number(kernel, "nr_kdamonds")? {
            0 => return Ok(Holder::None),
            1 => {}
            _ => return Ok(Holder::Other),
        }
        let contexts = number(kernel, "0/contexts/nr_contexts")?;
        if contexts > 1 {
            return Ok(Holder::Other);
        }
        if contexts == 1 && number(kernel, &update_file())? == self.update_us() {
            return Ok(Holder::Own);
        }
        let is_empty =
            contexts == 0 || number(kernel, &format!("{CONTEXT}/targets/nr_targets"))? == 0;
        Ok(if is_empty && !is_running(kernel)? {
            Holder::New
        } else {
            Holder::Other
        })
    }

    /// Removes it, unless another has DAMON now. Returns whether something was removed.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(super) fn remove(self, kernel: &dyn Kernel) -> io::Result<bool> {
        match self.holder(kernel)? {
            Holder::Own | Holder::New => {
                self.stop(kernel)?;
                write(kernel, "nr_kdamonds", "0")?;
                Ok(true)
            }
            Holder::None | Holder::Other => Ok(false),
        }
    }

    fn update_us(self) -> u64 {
        UPDATE_US + u64::from(self.mark)
    }
}

fn update_file() -> String {
    format!("{CONTEXT}/monitoring_attrs/intervals/update_us")
}

/// Whether the kernel observes something.
pub(super) fn is_running(kernel: &dyn Kernel) -> io::Result<bool> {
    match &*read(kernel, "0/state")? {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(invalid("a state is neither on nor off")),
    }
}

/// The files of the scheme that shows what was accessed of a target.
fn scheme(target: usize) -> [(&'static str, String); 12] {
    let most = u32::MAX.to_string();
    let none = || "0".to_owned();
    [
        ("action", "stat".to_owned()),
        ("access_pattern/sz/min", none()),
        ("access_pattern/sz/max", u64::MAX.to_string()),
        ("access_pattern/nr_accesses/min", "1".to_owned()),
        ("access_pattern/nr_accesses/max", most.clone()),
        ("access_pattern/age/min", none()),
        ("access_pattern/age/max", most),
        ("filters/nr_filters", "1".to_owned()),
        ("filters/0/type", "target".to_owned()),
        ("filters/0/damon_target_idx", target.to_string()),
        // What is not of the target is left out.
        ("filters/0/matching", "N".to_owned()),
        ("apply_interval_us", none()),
    ]
}

/// Undoes what a killed process left, as its journal says. Returns whether something was removed.
///
/// # Errors
/// Those of the kernel, if it does not let it be removed.
pub fn restore(kernel: &dyn Kernel, changes: impl IntoIterator<Item = Change>) -> io::Result<bool> {
    match changes.into_iter().last() {
        Some(Change::Made { mark }) => Setup { mark }.remove(kernel),
        Some(Change::Over) | None => Ok(false),
    }
}
