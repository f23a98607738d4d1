//! Scripted runs that together take every step of the loop: the one list that the suites of faults take their runs
//! from. A new kind of step gets a scenario here, and every suite strikes it.
//!
//! Parts: [`people`] are those in which somebody is asked, [`long`] those in which the model is shown less, [`team`]
//! those in which agents are tools.

mod long;
mod people;
mod team;

use crate::kit::{Deed, InProcess, Kit, asks, fault, response, said, status};
use harness::config::{Compare, ExpectTable, FinishBy, PolicyRule};
use harness::model::scripted::ScriptTurn;
use trace::message::Finish;
use trace::outcome::{FaultClass, RunStatus, StopReason};

/// A run that always goes the same way when nothing strikes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// What it is about.
    pub(crate) name: &'static str,
    /// The agent, its tools fresh, and what its model says.
    pub(crate) kit: fn() -> Kit,
    /// How it ends.
    pub(crate) stop: StopReason,
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    let one = |name, kit, stop| Scenario { name, kit, stop };
    vec![
        one("an answer in pieces", answer, StopReason::Completed),
        one("an answer at once", whole, StopReason::Completed),
        one("attempts that fail", retry, StopReason::Completed),
        one("one tool with an effect", single, StopReason::Completed),
        one("reads together, writes alone", stages, StopReason::Completed),
        one("the same on the wire messages", || on("messages"), StopReason::Completed),
        one("the same on the wire responses", || on("responses"), StopReason::Completed),
        one("the same on the wire gemini", || on("gemini"), StopReason::Completed),
        one("calls that are refused", refused, StopReason::Completed),
        one("tools that fail, hang and panic", failing, StopReason::Completed),
        one("a reminder", nudged, StopReason::Completed),
        one("a pause of the provider", paused, StopReason::Completed),
        one("a call that was cut off", cut, StopReason::Completed),
        one("cut off twice", cut_twice, StopReason::OutputTruncated),
        one("a long result", long, StopReason::Completed),
        one("the last turn", last_turn, StopReason::MaxTurns),
        one("the last token", last_token, StopReason::BudgetExceeded),
        one("no time left", too_late, StopReason::Timeout),
        one("again and again", repeated, StopReason::RepeatedCalls),
        one("too many errors", errors, StopReason::ErrorBudget),
        one("a fatal tool between others", fatal, StopReason::FatalToolError),
        one("a denial that ends the run", denied, StopReason::PermissionDenied),
        one("a provider that will not", refusal, StopReason::ModelError),
        one("credentials that are refused", credentials, StopReason::AuthRequired),
        one("an end by the loop's own tool", own_tool, StopReason::Completed),
        one("an end that cannot be reached", given_up, StopReason::CannotComplete),
        one("answers that are not the expected one", unexpected, StopReason::ExpectedMismatch),
        one("results that are named", named_results, StopReason::Completed),
        one("plans instead of calls", plans, StopReason::Completed),
        one("a goal that is checked", goal, StopReason::ConfidenceThreshold),
        one("a conversation that goes on", crate::session::continued, StopReason::Completed),
    ]
    .into_iter()
    .chain(people::all())
    .chain(long::all())
    .chain(team::all())
    .collect()
}

impl Scenario {
    /// Whether a question that nobody answers is answered later, by whoever goes on with the run.
    pub(crate) fn is_answered_later(&self) -> bool {
        self.stop.status() != RunStatus::Paused
    }
}

