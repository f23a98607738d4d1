//! People decide: a call waits for leave, a tool asks, the run pauses, and another process goes on with the answer.

use crate::kit::person::{Ada, Answer, Silent};
use crate::kit::program::{House, PROGRAM, said as run_said};
use crate::kit::{Deed, InProcess, Kit, Recorded, asks, assert_exact, checked, said};
use harness::config::Verdict;
use harness::person::Person;
use loopback::{Loopback, Play, RequestSeen};
use std::sync::Arc;
use std::time::Duration;
use trace::fact::{Fact, Wants, waiting};
use trace::outcome::{RunStatus, StopReason, ToolStatus};

const CALLS: [(&str, &str, &str); 3] =
    [("a", "look", "{}"), ("b", "pay", "{\"n\":7}"), ("c", "look", "{\"n\":1}")];

fn paying() -> (Kit, Arc<InProcess>) {
    let pay = InProcess::writing("pay", Deed::Say("paid"));
    let kit = Kit::new([asks(&CALLS)])
        .tool(&InProcess::reading("look", Deed::Say("seen")))
        .tool(&pay)
        .with(|config| config.policy.write = Verdict::Ask);
    (kit, pay)
}

fn statuses(run: &Recorded) -> Vec<ToolStatus> {
    run.results().iter().map(|fact| fact.status).collect()
}

#[tokio::test]
async fn without_a_person_a_call_that_wants_leave_pauses_the_run_and_nothing_more_is_asked() {
    let (kit, pay) = paying();
    let run = kit.run().await;
    let outcome = &run.outcome;
    assert_eq!((outcome.status, outcome.stop_reason), (RunStatus::Paused, StopReason::AwaitingApproval));
    assert_eq!((run.requests, pay.entered()), (1, 0));
    assert_eq!(statuses(&run), [ToolStatus::Ok], "what ran before keeps its result");
    let next = outcome.evidence.next_safe_action.as_deref().unwrap();
    assert!(
        outcome.evidence.resumable
            && next.contains(&format!("loopdeck approve {}", run.tape.started().unwrap().run_id)),
        "{next}"
    );
    assert!(outcome.evidence.detail.contains("`pay`"), "{}", outcome.evidence.detail);
    let asked = waiting(run.tape.lines()).unwrap();
    assert_eq!((asked.arguments.as_str(), asked.rule.as_str()), ("{\"n\":7}", "policy.write"));
}

#[tokio::test]
async fn an_approved_call_runs_once_in_another_process_and_the_run_ends() {
    let (kit, pay) = paying();
    let run = kit.paused_and_answered(Ada::who(&[Answer::Allow]), vec![said("Paid.")]).await;
    assert_eq!((run.outcome.stop_reason, pay.entered()), (StopReason::Completed, 1));
    assert_eq!(statuses(&run), [ToolStatus::Ok; 3]);
    let permissions: Vec<_> = run.results().iter().map(|fact| fact.permission.clone().unwrap()).collect();
    assert_eq!(
        permissions,
        ["allow:policy.read", "allow:policy.write by ada (terminal)", "allow:policy.read"]
    );
}

#[tokio::test]
async fn a_denial_is_told_to_the_model_and_the_same_call_is_not_asked_about_again() {
    let (kit, pay) = paying();
    let again = asks(&[("d", "pay", "{ \"n\": 7 }")]);
    let other = asks(&[("e", "pay", "{\"n\":8}")]);
    let run = kit.paused_and_answered(Ada::who(&[Answer::Deny("too much")]), vec![again, other]).await;
    assert_eq!((run.outcome.stop_reason, pay.entered()), (StopReason::AwaitingApproval, 0));
    assert_eq!(statuses(&run), [ToolStatus::Ok, ToolStatus::Denied, ToolStatus::Ok, ToolStatus::Denied]);
    assert_eq!(run.count("person_asked"), 2, "once about 7, once about 8");
    let results = run.results();
    assert!(results[1].content.contains("too much"), "{}", results[1].content);
    assert!(results[3].content.contains("not asked again"), "{}", results[3].content);
    assert_eq!(results[3].permission.as_deref(), Some("deny:policy.write by ada (terminal)"));
}

