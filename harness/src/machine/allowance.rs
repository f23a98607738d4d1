//! What a part of a run may use up: a call that is a run of its own draws from what its caller has left.
//!
//! Place in the flow: the driver asks before such a call starts, writes the answer into its intent, and the call
//! runs under the smaller of this and its own budget. Calls that run side by side share what is left in equal
//! parts, so together they cannot use more than there is; what they did use is settled when their results are in.

use super::{Run, limit};
use crate::config::Budget;
use std::collections::BTreeMap;

/// What is left of a budget, or a share of it. `None` is unlimited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// Tool calls.
    pub tool_calls: u32,
    /// Wall time, in milliseconds; not shared, since calls side by side take the same time.
    pub wall_ms: u64,
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
    /// Input and output tokens.
    pub total_tokens: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl Run {
    /// What one of `share` calls that run side by side may use up; `calls` is how many calls the stage has in all.
    #[must_use]
    pub fn allowance(&self, share: u32, calls: u32) -> Allowance {
        let (budget, state) = (&self.config.budget, &self.state);
        let share = share.max(1);
        let used = limit::spent(state);
        let left = |limit: Option<u64>, used: Option<u64>| {
            limit.map(|limit| limit.saturating_sub(used.unwrap_or(0)) / u64::from(share))
        };
        let wall_ms = budget.max_wall_time_seconds.saturating_mul(1000);
        // The calls of the stage themselves count too.
        let ran = limit::ran(state).saturating_add(calls);
        Allowance {
            tool_calls: budget.max_tool_calls.saturating_sub(ran) / share,
            wall_ms: wall_ms.saturating_sub(limit::elapsed_ms(state)),
            input_tokens: left(budget.max_input_tokens, used.input_tokens),
            output_tokens: left(budget.max_output_tokens, used.output_tokens),
            total_tokens: left(budget.max_total_tokens, used.total()),
            cost_usd: budget
                .max_total_cost
                .map(|limit| (limit - limit::cost(state)).max(0.0) / f64::from(share)),
        }
    }
}

impl Allowance {
    /// A budget that asks for no more than this.
    #[must_use]
    pub fn within(&self, budget: &Budget) -> Budget {
        let least = |own: Option<u64>, left: Option<u64>| own.into_iter().chain(left).min();
        Budget {
            max_tool_calls: budget.max_tool_calls.min(self.tool_calls),
            max_wall_time_seconds: budget.max_wall_time_seconds.min(self.wall_ms.div_ceil(1000)),
            max_input_tokens: least(budget.max_input_tokens, self.input_tokens),
            max_output_tokens: least(budget.max_output_tokens, self.output_tokens),
            max_total_tokens: least(budget.max_total_tokens, self.total_tokens),
            max_total_cost: budget.max_total_cost.into_iter().chain(self.cost_usd).min_by(f64::total_cmp),
            ..budget.clone()
        }
    }

    /// The limits by name, as facts carry them.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "limits are far below 2^53")]
    pub fn limits(&self) -> BTreeMap<String, f64> {
        let set = [
            ("tool_calls", Some(f64::from(self.tool_calls))),
            ("wall_ms", Some(self.wall_ms as f64)),
            ("input_tokens", self.input_tokens.map(|limit| limit as f64)),
            ("output_tokens", self.output_tokens.map(|limit| limit as f64)),
            ("tokens", self.total_tokens.map(|limit| limit as f64)),
            ("cost_usd", self.cost_usd),
        ];
        set.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), limit?))).collect()
    }
}