fn own_tool() -> Kit {
    let last = [("a", "final_answer", r#"{"answer":"42"}"#), ("b", "look", "{}"), ("c", "pay", r#"{"n":1}"#)];
    // Cancelled in its last turn, it is asked once more when it goes on.
    let again = asks(&[("d", "final_answer", r#"{"answer":"42"}"#)]);
    Kit::new([said("It is 42."), asks(&last), again])
        .tool(&InProcess::reading("look", Deed::Say("seen")))
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| config.loop_.finish = Some(FinishBy::Tool))
}

fn given_up() -> Kit {
    Kit::new([asks(&[("a", "cannot_complete", r#"{"reason":"closed"}"#)])])
        .with(|config| config.loop_.finish = Some(FinishBy::Either))
}

fn unexpected() -> Kit {
    Kit::new([said("1"), said("2")]).with(|config| {
        config.expect = Some(ExpectTable { value: "3".into(), compare: Compare::Exact, retries: 1 });
    })
}

fn named_results() -> Kit {
    Kit::new([
        asks(&[("a", "look", "{}")]),
        asks(&[("b", "pay", r#"{"n":"$$r1"}"#), ("c", "pay", r#"{"n":"$$r9"}"#)]),
        said("Done."),
    ])
    .tool(&InProcess::reading("look", Deed::Say("7")))
    .tool(&InProcess::writing("pay", Deed::Say("paid")))
    .with(|config| config.loop_.references = true)
}

fn plans() -> Kit {
    Kit::new([
        said(r#"{"tool":"pay","arguments":{"n":1}}"#),
        said("I am done, I think."),
        said(r#"{"tool":"final_answer","prompt":"paid"}"#),
        said(r#"{"tool":"final_answer","prompt":"paid"}"#),
    ])
    .tool(&InProcess::writing("pay", Deed::Say("paid")))
    .with(|config| config.loop_.planner = true)
}

/// It only looks: a check tells truly that nobody knows what became of a call with an effect.
fn goal() -> Kit {
    let sure = |confidence: u32| format!(r#"{{"answer":"full","confidence":{confidence}}}"#);
    Kit::new([
        asks(&[("a", "look", "{}")]),
        asks(&[("b", "final_answer", &sure(79))]),
        asks(&[("c", "final_answer", &sure(80))]),
    ])
    .tool(&InProcess::reading("look", Deed::Say("half full")))
    .with(|config| {
        let text = r#"{"objective":"a full shelf","done_condition":"it is full","checkpoint_every":1}"#;
        config.goal = serde_json::from_str(text).ok();
    })
}

fn answer() -> Kit {
    let text = "Once upon a time there was a loop, and it came to its end.";
    let turn = ScriptTurn::After { delay_ms: 30, then: Box::new(said(text)) };
    Kit::new([turn]).with(|config| config.model.stream = true)
}

fn whole() -> Kit {
    Kit::new([said("The end.")]).with(|config| config.model.stream = false)
}

fn retry() -> Kit {
    let busy = status(429, Some(3));
    let cut = ScriptTurn::Raw { status: 200, headers: [].into(), body: "data: {broken\n\n".to_owned() };
    Kit::new([fault(FaultClass::Transient), busy, cut, said("At last.")])
}

fn single() -> Kit {
    Kit::new([asks(&[("a", "pay", "{\"n\":1}")]), said("Paid.")])
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")))
}

fn stages() -> Kit {
    let first = [
        ("a", "look", "{\"n\":1}"),
        ("b", "peek", "{\"n\":2}"),
        ("c", "pay", "{\"n\":3}"),
        ("d", "look", "{\"n\":4}"),
    ];
    // Ids that come again in the next turn, as some servers give them.
    let second = [("a", "pay", "{\"n\":5}"), ("b", "pay", "{\"n\":6}")];
    Kit::new([asks(&first), asks(&second), said("Looked and paid.")])
        .tool(&InProcess::reading("look", Deed::After(70, "seen")))
        .tool(&InProcess::reading("peek", Deed::After(20, "peeked")))
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")))
}

fn on(wire: &str) -> Kit {
    stages().with(|config| wire.clone_into(&mut config.model.wire))
}

fn refused() -> Kit {
    let calls = [
        ("a", "missing", "{}"),
        ("b", "pay", "{oops"),
        ("c", "pay", "{\"n\":\"x\"}"),
        ("d", "secret", "{}"),
        ("e", "pay", "{\"n\":1}"),
        ("f", "pay", "{\"n\":2}"),
    ];
    Kit::new([asks(&calls), said("One of six.")])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .tool(&InProcess::writing("secret", Deed::Say("must not be")))
        .with(|config| {
            config.policy.rules.push(denial());
            config.budget.max_calls_per_tool = 1;
        })
}

fn denial() -> PolicyRule {
    toml::from_str("tool = \"secret\"\ndecision = \"deny\"").unwrap()
}

fn failing() -> Kit {
    let calls = [("a", "shaky", "{}"), ("b", "hangs", "{}"), ("c", "panics", "{}"), ("d", "broken", "{}")];
    Kit::new([asks(&calls), said("Hardly.")])
        .tool(&InProcess::reading("shaky", Deed::FailFirst(1, FaultClass::Transient)))
        .tool(&InProcess::reading("hangs", Deed::Hang))
        .tool(&InProcess::writing("panics", Deed::Panic))
        .tool(&InProcess::writing("broken", Deed::Fail(FaultClass::Permanent)))
}

fn nudged() -> Kit {
    Kit::new([said(""), said("Here it is.")])
}

fn paused() -> Kit {
    Kit::new([ScriptTurn::Answer(response("so", &[], Finish::PauseTurn)), said("And so on.")])
        .with(|config| "messages".clone_into(&mut config.model.wire))
}

fn cut() -> Kit {
    let cut = ScriptTurn::Answer(response("", &[("a", "pay", "{\"n\":")], Finish::Length));
    Kit::new([cut, asks(&[("b", "pay", "{\"n\":1}")]), said("Shorter.")])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
}

fn cut_twice() -> Kit {
    let cut = ScriptTurn::Answer(response("", &[("a", "pay", "{\"n\":")], Finish::Length));
    Kit::new([cut.clone(), cut]).tool(&InProcess::writing("pay", Deed::Say("must not be")))
}

fn long() -> Kit {
    Kit::new([asks(&[("a", "look", "{}")]), said("Long.")])
        .tool(&InProcess::reading("look", Deed::Say("a rather long line that nobody wants to read whole")))
        .with(|config| config.budget.max_tool_result_chars = 20)
}

fn last_turn() -> Kit {
    let call = |n: &'static str| asks(&[("a", "pay", n)]);
    Kit::new([call("{\"n\":1}"), call("{\"n\":2}")])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| config.budget.max_model_turns = 2)
}

fn last_token() -> Kit {
    last_turn().with(|config| {
        config.budget.max_model_turns = 10;
        config.budget.max_total_tokens = Some(240);
    })
}

fn too_late() -> Kit {
    Kit::new([asks(&[("a", "pay", "{}"), ("b", "hangs", "{}"), ("c", "pay", "{\"n\":1}")])])
        .tool(&InProcess::writing("pay", Deed::After(50, "paid")))
        .tool(&InProcess::reading("hangs", Deed::Hang))
        .with(|config| config.budget.max_wall_time_seconds = 3)
}

fn repeated() -> Kit {
    let again = || asks(&[("a", "look", "{}")]);
    Kit::new([again(), again(), again()]).tool(&InProcess::reading("look", Deed::Say("the same")))
}

fn errors() -> Kit {
    let call = |n: &'static str| asks(&[("a", "broken", n)]);
    Kit::new([call("{\"n\":1}"), call("{\"n\":2}")])
        .tool(&InProcess::reading("broken", Deed::Fail(FaultClass::Permanent)))
        .with(|config| config.budget.max_errors = 1)
}

fn fatal() -> Kit {
    Kit::new([asks(&[("a", "pay", "{}"), ("b", "fatal", "{}"), ("c", "pay", "{\"n\":1}")])])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .tool(&InProcess::reading("fatal", Deed::Fail(FaultClass::Fatal)))
}

fn denied() -> Kit {
    Kit::new([asks(&[("a", "pay", "{}"), ("b", "secret", "{}"), ("c", "pay", "{\"n\":1}")])])
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .tool(&InProcess::writing("secret", Deed::Say("must not be")))
        .with(|config| {
            config.policy.rules.push(denial());
            config.policy.deny_is_terminal = true;
        })
}

fn refusal() -> Kit {
    Kit::new([fault(FaultClass::Transient), status(404, None)])
}

fn credentials() -> Kit {
    Kit::new([status(401, None)])
}
