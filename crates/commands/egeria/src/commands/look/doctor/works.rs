//! What works on this machine, and the commands that make the rest work, as a document and as text.

use egeria_doctor::policies::{self, Policy};
use egeria_doctor::{Ability, Facts, Probes, State, abilities};
use egeria_machine::{format_bytes, format_cpu_list};
use serde::Serialize;

use egeria_cli::output::{self, printable};

/// What works.
#[derive(Serialize)]
pub(super) struct Document {
    /// Nothing fails.
    pub(super) works: bool,
    facts: Vec<Fact>,
    pub(super) abilities: Vec<Ability>,
    policies: Vec<Policy>,
}

#[derive(Serialize)]
struct Fact {
    name: &'static str,
    value: String,
}

impl Document {
    /// Of this machine, whose facts were read.
    pub(super) fn take(facts: Facts) -> Document {
        let probes = Probes::take();
        let abilities = abilities::of(&facts, &probes);
        Document {
            works: abilities
                .iter()
                .all(|ability| ability.state != State::Fails),
            facts: told(&facts, &probes),
            abilities,
            policies: policies::of(&facts, &probes),
        }
    }
}

fn told(facts: &Facts, probes: &Probes) -> Vec<Fact> {
    let unknown = || "unknown".to_owned();
    let yes = |holds: bool| if holds { "yes" } else { "no" }.to_owned();
    let number = |number: Option<String>| number.unwrap_or_else(unknown);
    let names = facts.capabilities.names();
    let told = [
        ("kernel", number(facts.kernel.clone())),
        ("processor", number(facts.processor.clone())),
        ("nodes", nodes(facts)),
        ("allowed CPUs", format_cpu_list(&facts.allowed_cpus)),
        (
            "container",
            facts.container.clone().unwrap_or_else(|| "none".to_owned()),
        ),
        (
            "memory limit",
            facts
                .memory_limit_bytes
                .map_or("none".to_owned(), format_bytes),
        ),
        (
            "capabilities",
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(" ")
            },
        ),
        (
            "/dev/fuse",
            if probes.fuse.is_ok() {
                "can be opened"
            } else {
                "cannot be opened"
            }
            .to_owned(),
        ),
        ("fusermount3", yes(probes.has_fusermount)),
        (
            "/dev/shm",
            probes
                .shared_memory
                .map_or("cannot be used".to_owned(), |shared| {
                    format!(
                        "{} free of {}",
                        format_bytes(shared.free_bytes),
                        format_bytes(shared.bytes)
                    )
                }),
        ),
        ("BTF", yes(facts.has_btf)),
        (
            "kernel.perf_event_paranoid",
            number(facts.perf_event_paranoid.map(|level| level.to_string())),
        ),
        (
            "kernel.numa_balancing",
            number(facts.numa_balancing.map(|mode| mode.to_string())),
        ),
        ("huge pages", huge_pages(facts)),
        (
            "transparent huge pages",
            number(facts.transparent_huge_pages.clone()),
        ),
        ("persistent memory", persistent_memory(facts)),
    ];
    told.into_iter()
        .map(|(name, value)| Fact { name, value })
        .collect()
}

/// As `0: CPUs 0-1, 24.0 GiB`.
fn nodes(facts: &Facts) -> String {
    let nodes = facts.machine.nodes.iter().map(|node| {
        let cpus = if node.cpus.is_empty() {
            "no CPUs".to_owned()
        } else {
            format!("CPUs {}", format_cpu_list(&node.cpus))
        };
        let memory = match node.memory() {
            None => "memory unknown".to_owned(),
            Some(0) => "no memory".to_owned(),
            Some(bytes) => format_bytes(bytes),
        };
        format!("{}: {cpus}, {memory}", node.id.0)
    });
    nodes.collect::<Vec<String>>().join("; ")
}

fn huge_pages(facts: &Facts) -> String {
    let reserved = facts.huge_pages.iter().filter(|pages| pages.count > 0);
    let sizes = reserved.map(|pages| {
        format!(
            "{} of {} ({} free)",
            pages.count,
            format_bytes(pages.size_bytes),
            pages.free
        )
    });
    let sizes: Vec<String> = sizes.collect();
    if sizes.is_empty() {
        "none reserved".to_owned()
    } else {
        sizes.join("; ")
    }
}

fn persistent_memory(facts: &Facts) -> String {
    let nodes = facts.machine.nodes.iter();
    let regions = nodes.flat_map(|node| {
        node.persistent_regions
            .iter()
            .map(move |region| (node, region))
    });
    let regions = regions.map(|(node, region)| {
        format!(
            "{} at node {}, {}",
            region.name,
            node.id.0,
            format_bytes(region.bytes)
        )
    });
    let regions: Vec<String> = regions.collect();
    if regions.is_empty() {
        "none".to_owned()
    } else {
        regions.join("; ")
    }
}

/// Tables for people.
pub(super) fn human(document: &Document) -> String {
    let facts = document.facts.iter();
    let facts = facts.map(|fact| vec![fact.name.to_owned(), printable(&fact.value)]);
    let abilities = document.abilities.iter().map(|ability| {
        vec![
            state(ability.state).to_owned(),
            ability.name.replace('_', " "),
            format!("{}: {}", ability.commands, printable(&ability.because)),
        ]
    });
    let policies = document.policies.iter().map(|policy| {
        vec![
            state(policy.state).to_owned(),
            policy.name.to_owned(),
            printable(&policy.because),
        ]
    });
    let mut text = format!(
        "{}\n\n{}\n\n{}\n",
        output::page_table(&["fact", "value"], facts.collect()),
        output::page_table(&["state", "what", "for: because"], abilities.collect()),
        output::page_table(&["state", "policy", "here"], policies.collect())
    );
    let of_abilities = document.abilities.iter();
    let of_abilities = of_abilities.filter_map(|ability| {
        let fix = ability.fix.as_ref()?;
        Some(vec![ability.name.replace('_', " "), printable(fix)])
    });
    let of_policies = document.policies.iter().filter_map(|policy| {
        let fix = policy.fix.as_ref()?;
        Some(vec![format!("policy {}", policy.name), printable(fix)])
    });
    let fixes: Vec<Vec<String>> = of_abilities.chain(of_policies).collect();
    if !fixes.is_empty() {
        text += &format!(
            "\n{}\n",
            output::page_table(&["what", "what makes it work"], fixes)
        );
    }
    text
}

fn state(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::Limited => "limited",
        State::Fails => "FAILS",
        State::Absent => "absent",
    }
}