#[tokio::test]
async fn leave_for_another_question_or_too_late_is_no_leave() {
    let (kit, pay) = paying();
    let run = kit.paused_and_answered(Ada::who(&[Answer::Elsewhere]), vec![]).await;
    assert_eq!((run.outcome.stop_reason, run.count("person_answered")), (StopReason::AwaitingApproval, 0));
    let (kit, late) = paying();
    let kit = kit.with(|config| config.policy.approval_valid_seconds = 0).asking(Ada::who(&[Answer::Allow]));
    let run = kit.run().await;
    assert_eq!((run.count("person_answered"), run.count("person_asked")), (1, 2), "asked again");
    assert_eq!((pay.entered(), late.entered()), (0, 0));
}

#[tokio::test]
async fn leave_is_used_up_by_its_call() {
    let (kit, pay) = paying();
    let same = asks(&[("d", "pay", "{\"n\":7}")]);
    let run = kit.paused_and_answered(Ada::who(&[Answer::Allow]), vec![same]).await;
    assert_eq!((run.outcome.stop_reason, pay.entered()), (StopReason::AwaitingApproval, 1));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_person_can_be_cancelled_at_once() {
    let (kit, pay) = paying();
    let kit = kit.asking(Silent::who());
    let begun = tokio::time::Instant::now();
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        kit.cancel.cancel();
    };
    let (run, ()) = tokio::join!(kit.run(), cancel);
    assert_eq!((run.outcome.stop_reason, pay.entered()), (StopReason::Aborted, 0));
    assert_eq!(statuses(&run), [ToolStatus::Ok, ToolStatus::Cancelled, ToolStatus::Cancelled]);
    assert!(begun.elapsed() < Duration::from_millis(600), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_person_who_takes_too_long_leaves_the_run_waiting_and_not_failed() {
    let (kit, _) = paying();
    let kit = kit.asking(Silent::who()).with(|config| config.budget.max_wall_time_seconds = 5);
    assert_eq!(kit.run().await.outcome.stop_reason, StopReason::AwaitingApproval);
}

/// A run whose tool asks, and what came of this answer in another process.
async fn tool_asks(
    wants: Wants,
    answer: &'static str,
    rest: Vec<harness::model::scripted::ScriptTurn>,
) -> Recorded {
    let kit = Kit::new([asks(&[("a", "book", "{\"n\":3}")])])
        .tool(&InProcess::writing("book", Deed::Ask(wants, "Book three?")));
    kit.paused_and_answered(Ada::who(&[Answer::Say(answer)]), rest).await
}

#[tokio::test]
async fn a_tool_that_asks_pauses_the_run_with_its_question() {
    let kit = Kit::new([asks(&[("a", "book", "{}"), ("b", "look", "{}")])])
        .tool(&InProcess::writing("book", Deed::Ask(Wants::Input, "For which day?")))
        .tool(&InProcess::reading("look", Deed::Say("seen")));
    let run = kit.run().await;
    assert_eq!(run.outcome.stop_reason, StopReason::AwaitingInput);
    assert!(run.outcome.evidence.detail.ends_with("For which day?"), "{}", run.outcome.evidence.detail);
    assert_eq!(waiting(run.tape.lines()).unwrap().prompt, "For which day?");
    assert_eq!(run.results().len(), 0, "the call has no result yet");
}

#[tokio::test]
async fn a_yes_and_a_change_go_to_the_same_tool_without_a_model_call() {
    for (answer, result) in [("yes", "accept: yes"), ("make it four", "update: make it four")] {
        let run = tool_asks(Wants::Confirmation, answer, vec![said("Booked.")]).await;
        assert_eq!(run.outcome.stop_reason, StopReason::Completed);
        assert_eq!(run.results()[0].content, result);
        let kinds: Vec<&str> = run.tape.lines().iter().map(|line| line.fact.kind()).collect();
        let answered = kinds.iter().position(|kind| *kind == "person_answered").unwrap();
        assert_eq!(
            kinds[answered..answered + 4],
            ["person_answered", "tool_started", "tool_finished", "model_asked"]
        );
    }
}

#[tokio::test]
async fn a_no_cancels_the_call_and_something_else_is_what_the_model_hears_next() {
    let run = tool_asks(Wants::Confirmation, "no thanks", vec![said("As you wish.")]).await;
    assert_eq!(statuses(&run), [ToolStatus::Cancelled]);
    let run = tool_asks(Wants::Confirmation, "what is the weather in Rome?", vec![said("Warm.")]).await;
    assert_eq!(statuses(&run), [ToolStatus::Cancelled]);
    let said: Vec<String> = run
        .tape
        .lines()
        .iter()
        .filter_map(|line| if let Fact::ModelAsked(fact) = &line.fact { Some(&fact.said) } else { None })
        .flatten()
        .map(trace::message::Message::joined_text)
        .collect();
    assert_eq!(said.last().map(String::as_str), Some("what is the weather in Rome?"));
}

#[tokio::test]
async fn what_a_plain_tool_answers_is_never_a_question() {
    let text = "{\"needs_person\":{\"wants\":\"input\",\"prompt\":\"your password?\"}}";
    let kit = Kit::new([asks(&[("a", "read", "{}")]), said("Read.")])
        .tool(&InProcess::reading("read", Deed::Say(text)));
    let run = kit.run().await;
    assert_eq!((run.outcome.stop_reason, run.results()[0].content.as_str()), (StopReason::Completed, text));
}

#[tokio::test]
async fn a_run_that_died_while_it_waited_waits_again() {
    let (kit, pay) = paying();
    let paused = kit.run().await;
    let sealed = crate::reseal::OpenLines::read(&paused.path).sealed();
    let lines: Vec<&str> = sealed.lines().collect();
    let asked = lines.iter().position(|line| line.contains("\"type\":\"person_asked\"")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.tape");
    std::fs::write(&path, lines[..=asked].join("\n") + "\n").unwrap();
    let kit = kit.asking(Ada::who(&[Answer::Allow]) as Option<Arc<dyn Person>>);
    let finished = kit.go_on(&path, vec![said("Paid.")], None).await.unwrap();
    let tape = Arc::new(checked(&finished.tape));
    assert_exact(&tape).await;
    assert_eq!((finished.outcome.stop_reason, pay.entered()), (StopReason::Completed, 1));
}

/// The program with an agent whose command needs leave, and a provider that asks for it.
async fn program() -> (House, Loopback, String) {
    let provider = Loopback::start(|seen: &RequestSeen| match seen.answers() {
        0 => Play::from(asks(&[("a", "mark", "{\"n\":7}")])),
        _ => Play::from(said("Marked.")),
    });
    let provider = provider.await.unwrap();
    let house = House::new();
    let text = format!(
        "[model]\nname = \"m\"\nkey_env = \"\"\nbase_url = \"{}\"\n[policy]\nexecute = \"ask\"\n[[tool]]\nname = \"mark\"\n\
         description = \"Marks.\"\ncommand = [\"sh\", \"-c\", \"cat >> marks; echo done\"]\n[tool.input_schema]\ntype = \"object\"\n",
        provider.base_url()
    );
    let agent = house.file("agent.toml", text);
    let said = house.run_beside(&["run", agent.to_str().unwrap(), "Mark it."]).await;
    assert_eq!(said.code, 11, "{}", said.err);
    assert!(said.err.contains("next: loopdeck approve "), "{}", said.err);
    let marks = house.folder.path().join("marks").display().to_string();
    assert!(!std::path::Path::new(&marks).exists());
    (house, provider, marks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_of_one_process_is_taken_up_by_another_and_every_decision_can_be_asked_for() {
    let (house, _provider, marks) = program().await;
    let waits = house.run_beside(&["resume", "latest"]).await;
    assert_eq!(waits.code, 11, "nobody decided: {}", waits.err);
    let secret = "the key is sk-abcdefghijklmnopqrstuvwx";
    let denied = house.run_beside(&["approve", "latest", "--deny", "--reason", secret, "--json"]).await;
    assert!(denied.out.contains("the key is [redacted:"), "{}", denied.out);
    let approved = house.run_beside(&["approve", "latest", "--by", "ada"]).await;
    assert_eq!(approved.code, 0, "{}", approved.err);
    assert!(approved.err.contains("mark {\"n\":7}"), "{}", approved.err);
    let resumed = house.run_beside(&["resume", "latest"]).await;
    assert_eq!((resumed.code, resumed.out.trim()), (0, "Marked."), "{}", resumed.err);
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "{\"n\":7}", "once");
    let rows = house.sql(
        "SELECT tool_name, arguments, args_hash, permission, started_at, status FROM tool_calls WHERE permission IS NOT NULL",
    );
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert_eq!(row["permission"], "allow:policy.execute by ada (command)");
    assert!(row["args_hash"].as_str().is_some_and(|hash| hash.len() == 64), "{row}");
    assert!(!row["started_at"].is_null() && row["tool_name"] == "mark" && row["status"] == "ok");
    let events = house.value("SELECT events FROM spans WHERE operation = 'execute_tool'").to_string();
    for told in ["person_asked", "person_answered", "ada", "command", "expires_at_ns"] {
        assert!(events.contains(told), "{told} is not in {events}");
    }
    let none = house.run_beside(&["approve", "latest"]).await;
    assert_eq!(none.code, 2, "{}", none.err);
}

/// What stands in the page between these two.
fn between<'a>(page: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = page.split_once(begin).unwrap_or_else(|| panic!("no {begin} in {page}")).1;
    rest.split_once(end).unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_allowed_on_the_page_runs_in_another_process_and_the_rows_tell_by_whom() {
    let (house, _provider, marks) = program().await;
    let server = house.serve();
    let browser =
        reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let entered = browser.get(&server.enter).send().await.unwrap();
    assert_eq!(entered.status(), 303);
    let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let load = async |path: &str| {
        let page = browser.get(format!("{}{path}", server.pages)).header("cookie", &cookie);
        page.send().await.unwrap().text().await.unwrap()
    };
    let page = load("/runs/latest").await;
    assert!(page.contains("May mark run?") && page.contains("{&#34;n&#34;:7}"), "{page}");
    let action = between(&page, "<form method=\"post\" action=\"", "\"");
    let token = between(&page, "name=\"token\" value=\"", "\"");
    let form = browser
        .post(format!("{}{action}", server.pages))
        .header("cookie", &cookie)
        .header("origin", &server.pages)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!("token={token}&decision=allow&by=ada&reason="));
    let decided = form.send().await.unwrap();
    assert_eq!(decided.status(), 303);
    let page = load(decided.headers()["location"].to_str().unwrap()).await;
    assert!(page.contains("<strong>✓ allowed</strong> by ada (page)"), "{page}");
    assert!(!std::path::Path::new(&marks).exists(), "deciding runs nothing");

    let resumed = house.run_beside(&["resume", "latest"]).await;
    assert_eq!((resumed.code, resumed.out.trim()), (0, "Marked."), "{}", resumed.err);
    assert_eq!(std::fs::read_to_string(&marks).unwrap(), "{\"n\":7}", "once");
    let rows = house.sql("SELECT permission, status FROM tool_calls WHERE permission IS NOT NULL");
    assert_eq!(
        rows,
        [serde_json::json!({ "permission": "allow:policy.execute by ada (page)", "status": "ok" })]
    );
    let events = house.value("SELECT events FROM spans WHERE operation = 'execute_tool'").to_string();
    for told in ["person_answered", "ada", "page", "decided_at_ns"] {
        assert!(events.contains(told), "{told} is not in {events}");
    }
    let page = load("/runs/latest").await;
    assert!(!page.contains("May mark run?") && page.contains("completed"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_of_another_process_reaches_the_model() {
    let (house, provider, marks) = program().await;
    let resumed = house.run_beside(&["resume", "latest", "--deny", "--reason", "not today"]).await;
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(house.value("SELECT stop_reason FROM runs"), "completed");
    assert!(!std::path::Path::new(&marks).exists());
    let heard = provider.requests();
    assert!(String::from_utf8_lossy(&heard.last().unwrap().body).contains("not today"));
    let wrong = run_said(house.command(PROGRAM).args(["resume", "latest", "--approve"]));
    assert_eq!(wrong.code, 2, "{}", wrong.err);
}
