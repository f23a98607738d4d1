//! How a stop is told: the outcome with its evidence and what a person can safely do next.

use super::limit;
use super::state::{State, Stop};
use trace::attribute::operation;
use trace::id::{Hash, SpanId};
use trace::outcome::{Evidence, Outcome, RunStatus, StopReason};

/// The outcome of a run that stops for this reason; without one the reason is unknown.
pub(super) fn outcome(state: &State, stop: Option<&Stop>) -> Outcome {
    let unknown = Stop::new(StopReason::Unknown, "none");
    let stop = stop.unwrap_or(&unknown);
    Outcome {
        status: stop.reason.status(),
        stop_reason: stop.reason,
        trigger: stop.trigger.clone(),
        answer: state.answer.clone(),
        turns: state.turns,
        tool_calls: state.tool_calls,
        usage: state.usage,
        cost_usd: state.total_cost_usd(),
        duration_ms: limit::elapsed_ms(state),
        evidence: evidence(state, stop),
        head: state.head.unwrap_or_else(|| Hash::new([0; 32])),
    }
}

fn evidence(state: &State, stop: &Stop) -> Evidence {
    Evidence {
        rule: stop.trigger.clone(),
        detail: stop.detail.clone().unwrap_or_else(|| detail(state, stop)),
        threshold: stop.threshold,
        observed: stop.observed,
        spans: if stop.spans.is_empty() { spans(state, stop) } else { stop.spans.clone() },
        tokens_wasted: stop.tokens_wasted,
        next_safe_action: stop
            .next_safe_action
            .clone()
            .or_else(|| next_safe_action(stop.reason).map(str::to_owned)),
        resumable: matches!(
            stop.reason.status(),
            RunStatus::Stopped | RunStatus::Paused | RunStatus::Aborted
        ),
    }
}

fn detail(state: &State, stop: &Stop) -> String {
    match (stop.threshold, stop.observed) {
        (Some(limit), Some(used)) => {
            format!("{} is {limit}, {used} used after {} turns", stop.trigger, state.turns)
        }
        _ => match stop.reason {
            StopReason::Completed => {
                format!("the model ended its turn with an answer on turn {}", state.turns)
            }
            StopReason::Aborted => format!("{} on turn {}", stop.trigger, state.turns),
            StopReason::OutputTruncated => "two answers in a row were cut off at the output limit".to_owned(),
            StopReason::NoFinalAnswer if stop.trigger == super::reserved::TEXT_ONLY => {
                format!(
                    "turn {} answered in text where only final_answer ends the run, after a reminder",
                    state.turns
                )
            }
            StopReason::NoFinalAnswer => {
                format!("turn {} had neither an answer nor a tool call, after a reminder", state.turns)
            }
            reason => format!("{reason} ({}) on turn {}", stop.trigger, state.turns),
        },
    }
}

/// The span to look at first: the call that caused it, else the last model call.
fn spans(state: &State, stop: &Stop) -> Vec<SpanId> {
    let Some(run) = &state.run_id else { return Vec::new() };
    match (stop.call, state.turns) {
        (Some(key), _) => vec![run.span(operation::EXECUTE_TOOL, key.turn, key.index)],
        (None, 0) => Vec::new(),
        (None, turn) => vec![run.span(operation::CHAT, turn, 0)],
    }
}

