//! What came of all claims, and how good it is.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;

use egeria_stats::aims::Aim;
use serde::Serialize;

use crate::answer::{Answer, Bound, Order, Ordering, Prediction, answers};
use crate::beyond::{Beyond, beyond};
use crate::claim::{Claim, Paper, claims};
use crate::error::Result;
use crate::experiment::{ALL, Extent, Stage};
use crate::results::Results;

/// Equal settings are printed as decimals.
const EQUAL: f64 = 1e-9;

/// A number of a paper and the model's.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub id: String,
    /// The paper, and where in it.
    pub source: String,
    /// What is compared.
    pub item: String,
    /// The paper's number: changes and losses in per cent are ratios (+40.5 % is 1.405).
    pub paper: f64,
    pub model: f64,
    /// The model's over the paper's.
    pub ratio: f64,
    /// Its distance from 1.
    pub error: f64,
    /// Whether the model agrees: of a bound, that it is kept; of a setting, that it is equal; of a number, that
    /// the same side is faster.
    pub held: bool,
    /// The setting is ours, not the paper's: not counted.
    pub own_setting: bool,
    /// Two file systems are compared.
    #[serde(skip)]
    pub across: bool,
}

/// A statement that one is faster than another, or alike.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OrderingRow {
    pub id: String,
    /// The paper, and where in it.
    pub source: String,
    pub item: String,
    /// The least ratio of the faster to the slower in the model; of what is similar, the one farthest from 1.
    pub model: f64,
    /// Whether the model agrees.
    pub held: bool,
    /// The claim is nothing but an ordering: no number of it is among the predicted ones.
    pub pure: bool,
    /// The setting is ours, not the paper's: not counted.
    pub own_setting: bool,
}

/// A claim that is listed and not counted.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Listed {
    pub id: String,
    /// The paper, and where in it.
    pub source: String,
    pub item: String,
    /// Its value as printed.
    pub paper: String,
    /// Where it went into the model, or why the model cannot say.
    pub why: String,
}

/// All claims, judged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Nothing here was measured.
    pub predicted: bool,
    /// Orderings that the papers state, in settings of theirs.
    pub orderings: usize,
    /// Those that the model has too.
    pub orderings_held: usize,
    /// Of the orderings, those that no predicted number says again.
    pub pure_orderings: usize,
    /// Those of them that the model has too.
    pub pure_orderings_held: usize,
    /// Orderings and bounds in settings of our own, which no other figure counts.
    pub own_settings: usize,
    /// Those of them that the model has too.
    pub own_settings_held: usize,
    /// Median of the errors of `rows`, as a share.
    pub median_error: f64,
    /// 90 % of the errors are at most this.
    pub p90_error: f64,
    /// What these figures are aimed at.
    pub aims: Vec<Aim>,
    /// Bounds that the papers state.
    pub bounds: usize,
    /// Those that the model keeps.
    pub bounds_held: usize,
    /// Predicted numbers.
    pub rows: Vec<Row>,
    /// The orderings, those in `rows` too.
    pub ordering_rows: Vec<OrderingRow>,
    pub bound_rows: Vec<Row>,
    /// Constants and worked values, computed by the policies' own code.
    pub settings: Vec<Row>,
    /// What the model is calibrated on, and quotients of that.
    pub inputs: Vec<Listed>,
    /// What it cannot say.
    pub unanswered: Vec<Listed>,
    /// What none of the papers has; not counted.
    pub beyond: Vec<Beyond>,
    /// What the experiments gave.
    #[serde(skip)]
    pub results: Results,
}

/// Runs all experiments and judges every claim. `tell` hears the name of each experiment that is done, how many are
/// done and how many there are.
///
/// # Errors
/// When a file that ships with Egeria is damaged.
pub fn run(extent: Extent, mut tell: impl FnMut(&str, usize, usize)) -> Result<Report> {
    let claims = claims()?;
    let next = AtomicUsize::new(0);
    let (done, all_done) = mpsc::channel();
    let work = |done: mpsc::Sender<_>| {
        while let Some(experiment) = ALL.get(next.fetch_add(1, Relaxed)) {
            let mut results = Results::default();
            let outcome = (experiment.run)(&Stage { extent }, &mut results);
            // The receiver may have given up.
            let _ = done.send((experiment.name, outcome.map(|()| results)));
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers.min(ALL.len()) {
            let done = done.clone();
            let work = &work;
            scope.spawn(move || work(done));
        }
        // Only workers hold it now: should one of them panic, the others end what there is to hear.
        drop(done);
        let mut results = Results::default();
        for (count, (name, outcome)) in all_done.iter().take(ALL.len()).enumerate() {
            tell(name, count + 1, ALL.len());
            results.take(outcome?);
        }
        Report::of(&claims, results)
    })
}

impl Report {
    /// Judges claims by what experiments gave.
    ///
    /// # Errors
    /// When a file that ships with Egeria is damaged.
    pub fn of(claims: &[Claim], results: Results) -> Result<Report> {
        let answers = answers()?;
        let mut report = Report {
            predicted: true,
            orderings: 0,
            orderings_held: 0,
            pure_orderings: 0,
            pure_orderings_held: 0,
            own_settings: 0,
            own_settings_held: 0,
            median_error: 0.0,
            p90_error: 0.0,
            aims: Vec::new(),
            bounds: 0,
            bounds_held: 0,
            rows: Vec::new(),
            ordering_rows: Vec::new(),
            bound_rows: Vec::new(),
            settings: Vec::new(),
            inputs: Vec::new(),
            unanswered: Vec::new(),
            beyond: beyond(&results),
            results,
        };
        for claim in claims {
            for (_, answer) in answers.iter().filter(|(id, _)| *id == claim.id) {
                report.judge(claim, answer);
            }
        }
        report.sum_up();
        Ok(report)
    }

