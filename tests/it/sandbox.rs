//! Policy says sandbox: a program runs held, with the same arguments, and what cannot be held does not run.

use crate::kit::program::House;
use crate::kit::{Deed, InProcess, Kit, asks, said};
use harness::config::Verdict;
use loopback::{Loopback, Play, RequestSeen};
use trace::outcome::{FailureStage, StopReason, ToolStatus};

#[tokio::test]
async fn a_tool_that_cannot_be_held_is_denied_aloud_and_not_run() {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let kit = Kit::new([asks(&[("a", "pay", "{}")]), said("It did not go.")])
        .tool(&pay)
        .with(|config| config.policy.write = Verdict::Sandbox);
    let run = kit.run().await;
    assert_eq!((run.outcome.stop_reason, pay.entered()), (StopReason::Completed, 0));
    let result = run.results()[0];
    assert_eq!((result.status, result.failure_stage), (ToolStatus::Denied, Some(FailureStage::Permission)));
    assert_eq!(result.permission.as_deref(), Some("sandbox:policy.write"));
    assert!(result.content.contains("it was not run"), "{}", result.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_a_sandbox_gets_its_arguments_and_writes_only_in_its_folder() {
    let provider = Loopback::start(|seen: &RequestSeen| match seen.answers() {
        0 => Play::from(asks(&[("a", "inside", "{\"n\":7}"), ("b", "outside", "{\"n\":8}")])),
        _ => Play::from(said("Tried.")),
    });
    let provider = provider.await.unwrap();
    let (house, elsewhere) = (House::new(), tempfile::tempdir().unwrap());
    let tool = |name: &str, place: &str| {
        format!(
            "[[tool]]\nname = \"{name}\"\ndescription = \"Writes.\"\ncommand = [\"sh\", \"-c\", \"cat > {place}/written\"]\n\
             [tool.input_schema]\ntype = \"object\"\n"
        )
    };
    let text = format!(
        "[model]\nname = \"m\"\nkey_env = \"\"\nbase_url = \"{}\"\n[policy]\nexecute = \"sandbox\"\n{}{}",
        provider.base_url(),
        tool("inside", "."),
        tool("outside", elsewhere.path().to_str().unwrap())
    );
    let agent = house.file("agent.toml", text);
    let ran = house.run_beside(&["run", agent.to_str().unwrap(), "Write."]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rows = house.sql("SELECT tool_name, status, permission FROM tool_calls ORDER BY call_index");
    assert_eq!(rows.len(), 2);
    assert!(!elsewhere.path().join("written").exists(), "{rows:?}");
    assert!(rows.iter().all(|row| row["permission"] == "sandbox:policy.execute"), "{rows:?}");
    let inside = std::fs::read_to_string(house.folder.path().join("written"));
    match harness::sandbox::available() {
        Ok(()) => {
            assert_eq!(inside.unwrap(), "{\"n\":7}", "the same arguments");
            assert_eq!((rows[0]["status"].as_str(), rows[1]["status"].as_str()), (Some("ok"), Some("error")));
        }
        Err(_) => {
            assert!(inside.is_err());
            assert!(rows.iter().all(|row| row["status"] == "denied"), "{rows:?}");
        }
    }
    let doctor = house.run(&["doctor"]);
    assert!(doctor.out.contains("sandbox for programs: "), "{}", doctor.out);
}
