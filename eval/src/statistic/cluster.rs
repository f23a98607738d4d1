//! How many independent trials the repeats of some cases are worth.
//!
//! Place in the flow: the pass rate's interval. Repeats of one case resemble each other, so an interval that takes
//! every trial for independent is too narrow: on tau-bench gpt-4o airline by half.
//! Source: Miller 2024 (arXiv 2411.00640), clustered standard errors; Kish's design effect.

use super::{Tally, real};

/// Trials divided by the design effect, between the number of judged cases and the number of judged trials.
///
/// `None` where nothing was judged.
#[must_use]
pub fn effective_trials(tallies: &[Tally]) -> Option<f64> {
    let judged: Vec<Tally> = tallies.iter().copied().filter(|tally| tally.judged > 0).collect();
    let trials = real(judged.iter().map(|tally| tally.judged).sum());
    let cases = real(judged.len() as u64);
    if judged.is_empty() {
        return None;
    }
    let rate = real(judged.iter().map(|tally| tally.passed).sum()) / trials;
    let naive = rate * (1.0 - rate) / trials;
    if naive == 0.0 || judged.len() == 1 {
        // Without variation nothing tells the trials of a case apart, so only the cases count.
        return Some(cases);
    }
    let residuals: f64 =
        judged.iter().map(|tally| (real(tally.passed) - rate * real(tally.judged)).powi(2)).sum();
    let clustered = residuals * cases / (cases - 1.0) / (trials * trials);
    Some((trials * naive / clustered).clamp(cases.min(trials), trials))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallies(passed: &[u64], judged: u64) -> Vec<Tally> {
        passed.iter().map(|passed| Tally { judged, passed: *passed }).collect()
    }

    #[test]
    fn repeats_that_always_agree_are_worth_one_trial_a_case() {
        let effective = effective_trials(&tallies(&[4, 0, 4, 0, 4, 0], 4)).unwrap();
        assert!((effective - 6.0).abs() < 1e-9, "{effective}");
    }

    #[test]
    fn repeats_that_vary_freely_are_worth_all_their_trials() {
        let effective = effective_trials(&tallies(&[2, 2, 2, 2], 4)).unwrap();
        assert!((effective - 16.0).abs() < 1e-9, "{effective}");
    }

    #[test]
    fn passing_everything_counts_cases_and_nothing_counts_nothing() {
        assert_eq!(effective_trials(&tallies(&[4, 4], 4)), Some(2.0));
        assert_eq!(effective_trials(&[]), None);
        assert_eq!(effective_trials(&[Tally { judged: 0, passed: 0 }]), None);
    }
}
