//! A person decides on the page of a paused run: who may, about what, until when, and what is kept of it.

use crate::running::{Running, now_s, serve};
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Client, RequestBuilder, Response, redirect};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trace::fact::{Fact, PersonAnswered, PersonAsked, Ruling, RunEnded, RunStarted, Wants, Way};
use trace::id::{CallKey, Hash, RunId, TraceId};
use trace::message::Usage;
use trace::ops;
use trace::outcome::{Evidence, Outcome, StopReason};
use trace::redact::Redactor;
use trace::tape::{Recorder as _, TapeWriter};

const TOOLS: &[u8] = br#"[{"name":"look","risk":"read"},{"name":"pay","risk":"write"}]"#;

/// A question whose answer is wanted within so many seconds.
fn question(wants: Wants, within_s: i64) -> PersonAsked {
    let now_ns = i64::try_from(now_s()).unwrap() * 1_000_000_000;
    PersonAsked {
        key: CallKey { turn: 1, index: 0 },
        call_id: "a".to_owned(),
        tool_name: "pay".to_owned(),
        arguments: "{\"n\":7}".to_owned(),
        args_hash: trace::canonical::args_hash("pay", "{\"n\":7}"),
        wants,
        prompt: "more than five".to_owned(),
        rule: "policy.write".to_owned(),
        token: Hash::of(b"the question"),
        expires_at_ns: now_ns + within_s * 1_000_000_000,
        heard: Vec::new(),
    }
}

fn started(run_id: &RunId, tools: Hash) -> RunStarted {
    RunStarted {
        run_id: run_id.clone(),
        trace_id: TraceId::new([5; 16]),
        parent_span_id: None,
        parent_run_id: None,
        agent: "booker".to_owned(),
        service: None,
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        wire: "chat".to_owned(),
        task: "Book.".to_owned(),
        config: tools,
        tools,
        prompt_hash: tools,
        prompt_name: None,
        prompt_version: None,
        limits: BTreeMap::new(),
        session_id: None,
        continues: None,
        history: None,
        earlier: Vec::new(),
        user_id: None,
        environment: None,
        release: None,
        task_id: None,
        trial: None,
        tags: Vec::new(),
        replay_of: None,
        replay_mode: None,
    }
}

fn ended(stop_reason: StopReason) -> RunEnded {
    let evidence = Evidence {
        rule: "policy.write".to_owned(),
        detail: "`pay` waits".to_owned(),
        threshold: None,
        observed: None,
        spans: Vec::new(),
        tokens_wasted: None,
        next_safe_action: Some("loopdeck approve RUN".to_owned()),
        resumable: true,
    };
    let outcome = Outcome {
        status: stop_reason.status(),
        stop_reason,
        trigger: "person".to_owned(),
        answer: None,
        turns: 1,
        tool_calls: 1,
        usage: Usage::default(),
        cost_usd: None,
        duration_ms: 1,
        evidence,
        head: Hash::of(b""),
    };
    RunEnded { outcome, heard: Vec::new() }
}

/// A server, and the tape of a run that was asked this and then ended so, or goes on.
struct House {
    server: Running,
    run_id: RunId,
    asked: PersonAsked,
    browser: Client,
}

impl House {
    async fn of(folder: &Path, asked: PersonAsked, stop_reason: impl Into<Option<StopReason>>) -> Self {
        let server = serve(folder).await;
        let run_id = RunId::from_draw(5);
        let redactor = Arc::new(Redactor::new([7; 32]).unwrap());
        let at_ns = asked.expires_at_ns - 1_000_000_000_000;
        let mut tape = TapeWriter::create(&server.home.tapes(), &run_id, at_ns, redactor).unwrap();
        let tools = tape.blob(TOOLS).unwrap();
        tape.record(at_ns, &Fact::RunStarted(Box::new(started(&run_id, tools)))).unwrap();
        tape.record(at_ns, &Fact::PersonAsked(Box::new(asked.clone()))).unwrap();
        if let Some(stop_reason) = stop_reason.into() {
            tape.record(at_ns, &Fact::RunEnded(Box::new(ended(stop_reason)))).unwrap();
            tape.seal().unwrap();
        }
        let browser = Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
        Self { server, run_id, asked, browser }
    }

    /// A run that waits for leave to pay.
    async fn waiting(folder: &Path) -> Self {
        Self::of(folder, question(Wants::Approval, 600), StopReason::AwaitingApproval).await
    }

