//! Scripted models play their turns, and say so when they run out.

use super::*;
use crate::model::wire;
use trace::message::{Finish, Part, Usage};

fn response() -> Response {
    Response {
        response_id: Some("r1".to_owned()),
        response_model: Some("script".to_owned()),
        parts: vec![Part::Text { text: "It is done.".to_owned() }],
        finish: Finish::EndTurn,
        finish_raw: None,
        usage: Usage::default(),
    }
}

fn request(stream: bool) -> WireRequest {
    WireRequest { endpoint: "/".to_owned(), body: b"{}".to_vec(), stream }
}

async fn ask(model: &Scripted, stream: bool) -> Result<Reply, Fault> {
    model.send(&request(stream), &mut |_| {}).await
}

#[tokio::test]
async fn a_turn_is_spoken_in_every_wire_streamed_or_not() {
    for name in crate::model::NAMES {
        let wire = wire(name).expect("known");
        let model = Scripted::new(wire.clone(), vec![ScriptTurn::Answer(response()); 2]);
        let mut seen = Vec::new();
        let whole =
            model.send(&request(false), &mut |piece| seen.extend_from_slice(piece)).await.expect("answers");
        assert_eq!(seen, whole.body);
        assert_eq!(wire.decode(&whole.body).expect("decodes").parts, response().parts);
        let streamed = ask(&model, true).await.expect("answers");
        assert!(streamed.chunks.len() >= 2, "{name}");
        assert_eq!(streamed.headers["content-type"], "text/event-stream");
        let mut decoder = wire.stream();
        decoder.push(&streamed.body).expect("reads");
        let decoded = decoder.finish().expect("whole");
        assert_eq!((decoded.parts, decoded.finish), (response().parts, Finish::EndTurn));
    }
}

#[tokio::test]
async fn a_script_that_runs_out_is_a_permanent_fault_that_names_the_turn() {
    let model = Scripted::new(wire("chat").expect("known"), vec![ScriptTurn::Answer(response())]);
    ask(&model, false).await.expect("the first turn is there");
    let fault = ask(&model, false).await.expect_err("there is no second");
    assert_eq!(fault.class, FaultClass::Permanent);
    assert_eq!(fault.message, "the script has 1 turns, and turn 2 was asked for: add a turn to it");
    assert_eq!(model.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn raw_answers_faults_delays_and_hangs_are_played_as_written() {
    let raw = ScriptTurn::Raw {
        status: 429,
        headers: BTreeMap::from([("retry-after".to_owned(), "2".to_owned())]),
        body: "slow down".to_owned(),
    };
    let fault = Fault::new(FaultClass::Transient, "unreachable");
    let turns = vec![
        ScriptTurn::After { delay_ms: 1500, then: Box::new(raw) },
        ScriptTurn::Fault(fault.clone()),
        ScriptTurn::Hang,
    ];
    let model = Scripted::new(wire("messages").expect("known"), turns);
    let mut seen = 0;
    let reply = model.send(&request(true), &mut |_| seen += 1).await.expect("an HTTP answer");
    assert_eq!((reply.status, reply.headers["retry-after"].as_str(), seen), (429, "2", 0));
    assert!(reply.latency_ns >= 1_500_000_000);
    assert_eq!(ask(&model, false).await, Err(fault));
    let hung = tokio::time::timeout(Duration::from_secs(3600), ask(&model, false)).await;
    assert!(hung.is_err());
}

#[test]
fn a_script_is_read_from_json() {
    let turn: ScriptTurn =
        serde_json::from_str(r#"{"do":"after","delay_ms":5,"then":{"do":"raw","status":500,"body":"no"}}"#)
            .expect("reads");
    assert!(matches!(turn, ScriptTurn::After { delay_ms: 5, .. }));
}
