//! When two JSON values or two lists of tool calls are as expected; and the largest pairing of two lists.
//!
//! Place in the flow: `tool_sequence` and `json` compare with it. Pure.
//!
//! An expected value `{"any_of": [..]}` is met by any value of the list, as in BFCL's possible answers.

use serde::Deserialize;
use serde_json::{Map, Value};
use trace::canonical::canonical;

/// How the members of an object of arguments are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Strictness {
    /// The same members with the same values.
    #[default]
    Exact,
    /// Not at all.
    Ignore,
    /// The call's members are among the expected ones.
    Subset,
    /// The expected members are among the call's.
    Superset,
}

/// Whether a value is as expected: equal by meaning, so that 1 is 1.0 and 1 is not true.
pub(super) fn matches_value(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Object(wanted), _) if any_of(wanted).is_some() => {
            any_of(wanted).into_iter().flatten().any(|one| matches_value(one, found))
        }
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.len() == found.len() && holds_all(wanted, found)
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| matches_value(a, b))
        }
        _ => canonical(expected) == canonical(found),
    }
}

fn any_of(object: &Map<String, Value>) -> Option<&Vec<Value>> {
    match object.len() {
        1 => object.get("any_of")?.as_array(),
        _ => None,
    }
}

fn holds_all(wanted: &Map<String, Value>, found: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, value)| found.get(key).is_some_and(|found| matches_value(value, found)))
}

/// Whether arguments are as expected, as strictly as asked. Values are always compared whole.
pub(super) fn matches_arguments(expected: &Value, found: &Value, strictness: Strictness) -> bool {
    match (strictness, expected, found) {
        (Strictness::Ignore, ..) => true,
        (Strictness::Superset, Value::Object(wanted), Value::Object(found)) => holds_all(wanted, found),
        (Strictness::Subset, Value::Object(wanted), Value::Object(found)) => {
            found.iter().all(|(key, value)| wanted.get(key).is_some_and(|one| matches_value(one, value)))
        }
        (Strictness::Exact | Strictness::Subset | Strictness::Superset, ..) => matches_value(expected, found),
    }
}

/// The largest pairing of `left` with `right` things, where `fits` tells which may be paired: for each left thing
/// its right partner. A greedy pairing can block itself; this one moves earlier pairs out of the way.
/// Source: Kuhn's augmenting paths, searched without recursion so that long lists cannot exhaust the stack.
pub(super) fn largest_pairing(
    left: usize,
    right: usize,
    fits: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let options: Vec<Vec<usize>> =
        (0..left).map(|one| (0..right).filter(|other| fits(one, *other)).collect()).collect();
    let mut partner_of_right = vec![None; right];
    for start in 0..left {
        augment(start, &options, &mut partner_of_right);
    }
    let mut pairs = vec![None; left];
    for (other, one) in partner_of_right.iter().enumerate() {
        if let Some(one) = *one {
            pairs[one] = Some(other);
        }
    }
    pairs
}

/// Finds a partner for `start`, moving others where that helps: a breadth-first search for an augmenting path.
fn augment(start: usize, options: &[Vec<usize>], partner_of_right: &mut [Option<usize>]) {
    // For each right thing that was reached, the left thing it was reached from.
    let mut reached_from: Vec<Option<usize>> = vec![None; partner_of_right.len()];
    let mut waiting = std::collections::VecDeque::from([start]);
    while let Some(one) = waiting.pop_front() {
        for &other in &options[one] {
            if reached_from[other].is_some() {
                continue;
            }
            reached_from[other] = Some(one);
            match partner_of_right[other] {
                Some(next) => waiting.push_back(next),
                None => return shift(other, start, &reached_from, partner_of_right),
            }
        }
    }
}

/// Walks back from a free right thing to `start`, giving each left thing on the way its new partner.
fn shift(free: usize, start: usize, reached_from: &[Option<usize>], partner_of_right: &mut [Option<usize>]) {
    let mut other = free;
    while let Some(one) = reached_from[other] {
        let before = partner_of_right.iter().position(|partner| *partner == Some(one));
        partner_of_right[other] = Some(one);
        match before {
            Some(before) if one != start => other = before,
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn values_match_by_meaning() {
        for (expected, found, matches) in [
            (json!(1), json!(1.0), true),
            (json!(1), json!(true), false),
            (json!("1"), json!(1), false),
            (json!({"any_of": ["NYC", "New York"]}), json!("New York"), true),
            (json!({"any_of": ["NYC", "New York"]}), json!("LA"), false),
            (json!({"any_of": []}), json!("LA"), false),
            (json!({"city": {"any_of": [1, 2]}}), json!({"city": 2}), true),
            (json!([{"any_of": [1, 2]}, 3]), json!([2, 3]), true),
            // Only an object of that one member is a choice.
            (json!({"any_of": [1], "b": 2}), json!({"any_of": [1], "b": 2}), true),
        ] {
            assert_eq!(matches_value(&expected, &found), matches, "{expected} and {found}");
        }
    }

    #[test]
    fn argument_strictness_follows_agentevals() {
        let (ab, a) = (json!({"a": 1, "b": 2}), json!({"a": 1}));
        for (strictness, wide, narrow) in [
            (Strictness::Exact, false, false),
            (Strictness::Ignore, true, true),
            (Strictness::Subset, true, false),
            (Strictness::Superset, false, true),
        ] {
            assert_eq!(matches_arguments(&ab, &a, strictness), wide, "{strictness:?}: fewer than expected");
            assert_eq!(matches_arguments(&a, &ab, strictness), narrow, "{strictness:?}: more than expected");
        }
    }

    #[test]
    fn a_greedy_choice_is_taken_back() {
        // The first fits both, the second only what a greedy pairing gave to the first.
        let pairs = largest_pairing(2, 2, |one, other| one == 0 || other == 0);
        assert_eq!(pairs, [Some(1), Some(0)]);
    }

    /// The size of the largest pairing, by trying everything.
    fn by_trying(fits: &[Vec<bool>], one: usize, used: u32) -> usize {
        let Some(row) = fits.get(one) else { return 0 };
        let without = by_trying(fits, one + 1, used);
        let with = (0..row.len())
            .filter(|other| row[*other] && used & (1 << other) == 0)
            .map(|other| 1 + by_trying(fits, one + 1, used | (1 << other)));
        with.max().unwrap_or(0).max(without)
    }

    proptest! {
        #[test]
        fn no_pairing_is_larger(fits in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 0..6)) {
            let pairs = largest_pairing(fits.len(), 5, |one, other| fits[one][other]);
            let mut partners: Vec<usize> = pairs.iter().flatten().copied().collect();
            prop_assert_eq!(partners.len(), by_trying(&fits, 0, 0));
            prop_assert!(pairs.iter().enumerate().all(|(one, other)| other.is_none_or(|other| fits[one][other])));
            partners.sort_unstable();
            partners.dedup();
            prop_assert_eq!(partners.len(), pairs.iter().flatten().count(), "no partner twice");
        }
    }
}
