//! What a program that embeds the loop asks about its runs: how one went, step by step, and how several stand.
//!
//! Place in the flow: after a run. Everything is read from its tape or outcome; nothing here decides.

use crate::config::AgentConfig;
use crate::machine::Run;
use crate::tool::ToolSpec;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use trace::fact::Fact;
use trace::outcome::{Evidence, Outcome, RunStatus, StopReason, ToolStatus};
use trace::tape::Tape;

/// The run as far as its tape tells; `None` where it has not started or its configuration cannot be read.
pub(crate) fn folded(tape: &Tape) -> Option<Run> {
    let started = tape.started()?;
    let config: AgentConfig = serde_json::from_str(tape.text(&started.config)?).ok()?;
    let tools: Vec<ToolSpec> = serde_json::from_str(tape.text(&started.tools)?).ok()?;
    let facts = tape.lines().iter().map(|line| (line.at_ns, &line.fact));
    Some(Run::fold(Arc::new(config), Arc::new(tools), facts))
}

/// One run as a turn of a conversation with its caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnState {
    /// What was asked.
    pub prompt: String,
    /// The answer, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_answer: Option<String>,
    /// Answers that were sent back because they were not the expected one.
    pub retries: u32,
    /// The tools that were called, in the order of their first call.
    pub used_tools: Vec<String>,
    /// Every call, in the order of the tape.
    pub steps: Vec<StepTaken>,
}

/// One call of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// The turn of the model that asked for it, 1-based.
    pub turn: u32,
    /// The tool.
    pub tool_name: String,
    /// What it was given, as the model wrote it.
    pub arguments: String,
    /// How it ended.
    pub status: ToolStatus,
    /// The name of its result, which later calls could use where the run keeps references.
    pub reference: String,
}

impl TurnState {
    /// The state that a tape tells; `None` where its run has not started or its configuration cannot be read.
    #[must_use]
    pub fn of_tape(tape: &Tape) -> Option<Self> {
        let started = tape.started()?;
        let run = folded(tape)?;
        let finished = tape.lines().iter().filter_map(|line| match &line.fact {
            Fact::ToolFinished(fact) => Some(fact),
            _ => None,
        });
        let steps: Vec<StepTaken> = (1..)
            .zip(finished)
            .map(|(number, fact)| StepTaken {
                turn: fact.key.turn,
                tool_name: fact.tool_name.clone(),
                arguments: fact.arguments.clone(),
                status: fact.status,
                reference: format!("$$r{number}"),
            })
            .collect();
        let mut used_tools: Vec<String> = Vec::new();
        for step in &steps {
            if !used_tools.contains(&step.tool_name) {
                used_tools.push(step.tool_name.clone());
            }
        }
        Some(Self {
            prompt: started.task.clone(),
            final_answer: run.state().answer.clone(),
            retries: run.state().mismatches,
            used_tools,
            steps,
        })
    }
}

/// The runs of one caller so far, as it may ask about them.
#[derive(Debug, Clone, Default)]
pub struct Surface {
    last: Option<Outcome>,
    last_answer: Option<String>,
    failed: Vec<Outcome>,
}

/// How the runs of one caller stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables {
    /// The last answer that there was.
    pub last_answer: Option<String>,
    /// The state of the last run; `None` before the first.
    pub status: Option<RunStatus>,
    /// Runs that came to no end of their own, until they are finalized.
    pub failed_turns: usize,
}

impl Surface {
    /// Takes the end of a run in.
    pub fn take(&mut self, outcome: &Outcome) {
        if let Some(answer) = &outcome.answer {
            self.last_answer = Some(answer.clone());
        }
        if !matches!(outcome.status, RunStatus::Completed | RunStatus::Paused | RunStatus::Running) {
            self.failed.push(outcome.clone());
        }
        self.last = Some(outcome.clone());
    }

    /// The last answer.
    #[must_use]
    pub fn last_result(&self) -> Option<&str> {
        self.last_answer.as_deref()
    }

    /// How things stand.
    #[must_use]
    pub fn variables(&self) -> Variables {
        Variables {
            last_answer: self.last_answer.clone(),
            status: self.last.as_ref().map(|last| last.status),
            failed_turns: self.failed.len(),
        }
    }

    /// Makes one end of all that failed: it cannot be completed, for these reasons. `None` where nothing failed.
    pub fn finalize_failures(&mut self) -> Option<Outcome> {
        let failed = std::mem::take(&mut self.failed);
        let why: Vec<String> = failed
            .iter()
            .map(|outcome| format!("{}: {}", outcome.stop_reason, outcome.evidence.detail))
            .collect();
        let last = failed.into_iter().next_back()?;
        let outcome = Outcome {
            status: StopReason::CannotComplete.status(),
            stop_reason: StopReason::CannotComplete,
            trigger: crate::tool::reserved::CANNOT_COMPLETE.to_owned(),
            answer: None,
            evidence: Evidence {
                rule: crate::tool::reserved::CANNOT_COMPLETE.to_owned(),
                detail: format!("{} failed: {}", why.len(), why.join("; ")),
                ..last.evidence
            },
            ..last
        };
        self.last = Some(outcome.clone());
        Some(outcome)
    }
}
