//! The one table of exit codes, and the failure that carries one.

use std::fmt::Display;
use std::process::ExitCode;
use trace::outcome::StopReason;

/// What the process says to the shell. README.md shows the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Pass, done.
    Ok = 0,
    /// A gate failed; a run ended without success; a tape is damaged.
    Fail = 1,
    /// Usage, configuration or input.
    Usage = 2,
    /// The data suffice for neither yes nor no; a replay diverged.
    Inconclusive = 3,
    /// Not comparable, or nothing to evaluate.
    NotComparable = 4,
    /// Could not finish: provider, disk or budget of the infrastructure.
    Infrastructure = 5,
    /// An exact replay is not the recorded run: the harness is not deterministic.
    Mismatch = 6,
    /// The run stopped at a limit or by a rule.
    Stopped = 10,
    /// The run waits for a person.
    Paused = 11,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The exit with this number, for verdicts that carry their number.
    pub(crate) fn of_code(code: u8) -> Done {
        const ALL: [Exit; 10] = [
            Exit::Ok,
            Exit::Fail,
            Exit::Usage,
            Exit::Inconclusive,
            Exit::NotComparable,
            Exit::Infrastructure,
            Exit::Mismatch,
            Exit::Stopped,
            Exit::Paused,
            Exit::Interrupted,
        ];
        ALL.into_iter()
            .find(|exit| *exit as u8 == code)
            .ok_or_else(|| Failure::infrastructure(format!("{code} is no exit code of this program")))
    }

    /// How a run's end is told to the shell.
    pub(crate) const fn of_stop(reason: StopReason) -> Self {
        match reason {
            StopReason::Completed | StopReason::Transferred | StopReason::ConfidenceThreshold => Self::Ok,
            StopReason::MaxTurns
            | StopReason::BudgetExceeded
            | StopReason::Timeout
            | StopReason::RepeatedCalls
            | StopReason::ErrorBudget
            | StopReason::PermissionDenied
            | StopReason::OutputTruncated
            | StopReason::ContextExhausted => Self::Stopped,
            StopReason::AwaitingApproval | StopReason::AwaitingInput => Self::Paused,
            StopReason::ModelError | StopReason::AuthRequired => Self::Infrastructure,
            StopReason::Aborted => Self::Interrupted,
            StopReason::CannotComplete
            | StopReason::Refused
            | StopReason::ExpectedMismatch
            | StopReason::FatalToolError
            | StopReason::NoFinalAnswer
            | StopReason::Unknown => Self::Fail,
        }
    }
}

/// Why a command could not do its work: what is said on stderr, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    /// The user can mend it: usage, configuration or input.
    pub(crate) fn usage(why: impl Display) -> Self {
        Self { exit: Exit::Usage, message: why.to_string() }
    }

    /// The surroundings failed: disk, network, another process.
    pub(crate) fn infrastructure(why: impl Display) -> Self {
        Self { exit: Exit::Infrastructure, message: why.to_string() }
    }
}

/// What every command gives back.
pub(crate) type Done = Result<Exit, Failure>;

#[cfg(test)]
mod tests {
    use super::*;
    use trace::outcome::RunStatus;

    #[test]
    fn only_a_completed_run_is_told_as_success() {
        for reason in StopReason::ALL {
            let ok = Exit::of_stop(*reason) == Exit::Ok;
            assert_eq!(ok, reason.status() == RunStatus::Completed, "{reason}");
        }
    }
}
