//! Runs of real commands: what is measured of them, and what ends a trial.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egeria_files::{Error, Result};
use egeria_trial::answer::{Answer, Better, Judge};
use egeria_trial::commands::{Commands, Measure, Side};
use egeria_trial::design::{Design, ERROR};
use egeria_trial::kind::Kind;
use egeria_trial::metric::Metric;
use egeria_trial::number::Number;
use egeria_trial::program::Terms;
use egeria_trial::report::Report;
use egeria_trial::side::{Done, Treatment};
use egeria_trial::trial::{Plan, Subject, run};

const PATIENCE: Duration = Duration::from_secs(30);

/// A trial takes all children of this process for those of its command.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shell(script: &str) -> Vec<OsString> {
    ["sh", "-c", script].map(OsString::from).to_vec()
}

fn side<'a>(name: &str, script: &str) -> Side<'a> {
    Side {
        name: name.to_owned(),
        words: shell(script),
        before: None,
        environment: Vec::new(),
        begin: None,
    }
}

fn terms(at_most: Duration) -> Terms<'static> {
    Terms {
        at_most,
        cancel: None,
        prepare: &|_: &mut Command| (),
    }
}

fn number(pattern: &str) -> Measure {
    Measure::Number(Number::parse(pattern).unwrap())
}

/// The value of one run, or what is wrong with it.
fn value(script: &str, measure: Measure, at_most: Duration) -> Result<f64, String> {
    let _alone = alone();
    let sides = vec![side("off", script)];
    let mut commands = Commands::new(sides, measure, terms(at_most), &|_, _| ());
    commands.run(0).map_err(|error| error.to_string())
}

#[test]
fn a_number_that_a_command_prints_is_its_value() {
    let found = value("echo tps = 12.5", number(r"tps = ([\d.]+)"), PATIENCE);
    assert_eq!(found, Ok(12.5));
    let took_s = value("sleep 0.1", Measure::WallTime, PATIENCE).unwrap();
    assert!((0.1..10.0).contains(&took_s), "{took_s}");
}

#[test]
fn a_command_that_is_no_good_ends_the_trial_in_one_line() {
    let second = Duration::from_millis(300);
    for (script, measure, at_most, words) in [
        (
            "echo no such luck >&2; exit 3",
            Measure::WallTime,
            PATIENCE,
            "ended with status 3: no such luck; a trial needs",
        ),
        (
            "kill -9 $$",
            Measure::WallTime,
            PATIENCE,
            "killed by signal 9; a trial needs",
        ),
        (
            "echo here; sleep 100",
            Measure::WallTime,
            second,
            "did not end within 0.3 s",
        ),
        (
            "sleep 100 & sleep 0.1",
            Measure::WallTime,
            PATIENCE,
            "left a process behind (sleep",
        ),
        (
            "setsid sleep 2 & sleep 0.1",
            Measure::WallTime,
            PATIENCE,
            "left a process behind (sleep",
        ),
        (
            "echo x",
            number(r"\d+"),
            PATIENCE,
            "nothing that it printed matches",
        ),
        ("echo 1 2", number(r"\d+"), PATIENCE, "matches 2 times"),
        (
            "echo 0",
            number(r"\d+"),
            PATIENCE,
            "a trial compares ratios",
        ),
        (
            "yes",
            Measure::WallTime,
            PATIENCE,
            "prints more than 64 MiB",
        ),
    ] {
        let line = value(script, measure, at_most).unwrap_err();
        assert!(line.contains(words), "{script}: {line}");
        assert!(!line.contains('\n'), "{line}");
    }
}

#[test]
fn what_hangs_is_asked_to_end_and_then_gone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ended");
    let script = format!(
        "trap 'echo > {}; exit' TERM; while :; do sleep 0.05; done",
        file.display()
    );
    let line = value(&script, Measure::WallTime, Duration::from_millis(300)).unwrap_err();
    assert!(line.contains("did not end"), "{line}");
    assert!(file.exists(), "it could clean up");
}

#[test]
fn a_set_flag_ends_a_run() {
    let _alone = alone();
    let cancel = AtomicBool::new(false);
    let sides = vec![side("off", "sleep 100")];
    let terms = Terms {
        cancel: Some(&cancel),
        ..terms(PATIENCE)
    };
    let mut commands = Commands::new(sides, Measure::WallTime, terms, &|_, _| ());
    let begin = Instant::now();
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            cancel.store(true, Ordering::Relaxed);
        });
        commands.run(0)
    });
    assert!(matches!(found, Err(Error::Interrupted)), "{found:?}");
    assert!(begin.elapsed() < PATIENCE);
}

/// Serves a page of metrics to every caller until it is dropped.
fn served(page: impl Fn() -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(stream, "HTTP/1.0 200 OK\r\n\r\n{}", page());
        }
    });
    format!("http://{address}/metrics")
}

