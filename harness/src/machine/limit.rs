//! Which limits are used up. Every limit has a name, a default and a test.

use super::state::{State, Stop};
use crate::config::{AgentConfig, Budget, ModelTable};
use trace::message::Usage;
use trace::outcome::StopReason;
use trace::rule::repeated_call;

/// The limit to report before the next turn, if any is used up; of several the strongest reason.
pub(super) fn exceeded(budget: &Budget, state: &State) -> Option<Stop> {
    let turns = (state.turns >= budget.max_model_turns).then(|| {
        Stop::limit(
            StopReason::MaxTurns,
            "max_model_turns",
            budget.max_model_turns.into(),
            state.turns.into(),
        )
    });
    used_up(budget, state).into_iter().chain(turns).min_by_key(|stop| stop.reason)
}

/// The same before the next attempt of a turn, which counts already.
pub(super) fn used_up(budget: &Budget, state: &State) -> Option<Stop> {
    let usage = spent(state);
    let tokens = [
        ("max_input_tokens", budget.max_input_tokens, usage.input_tokens),
        ("max_output_tokens", budget.max_output_tokens, usage.output_tokens),
        ("max_total_tokens", budget.max_total_tokens, usage.total()),
    ];
    // Unknown use is no use yet: before the first answer nothing was spent, so only a budget of 0 is used up.
    let spent = tokens.into_iter().filter_map(|(name, limit, used)| {
        let (limit, used) = (limit?, used.unwrap_or(0));
        (used >= limit).then(|| Stop::limit(StopReason::BudgetExceeded, name, figure(limit), figure(used)))
    });
    let cost = budget.max_total_cost.and_then(|limit| {
        let used = cost(state);
        (used >= limit).then(|| Stop::limit(StopReason::BudgetExceeded, "max_total_cost", limit, used))
    });
    let wall = (elapsed_ms(state) >= budget.max_wall_time_seconds.saturating_mul(1000))
        .then(|| wall_time(budget, state));
    wall.into_iter().chain(spent).chain(cost).min_by_key(|stop| stop.reason)
}

/// Tokens of the run and of those that were its calls.
pub(super) fn spent(state: &State) -> Usage {
    let mut usage = state.usage;
    usage.add(&state.children.usage);
    usage
}

/// US dollars of the same, as far as they are known.
pub(super) fn cost(state: &State) -> f64 {
    state.cost_usd.unwrap_or(0.0) + state.children.cost_usd
}

/// Whether what a call may use is reserved before it starts: only where the longest answer is known.
pub(super) fn reserves(config: &AgentConfig) -> bool {
    config.budget.reserve == Some(true) && config.model.max_output_tokens.is_some()
}

/// The budget that has no room for one more call of this model: its input as estimated and the longest answer it may
/// give.
pub(super) fn unreserved(
    config: &AgentConfig,
    model: &ModelTable,
    state: &State,
    next_tokens: impl Fn() -> u64,
) -> Option<Stop> {
    let output = model.max_output_tokens.filter(|_| config.budget.reserve == Some(true))?;
    let (budget, used, input) = (&config.budget, spent(state), next_tokens());
    let needs = [
        ("max_input_tokens", budget.max_input_tokens, used.input_tokens, input),
        ("max_output_tokens", budget.max_output_tokens, used.output_tokens, output),
        ("max_total_tokens", budget.max_total_tokens, used.total(), input.saturating_add(output)),
    ];
    let tokens = needs.into_iter().find_map(|(name, limit, used, need)| {
        let (limit, used) = (limit?, used.unwrap_or(0));
        (used.saturating_add(need) > limit).then(|| no_room(name, figure(limit), figure(used), figure(need)))
    });
    tokens.or_else(|| {
        let (limit, price) = (budget.max_total_cost?, model.price?);
        let usage = Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() };
        let (used, need) = (cost(state), price.cost_usd(&usage)?);
        (used + need > limit).then(|| no_room("max_total_cost", limit, used, need))
    })
}

fn no_room(name: &str, limit: f64, used: f64, need: f64) -> Stop {
    let detail =
        format!("{name} is {limit}, {used} used, and the next call may need {need} more: it was not started");
    Stop { detail: Some(detail), ..Stop::limit(StopReason::BudgetExceeded, name, limit, used) }
}

/// The stop of a run that took too long.
pub(super) fn wall_time(budget: &Budget, state: &State) -> Stop {
    let limit = figure(budget.max_wall_time_seconds);
    Stop::limit(StopReason::Timeout, "max_wall_time_seconds", limit, figure(elapsed_ms(state)) / 1e3)
}

/// The stop to decide when all results of a turn are in. Where a rule ends the run here, the limits that the next turn
/// would have met hold at once with it, so the strongest of all is told.
pub(super) fn after_tools(config: &AgentConfig, state: &State) -> Option<Stop> {
    let budget = &config.budget;
    let over = (state.over_budget > 0 && ran(state) >= budget.max_tool_calls).then(|| {
        let asked = f64::from(state.tool_calls);
        Stop::limit(StopReason::BudgetExceeded, "max_tool_calls", budget.max_tool_calls.into(), asked)
    });
    let errors = (state.errors > budget.max_errors).then(|| {
        Stop::limit(StopReason::ErrorBudget, "max_errors", budget.max_errors.into(), state.errors.into())
    });
    let unknown = (state.unknown_tools > config.loop_.max_unknown_tools).then(|| {
        let limit = f64::from(config.loop_.max_unknown_tools);
        Stop::limit(StopReason::ErrorBudget, "max_unknown_tools", limit, state.unknown_tools.into())
    });
    let rules = [over, errors, unknown, repeated(config, state)].into_iter().flatten();
    let rule = rules.min_by_key(|stop| stop.reason)?;
    [rule].into_iter().chain(exceeded(budget, state)).min_by_key(|stop| stop.reason)
}

/// The rule that also pages people, asked about this run.
fn repeated(config: &AgentConfig, state: &State) -> Option<Stop> {
    let settings = repeated_call::RepeatedCall {
        threshold: config.loop_.max_identical_calls as usize,
        exempt: config.loop_.polling_tools.clone(),
        ..repeated_call::RepeatedCall::default()
    };
    let found = repeated_call::find(&state.calls, &settings)?;
    Some(Stop {
        detail: Some(found.evidence.detail),
        threshold: found.evidence.threshold,
        observed: found.evidence.observed,
        spans: found.evidence.spans,
        tokens_wasted: found.evidence.tokens_wasted,
        next_safe_action: found.evidence.next_safe_action,
        ..Stop::new(StopReason::RepeatedCalls, repeated_call::RULE)
    })
}

/// Calls that ran, of all tools, those of runs that were calls of this one included.
pub(super) fn ran(state: &State) -> u32 {
    state.ran.values().sum::<u32>().saturating_add(state.children.tool_calls)
}

/// Time since the first fact, in milliseconds.
pub(super) fn elapsed_ms(state: &State) -> u64 {
    state.elapsed_ms(state.last_at_ns)
}

#[expect(clippy::cast_precision_loss, reason = "evidence is read by people; counts stay far below 2^53")]
fn figure(count: u64) -> f64 {
    count as f64
}
