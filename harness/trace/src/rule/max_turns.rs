//! Rule `max_turns`: a run used up its turns before it was done.
//!
//! Place in the flow: the loop asks [`stop`] before it begins another turn; stored runs go through [`find`].
//! A run of our loop says itself that it hit the limit. A foreign trace says nothing of its cap, so the cap comes
//! from the reader: `[agents.NAME] max_turns`.

use super::{Finding, RunSeen};
use crate::outcome::{Evidence, StopReason};
use serde::{Deserialize, Serialize};

/// The rule's name.
pub const RULE: &str = "max_turns";

/// Settings of the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaxTurns {
    /// The cap of runs that do not tell their own; `None`: such runs never fire.
    pub cap: Option<u32>,
}

/// Whether a run that wants another turn after `turns` must stop.
#[must_use]
pub fn stop(turns: u32, max_turns: u32) -> Option<Finding> {
    (turns >= max_turns).then(|| finding(turns, Some(max_turns)))
}

/// Whether a stored run hit its cap.
///
/// With a cap of its own the run's word decides: ending well in the last allowed turn is no hit. Without one, a
/// run that reached the configured cap fires whatever it says, because frameworks report a cap hit as success.
#[must_use]
pub fn find(run: &RunSeen<'_>, settings: &MaxTurns) -> Option<Finding> {
    if run.stop_reason == Some(StopReason::MaxTurns) {
        let mut found = finding(run.turns, run.max_turns);
        if let Some(said) = run.stop_evidence {
            found.evidence = said.clone();
        }
        return Some(found);
    }
    if run.max_turns.is_some() {
        return None;
    }
    stop(run.turns, settings.cap?)
}

fn finding(turns: u32, max_turns: Option<u32>) -> Finding {
    let detail = match max_turns {
        Some(cap) => format!("{turns} turns of {cap} were used and the run was not done"),
        None => format!("the run hit its turn limit after {turns} turns"),
    };
    Finding {
        rule: RULE,
        tool_name: None,
        args_hash: None,
        evidence: Evidence {
            rule: RULE.to_owned(),
            detail,
            threshold: max_turns.map(f64::from),
            observed: Some(f64::from(turns)),
            spans: Vec::new(),
            tokens_wasted: None,
            next_safe_action: Some(
                "read the last turns: raise max_turns if they made progress, else correct the prompt or the tools"
                    .to_owned(),
            ),
            resumable: true,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RunId;
    use crate::rule::example;

    #[test]
    fn the_loop_stops_when_the_last_allowed_turn_is_used_and_not_before() {
        for (turns, max_turns, stops) in [(9, 10, false), (10, 10, true), (11, 10, true), (0, 0, true)] {
            assert_eq!(stop(turns, max_turns).is_some(), stops, "{turns} of {max_turns}");
        }
    }

    #[test]
    fn a_stored_run_fires_by_its_own_word_or_by_the_configured_cap() {
        use StopReason::{Completed, MaxTurns as Hit, Unknown};
        let id = RunId::from_draw(1);
        // turns, own cap, stop reason, configured cap, fires
        for (turns, own, reason, cap, fires) in [
            (10, Some(10), Some(Hit), None, true),
            (10, Some(10), Some(Completed), None, false),
            (10, Some(10), None, None, false),
            (10, Some(10), Some(Completed), Some(5), false),
            (5, None, Some(Completed), Some(5), true),
            (5, None, Some(Unknown), Some(5), true),
            (5, None, None, Some(5), true),
            (4, None, Some(Unknown), Some(5), false),
            (400, None, Some(Unknown), None, false),
            (30, None, Some(Hit), None, true),
        ] {
            let mut run = example::run(&id, &[]);
            (run.turns, run.max_turns, run.stop_reason) = (turns, own, reason);
            let found = find(&run, &MaxTurns { cap });
            assert_eq!(found.is_some(), fires, "{turns} turns, own {own:?}, {reason:?}, configured {cap:?}");
        }
    }

    #[test]
    fn what_the_loop_said_is_what_the_alert_shows() {
        let id = RunId::from_draw(1);
        let said = Evidence { detail: "10 of 10; last tool search".into(), ..finding(10, Some(10)).evidence };
        let mut run = example::run(&id, &[]);
        (run.stop_reason, run.stop_evidence) = (Some(StopReason::MaxTurns), Some(&said));
        assert_eq!(find(&run, &MaxTurns::default()).unwrap().evidence, said);
    }
}