#[test]
fn a_metric_is_sampled_while_the_command_runs() {
    let begin = Instant::now();
    let page = move || {
        let done = begin.elapsed().as_secs_f64() * 40.0;
        format!("# TYPE done_total counter\ndone_total {done}\n# TYPE load gauge\nload 7\n")
    };
    let url = served(page);
    let metric = |text: &str, kind| Measure::Metric(Metric::parse(text, kind).unwrap());
    let rate = value(
        "sleep 1.2",
        metric(&format!("{url}#done_total"), None),
        PATIENCE,
    )
    .unwrap();
    assert!((38.0..42.0).contains(&rate), "{rate}");
    let load = value("sleep 0.1", metric(&format!("{url}#load"), None), PATIENCE);
    assert_eq!(load, Ok(7.0));
    let printed = value("sleep 0.1", metric("echo 3", Some(Kind::Gauge)), PATIENCE);
    assert_eq!(printed, Ok(3.0));
    for (text, kind, words) in [
        ("echo fast", None, "\"fast\\n\""),
        ("echo $$ | sed 's/.*/1/'; exit 1", None, "it failed"),
        (
            "date +%s%N | sed 's/^/-/'",
            Some(Kind::Counter),
            "went backwards",
        ),
        ("http://127.0.0.1:1/m#x", None, "refused"),
    ] {
        let line = value("sleep 0.7", metric(text, kind), PATIENCE).unwrap_err();
        assert!(line.contains(words), "{text}: {line}");
    }
}

/// Notes when it ends, also when the run failed.
struct Noted(Rc<RefCell<Vec<&'static str>>>);

impl Treatment for Noted {
    fn end(self: Box<Self>) -> Done {
        self.0.borrow_mut().push("end");
        Done {
            threads_moved: 2,
            ..Done::default()
        }
    }
}

fn plan(better: Better) -> Plan {
    Plan {
        sides: 2,
        judge: Judge {
            design: Design::new(20, ERROR),
            better,
            bound: 0.02,
        },
        at_most: Duration::from_secs(600),
        seed: 5,
    }
}

#[test]
fn a_known_difference_is_found_and_what_accompanies_it_ends() {
    let _alone = alone();
    let notes = Rc::new(RefCell::new(Vec::new()));
    let begin = || -> Result<Box<dyn Treatment>> {
        notes.borrow_mut().push("begin");
        Ok(Box::new(Noted(notes.clone())))
    };
    for (better, answer) in [
        (Better::Lower, Answer::Better),
        (Better::Higher, Answer::Worse),
    ] {
        notes.borrow_mut().clear();
        let sides = vec![
            side("off", "echo 100"),
            Side {
                begin: Some(Box::new(begin)),
                ..side("all", "echo 80")
            },
        ];
        let measure = number(r"\d+");
        let mut commands = Commands::new(sides, measure, terms(PATIENCE), &|_, _| ());
        let plan = plan(better);
        let tried = run(&plan, &mut commands).unwrap();
        let report = Report::new(&plan, &tried, commands.described(), Duration::ZERO);
        assert_eq!(report.answer(), answer, "{report:?}");
        let finding = report.comparisons[0].finding;
        assert!((finding.change.unwrap() + 0.2).abs() < 1e-9, "{finding:?}");
        assert_eq!(notes.borrow().len(), 2 * finding.pairs);
        assert_eq!(report.sides[1].done.threads_moved, 2 * finding.pairs as u64);
        assert_eq!(report.best(), (answer == Answer::Better).then_some(1));
    }
}

#[test]
fn a_run_that_fails_later_ends_what_accompanies_it() {
    let _alone = alone();
    let notes = Rc::new(RefCell::new(Vec::new()));
    let begin = || -> Result<Box<dyn Treatment>> {
        notes.borrow_mut().push("begin");
        Ok(Box::new(Noted(notes.clone())))
    };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("runs");
    let script = format!("echo >> {0}; test $(wc -l < {0}) -lt 5", file.display());
    let accompanied = |name| Side {
        begin: Some(Box::new(begin)),
        ..side(name, &script)
    };
    let sides = vec![accompanied("rl"), accompanied("all")];
    let mut commands = Commands::new(sides, Measure::WallTime, terms(PATIENCE), &|_, _| ());
    let Err(error) = run(&plan(Better::Lower), &mut commands) else {
        panic!("the fifth run fails");
    };
    assert!(
        error.to_string().contains("sh ended with status 1"),
        "{error}"
    );
    let notes = notes.borrow();
    assert_eq!(notes.iter().filter(|note| **note == "begin").count(), 5);
    assert_eq!(notes.iter().filter(|note| **note == "end").count(), 5);
}

#[test]
fn a_helper_of_this_process_is_not_one_of_the_command() {
    std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            Command::new("sleep").arg("5").spawn().unwrap()
        });
        let took = value("sleep 0.6", Measure::WallTime, PATIENCE);
        let mut helper = helper.join().unwrap();
        helper.kill().unwrap();
        helper.wait().unwrap();
        assert!(took.is_ok(), "{took:?}");
    });
}