/// What a person can safely do; `None` only for a completed run.
const fn next_safe_action(reason: StopReason) -> Option<&'static str> {
    Some(match reason {
        StopReason::Completed | StopReason::Transferred | StopReason::ConfidenceThreshold => return None,
        StopReason::Aborted => {
            "run the task again when you are ready; calls shown as unknown_outcome may have taken effect"
        }
        StopReason::AuthRequired => "set or renew the credentials, then run the task again",
        StopReason::FatalToolError => "mend the tool that failed, then run the task again",
        StopReason::PermissionDenied => {
            "decide whether policy should allow the call; change [policy] or the task"
        }
        StopReason::CannotComplete => "read the model's reason; change the task or give it what it lacks",
        StopReason::Refused => "read the refusal; change the task or the prompt",
        StopReason::ExpectedMismatch => {
            "compare the answer with the expected value; correct prompt or expectation"
        }
        StopReason::Timeout => {
            "look at the slowest call; raise max_wall_time_seconds or make the task smaller"
        }
        StopReason::BudgetExceeded => "look at what used it up; raise that budget or make the task smaller",
        StopReason::MaxTurns => "read the last turns; raise max_model_turns only if they made progress",
        StopReason::RepeatedCalls => {
            "read the repeated call's result; the prompt does not tell what to do with it"
        }
        StopReason::ErrorBudget => "mend the tool that fails most, then run the task again",
        StopReason::OutputTruncated => "raise max_output_tokens or ask for less at once",
        StopReason::ContextExhausted => "make the task or the tool results smaller",
        StopReason::NoFinalAnswer => "read the last turn; the prompt may not say what an answer is",
        StopReason::ModelError => "read the provider's message; run the task again when it is well",
        StopReason::AwaitingApproval => "approve or deny the pending call",
        StopReason::AwaitingInput => "answer the question",
        StopReason::Unknown => "read the last facts of the tape",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stop_but_a_success_says_what_to_do_next() {
        for reason in StopReason::ALL {
            let outcome = outcome(&State::default(), Some(&Stop::new(*reason, "x")));
            let told = outcome.evidence.next_safe_action.is_some();
            assert_eq!(told, reason.status() != RunStatus::Completed, "{reason}");
            assert!(!outcome.evidence.detail.is_empty());
        }
    }

    #[test]
    fn a_stop_is_told_in_one_sentence() {
        let state = State { turns: 4, ..State::default() };
        let plain = |reason, trigger: &str| Stop::new(reason, trigger);
        let text_only = crate::machine::reserved::TEXT_ONLY;
        for (stop, wanted) in [
            (
                Stop::limit(StopReason::MaxTurns, "max_model_turns", 4.0, 4.0),
                "max_model_turns is 4, 4 used after 4 turns",
            ),
            (plain(StopReason::Completed, "end_turn"), "the model ended its turn with an answer on turn 4"),
            (plain(StopReason::Aborted, "interrupt"), "interrupt on turn 4"),
            (
                plain(StopReason::OutputTruncated, "length"),
                "two answers in a row were cut off at the output limit",
            ),
            (
                plain(StopReason::NoFinalAnswer, "none"),
                "turn 4 had neither an answer nor a tool call, after a reminder",
            ),
            (
                plain(StopReason::NoFinalAnswer, text_only),
                "turn 4 answered in text where only final_answer ends the run, after a reminder",
            ),
            (plain(StopReason::Refused, "refusal"), "refused (refusal) on turn 4"),
            (
                Stop { detail: Some("in other words".to_owned()), ..plain(StopReason::Refused, "") },
                "in other words",
            ),
        ] {
            assert_eq!(outcome(&state, Some(&stop)).evidence.detail, wanted);
        }
        let unknown = outcome(&state, None);
        assert_eq!((unknown.stop_reason, unknown.trigger.as_str()), (StopReason::Unknown, "none"));
    }

    #[test]
    fn the_span_to_look_at_first_is_the_call_that_caused_it_or_the_last_model_call() {
        let run = trace::id::RunId::from_draw(1);
        let begun = State { run_id: Some(run.clone()), turns: 2, ..State::default() };
        let stop = Stop::new(StopReason::FatalToolError, "x");
        let key = trace::id::CallKey { turn: 1, index: 3 };
        let of_call = Stop { call: Some(key), ..stop.clone() };
        let own = Stop { spans: vec![SpanId::new([9; 8])], ..stop.clone() };
        let spans = |state: &State, stop: &Stop| outcome(state, Some(stop)).evidence.spans;
        assert_eq!(spans(&begun, &of_call), [run.span(operation::EXECUTE_TOOL, 1, 3)]);
        assert_eq!(spans(&begun, &stop), [run.span(operation::CHAT, 2, 0)]);
        assert_eq!(spans(&begun, &own), own.spans);
        assert_eq!(spans(&State { turns: 0, ..begun }, &stop), []);
        assert_eq!(spans(&State { turns: 2, ..State::default() }, &stop), []);
    }

    #[test]
    fn what_is_neither_done_nor_failed_can_go_on() {
        for reason in StopReason::ALL {
            let outcome = outcome(&State::default(), Some(&Stop::new(*reason, "x")));
            let over = matches!(outcome.status, RunStatus::Completed | RunStatus::Failed);
            assert_eq!(outcome.evidence.resumable, !over, "{reason}");
        }
    }
}
