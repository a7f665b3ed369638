//! What came of all claims, and how good it is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use egeria_stats::aims::{Aim, share};
use serde::Serialize;

use crate::alike::SIMILAR;
use crate::answer::{Answer, Prediction, Reading, answers};
use crate::beyond::{Beyond, beyond};
use crate::claim::{Claim, Paper, claims};
use crate::error::Result;
use crate::experiment::{ALL, Extent, Stage};
use crate::quantile::quantile;
use crate::results::Results;

/// A faster system must be faster by more than the model's own rounding.
const FASTER: f64 = 1.001;
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
    /// Orderings that the papers state.
    pub orderings: usize,
    /// Those that the model has too.
    pub orderings_held: usize,
    /// Of the orderings, those that no predicted number says again.
    pub pure_orderings: usize,
    /// Those of them that the model has too.
    pub pure_orderings_held: usize,
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
    /// What the model is calibrated on.
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
        while let Some(experiment) = ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
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
            Answer::Faster(said) => match said.of(&self.results) {
                Some(ratio) => self.ordering(claim, None, ratio, ratio > FASTER),
                None => self.not_run(claim),
            },
            Answer::Similar(said) => match said.of(&self.results) {
                Some(ratio) => self.ordering(claim, None, ratio, (ratio - 1.0).abs() <= SIMILAR),
                None => self.not_run(claim),
            },
            Answer::Bound {
                reading,
                at_most,
                said,
            } => self.bound(claim, *reading, *at_most, said.of(&self.results)),
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
            row.held = ratio > FASTER;
            self.ordering(claim, Some(prediction.label), ratio, row.held);
        }
        self.rows.push(row);
    }

    fn bound(&mut self, claim: &Claim, reading: Reading, at_most: bool, model: Option<f64>) {
        let paper = reading.of(claim, 0);
        let Some(mut row) = model.and_then(|model| row(claim, "", paper, model)) else {
            self.not_run(claim);
            return;
        };
        row.held = if at_most {
            row.model <= row.paper
        } else {
            row.model >= row.paper
        };
        self.bounds_held += usize::from(row.held);
        self.bound_rows.push(row);
    }

    /// `label` is of the number that says the same.
    fn ordering(&mut self, claim: &Claim, label: Option<&str>, model: f64, held: bool) {
        self.ordering_rows.push(OrderingRow {
            id: claim.id.clone(),
            source: claim.source(),
            item: item(claim, label.unwrap_or_default()),
            model,
            held,
            pure: label.is_none(),
        });
    }

    fn not_run(&mut self, claim: &Claim) {
        self.unanswered
            .push(listed(claim, "its experiment was not run"));
    }

    fn sum_up(&mut self) {
        self.orderings = self.ordering_rows.len();
        self.orderings_held = self.ordering_rows.iter().filter(|row| row.held).count();
        let pure = self.ordering_rows.iter().filter(|row| row.pure);
        self.pure_orderings = pure.clone().count();
        self.pure_orderings_held = pure.filter(|row| row.held).count();
        self.bounds = self.bound_rows.len();
        let mut errors: Vec<f64> = self.rows.iter().map(|row| row.error).collect();
        errors.sort_by(f64::total_cmp);
        self.median_error = quantile(&errors, 0.5);
        self.p90_error = quantile(&errors, 0.9);
        let within = |rows: &mut dyn Iterator<Item = &Row>, error: f64| {
            let (mut all, mut near) = (0, 0);
            rows.for_each(|row| (all, near) = (all + 1, near + usize::from(row.error <= error)));
            share(near, all)
        };
        let of_odinfs = &mut self
            .rows
            .iter()
            .filter(|row| row.source.starts_with("OdinFS"));
        self.aims = vec![
            Aim::at_least(
                "orderings that no number says",
                0.95,
                share(self.pure_orderings_held, self.pure_orderings),
            ),
            Aim::at_least(
                "orderings",
                0.92,
                share(self.orderings_held, self.orderings),
            ),
            Aim::at_most("median error of numbers", 0.15, self.median_error),
            Aim::at_least(
                "numbers within 40 %",
                0.9,
                within(&mut self.rows.iter(), 0.4),
            ),
            Aim::at_least("OdinFS's numbers within 30 %", 1.0, within(of_odinfs, 0.3)),
        ];
    }

    /// Settings that are not the paper's.
    pub fn wrong_settings(&self) -> impl Iterator<Item = &Row> {
        self.settings.iter().filter(|row| !row.held)
    }

    /// One line: how good the model is.
    pub fn summary(&self) -> String {
        format!(
            "{} of {} orderings hold ({:.0} %), {} of {} that are nothing else; {} of {} bounds; {} numbers: median error {:.1} %, 90 % of them within {:.0} %",
            self.orderings_held,
            self.orderings,
            100.0 * self.orderings_held as f64 / self.orderings.max(1) as f64,
            self.pure_orderings_held,
            self.pure_orderings,
            self.bounds_held,
            self.bounds,
            self.rows.len(),
            self.median_error * 100.0,
            self.p90_error * 100.0,
        )
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
