//! The loopback provider over a real socket, with the real transport and wires as its client.

use super::*;
use crate::play::Cuts;
use harness::model::http::{Endpoint, Http};
use harness::model::{CallSpec, DecodeError, NAMES, Reply, Transport as _, Wire, WireRequest, wire};
use trace::message::{Finish, Message, Part, Response as Answer, Role, ToolCall, Usage};

fn response() -> Answer {
    let call = ToolCall {
        call_id: "c".to_owned(),
        tool_name: "add".to_owned(),
        arguments: "{\"x\":\"é\"}".to_owned(),
    };
    Answer {
        response_id: Some("r".to_owned()),
        response_model: Some("m".to_owned()),
        parts: vec![Part::Text { text: "Grüße aus 東京".to_owned() }, Part::ToolCall(call)],
        finish: Finish::ToolUse,
        finish_raw: None,
        usage: Usage { input_tokens: Some(3), output_tokens: Some(5), ..Usage::default() },
    }
}

fn request(wire: &dyn Wire, model: &str, stream: bool, messages: &[Message]) -> WireRequest {
    let spec = CallSpec { model: model.to_owned(), stream, ..CallSpec::default() };
    let fragments: Vec<String> = messages.iter().flat_map(|message| wire.fragments(message)).collect();
    WireRequest { endpoint: wire.endpoint(model, stream), body: wire.frame(&spec).body(&fragments), stream }
}

async fn ask(server: &Loopback, name: &str, model: &str, stream: bool) -> Result<Reply, Fault> {
    let wire = wire(name).expect("known");
    let mut endpoint = Endpoint::new(server.base_url());
    endpoint.idle_timeout = Duration::from_millis(300);
    let http = Http::new(&endpoint, wire.as_ref(), None).expect("built");
    let request = request(wire.as_ref(), model, stream, &[Message::text(Role::User, "hi")]);
    http.send(&request, &mut |_| {}).await
}

fn decoded(name: &str, reply: &Reply) -> Result<Answer, DecodeError> {
    let wire = wire(name).expect("known");
    let mut decoder = wire.stream();
    decoder.push(&reply.body)?;
    decoder.finish()
}

#[tokio::test]
async fn all_wires_are_spoken_streamed_and_not_however_the_body_is_cut() {
    let cuts = [Cuts::Events, Cuts::Every(7), Cuts::At(vec![1, 100])];
    for cuts in cuts {
        let server =
            Loopback::start(move |_| Play::answer(response()).cut(cuts.clone())).await.expect("starts");
        for name in NAMES {
            let whole = ask(&server, name, "m", false).await.expect("answers");
            let whole = wire(name).expect("known").decode(&whole.body).expect("decodes");
            let streamed =
                decoded(name, &ask(&server, name, "m", true).await.expect("answers")).expect("decodes");
            assert_eq!((&whole.parts, &whole.usage), (&response().parts, &response().usage));
            assert_eq!(streamed, whole);
        }
        assert_eq!(server.violations(), Vec::<String>::new());
        assert_eq!(server.requests().len(), 8);
        assert_eq!(server.requests()[1].messages()[0]["content"], "hi");
        server.stop().await;
    }
}

#[tokio::test]
async fn pieces_arrive_one_after_another() {
    let server =
        Loopback::start(|_| Play::answer(response()).pause(Duration::from_millis(15))).await.expect("starts");
    let reply = ask(&server, "messages", "m", true).await.expect("answers");
    assert!(reply.chunks.len() > 5, "{:?}", reply.chunks);
    assert!(reply.chunks.last().expect("chunks").after_ns - reply.chunks[0].after_ns > 50_000_000);
}

#[tokio::test]
async fn a_broken_or_stalled_answer_is_cut_and_incomplete() {
    for (play, class) in [
        (Play::answer(response()).break_after(150), FaultClass::Transient),
        (Play::answer(response()).stall_after(150), FaultClass::Timeout),
    ] {
        let server = Loopback::start(move |_| play.clone()).await.expect("starts");
        for name in NAMES {
            let reply = ask(&server, name, "m", true).await.expect("it began");
            assert_eq!((reply.body.len(), reply.cut.as_ref().map(|fault| fault.class)), (150, Some(class)));
            assert!(matches!(decoded(name, &reply), Err(DecodeError::Incomplete { .. })));
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn a_wrong_request_is_refused_in_the_wires_words_and_remembered() {
    let server = Loopback::start(|_| Play::answer(response())).await.expect("starts");
    let wire = wire("messages").expect("known");
    let http = Http::new(&Endpoint::new(server.base_url()), wire.as_ref(), None).expect("built");
    let orphan = Message { role: Role::Assistant, parts: response().parts };
    let request = request(wire.as_ref(), "m", false, &[Message::text(Role::User, "hi"), orphan]);
    let reply = http.send(&request, &mut |_| {}).await.expect("an answer");
    let fault = wire.fault(reply.status, &reply.headers, &reply.body);
    assert_eq!((reply.status, fault.class), (400, FaultClass::Permanent));
    assert!(fault.message.contains("its calls are [c x1]"), "{}", fault.message);
    assert_eq!(
        server.violations(),
        ["request 1: messages[1]: the results after it are for [], its calls are [c x1]"]
    );
}

#[tokio::test]
async fn each_model_plays_its_own_script_and_says_when_it_ends() {
    let scripts = BTreeMap::from([(
        "a".to_owned(),
        vec![Play::status(429, "slow", Some(2)), Play::answer(response())],
    )]);
    let server = Loopback::start(by_model(scripts)).await.expect("starts");
    let limited = ask(&server, "chat", "a", false).await.expect("answers");
    assert_eq!((limited.status, limited.headers["retry-after"].as_str()), (429, "2"));
    assert_eq!(ask(&server, "chat", "a", false).await.expect("answers").status, 200);
    let over = ask(&server, "chat", "a", false).await.expect("answers");
    assert!(String::from_utf8_lossy(&over.body).contains("has 2 turns, and turn 3 was asked for"));
    let unknown = ask(&server, "messages", "b", true).await.expect("answers");
    assert_eq!(unknown.status, 404);
    assert!(String::from_utf8_lossy(&unknown.body).contains("no script for the model `b`"));
}

#[tokio::test]
async fn a_fault_becomes_the_status_that_means_it() {
    let mut fault = Fault::new(FaultClass::Transient, "overloaded");
    fault.retry_after_ms = Some(1500);
    let told = fault.clone();
    let server = Loopback::start(move |_| ScriptTurn::Fault(fault.clone())).await.expect("starts");
    let reply = ask(&server, "chat", "m", true).await.expect("an answer");
    let heard = wire("chat").expect("known").fault(reply.status, &reply.headers, &reply.body);
    assert_eq!((reply.status, heard.class, heard.retry_after_ms), (503, told.class, told.retry_after_ms));
}

#[tokio::test]
async fn a_dropped_server_ends_what_hangs_in_it() {
    let server = Loopback::start(|_| ScriptTurn::Hang).await.expect("starts");
    let address = server.base_url();
    let asking = ask(&server, "chat", "m", false);
    assert!(tokio::time::timeout(Duration::from_millis(100), asking).await.is_err());
    tokio::time::timeout(Duration::from_secs(5), server.stop()).await.expect("it ends");
    let wire = wire("chat").expect("known");
    let http = Http::new(&Endpoint::new(address), wire.as_ref(), None).expect("built");
    let request = request(wire.as_ref(), "m", false, &[]);
    http.send(&request, &mut |_| {}).await.expect_err("nobody listens");
}
