//! How good the model is: totals over the judged claims.

use egeria_stats::aims::{Aim, share};

use crate::quantile::quantile;
use crate::report::{OrderingRow, Report};

impl Report {
    /// Fills in the totals.
    pub(crate) fn sum_up(&mut self) {
        self.count();
        let mut errors: Vec<f64> = self.rows.iter().map(|row| row.error).collect();
        errors.sort_by(f64::total_cmp);
        self.median_error = quantile(&errors, 0.5);
        self.p90_error = quantile(&errors, 0.9);
        self.aims = self.aims_of_totals();
    }

    fn aims_of_totals(&self) -> Vec<Aim> {
        let within = |source: &str, error: f64| {
            let rows = self
                .rows
                .iter()
                .filter(|row| row.source.starts_with(source));
            let near = rows.clone().filter(|row| row.error <= error).count();
            share(near, rows.count())
        };
        let held = share(self.orderings_held, self.orderings);
        let pure_held = share(self.pure_orderings_held, self.pure_orderings);
        vec![
            Aim::at_least("orderings that no number says", 0.95, pure_held),
            Aim::at_least("orderings", 0.92, held),
            Aim::at_most("median error of numbers", 0.15, self.median_error),
            Aim::at_least("numbers within 40 %", 0.9, within("", 0.4)),
            Aim::at_least("OdinFS's numbers within 30 %", 1.0, within("OdinFS", 0.3)),
        ]
    }

    fn count(&mut self) {
        let orderings = &self.ordering_rows;
        let of = |is_meant: &dyn Fn(&OrderingRow) -> bool| {
            let meant = orderings.iter().filter(|row| is_meant(row));
            (meant.clone().count(), meant.filter(|row| row.held).count())
        };
        let bounds_of = |own_setting: bool| {
            let bounds = self.bound_rows.iter();
            let bounds = bounds.filter(|row| row.own_setting == own_setting);
            (
                bounds.clone().count(),
                bounds.filter(|row| row.held).count(),
            )
        };
        (self.orderings, self.orderings_held) = of(&|row| !row.own_setting);
        (self.pure_orderings, self.pure_orderings_held) = of(&|row| row.pure);
        (self.bounds, self.bounds_held) = bounds_of(false);
        let (own, own_bounds) = (of(&|row| row.own_setting), bounds_of(true));
        self.own_settings = own.0 + own_bounds.0;
        self.own_settings_held = own.1 + own_bounds.1;
    }

    /// One line: how good the model is.
    pub fn summary(&self) -> String {
        format!(
            "{} of {} orderings hold ({:.0} %), {} of {} that are nothing else; {} of {} bounds; {} numbers: median error {:.1} %, 90 % of them within {:.0} %; not counted: {} of {} in settings of our own",
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
            self.own_settings_held,
            self.own_settings,
        )
    }
}
