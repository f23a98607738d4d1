//! Stops that are not limits, one run each: who decides that a run does not go on, and that it says so.

use crate::kit::person::{Ada, Answer};
use crate::kit::program::{House, provider};
use crate::kit::{Deed, InProcess, Kit, asks, said};
use harness::config::Verdict;
use loopback::Play;
use trace::fact::Wants;
use trace::outcome::{FaultClass, RunStatus, StopReason};

/// A run whose model asks for one tool again and again.
fn asking_for(tool: &str) -> Kit {
    let calls: Vec<String> = (0..6).map(|n| format!("{{\"n\":{n}}}")).collect();
    Kit::new(calls.iter().map(|arguments| asks(&[("a", tool, arguments)])))
}

#[tokio::test]
async fn approval_that_is_not_granted_stops_the_run() {
    let kit = asking_for("pay")
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
        .with(|config| config.policy.write = Verdict::Ask);
    let waits = kit.run().await.outcome;
    assert_eq!(
        (waits.status, waits.stop_reason, waits.turns),
        (RunStatus::Paused, StopReason::AwaitingApproval, 1)
    );
    let denied = kit
        .asking(Ada::who(&[Answer::Deny("no")]))
        .with(|config| config.policy.deny_is_terminal = true)
        .run()
        .await
        .outcome;
    assert_eq!((denied.status, denied.stop_reason), (RunStatus::Stopped, StopReason::PermissionDenied));
}

#[tokio::test]
async fn a_blocker_that_needs_a_persons_words_stops_the_run() {
    let run = asking_for("book")
        .tool(&InProcess::writing("book", Deed::Ask(Wants::Input, "For whom?")))
        .run()
        .await;
    assert_eq!((run.outcome.status, run.outcome.stop_reason), (RunStatus::Paused, StopReason::AwaitingInput));
}

#[tokio::test]
async fn failures_past_the_threshold_stop_the_run() {
    let run = asking_for("broken")
        .tool(&InProcess::writing("broken", Deed::Fail(FaultClass::Permanent)))
        .with(|config| config.budget.max_errors = 2)
        .run()
        .await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::ErrorBudget, 3));
    assert_eq!(run.outcome.evidence.observed, Some(3.0));
}

#[tokio::test]
async fn a_policy_that_denies_the_task_stops_the_run() {
    let kit = asking_for("pay").tool(&InProcess::writing("pay", Deed::Say("paid"))).with(|config| {
        config.policy.write = Verdict::Deny;
        config.policy.deny_is_terminal = true;
    });
    let run = kit.run().await;
    assert_eq!((run.outcome.stop_reason, run.outcome.turns), (StopReason::PermissionDenied, 1));
    assert!(run.outcome.evidence.next_safe_action.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_required_tool_or_server_does_not_begin() {
    let provider = provider(|| Play::from(said("Never asked."))).await;
    let house = House::new();
    let model = format!("[model]\nname = \"m\"\nkey_env = \"\"\nbase_url = \"{}\"\n", provider.base_url());
    for (name, rest, wanted) in [
        ("tool", "[policy]\nrequired_tools = [\"refund\"]\n", "`policy.required_tools` names `refund`"),
        ("server", "[[mcp]]\nname = \"files\"\ncommand = [\"./no-such-server\"]\n", "the MCP server `files`"),
    ] {
        let agent = house.file(&format!("{name}.toml"), format!("{model}{rest}"));
        let said = house.run_beside(&["run", agent.to_str().unwrap(), "Do it."]).await;
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(wanted) && said.err.contains(&format!("{name}.toml")), "{}", said.err);
    }
    assert_eq!(provider.requests().len(), 0);
}