    fn judge(&mut self, claim: &Claim, answer: &Answer) {
        match answer {
            Answer::Predicted(prediction) => self.predicted(claim, prediction),
            Answer::Ordering(ordering) => self.stated(claim, ordering),
            Answer::Bound(bound) => self.bound(claim, bound),
            Answer::Setting { reading, value } => {
                let row = row(claim, "", reading.of(claim, 0), value());
                self.settings.extend(row);
            }
            Answer::Input(why) => self.inputs.push(listed(claim, why)),
            Answer::Unanswered(why) => self.unanswered.push(listed(claim, why)),
        }
    }

    fn predicted(&mut self, claim: &Claim, prediction: &Prediction) {
        let paper = prediction.reading.of(claim, prediction.part);
        let model = prediction.said.of(&self.results);
        let Some(mut row) = model.and_then(|model| row(claim, prediction.label, paper, model))
        else {
            self.not_run(claim);
            return;
        };
        row.across = prediction.across;
        if prediction.compares {
            // The system that the paper puts first must be first here.
            let ratio = if row.paper >= 1.0 {
                row.model
            } else {
                1.0 / row.model
            };
            row.held = Order::Faster.holds(ratio);
            self.ordering_rows.push(OrderingRow {
                id: row.id.clone(),
                source: row.source.clone(),
                item: row.item.clone(),
                model: ratio,
                held: row.held,
                pure: false,
                own_setting: false,
            });
        }
        self.rows.push(row);
    }

    /// The first part that fails is shown; of those that all hold, the first.
    fn stated(&mut self, claim: &Claim, ordering: &Ordering) {
        let parts = ordering.parts.iter();
        let judged = parts.map(|(order, said)| {
            let ratio = said.of(&self.results)?;
            Some((ratio, order.holds(ratio)))
        });
        let judged: Option<Vec<(f64, bool)>> = judged.collect();
        let failed = |parts: &[(f64, bool)]| parts.iter().find(|(_, held)| !held).copied();
        let shown = judged.and_then(|parts| failed(&parts).or(parts.first().copied()));
        let Some((model, held)) = shown else {
            self.not_run(claim);
            return;
        };
        self.ordering_rows.push(OrderingRow {
            id: claim.id.clone(),
            source: claim.source(),
            item: claim.text.clone(),
            model,
            held,
            pure: !ordering.own_setting,
            own_setting: ordering.own_setting,
        });
    }

    fn bound(&mut self, claim: &Claim, bound: &Bound) {
        let paper = bound.reading.of(claim, 0);
        let model = bound.said.of(&self.results);
        let Some(mut row) = model.and_then(|model| row(claim, "", paper, model)) else {
            self.not_run(claim);
            return;
        };
        row.own_setting = bound.own_setting;
        row.held = if bound.at_most {
            row.model <= row.paper
        } else {
            row.model >= row.paper
        };
        self.bound_rows.push(row);
    }

    fn not_run(&mut self, claim: &Claim) {
        self.unanswered
            .push(listed(claim, "its experiment was not run"));
    }

    /// Settings that are not the paper's.
    pub fn wrong_settings(&self) -> impl Iterator<Item = &Row> {
        self.settings.iter().filter(|row| !row.held)
    }

    /// Claims that the model is far from: numbers off by more than a fifth, orderings it does not have.
    pub fn far(&self) -> Vec<&str> {
        let numbers = self.rows.iter().filter(|row| row.error > crate::FAR);
        let orderings = self.ordering_rows.iter().filter(|row| !row.held);
        let ids = numbers.map(|row| row.id.as_str());
        let mut ids: Vec<&str> = ids.chain(orderings.map(|row| row.id.as_str())).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The predicted numbers of one paper.
    pub fn rows_of(&self, paper: Paper) -> impl Iterator<Item = &Row> {
        let name = paper.name();
        let is_of = move |row: &&Row| row.id.starts_with(first_letter(name));
        self.rows.iter().filter(is_of)
    }
}

fn first_letter(name: &str) -> char {
    match name {
        "NThread slides" => 'S',
        other => other.chars().next().unwrap_or_default(),
    }
}

fn item(claim: &Claim, label: &str) -> String {
    match label {
        "" => claim.text.clone(),
        label => format!("{} [{label}]", claim.text),
    }
}

fn row(claim: &Claim, label: &str, paper: Option<f64>, model: f64) -> Option<Row> {
    let paper = paper?;
    // A model that has no answer is as wrong as one that says nothing happens.
    let model = if model.is_finite() { model } else { 0.0 };
    let ratio = model / paper;
    Some(Row {
        id: claim.id.clone(),
        source: claim.source(),
        item: item(claim, label),
        paper,
        model,
        ratio,
        error: (ratio - 1.0).abs(),
        held: (ratio - 1.0).abs() <= EQUAL,
        own_setting: false,
        across: false,
    })
}

fn listed(claim: &Claim, why: &str) -> Listed {
    Listed {
        id: claim.id.clone(),
        source: claim.source(),
        item: claim.text.clone(),
        paper: format!("{} {}", claim.value, claim.unit),
        why: why.to_owned(),
    }
}
