//! McNemar's exact one-sided test: did more cases break than would by chance?
//!
//! Place in the flow: the gate's comparison with a baseline, on cases that both sides judged. Only cases that
//! changed their verdict say anything; under no change each is as likely to have broken as to have been mended.
//! Source: McNemar 1947, exact binomial form.

use super::real;

/// The chance of at least `broken` cases among the changed ones if the change did nothing. 1 where none changed.
#[must_use]
pub fn p_value(broken: u64, mended: u64) -> f64 {
    let changed = broken + mended;
    // P(X >= broken) for X ~ Binomial(changed, 1/2) is P(X <= mended); summed in logarithms, so that thousands of
    // changed cases do not underflow.
    let half = -real(changed) * std::f64::consts::LN_2;
    let mut log_choose = 0.0;
    let mut sum = 0.0;
    for successes in 0..=mended {
        sum += (log_choose + half).exp();
        log_choose += (real(changed - successes) / real(successes + 1)).ln();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_test_agrees_with_the_binomial_table() {
        for (broken, mended, expected) in [
            (0, 0, 1.0),
            (1, 0, 0.5),
            (5, 0, 0.031_25),
            (4, 0, 0.0625),
            (6, 1, 0.0625),
            (8, 2, 0.054_687_5),
            (0, 3, 1.0),
        ] {
            let p = p_value(broken, mended);
            assert!((p - expected).abs() < 1e-12, "{broken} broken, {mended} mended: {p}");
        }
    }

    #[test]
    fn thousands_of_changed_cases_do_not_underflow() {
        let p = p_value(2000, 2000);
        assert!((p - 0.506_3).abs() < 1e-3, "{p}");
    }

    proptest! {
        #[test]
        fn one_more_broken_case_is_never_weaker_evidence(broken in 0..60_u64, mended in 0..60_u64) {
            prop_assert!(p_value(broken + 1, mended) <= p_value(broken, mended) + 1e-12);
            prop_assert!((0.0..=1.0).contains(&p_value(broken, mended)));
        }
    }
}
