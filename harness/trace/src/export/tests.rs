//! The export against a real listener on loopback that answers from a list.

use super::*;
use crate::id::{SpanId, TraceId};
use crate::otlp::{ExportTracePartialSuccess, decode_protobuf};
use crate::span::{SpanEvent, SpanStatus};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn span(number: u8) -> Span {
    let object = |value: serde_json::Value| value.as_object().unwrap().clone();
    Span {
        trace_id: TraceId::new([1; 16]),
        span_id: SpanId::new([2, 0, 0, 0, 0, 0, 0, number]),
        parent_span_id: None,
        name: "chat".into(),
        kind: 3,
        started_at_ns: Some(1),
        ended_at_ns: Some(2),
        open: false,
        status: SpanStatus::default(),
        attributes: object(
            json!({attribute::INPUT_MESSAGES: "hush", "input.value": "hush", attribute::REQUEST_MODEL: "m"}),
        ),
        events: vec![SpanEvent {
            name: "e".into(),
            at_ns: 1,
            attributes: object(json!({"gen_ai.prompt.0": "hush"})),
        }],
        links: Vec::new(),
        resource: object(json!({"service.name": "old"})),
        scope: attribute::SCOPE.into(),
        scope_version: String::new(),
    }
}

/// A collector that gives these answers, one a connection, and returns the bodies it was sent.
async fn collector(answers: Vec<(&'static str, Vec<u8>)>) -> (String, tokio::task::JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let work = async move {
        let mut bodies = Vec::new();
        for (head, answer) in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            bodies.push(request_body(&mut stream).await);
            let head =
                format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", answer.len());
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        }
        bodies
    };
    #[expect(clippy::disallowed_methods, reason = "the test holds the handle and awaits it")]
    let task = tokio::spawn(work);
    (url, task)
}

async fn request_body(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the request was cut");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let body = &bytes[end + 4..];
        if body.len() == length.parse::<usize>().unwrap() {
            return body.to_vec();
        }
    }
}

#[tokio::test]
async fn what_is_refused_for_now_is_sent_again_and_counted_once() {
    let (url, bodies) = collector(vec![
        ("503 x\r\nretry-after: 0", vec![]),
        ("429 x\r\nretry-after: 0", vec![]),
        ("200 OK", vec![]),
    ])
    .await;
    let exported = export(&[span(1), span(2)], &Destination::new(url)).await;
    assert_eq!(exported, Exported { sent: 2, acknowledged: 2, lost: 0, why: None });
    let bodies = bodies.await.unwrap();
    assert!(bodies.iter().all(|body| *body == bodies[0]));
}

#[tokio::test]
async fn what_the_collector_rejects_or_refuses_for_good_is_lost_aloud() {
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "too old".into(),
        }),
    };
    let (url, _bodies) = collector(vec![("200 OK", partial.encode_to_vec())]).await;
    let exported = export(&[span(1), span(2)], &Destination::new(url)).await;
    assert_eq!((exported.acknowledged, exported.lost), (1, 1));
    assert_eq!(exported.why.as_deref(), Some("the collector rejected them: too old"));

    let (url, _bodies) = collector(vec![("400 Bad Request", vec![])]).await;
    let exported = export(&[span(1)], &Destination::new(url)).await;
    assert_eq!((exported.sent, exported.acknowledged, exported.lost), (1, 0, 1));
    assert!(exported.why.unwrap().ends_with("answered 400 Bad Request"));
}

#[tokio::test]
async fn nobody_at_the_other_end_is_a_count_and_no_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    drop(listener);
    let exported = export(&[span(1)], &Destination::new(url)).await;
    assert_eq!((exported.acknowledged, exported.lost), (0, 1));
    assert!(exported.why.unwrap().contains("gave up after 4 tries"));
}

#[tokio::test]
async fn content_stays_at_home_unless_it_is_asked_for() {
    for with_content in [false, true] {
        let (url, bodies) = collector(vec![("200 OK", vec![])]).await;
        let destination =
            Destination { with_content, service_name: Some("new".into()), ..Destination::new(url) };
        export(&[span(1)], &destination).await;
        let body = bodies.await.unwrap().remove(0);
        assert_eq!(body.windows(4).any(|four| four == b"hush"), with_content);
        let sent = decode_protobuf(&body).unwrap().spans.remove(0);
        assert_eq!(sent.resource["service.name"], json!("new"));
        assert_eq!(sent.attributes[attribute::REQUEST_MODEL], json!("m"));
    }
}

#[tokio::test]
async fn many_spans_go_out_in_batches() {
    let (url, bodies) = collector(vec![("200 OK", vec![]), ("200 OK", vec![])]).await;
    let spans: Vec<Span> = (0..600).map(|_| span(1)).collect();
    let exported = export(&spans, &Destination::new(url)).await;
    assert_eq!(exported.acknowledged, 600);
    let counts: Vec<_> =
        bodies.await.unwrap().iter().map(|body| decode_protobuf(body).unwrap().spans.len()).collect();
    assert_eq!(counts, [512, 88]);
}
