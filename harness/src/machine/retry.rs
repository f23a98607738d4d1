//! Whether a failed model call is tried again, and when.
//!
//! One layer retries, this one. The schedules are the requirements' (R71-R74): transient faults after 1, 2 and
//! 4 s, timeouts after 2 and 5 s, permanent and credential faults never. The provider's Retry-After wins when it
//! is longer, within the wall time that is left.

use super::limit;
use super::state::{State, Stop};
use crate::config::Budget;
use trace::fact::Fault;
use trace::outcome::{FaultClass, StopReason};

/// Pauses after transient faults, in milliseconds.
pub const TRANSIENT_MS: [u64; 3] = [1000, 2000, 4000];
/// Pauses after timeouts, in milliseconds.
pub const TIMEOUT_MS: [u64; 2] = [2000, 5000];

/// The pause before the next attempt, in milliseconds.
///
/// # Errors
/// The stop, where there is no next attempt.
pub(super) fn after(budget: &Budget, state: &State, attempt: u32, fault: &Fault) -> Result<u64, Box<Stop>> {
    let stop = |reason, trigger: &str| {
        Box::new(Stop { detail: Some(fault.message.clone()), ..Stop::new(reason, trigger) })
    };
    let schedule = match fault.class {
        FaultClass::Transient => &TRANSIENT_MS[..],
        FaultClass::Timeout => &TIMEOUT_MS[..],
        FaultClass::Auth => return Err(stop(StopReason::AuthRequired, "provider_auth")),
        FaultClass::Overflow => return Err(stop(StopReason::ContextExhausted, "context_overflow")),
        FaultClass::Permanent | FaultClass::Fatal | FaultClass::Cancelled => {
            return Err(stop(StopReason::ModelError, fault.class.as_str()));
        }
    };
    let used = attempt.saturating_sub(1);
    let pause = schedule.get(used as usize).filter(|_| used < budget.max_retries_per_model_call);
    let Some(pause) = pause else { return Err(stop(StopReason::ModelError, "retries_exhausted")) };
    let pause = fault.retry_after_ms.unwrap_or(0).max(*pause);
    let left = budget.max_wall_time_seconds.saturating_mul(1000).saturating_sub(limit::elapsed_ms(state));
    if pause >= left {
        return Err(stop(StopReason::ModelError, "retry_beyond_wall_time"));
    }
    Ok(pause)
}

/// The pause before a tool is tried again, in milliseconds; `None` for no further attempt.
#[must_use]
pub fn tool_pause_ms(class: FaultClass, attempt: u32, max_retries: u32) -> Option<u64> {
    let schedule = match class {
        FaultClass::Transient => &TRANSIENT_MS[..],
        FaultClass::Timeout => &TIMEOUT_MS[..],
        _ => return None,
    };
    let used = attempt.saturating_sub(1);
    schedule.get(used as usize).filter(|_| used < max_retries).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(class: FaultClass, retry_after_ms: Option<u64>) -> Vec<Option<u64>> {
        let fault = Fault { retry_after_ms, ..Fault::new(class, "x") };
        (1..=4).map(|attempt| after(&Budget::default(), &State::default(), attempt, &fault).ok()).collect()
    }

    #[test]
    fn schedules_are_the_required_ones() {
        for (class, wanted) in [
            (FaultClass::Transient, [Some(1000), Some(2000), Some(4000), None]),
            (FaultClass::Timeout, [Some(2000), Some(5000), None, None]),
            (FaultClass::Permanent, [None; 4]),
            (FaultClass::Auth, [None; 4]),
            (FaultClass::Overflow, [None; 4]),
        ] {
            assert_eq!(pauses(class, None), wanted, "{class}");
            let of_tool = |most| [1, 2, 3, 4].map(|attempt| tool_pause_ms(class, attempt, most));
            assert_eq!(of_tool(9).to_vec(), wanted, "{class} of a tool");
            assert_eq!(
                of_tool(1),
                [wanted[0], None, None, None],
                "{class} of a tool that may be tried once more"
            );
        }
    }

    #[test]
    fn the_provider_may_ask_for_a_longer_pause_but_not_beyond_the_wall_time() {
        assert_eq!(pauses(FaultClass::Transient, Some(3000))[..3], [Some(3000), Some(3000), Some(4000)]);
        assert_eq!(pauses(FaultClass::Transient, Some(3_600_000))[0], None);
    }

    #[test]
    fn a_budget_of_no_retries_means_none() {
        let budget = Budget { max_retries_per_model_call: 0, ..Budget::default() };
        let fault = Fault::new(FaultClass::Transient, "x");
        let stop = after(&budget, &State::default(), 1, &fault).unwrap_err();
        assert_eq!((stop.trigger.as_str(), stop.detail.as_deref()), ("retries_exhausted", Some("x")));
    }
}
