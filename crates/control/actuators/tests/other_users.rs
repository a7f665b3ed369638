//! Invariant 7 with two users: root's steward moves threads of another user that were named, as far as their owner lets
//! it, gives them back, and moves no others. Skipped loudly where this is not root on two CPUs.

use egeria_harness::testing::skip;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use egeria_actuators::{Journal, ThreadAffinity};
use egeria_facts::{CpuSet, FactSource, Facts, ProcessKey, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_policy::control::Actuator;
use egeria_policy::{Action, ActionOutcome, Move, Reason};
use egeria_proc::processes::{ProcessSource, reaches_all_users};
use egeria_proc::{LiveSource, Scope, task};

/// A program of the user nobody that only waits; killed when dropped.
struct Nobodys(Child);

impl Nobodys {
    fn start() -> Nobodys {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["sleep", "600"]).stdin(Stdio::null());
        let program = Nobodys(command.spawn().unwrap());
        let id = program.0.id();
        while task::name(id, id) != "sleep" {
            std::thread::yield_now();
        }
        assert_eq!(task::user_ids(id, id), Some([65_534; 4]));
        program
    }

    fn key(&self) -> ThreadKey {
        let id = self.0.id();
        ThreadKey {
            process_id: id,
            thread_id: id,
            start_ticks: task::began(id).unwrap(),
        }
    }

    fn cpus(&self) -> CpuSet {
        task::affinity(self.0.id()).unwrap()
    }

    fn scope(&self) -> Scope {
        Scope::Trees(vec![ProcessKey {
            process_id: self.0.id(),
            start_ticks: self.key().start_ticks,
        }])
    }
}

impl Drop for Nobodys {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two nodes that stand on different CPUs.
fn machine() -> Option<Machine> {
    let machine = Machine::profile("optane-2s").unwrap();
    let here = reaches_all_users() && machine.nodes[0].cpus != machine.nodes[1].cpus;
    if !here {
        skip("only root on two CPUs can move threads of another user");
    }
    here.then_some(machine)
}

fn to_node(thread: ThreadKey, to: u16) -> Action {
    Action::MigrateThread(Move {
        thread,
        from: NodeId(1 - to),
        to: NodeId(to),
        reason: Reason::RemoteReads {
            target: NodeId(to),
            target_bytes_s: 1.0,
            next_bytes_s: 0.0,
            margin_bytes_s: 0.0,
        },
    })
}

struct Steward {
    machine: Machine,
    source: ProcessSource,
    affinity: ThreadAffinity,
    facts: Facts,
    folder: tempfile::TempDir,
}

impl Steward {
    fn of(machine: &Machine, scope: Scope) -> Steward {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut source = ProcessSource::begin(machine.clone(), scope);
        let journal = folder.path().join("journal");
        let (journal, _) = Journal::open(&journal, &folder.path().join("log")).unwrap();
        Steward {
            affinity: ThreadAffinity::new(machine, source.masks(), source.members(), journal),
            facts: source.next_facts().unwrap().unwrap(),
            machine: machine.clone(),
            source,
            folder,
        }
    }

    fn node(&self, node: usize) -> CpuSet {
        self.machine.nodes[node].cpus.iter().copied().collect()
    }

    fn sees(&self, program: &Nobodys) -> bool {
        self.facts.window.thread(program.key()).is_some()
    }

    fn apply(&mut self, action: &Action) -> ActionOutcome {
        self.affinity.apply(action, &self.facts)
    }

    /// The journal's lock goes, and the file stays.
    fn into_killed(self) -> tempfile::TempDir {
        self.folder
    }
}

#[test]
fn root_moves_a_program_of_another_user_and_restores_it() {
    let Some(machine) = machine() else { return };
    let (named, other) = (Nobodys::start(), Nobodys::start());
    let before = named.cpus();
    let mut steward = Steward::of(&machine, named.scope());
    assert!(steward.sees(&named) && !steward.sees(&other));
    assert_eq!(steward.apply(&to_node(named.key(), 1)), ActionOutcome::Done);
    assert_eq!(named.cpus(), steward.node(1));
    // Nothing is moved that was not asked for.
    let unnamed = steward.apply(&to_node(other.key(), 1));
    assert_eq!(unnamed, ActionOutcome::Vanished);
    assert!(!steward.source.members().holds(other.key()));
    assert_eq!(other.cpus(), before);
    assert_eq!(steward.affinity.undo(), 1);
    assert_eq!(named.cpus(), before);
}

#[test]
fn the_next_start_undoes_what_a_killed_steward_did() {
    let Some(machine) = machine() else { return };
    let named = Nobodys::start();
    let before = named.cpus();
    let mut steward = Steward::of(&machine, named.scope());
    assert_eq!(steward.apply(&to_node(named.key(), 0)), ActionOutcome::Done);
    assert_eq!(named.cpus(), steward.node(0));
    let left = steward.into_killed();
    let begun = Instant::now();
    let restored = loop {
        match Journal::open(&left.path().join("journal"), left.path()) {
            Ok((_, restored)) => break restored,
            // A program that another test starts has the journal's lock until it runs.
            Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert_eq!((restored, named.cpus()), (1, before));
}

#[test]
fn what_its_owner_decided_holds_for_root_s_steward_too() {
    let Some(machine) = machine() else { return };
    let named = Nobodys::start();
    let mut steward = Steward::of(&machine, named.scope());
    let bound = steward.node(0);
    task::set_affinity(named.0.id(), &bound).unwrap();
    for why in ["its owner bound it", "none of the CPUs it was given"] {
        let outcome = steward.apply(&to_node(named.key(), 1));
        assert!(
            matches!(&outcome, ActionOutcome::Refused { reason } if reason.contains(why)),
            "{outcome:?}"
        );
        assert_eq!(named.cpus(), bound);
    }
    assert_eq!((steward.affinity.undo(), named.cpus()), (0, bound));
}

#[test]
fn all_of_root_leaves_out_the_kernel_and_reused_numbers() {
    let Some(machine) = machine() else { return };
    let named = Nobodys::start();
    let before = named.cpus();
    let mut steward = Steward::of(&machine, Scope::All);
    assert!(steward.sees(&named));
    let stale = ThreadKey {
        start_ticks: named.key().start_ticks - 1,
        ..named.key()
    };
    assert_eq!(steward.apply(&to_node(stale, 1)), ActionOutcome::Vanished);
    assert_eq!(named.cpus(), before);
    let (threads, members) = (&steward.facts.window.threads, steward.source.members());
    let is_of_kernel = |process: &u32| task::is_of_kernel(*process) == Some(true);
    for process_id in task::processes().into_iter().filter(is_of_kernel) {
        let seen = threads.iter().any(|each| each.key.process_id == process_id);
        let start_ticks = task::began(process_id).unwrap_or_default();
        let key = ThreadKey {
            process_id,
            thread_id: process_id,
            start_ticks,
        };
        assert!(!seen && !members.holds(key), "{process_id} is the kernel's");
    }
}