    fn address(&self) -> String {
        format!("{}/runs/{}", self.server.pages, self.run_id)
    }

    /// The cookie of a browser in which the owner's address was opened.
    async fn cookie(&self) -> String {
        let entered = self.browser.get(&self.server.enter).send().await.unwrap();
        assert_eq!(entered.status(), 303);
        assert_eq!(entered.headers()[LOCATION], "/");
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap();
        let (cookie, rest) = cookie.split_once("; ").unwrap();
        assert_eq!(rest, "HttpOnly; SameSite=Strict; Path=/");
        cookie.to_owned()
    }

    async fn page(&self, cookie: &str) -> String {
        let page = self.browser.get(self.address()).header(COOKIE, cookie).send().await.unwrap();
        assert_eq!(page.status(), 200);
        page.text().await.unwrap()
    }

    fn form(&self, fields: &[(&str, &str)]) -> RequestBuilder {
        let fields: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        self.browser
            .post(format!("{}/decision", self.address()))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields.join("&"))
    }

    /// The form as the owner's browser sends it.
    async fn decide(&self, fields: &[(&str, &str)]) -> Response {
        let token = self.asked.token.to_string();
        let fields: Vec<_> = [("token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        let form = self.form(&fields).header(COOKIE, self.cookie().await);
        form.header("origin", &self.server.pages)
            .header("sec-fetch-site", "same-origin")
            .send()
            .await
            .unwrap()
    }

    fn kept(&self) -> Option<PersonAnswered> {
        ops::answer(&self.server.home, &self.run_id, &self.asked.token).unwrap()
    }
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |out, byte| match byte.is_ascii_alphanumeric() {
        true => out + &char::from(byte).to_string(),
        false => out + &format!("%{byte:02X}"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_sees_the_question_and_only_the_owner_a_form() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::waiting(folder.path()).await;
    let stranger = house.page("loopdeck_1=x").await;
    let owner = house.page(&house.cookie().await).await;
    for page in [&stranger, &owner] {
        for told in [
            "May pay run?",
            "more than five",
            "{&#34;n&#34;:7}",
            "<dd>write</dd>",
            "policy.write",
            "from now",
        ] {
            assert!(page.contains(told), "{told}: {page}");
        }
    }
    assert!(!stranger.contains("<form") && stranger.contains("/enter?key=…"), "{stranger}");
    assert!(stranger.contains(&format!("<code>loopdeck approve {}</code>", house.run_id)), "{stranger}");
    for told in ["<form method=\"post\"", "✗ Deny", "✓ Allow, once", "value=\"ada\""] {
        assert!(owner.contains(told), "{told}: {owner}");
    }
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_decides_is_kept_and_told_and_the_last_decision_holds() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::waiting(folder.path()).await;
    let allowed = house.decide(&[("decision", "allow"), ("by", "ada"), ("reason", "")]).await;
    assert_eq!(allowed.status(), 303);
    assert_eq!(allowed.headers()[LOCATION], format!("/runs/{}", house.run_id).as_str());
    let answer = house.kept().unwrap();
    assert_eq!((answer.ruling, answer.way, answer.by.as_str()), (Some(Ruling::Allow), Way::Page, "ada"));
    assert_eq!((answer.token, answer.key, answer.reason), (house.asked.token, house.asked.key, None));
    let page = house.page(&house.cookie().await).await;
    assert!(page.contains("<strong>✓ allowed</strong> by ada (page) at "), "{page}");
    assert!(page.contains(&format!("Go on: <code>loopdeck resume {}</code>", house.run_id)), "{page}");

    house.decide(&[("decision", "deny"), ("by", "bob"), ("reason", "too <much>")]).await;
    let answer = house.kept().unwrap();
    assert_eq!((answer.ruling, answer.reason.as_deref()), (Some(Ruling::Deny), Some("too <much>")));
    let page = house.page("").await;
    assert!(page.contains("<strong>✗ denied</strong> by bob (page) at "), "{page}");
    assert!(page.contains("too &#60;much&#62;"), "{page}");
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_without_the_key_from_elsewhere_or_about_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::waiting(folder.path()).await;
    let (cookie, token) = (house.cookie().await, house.asked.token.to_string());
    let other = Hash::of(b"another question").to_string();
    let own = house.server.pages.clone();
    let with =
        |token: &str, word: &str, by: &str| house.form(&[("token", token), ("decision", word), ("by", by)]);
    let long = "x".repeat(70_000);
    for (what, request, status, told) in [
        ("no cookie", with(&token, "allow", "eve"), 403, "owner&#39;s key"),
        (
            "a wrong cookie",
            with(&token, "allow", "eve").header(COOKIE, format!("{cookie}0")),
            403,
            "owner&#39;s key",
        ),
        (
            "the token of readers",
            with(&token, "allow", "eve")
                .bearer_auth(trace::lock::Owner::read(&house.server.home).unwrap().token),
            403,
            "owner&#39;s key",
        ),
        (
            "another site",
            with(&token, "allow", "eve").header(COOKIE, &cookie).header("origin", "http://evil.example"),
            403,
            "another address",
        ),
        (
            "another port",
            with(&token, "allow", "eve").header(COOKIE, &cookie).header("origin", "http://127.0.0.1:1"),
            403,
            "another address",
        ),
        (
            "another site by its fetch",
            with(&token, "allow", "eve").header(COOKIE, &cookie).header("sec-fetch-site", "same-site"),
            403,
            "another address",
        ),
        ("another question", with(&other, "allow", "ada").header(COOKIE, &cookie), 409, "another question"),
        ("no word", with(&token, "maybe", "ada").header(COOKIE, &cookie), 400, "cannot be read"),
        ("no name", with(&token, "allow", "  ").header(COOKIE, &cookie), 400, "say who decides"),
        ("a name of two lines", with(&token, "allow", "a\nb").header(COOKIE, &cookie), 400, "in one line"),
        ("words for leave", with(&token, "say", "ada").header(COOKIE, &cookie), 400, "allow or deny it"),
        ("no form", house.form(&[]).header(COOKIE, &cookie), 400, "cannot be read"),
        (
            "JSON",
            house.browser.post(format!("{}/decision", house.address())).header(COOKIE, &cookie).body("{}"),
            400,
            "cannot be read",
        ),
        ("too much", with(&token, "allow", &long).header(COOKIE, &cookie), 413, "fewer words"),
        (
            "no such run",
            house
                .browser
                .post(format!("{own}/runs/..%2F..%2Fetc/decision"))
                .header(COOKIE, &cookie)
                .header("content-type", "application/x-www-form-urlencoded")
                .body(format!("token={token}&decision=allow&by=ada")),
            404,
            "has no tape here",
        ),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{what}");
        let page = answer.text().await.unwrap();
        assert!(page.contains(told) && page.contains("othing was decided"), "{what}: {page}");
        assert_eq!(house.kept(), None, "{what}");
    }
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_over_has_no_form_and_takes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let asked = question(Wants::Approval, -5);
    let house = House::of(folder.path(), asked, StopReason::AwaitingApproval).await;
    let page = house.page(&house.cookie().await).await;
    assert!(!page.contains("<form") && page.contains("which is over"), "{page}");
    assert!(page.contains(&format!("This asks it again: <code>loopdeck resume {}", house.run_id)), "{page}");
    let late = house.decide(&[("decision", "allow"), ("by", "ada")]).await;
    assert_eq!(late.status(), 410);
    assert!(late.text().await.unwrap().contains("asks it again"));
    assert_eq!(house.kept(), None);
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_nobody_here_shows_no_question_and_takes_no_answer() {
    // One stopped for another reason; the other is asking in the terminal where it goes on.
    for stop_reason in [Some(StopReason::MaxTurns), None] {
        let folder = tempfile::tempdir().unwrap();
        let house = House::of(folder.path(), question(Wants::Approval, 600), stop_reason).await;
        let page = house.page(&house.cookie().await).await;
        assert!(!page.contains("May pay run?") && !page.contains("<form"), "{page}");
        let answer = house.decide(&[("decision", "allow"), ("by", "ada")]).await;
        assert_eq!(answer.status(), 409);
        assert!(answer.text().await.unwrap().contains("waits for nobody here"));
        assert_eq!(house.kept(), None);
        house.server.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_leads_to_the_runs_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::waiting(folder.path()).await;
    let overview = house.server.page("/").await;
    let part = overview.split_once("Runs that wait for a person").unwrap().1;
    assert!(part.contains(&format!("<a href=\"/runs/{}\">", house.run_id)), "{part}");
    house.server.end().await;
    let folder = tempfile::tempdir().unwrap();
    let house = House::of(folder.path(), question(Wants::Approval, 600), StopReason::MaxTurns).await;
    assert!(!house.server.page("/").await.contains("wait for a person"));
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_question_of_a_tool_takes_words_and_secrets_in_them_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::of(folder.path(), question(Wants::Input, 600), StopReason::AwaitingInput).await;
    let page = house.page(&house.cookie().await).await;
    assert!(page.contains("pay asks") && page.contains("<textarea id=\"said\""), "{page}");
    assert!(!page.contains("value=\"allow\""), "{page}");
    for fields in
        [&[("decision", "allow"), ("by", "ada")][..], &[("decision", "say"), ("by", "ada"), ("said", " ")]]
    {
        assert_eq!(house.decide(fields).await.status(), 400, "{fields:?}");
    }
    let said = "on Monday\r\nwith sk-abcdefghijklmnopqrstuvwx";
    assert_eq!(house.decide(&[("decision", "say"), ("by", "ada"), ("said", said)]).await.status(), 303);
    let kept = house.kept().unwrap().said.unwrap();
    assert!(kept.starts_with("on Monday\nwith [redacted:"), "{kept}");
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_or_no_of_a_tool_takes_buttons_or_what_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::of(folder.path(), question(Wants::Confirmation, 600), StopReason::AwaitingInput).await;
    let page = house.page(&house.cookie().await).await;
    assert!(
        page.contains("✗ No") && page.contains("✓ Yes") && page.contains("What to change, if anything"),
        "{page}"
    );
    assert_eq!(
        house.decide(&[("decision", "say"), ("by", "ada"), ("said", "make it four")]).await.status(),
        303
    );
    assert_eq!(house.kept().unwrap().said.as_deref(), Some("make it four"));
    let both = house.decide(&[("decision", "allow"), ("by", "ada"), ("said", "make it five")]).await;
    assert_eq!(both.status(), 400, "words that would be lost");
    assert_eq!(house.decide(&[("decision", "allow"), ("by", "ada")]).await.status(), 303);
    assert_eq!(house.kept().unwrap().ruling, Some(Ruling::Allow));
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_told_to_nobody_and_another_one_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::waiting(folder.path()).await;
    let (address, key) = house.server.enter.split_once("?key=").unwrap();
    assert!(key.len() >= 64, "{key}");
    for wrong in
        [format!("{address}?key={}", "0".repeat(key.len())), format!("{address}?key="), address.to_owned()]
    {
        let answer = house.browser.get(&wrong).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{wrong}");
        assert!(answer.headers().get(SET_COOKIE).is_none(), "{wrong}");
        assert!(answer.text().await.unwrap().contains("not the key"), "{wrong}");
    }
    house.decide(&[("decision", "allow"), ("by", "ada")]).await;
    let cookie = house.cookie().await;
    for path in ["/", "/alerts", "/metrics", &format!("/runs/{}", house.run_id)] {
        let page = house.browser.get(format!("{}{path}", house.server.pages)).header(COOKIE, &cookie);
        assert!(!page.send().await.unwrap().text().await.unwrap().contains(key), "{path}");
    }
    let mut open = vec![folder.path().to_path_buf()];
    while let Some(one) = open.pop() {
        match one.is_dir() {
            true => open.extend(std::fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().path())),
            false => {
                let bytes = std::fs::read(&one).unwrap();
                assert!(!bytes.windows(key.len()).any(|piece| piece == key.as_bytes()), "{}", one.display());
            }
        }
    }
    house.server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_words_in_a_question_are_shown_and_never_run_and_what_is_too_long_is_not_decided_here() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "<script>alert('x')</script>\"&\u{202e}";
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(30_000));
    let asked = PersonAsked {
        prompt: hostile.to_owned(),
        tool_name: hostile.to_owned(),
        rule: hostile.to_owned(),
        arguments: long,
        ..question(Wants::Approval, 600)
    };
    let house = House::of(folder.path(), asked, StopReason::AwaitingApproval).await;
    let page = house.page(&house.cookie().await).await;
    assert!(!page.contains("<script") && page.contains("&#60;script&#62;"), "{page}");
    assert!(!page.contains("<form") && page.contains("too long to be shown here whole"), "{page}");
    assert!(page.len() < 100 * 1024, "{}", page.len());
    house.server.end().await;
}
