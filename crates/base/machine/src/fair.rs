//! Max-min fair shares: what each flow gets when many share resources.
//!
//! Rates of all flows rise together, in proportion to their weights, until a resource is full. The flows of that
//! resource stop there, the others rise on. So a flow can only get more if a flow that has less gets even less
//! (water-filling). AsymSched §4.2 asks for the bandwidth that a cluster would receive, and this is how Egeria
//! answers.

/// What takes a share.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flow {
    /// Resources it uses, and how much of each per unit of its rate.
    pub uses: Vec<(usize, f64)>,
    /// It never takes more than this rate; infinite where nothing else bounds it.
    pub most: f64,
    /// Its weight compared with others: twice the weight, twice the rate.
    pub weight: f64,
}

/// The rate of each flow under these capacities. Capacities, demands and weights are not negative, uses
/// name resources that exist; a flow that uses nothing gets its `most`, one without weight nothing.
///
/// Takes one round per resource or flow that stops, so at most their sum.
pub fn max_min_shares(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut left = capacities.to_vec();
    let mut rising: Vec<usize> = (0..flows.len())
        .filter(|flow| flows[*flow].weight > 0.0 && flows[*flow].most > 0.0)
        .collect();
    let mut pressure = vec![0.0; capacities.len()];
    while !rising.is_empty() {
        pressure.fill(0.0);
        for flow in &rising {
            for (resource, amount) in &flows[*flow].uses {
                pressure[*resource] += amount * flows[*flow].weight;
            }
        }
        let by_resource = left.iter().zip(&pressure).filter(|(_, all)| **all > 0.0);
        let by_resource = by_resource.map(|(left, all)| left / all);
        let by_demand = rising
            .iter()
            .map(|flow| (flows[*flow].most - rates[*flow]) / flows[*flow].weight);
        let rise = by_resource
            .chain(by_demand)
            .fold(f64::INFINITY, f64::min)
            .max(0.0);
        if rise.is_infinite() {
            // Nothing bounds those that are left.
            for flow in rising {
                rates[flow] = f64::INFINITY;
            }
            break;
        }
        for flow in &rising {
            rates[*flow] += rise * flows[*flow].weight;
        }
        for (left, all) in left.iter_mut().zip(&pressure) {
            *left = (*left - rise * all).max(0.0);
        }
        // Full but for rounding: whatever stopped this round must count as stopping it.
        let full = |resource: usize| {
            // What has no end is never full.
            let least = capacities[resource] * 1e-12;
            pressure[resource] > 0.0 && left[resource] <= least && least.is_finite()
        };
        let before = rising.len();
        rising.retain(|flow| {
            let each = &flows[*flow];
            let has_all = rates[*flow] >= each.most * (1.0 - 1e-12);
            !has_all
                && !each
                    .uses
                    .iter()
                    .any(|(resource, amount)| *amount > 0.0 && full(*resource))
        });
        if rising.len() == before {
            break;
        }
    }
    rates
}
