//! Wilson's interval of a share: honest for few trials and for shares near 0 and 1.
//!
//! Place in the flow: the report prints it beside each pass rate. Source: Wilson 1927; Brown, Cai, DasGupta 2001.

use serde::{Deserialize, Serialize};

/// 97.5 % point of the normal distribution: a two-sided interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end, at least 0.
    pub low: f64,
    /// Upper end, at most 1.
    pub high: f64,
}

/// The interval of a share seen in `trials` independent trials; a fraction of a trial is fine, as
/// [`super::cluster::effective_trials`] gives one. `None` without trials or for a share outside 0 to 1.
#[must_use]
pub fn wilson(rate: f64, trials: f64) -> Option<Interval> {
    if !(0.0..=1.0).contains(&rate) || !trials.is_finite() || trials <= 0.0 {
        return None;
    }
    let z2 = Z * Z;
    let centre = (rate + z2 / (2.0 * trials)) / (1.0 + z2 / trials);
    let spread = rate * (1.0 - rate) / trials + z2 / (4.0 * trials * trials);
    let half = Z * spread.sqrt() / (1.0 + z2 / trials);
    Some(Interval { low: (centre - half).max(0.0), high: (centre + half).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_of_three_says_little() {
        let interval = wilson(1.0, 3.0).unwrap();
        assert!((interval.low - 0.4385).abs() < 1e-4, "{interval:?}");
        assert!((interval.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_trials_give_no_interval() {
        assert_eq!(wilson(0.5, 0.0), None);
        assert_eq!(wilson(f64::NAN, 10.0), None);
    }

    proptest! {
        #[test]
        fn the_share_lies_inside_and_more_trials_never_widen_it(passed in 0..=50_u32, more in 2..20_u32) {
            let rate = f64::from(passed) / 50.0;
            let few = wilson(rate, 50.0).unwrap();
            let many = wilson(rate, 50.0 * f64::from(more)).unwrap();
            prop_assert!(few.low <= rate + 1e-12 && rate <= few.high + 1e-12);
            prop_assert!(many.high - many.low <= few.high - few.low);
        }
    }
}
