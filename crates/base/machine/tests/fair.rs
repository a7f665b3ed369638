//! Max-min fair shares, against closed forms and against what defines them.

use egeria_machine::fair::{Flow, max_min_shares};
use proptest::prelude::*;

fn flow(uses: &[usize]) -> Flow {
    Flow {
        uses: uses.iter().map(|resource| (*resource, 1.0)).collect(),
        most: f64::INFINITY,
        weight: 1.0,
    }
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let least = 1e-9 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= least, "{found} for {expected}");
    }
}

#[test]
fn flows_on_one_link_share_it() {
    close(
        &max_min_shares(&[6.0], &[flow(&[0]), flow(&[0])]),
        &[3.0, 3.0],
    );
}

#[test]
fn what_one_does_not_want_the_others_get() {
    let modest = Flow {
        most: 1.0,
        ..flow(&[0])
    };
    close(
        &max_min_shares(&[7.0], &[modest, flow(&[0]), flow(&[0])]),
        &[1.0, 3.0, 3.0],
    );
}

#[test]
fn weights_are_ratios() {
    let heavy = Flow {
        weight: 2.0,
        ..flow(&[0])
    };
    close(&max_min_shares(&[9.0], &[heavy, flow(&[0])]), &[6.0, 3.0]);
}

#[test]
fn a_long_flow_gets_what_the_fullest_link_of_a_ring_leaves() {
    // Bertsekas and Gallager's chain: one flow over three links, one more on each.
    let flows = [flow(&[0, 1, 2]), flow(&[0]), flow(&[1]), flow(&[2])];
    close(
        &max_min_shares(&[4.0, 2.0, 6.0], &flows),
        &[1.0, 3.0, 1.0, 5.0],
    );
}

#[test]
fn amounts_count() {
    let double = Flow {
        uses: vec![(0, 2.0)],
        ..flow(&[])
    };
    close(&max_min_shares(&[6.0], &[double, flow(&[0])]), &[2.0, 2.0]);
}

#[test]
fn nothing_to_share_and_nothing_to_bound() {
    let modest = Flow {
        most: 5.0,
        ..flow(&[])
    };
    let weightless = Flow {
        weight: 0.0,
        ..flow(&[0])
    };
    close(
        &max_min_shares(&[1.0], &[modest, weightless, flow(&[0])]),
        &[5.0, 0.0, 1.0],
    );
    assert!(max_min_shares(&[], &[flow(&[])])[0].is_infinite());
    close(&max_min_shares(&[0.0], &[flow(&[0])]), &[0.0]);
    // A resource without end holds nobody back who another one does not.
    let flows = [flow(&[0, 1]), flow(&[0, 2])];
    close(
        &max_min_shares(&[f64::INFINITY, 1.0, 5.0], &flows),
        &[1.0, 5.0],
    );
}

proptest! {
    #[test]
    fn no_share_can_grow_at_the_cost_of_larger_ones_only(
        capacities in prop::collection::vec(0.1f64..100.0, 1..6),
        flows in prop::collection::vec(
            (prop::collection::btree_map(0usize..6, 0.1f64..3.0, 0..4), 0.0f64..200.0, 0.1f64..4.0),
            1..12,
        ),
    ) {
        let count = capacities.len();
        let flows: Vec<Flow> = flows
            .into_iter()
            .map(|(uses, most, weight)| Flow {
                uses: uses.into_iter().filter(|(resource, _)| *resource < count).collect(),
                most,
                weight,
            })
            .collect();
        let rates = max_min_shares(&capacities, &flows);
        let load = |resource: usize| -> f64 {
            let of = |(flow, rate): (&Flow, &f64)| -> f64 {
                let amounts = flow.uses.iter().filter(|(used, _)| *used == resource);
                amounts.map(|(_, amount)| amount * rate).sum()
            };
            flows.iter().zip(&rates).map(of).sum()
        };
        for (resource, capacity) in capacities.iter().enumerate() {
            prop_assert!(load(resource) <= capacity * (1.0 + 1e-9));
        }
        for (flow, rate) in flows.iter().zip(&rates) {
            prop_assert!(*rate <= flow.most * (1.0 + 1e-9));
            let is_satisfied = *rate >= flow.most * (1.0 - 1e-9);
            // Else some resource it uses is full, and on it nobody has more for their weight.
            let is_held_back = flow.uses.iter().any(|(resource, _)| {
                let full = load(*resource) >= capacities[*resource] * (1.0 - 1e-9);
                let level = rate / flow.weight;
                full && flows.iter().zip(&rates).all(|(other, other_rate)| {
                    let uses = other.uses.iter().any(|(used, _)| used == resource);
                    !uses || other_rate / other.weight <= level * (1.0 + 1e-9)
                })
            });
            prop_assert!(is_satisfied || is_held_back, "{rate} of {flow:?}");
        }
    }

    #[test]
    fn the_order_of_flows_does_not_matter(
        seed in prop::collection::vec((0usize..3, 0.1f64..9.0), 1..8),
    ) {
        let flows: Vec<Flow> = seed
            .iter()
            .map(|(resource, most)| Flow { most: *most, ..flow(&[*resource, 2 - *resource]) })
            .collect();
        let flows: Vec<Flow> = flows.into_iter().map(|mut flow| {
            flow.uses.dedup_by_key(|(resource, _)| *resource);
            flow
        }).collect();
        let capacities = [3.0, 5.0, 7.0];
        let forward = max_min_shares(&capacities, &flows);
        let reversed: Vec<Flow> = flows.iter().rev().cloned().collect();
        let mut back = max_min_shares(&capacities, &reversed);
        back.reverse();
        close(&forward, &back);
    }
}
