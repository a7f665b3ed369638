//! The best way to see accesses that works here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use egeria_machine::Machine;
use egeria_perf::{Event, EventSampler};

use super::damon::{Damon, Notes, Sysfs};
use super::referenced::{HotAreas, Referenced};
use super::sampled::Sampled;
use super::sampler::{HotPages, Sampler};
use super::way::Way;
use super::writers::{LiveFaults, Written};

/// What looks at processes, and how.
pub struct Choice {
    pub way: Way,
    pub sampler: Box<dyn Sampler>,
    /// What it finds used.
    pub hot: Box<dyn HotPages>,
    /// Why ways that see more are not taken.
    pub passed_over: Vec<String>,
}

/// What looks, and what it finds used.
type Looking = (Box<dyn Sampler>, Box<dyn HotPages>);

impl Choice {
    /// The way that sees most, or the one that is wanted, for windows of this length. `notes` writes the journal of what
    /// is changed in the kernel for that.
    ///
    /// # Errors
    /// Why none works, in one line.
    pub fn make(
        wanted: Option<Way>,
        machine: &Machine,
        window: Duration,
        notes: &Notes,
    ) -> Result<Choice, String> {
        Choice::first(wanted, |way| begin(way, machine, window, notes))
    }

    fn first(
        wanted: Option<Way>,
        mut begin: impl FnMut(Way) -> Result<Looking, String>,
    ) -> Result<Choice, String> {
        let mut passed_over = Vec::new();
        let ways = Way::ALL.into_iter();
        for way in ways.filter(|way| wanted.is_none_or(|wanted| wanted == *way)) {
            match begin(way) {
                Ok((sampler, hot)) => {
                    return Ok(Choice {
                        way,
                        sampler,
                        hot,
                        passed_over,
                    });
                }
                Err(why) => passed_over.push(format!("{way}: {why}")),
            }
        }
        Err(passed_over.join("; "))
    }

    /// The way, what it can see, and why none that sees more, in one line.
    pub fn description(&self) -> String {
        let mut description = format!("accesses to memory are seen {}", self.way.sees());
        for why in &self.passed_over {
            description += &format!(" ({why})");
        }
        description
    }
}

fn begin(way: Way, machine: &Machine, window: Duration, notes: &Notes) -> Result<Looking, String> {
    let events = match way {
        Way::Pmu => Event::of_pmu(Path::new("/")),
        Way::PageFaults => vec![Event::page_faults()],
        Way::PageTables => {
            let sampler = tables(window)?;
            let hot = sampler.hot();
            return Ok((Box::new(sampler), Box::new(hot)));
        }
        Way::WriteFaults => {
            let tables = tables(window)?;
            let areas = tables.hot();
            return Ok(refined(tables, areas, LiveFaults::begin(machine)?));
        }
        Way::Damon => {
            let (tables, kernel) = (tables(window)?, Arc::new(Sysfs::below(Path::new("/"))));
            let damon = Damon::begin(kernel, Arc::clone(notes), tables);
            let damon = damon.map_err(|why| why.to_string())?;
            let areas = damon.hot();
            return Ok(match LiveFaults::begin(machine) {
                Ok(faults) => refined(damon, areas, faults),
                Err(_) => (Box::new(damon), Box::new(areas)),
            });
        }
    };
    let events = EventSampler::begin(&events, window).map_err(|error| error.to_string())?;
    let sampler = Sampled::new(events, machine.clone());
    let hot = sampler.hot();
    Ok((Box::new(sampler), Box::new(hot)))
}

fn refined(inner: impl Sampler + 'static, areas: HotAreas, faults: LiveFaults) -> Looking {
    let sampler = Written::new(inner, areas, faults);
    let hot = sampler.hot();
    (Box::new(sampler), Box::new(hot))
}

fn tables(window: Duration) -> Result<Referenced, String> {
    Referenced::check().map_err(|error| format!("the kernel does not show them: {error}"))?;
    Ok(Referenced::in_windows_of(window))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::Recorded;
    use egeria_harness::testing::skip;

    fn working(ways: &[Way], wanted: Option<Way>) -> Result<(Way, usize), String> {
        let choice = Choice::first(wanted, |way| {
            if ways.contains(&way) {
                Ok((Box::new(Recorded::default()), Box::new(HotAreas::default())))
            } else {
                Err("not here".to_owned())
            }
        });
        choice.map(|choice| (choice.way, choice.passed_over.len()))
    }

    #[test]
    fn the_way_that_sees_most_is_taken_and_what_is_wanted_alone() {
        let (pmu, tables, faults) = (Way::Pmu, Way::PageTables, Way::PageFaults);
        assert_eq!(working(&Way::ALL, None), Ok((pmu, 0)));
        assert_eq!(working(&[faults, tables], None), Ok((tables, 2)));
        assert_eq!(working(&[faults], None), Ok((faults, 4)));
        assert_eq!(working(&Way::ALL, Some(faults)), Ok((faults, 0)));
        let none = working(&[], None).unwrap_err();
        assert_eq!(
            none,
            "pmu: not here; write-faults: not here; page-tables: not here; damon: not here; page-faults: not here"
        );
        let refused = working(&[pmu], Some(tables)).unwrap_err();
        assert_eq!(refused, "page-tables: not here");
    }

    #[test]
    fn what_is_chosen_here_says_what_it_sees() {
        let machine = Machine::detect().unwrap();
        // Without a journal, nothing of the machine is changed.
        let notes: Notes = Arc::new(|_| Err(std::io::ErrorKind::Unsupported.into()));
        let Ok(choice) = Choice::make(None, &machine, Duration::from_secs(1), &notes) else {
            skip("nothing here shows accesses to memory");
            return;
        };
        let line = choice.description();
        assert!(
            line.contains(choice.way.sees()) && !line.contains('\n'),
            "{line}"
        );
        assert!(choice.way == Way::Pmu || line.contains("PMU"), "{line}");
    }
}
