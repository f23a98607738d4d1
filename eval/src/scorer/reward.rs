//! `reward`: the reward that the run's source recorded is high enough.
//!
//! Place in the flow: a scorer of [`super::REGISTRY`] for imported runs, such as tau-bench results.

use super::{FromOptions, Score, Scorer};
use crate::case::Case;
use crate::subject::Subject;
use serde::Deserialize;

/// Options of the scorer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    /// The least reward that passes, above 0 and up to 1.
    #[serde(default = "full")]
    threshold: f64,
}

fn full() -> f64 {
    1.0
}

/// The scorer.
#[derive(Debug)]
pub(super) struct Reward {
    threshold: f64,
}

impl FromOptions for Reward {
    type Options = Options;

    fn from_options(options: Options) -> Result<Self, String> {
        match options.threshold > 0.0 && options.threshold <= 1.0 {
            true => Ok(Self { threshold: options.threshold }),
            false => Err("`threshold` must be above 0, so that something can fail, and at most 1".to_owned()),
        }
    }
}

impl Scorer for Reward {
    fn check(&self, _: &Case) -> Result<(), String> {
        Ok(())
    }

    fn score(&self, _: &Case, subject: &Subject) -> Score {
        let Some(reward) = subject.reward else {
            return Score::error("no_reward", "no reward was recorded with the run");
        };
        let reason = format!("recorded reward {reward}, wanted at least {}", self.threshold);
        match reward >= self.threshold {
            true => Score::pass(reason).valued(reward),
            false => Score::fail("low_reward", reason).valued(reward),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Verdict, build};
    use super::*;
    use crate::subject::sample;
    use serde_json::{Map, json};

    #[test]
    fn a_reward_passes_at_its_threshold_and_a_missing_or_broken_one_is_an_error() {
        let scorer = build("reward", Map::new()).unwrap();
        for (reward, wanted) in [
            (Some(1.0), Verdict::Pass),
            (Some(0.5), Verdict::Fail),
            (Some(0.0), Verdict::Fail),
            (None, Verdict::Error),
            (Some(f64::NAN), Verdict::Error),
            (Some(7.0), Verdict::Error),
        ] {
            let subject = Subject { reward, ..sample::answering("") };
            assert_eq!(scorer.score(&Case::named("a"), &subject).verdict, wanted, "{reward:?}");
        }
    }

    #[test]
    fn a_threshold_that_nothing_fails_or_passes_is_refused() {
        for threshold in [json!(0), json!(1.1), json!(null)] {
            let options = json!({"threshold": threshold}).as_object().unwrap().clone();
            assert!(build("reward", options).is_err(), "{threshold}");
        }
    }
}
