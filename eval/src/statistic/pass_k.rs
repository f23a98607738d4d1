//! pass@k (any of k attempts passes) and pass^k (all k attempts pass), unbiased, averaged over cases.
//!
//! Place in the flow: the report's table. Sources: Chen et al. 2021 (arXiv 2107.03374) for pass@k,
//! tau-bench (arXiv 2406.12045) for pass^k = C(c, k) / C(n, k).

use super::{Tally, real};
use serde::{Deserialize, Serialize};

/// The largest k that is reported; more repeats than this add rows that nobody reads.
pub const MAX_K: u64 = 32;

/// Both figures for one k.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassK {
    /// How many attempts.
    pub k: u64,
    /// Chance that at least one of k attempts passes.
    pub pass_at_k: f64,
    /// Chance that all k attempts pass.
    pub pass_hat_k: f64,
    /// Cases with at least k judged trials: the denominator of both.
    pub cases: u64,
}

/// Chance that at least one of `k` attempts drawn from the tally passes; `None` where fewer than `k` were judged.
#[must_use]
pub fn pass_at(tally: Tally, k: u64) -> Option<f64> {
    let failed = Tally { passed: tally.judged.checked_sub(tally.passed)?, ..tally };
    pass_hat(failed, k).map(|all_fail| 1.0 - all_fail)
}

/// Chance that all of `k` attempts drawn from the tally pass; `None` where fewer than `k` were judged.
#[must_use]
pub fn pass_hat(tally: Tally, k: u64) -> Option<f64> {
    if k == 0 || tally.judged < k || tally.passed > tally.judged {
        return None;
    }
    // C(c, k) / C(n, k) as a product of shares: no factorial is ever built.
    Some((0..k).map(|drawn| real(tally.passed.saturating_sub(drawn)) / real(tally.judged - drawn)).product())
}

/// The table for k = 1 up to the most trials any case has, each row averaged over the cases that have enough.
#[must_use]
pub fn table(tallies: &[Tally]) -> Vec<PassK> {
    let longest = tallies.iter().map(|tally| tally.judged).max().unwrap_or(0).min(MAX_K);
    (1..=longest).filter_map(|k| row(tallies, k)).collect()
}

fn row(tallies: &[Tally], k: u64) -> Option<PassK> {
    let at = mean(tallies.iter().filter_map(|tally| pass_at(*tally, k)))?;
    let hat = mean(tallies.iter().filter_map(|tally| pass_hat(*tally, k)))?;
    let cases = tallies.iter().filter(|tally| tally.judged >= k).count();
    Some(PassK { k, pass_at_k: at, pass_hat_k: hat, cases: cases as u64 })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / real(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Both figures by counting every subset of k trials.
    fn by_counting(tally: Tally, k: u64) -> (f64, f64) {
        let (mut subsets, mut any, mut all) = (0_u64, 0_u64, 0_u64);
        let passes = (1_u64 << tally.passed) - 1;
        for subset in 0..1_u64 << tally.judged {
            if u64::from(subset.count_ones()) == k {
                subsets += 1;
                any += u64::from(subset & passes != 0);
                all += u64::from(subset & passes == subset);
            }
        }
        (real(any) / real(subsets), real(all) / real(subsets))
    }

    proptest! {
        #[test]
        fn both_figures_equal_the_share_of_all_subsets(judged in 1..=9_u64, passed in 0..=9_u64, k in 1..=9_u64) {
            prop_assume!(passed <= judged && k <= judged);
            let tally = Tally { judged, passed };
            let (any, all) = by_counting(tally, k);
            prop_assert!((pass_at(tally, k).unwrap() - any).abs() < 1e-12);
            prop_assert!((pass_hat(tally, k).unwrap() - all).abs() < 1e-12);
        }

        #[test]
        fn more_attempts_help_any_and_hurt_all(judged in 2..200_u64, passed in 0..200_u64, k in 1..200_u64) {
            prop_assume!(passed <= judged && k < judged);
            let tally = Tally { judged, passed };
            prop_assert!(pass_at(tally, k).unwrap() <= pass_at(tally, k + 1).unwrap() + 1e-12);
            prop_assert!(pass_hat(tally, k).unwrap() + 1e-12 >= pass_hat(tally, k + 1).unwrap());
            prop_assert!((0.0..=1.0).contains(&pass_at(tally, k).unwrap()));
        }
    }

    #[test]
    fn for_one_attempt_both_are_the_pass_rate() {
        let tally = Tally { judged: 4, passed: 1 };
        assert_eq!((pass_at(tally, 1), pass_hat(tally, 1)), (Some(0.25), Some(0.25)));
    }

    #[test]
    fn too_few_trials_give_no_figure_instead_of_a_wrong_one() {
        assert_eq!(pass_at(Tally { judged: 2, passed: 2 }, 3), None);
        assert_eq!(pass_hat(Tally { judged: 0, passed: 0 }, 1), None);
        assert_eq!(table(&[]), []);
    }

    #[test]
    fn a_case_with_a_lost_trial_leaves_only_the_rows_it_cannot_fill() {
        let rows = table(&[Tally { judged: 2, passed: 2 }, Tally { judged: 1, passed: 0 }]);
        assert_eq!(
            rows,
            [
                PassK { k: 1, pass_at_k: 0.5, pass_hat_k: 0.5, cases: 2 },
                PassK { k: 2, pass_at_k: 1.0, pass_hat_k: 1.0, cases: 1 },
            ]
        );
    }
}
