//! Providers that refuse, fail or break off, as the person at the terminal sees it: exit code and reason.

use crate::kit::program::{House, Said, provider};
use crate::kit::{said, status};
use loopback::Play;

type Script = fn() -> Play;

/// `loopdeck run` against a provider that plays this to every request.
async fn run_against(play: Script, wire: &str) -> (Said, House) {
    let house = House::new();
    let provider = provider(play).await;
    let agent = house.agent(&provider.base_url(), wire);
    let said = house.run_beside(&["run", agent.to_str().unwrap(), "a task"]).await;
    (said, house)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_cannot_answer_exits_5_with_the_reason_and_leaves_a_tape() {
    let rows: [(&str, Script, &str, &str); 6] = [
        ("401", || status(401, None).into(), "auth_required", "the provider says no"),
        ("404", || status(404, None).into(), "model_error", "the provider says no"),
        ("429 to the end", || status(429, Some(0)).into(), "model_error", "the provider says no"),
        ("500 to the end", || status(500, None).into(), "model_error", "the provider says no"),
        ("a cut stream", || Play::from(said("this is cut off")).break_after(90), "model_error", "broke"),
        ("no JSON", || Play::status(200, "<html>", None), "model_error", "malformed"),
    ];
    for (name, play, reason, fragment) in rows {
        let ((chat, house), (messages, _)) =
            tokio::join!(run_against(play, "chat"), run_against(play, "messages"));
        for said in [chat, messages] {
            assert_eq!(said.code, 5, "{name}: {}", said.err);
            assert!(said.err.contains(reason) && said.err.contains(fragment), "{name}: {}", said.err);
            assert!(said.err.contains("next: "), "{name} says what to do: {}", said.err);
            assert!(said.out.is_empty(), "{name}: no answer is shown as one: {}", said.out);
        }
        assert_eq!(house.value("select stop_reason from runs"), reason, "{name}");
        assert_eq!(house.run(&["replay", "latest"]).code, 0, "{name}");
    }
}

#[test]
fn a_provider_that_is_not_there_exits_5() {
    let house = House::new();
    let agent = house.agent("http://127.0.0.1:9/v1", "chat");
    let said = house.run(&["run", agent.to_str().unwrap(), "a task"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains("127.0.0.1:9"), "{}", said.err);
}
