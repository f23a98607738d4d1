//! Rule `token_budget`: the tokens were used up before the run said that it was done.
//!
//! Place in the flow: the loop asks [`stop`] when a model call has ended; stored runs go through [`find`].
//! A run that completes in the very step that uses the budget up is completed, not stopped.

use super::{Finding, RunSeen, figure};
use crate::outcome::{Evidence, RunStatus, StopReason};
use serde::{Deserialize, Serialize};

/// The rule's name.
pub const RULE: &str = "token_budget";

/// Settings of the rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenBudget {
    /// The budget of runs that do not tell their own; `None`: such runs never fire.
    pub max_tokens: Option<u64>,
}

/// Whether a run must stop: the budget is used up and the same step did not complete it.
#[must_use]
pub fn stop(tokens: u64, max_tokens: u64, completed: bool) -> Option<Finding> {
    (tokens >= max_tokens && !completed).then(|| finding(Some(tokens), Some(max_tokens)))
}

/// Whether a stored run used up its tokens before it was done.
#[must_use]
pub fn find(run: &RunSeen<'_>, settings: &TokenBudget) -> Option<Finding> {
    if run.is_completed() {
        return None;
    }
    if let Some(said) = said_by_the_loop(run) {
        let mut found = finding(run.tokens, run.max_tokens);
        found.evidence = said.clone();
        return Some(found);
    }
    // Our loop decides in the step itself; a reader that looks between two facts would only guess.
    if run.max_tokens.is_some() && run.status == RunStatus::Running {
        return None;
    }
    stop(run.tokens?, run.max_tokens.or(settings.max_tokens)?, false)
}

/// The evidence of a stop by a token limit; limits on cost and on calls are budgets too, but not this rule.
fn said_by_the_loop<'a>(run: &RunSeen<'a>) -> Option<&'a Evidence> {
    let said = run.stop_evidence?;
    (run.stop_reason == Some(StopReason::BudgetExceeded) && said.rule.contains("token")).then_some(said)
}

fn finding(tokens: Option<u64>, max_tokens: Option<u64>) -> Finding {
    let detail = match (tokens, max_tokens) {
        (Some(used), Some(budget)) => format!("{used} tokens of {budget} were used before the run was done"),
        _ => "the token budget was used up before the run was done".to_owned(),
    };
    Finding {
        rule: RULE,
        tool_name: None,
        args_hash: None,
        evidence: Evidence {
            rule: RULE.to_owned(),
            detail,
            threshold: max_tokens.map(figure),
            observed: tokens.map(figure),
            spans: Vec::new(),
            tokens_wasted: tokens,
            next_safe_action: Some(
                "see which turn made the context grow: shorten tool results there, or raise the token budget"
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
    fn the_budget_stops_at_its_limit_unless_the_same_step_completes_the_run() {
        for (tokens, budget, completed, stops) in [
            (999, 1000, false, false),
            (1000, 1000, false, true),
            (1500, 1000, true, false),
            (0, 0, false, true),
        ] {
            assert_eq!(stop(tokens, budget, completed).is_some(), stops, "{tokens} of {budget}, {completed}");
        }
    }

    #[test]
    fn a_stored_run_fires_only_when_it_ended_undone_or_its_budget_is_the_readers() {
        use RunStatus::{Completed, Running, Stopped};
        let id = RunId::from_draw(1);
        let reason = |status| match status {
            Completed => Some(StopReason::Completed),
            Stopped => Some(StopReason::BudgetExceeded),
            _ => None,
        };
        // status, tokens, own budget, configured budget, fires
        for (status, tokens, own, configured, fires) in [
            (Stopped, Some(1000), Some(1000), None, true),
            (Stopped, Some(999), Some(1000), None, false),
            (Stopped, None, Some(1000), None, false),
            (Completed, Some(2000), Some(1000), None, false),
            (Running, Some(2000), Some(1000), None, false),
            (Running, Some(2000), None, Some(1000), true),
            (Running, Some(2000), None, None, false),
        ] {
            let mut run = example::run(&id, &[]);
            (run.status, run.stop_reason, run.tokens, run.max_tokens) = (status, reason(status), tokens, own);
            let found = find(&run, &TokenBudget { max_tokens: configured });
            assert_eq!(found.is_some(), fires, "{status} with {tokens:?} of {own:?} or {configured:?}");
        }
    }

    #[test]
    fn a_budget_of_cost_is_not_a_budget_of_tokens() {
        let id = RunId::from_draw(1);
        for (rule, fires) in [("max_cost_usd", false), ("max_input_tokens", true), (RULE, true)] {
            let said = Evidence { rule: rule.into(), ..finding(None, None).evidence };
            let mut run = example::run(&id, &[]);
            (run.status, run.stop_reason) = (RunStatus::Stopped, Some(StopReason::BudgetExceeded));
            run.stop_evidence = Some(&said);
            assert_eq!(find(&run, &TokenBudget::default()).is_some(), fires, "{rule}");
        }
    }
}
