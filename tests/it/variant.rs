//! Four loops of one core: what makes them different is configuration, and nothing else.

use crate::goal::goal;
use crate::kit::{Deed, InProcess, Kit, asks, said};
use crate::session::continued;
use harness::config::Verdict;
use harness::model::scripted::ScriptTurn;
use trace::outcome::StopReason;

const FULL: (&str, &str, &str) = ("f", "final_answer", r#"{"answer":"full","confidence":90}"#);

fn kit(turns: impl IntoIterator<Item = ScriptTurn>) -> Kit {
    Kit::new(turns)
        .tool(&InProcess::reading("look", Deed::Say("seen")))
        .tool(&InProcess::writing("pay", Deed::Say("paid")))
}

#[tokio::test]
async fn single_shot_session_goal_and_approval_are_one_core_configured_four_times() {
    let call = || asks(&[("a", "pay", "{}")]);
    let variants = [
        ("plain", kit([call(), said("Done.")]), StopReason::Completed),
        (
            "single shot",
            kit([call(), said("Done.")]).with(|config| config.budget.max_model_turns = 1),
            StopReason::MaxTurns,
        ),
        ("session", continued(), StopReason::Completed),
        (
            "goal",
            kit([call(), asks(&[FULL])]).with(|config| config.goal = Some(goal(1))),
            StopReason::ConfidenceThreshold,
        ),
        (
            "approval",
            kit([call(), said("Done.")]).with(|config| config.policy.write = Verdict::Ask),
            StopReason::AwaitingApproval,
        ),
    ];
    for (name, kit, wanted) in variants {
        let run = kit.run().await;
        assert_eq!(run.outcome.stop_reason, wanted, "{name}");
        let earlier = run.tape.started().unwrap().earlier.len();
        assert_eq!(earlier > 0, name == "session", "{name}");
    }
}
