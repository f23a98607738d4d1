//! New runs as subjects: each trial runs the suite's agent onto a tape of its own, and the tape is judged.
//!
//! Place in the flow: case -> run -> tape -> **subject** -> score.

use super::{Execute, Infrastructure};
use crate::case::{self, Case};
use crate::subject::Subject;
use futures::future::BoxFuture;
use harness::agent::{Agent, Studio, Task};
use harness::driver::Unobserved;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use trace::tape::Tape;

/// Runs an agent for every trial.
#[derive(Debug, Clone)]
pub struct Live {
    agent: Agent,
    studio: Studio,
    cancel: CancellationToken,
}

impl Live {
    /// Runs this agent, with its tapes in the studio's folder. Cancelling ends the runs under way; such a trial is
    /// an ERROR.
    #[must_use]
    pub const fn new(agent: Agent, studio: Studio, cancel: CancellationToken) -> Self {
        Self { agent, studio, cancel }
    }

    /// The agent with the case's budget.
    fn agent_for(&self, case: &Case) -> Result<Agent, Infrastructure> {
        let mut agent = self.agent.clone();
        let budget = case::budgeted(&agent.config.budget, &case.budget)
            .map_err(|error| Infrastructure::new(format!("the case's `budget`: {error}")))?;
        Arc::make_mut(&mut agent.config).budget = budget;
        Ok(agent)
    }

    async fn run(&self, case: &Case, repeat: u32) -> Result<Subject, Infrastructure> {
        let task = Task {
            text: case.input.clone(),
            task_id: Some(case.id.clone()),
            trial: Some(repeat),
            tags: case.tags.clone(),
            ..Task::default()
        };
        let agent = self.agent_for(case)?;
        let failed = |error: trace::tape::TapeError| Infrastructure::new(error.to_string());
        let finished =
            agent.run(task, &self.studio, self.cancel.clone(), &mut Unobserved).await.map_err(failed)?;
        // What is on disk is judged, not what is in memory: so a live and a recorded eval cannot differ.
        let tape = Tape::read(&finished.tape).map_err(failed)?;
        Subject::from_facts(tape.lines().iter().map(|line| &line.fact))
            .map_err(|error| Infrastructure { message: error.to_string(), run_id: Some(finished.run_id) })
    }
}

impl Execute for Live {
    fn execute<'a>(&'a self, case: &'a Case, repeat: u32) -> BoxFuture<'a, Result<Subject, Infrastructure>> {
        Box::pin(self.run(case, repeat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Decision;
    use crate::report::Report;
    use crate::runner::sample::{ANSWER, suite};
    use crate::runner::{Options, run};
    use harness::config::AgentConfig;
    use harness::model::scripted::{ScriptTurn, Scripted};
    use harness::model::{Model, wire};
    use harness::tool::Toolbox;
    use std::path::Path;
    use trace::fact::Fault;
    use trace::message::{Finish, Part, Response, Usage};
    use trace::outcome::FaultClass;
    use trace::redact::Redactor;

    fn says(text: &str) -> ScriptTurn {
        ScriptTurn::Answer(Response {
            response_id: None,
            response_model: None,
            parts: vec![Part::Text { text: text.to_owned() }],
            finish: Finish::EndTurn,
            finish_raw: None,
            usage: Usage { input_tokens: Some(7), output_tokens: Some(2), ..Usage::default() },
        })
    }

    /// The report of a suite of these cases, run one after the other on a model that does this.
    async fn report(ids: &[&str], turns: Vec<ScriptTurn>) -> Report {
        let folder = tempfile::tempdir().unwrap();
        let text = "[model]\nname = \"scripted\"\nstream = false\n[budget]\nmax_retries_per_model_call = 0\n";
        let config = AgentConfig::parse(text, Path::new("agent.toml")).unwrap();
        let toolbox = Arc::new(Toolbox::of_config(&config, folder.path(), &|_| None).unwrap());
        let wire = wire("chat").unwrap();
        let transport = Arc::new(Scripted::new(wire.clone(), turns));
        let model = Model { provider: "scripted".to_owned(), wire, transport };
        let tiers = harness::driver::Tiers::new();
        let agent = Agent { config: Arc::new(config), toolbox, model, tiers, person: None };
        let redactor = Arc::new(Redactor::new([0; 32]).unwrap());
        let tapes = folder.path().join("tapes");
        std::fs::create_dir(&tapes).unwrap();
        let studio = Studio { tapes, redactor };
        let live = Live::new(agent, studio, CancellationToken::new());
        run(&suite(ids, &format!("concurrency = 1\n{ANSWER}")), &live, &Options::default()).await
    }

    #[tokio::test]
    async fn an_agent_is_run_on_every_case_and_its_tapes_are_judged() {
        let report = report(&["right", "wrong"], vec![says("yes"), says("no")]).await;
        assert_eq!((report.trials.passed, report.trials.failed, report.trials.errors), (1, 1, 0));
        assert_eq!((report.used.tokens.total, report.used.tokens.known), (18.0, 2));
        assert_eq!(report.score_rows().len(), 2);
        assert_eq!(report.decision, Decision::Fail);
    }

    #[tokio::test]
    async fn a_provider_that_is_down_is_an_error_and_never_a_failure_of_the_agent() {
        let down = ScriptTurn::Fault(Fault::new(FaultClass::Transient, "connection refused"));
        let report = report(&["a"], vec![down]).await;
        assert_eq!((report.trials.failed, report.trials.errors), (0, 1));
        assert!(report.cases[0].trials[0].run_id.is_some(), "the run is on its tape all the same");
        assert_eq!(report.decision.exit_code(), 5);
    }
}
