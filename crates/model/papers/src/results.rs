//! What the experiments gave: bars and curves of figures, by name.

use std::collections::BTreeMap;

/// A bar: (figure, group, bar).
type BarKey = (String, String, String);

/// Throughput, time or another figure of each bar and curve. All bars of a group have one unit.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    bars: BTreeMap<BarKey, f64>,
    curves: BTreeMap<(String, String), Vec<(f64, f64)>>,
}

impl Results {
    /// Sets the value of one bar.
    pub fn set(&mut self, figure: &str, group: &str, bar: &str, value: f64) {
        let key = (figure.to_owned(), group.to_owned(), bar.to_owned());
        self.bars.insert(key, value);
    }

    pub(crate) fn set_curve(&mut self, figure: &str, name: &str, points: Vec<(f64, f64)>) {
        self.curves
            .insert((figure.to_owned(), name.to_owned()), points);
    }

    /// Adds what another experiment gave.
    pub(crate) fn take(&mut self, mut other: Results) {
        self.bars.append(&mut other.bars);
        self.curves.append(&mut other.curves);
    }

    /// The value of one bar.
    pub fn bar(&self, figure: &str, group: &str, bar: &str) -> Option<f64> {
        let key = (figure.to_owned(), group.to_owned(), bar.to_owned());
        self.bars
            .get(&key)
            .copied()
            .filter(|value| value.is_finite())
    }

    /// One bar divided by another of its group.
    pub fn ratio(&self, figure: &str, group: &str, over: &str, under: &str) -> Option<f64> {
        let under = self.bar(figure, group, under)?;
        self.bar(figure, group, over)
            .map(|over| over / under)
            .filter(|ratio| ratio.is_finite())
    }

    /// The mean of that over groups, as the papers give means; `None` when one is missing.
    pub fn mean_ratio(
        &self,
        figure: &str,
        groups: &[&str],
        over: &str,
        under: &str,
    ) -> Option<f64> {
        let ratios = groups
            .iter()
            .map(|group| self.ratio(figure, group, over, under));
        let ratios: Option<Vec<f64>> = ratios.collect();
        ratios
            .filter(|ratios| !ratios.is_empty())
            .map(|ratios| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// The points (x, y) of a curve, x ascending.
    pub fn curve(&self, figure: &str, name: &str) -> Option<&[(f64, f64)]> {
        let key = (figure.to_owned(), name.to_owned());
        self.curves.get(&key).map(Vec::as_slice)
    }

    /// The value of a curve at a point it has.
    pub fn at(&self, figure: &str, name: &str, x: f64) -> Option<f64> {
        let points = self.curve(figure, name)?;
        let point = points.iter().find(|(at, _)| (at - x).abs() < 1e-9);
        point.map(|(_, y)| *y).filter(|value| value.is_finite())
    }

    /// The largest value of a curve.
    pub fn peak(&self, figure: &str, name: &str) -> Option<f64> {
        let points = self.curve(figure, name)?;
        points.iter().map(|(_, y)| *y).reduce(f64::max)
    }
}
