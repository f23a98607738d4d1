//! The OTLP receiver's contract, body by body.

use crate::running::{JSON, PROTOBUF, body, serve};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;

fn span(id: &str) -> Value {
    json!({"traceId": "5b8efff798038103d269b633813fc60c", "spanId": id, "name": "chat"})
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_body_gets_the_answer_that_otlp_demands() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let good = body(&[span("eee19b7ec3c1b174")]);
    let mixed = body(&[span("eee19b7ec3c1b174"), span("eee1")]);
    // content type, encoding, body, status, answer
    let table: Vec<(&str, &str, Vec<u8>, u16, &str)> = vec![
        (JSON, "", good.clone(), 200, "{}"),
        ("application/json; charset=utf-8", "", good.clone(), 200, "{}"),
        (JSON, "gzip", gzip(&good), 200, "{}"),
        (JSON, "", Vec::new(), 200, "{}"),
        (JSON, "", b"{}".to_vec(), 200, "{}"),
        (PROTOBUF, "", Vec::new(), 200, ""),
        (
            JSON,
            "",
            mixed,
            200,
            r#"{"partialSuccess":{"errorMessage":"resourceSpans[0].scopeSpans[0].spans[1]: spanId has 2 bytes, 8 are wanted","rejectedSpans":"1"}}"#,
        ),
        (
            JSON,
            "",
            br#"{"resource_spans":[1]}"#.to_vec(),
            200,
            r#"{"partialSuccess":{"errorMessage":"the body holds `resource_spans` but no span: keys are lowerCamelCase, such as `resourceSpans`","rejectedSpans":"0"}}"#,
        ),
        (
            JSON,
            "",
            b"{".to_vec(),
            400,
            r#"{"code":3,"message":"the body is not JSON: EOF while parsing an object at line 1 column 1"}"#,
        ),
        (
            JSON,
            "gzip",
            good.clone(),
            400,
            r#"{"code":3,"message":"the body is not gzip, as its header says"}"#,
        ),
        (JSON, "br", good.clone(), 415, r#"{"code":12,"message":"content-encoding must be gzip or none"}"#),
        (
            "text/plain",
            "",
            good.clone(),
            415,
            r#"{"code":12,"message":"content-type must be application/x-protobuf or application/json"}"#,
        ),
        (
            JSON,
            "gzip",
            gzip(&vec![b' '; (64 << 20) + 1]),
            413,
            r#"{"code":8,"message":"the body is larger than 67108864 bytes; send smaller batches"}"#,
        ),
        (JSON, "", b"[".repeat(200_000), 400, ""),
        (PROTOBUF, "", b"\xff\xff".to_vec(), 400, ""),
    ];
    for (content_type, encoding, body, status, told) in table {
        let mut request =
            server.client.post(format!("{}/v1/traces", server.otlp)).header("content-type", content_type);
        if !encoding.is_empty() {
            request = request.header("content-encoding", encoding);
        }
        let size = body.len();
        let answer = request.body(body).send().await.unwrap();
        assert_eq!(answer.status().as_u16(), status, "{content_type} {encoding} {size} bytes");
        let expected_type = if content_type == PROTOBUF { PROTOBUF } else { JSON };
        assert_eq!(answer.headers()["content-type"], expected_type);
        let text = answer.text().await.unwrap();
        if status == 200 || !told.is_empty() {
            assert_eq!(text, told);
        }
    }
    assert_eq!(server.ask("select count(*) from spans").await, 1, "the same span again and again is one");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_logs_are_taken_and_dropped_and_the_page_port_takes_traces_too() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    for (base, path) in
        [(&server.otlp, "/v1/metrics"), (&server.otlp, "/v1/logs"), (&server.pages, "/v1/traces")]
    {
        let request = server.client.post(format!("{base}{path}")).header("content-type", JSON);
        let answer = request.body(body(&[span("eee19b7ec3c1b174")])).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "{}"), "{path}");
    }
    let get = server.client.get(format!("{}/v1/traces", server.otlp)).send().await.unwrap();
    assert_eq!(get.status(), 405);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_refuses_puts_the_sender_off_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let inbox = server.home.inbox();
    std::fs::remove_dir_all(&inbox).unwrap();
    std::fs::write(&inbox, "in the way").unwrap();
    let answer = server.post(JSON, body(&[span("eee19b7ec3c1b174")])).await;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.headers()["retry-after"], "2");
    let told = answer.text().await.unwrap();
    assert!(
        told.starts_with(r#"{"code":14,"message":"cannot write to the inbox: cannot append to "#),
        "{told}"
    );

    std::fs::remove_file(&inbox).unwrap();
    std::fs::create_dir(&inbox).unwrap();
    assert_eq!(server.post(JSON, body(&[span("eee19b7ec3c1b174")])).await.status(), 200);
    assert_eq!(server.ask("select count(*) from spans").await, 1);
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_gone_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path()).await;
    let secret = "sk-abcdefghijklmnopqrstuvwxyz";
    let mut one = span("eee19b7ec3c1b174");
    let hidden = json!([{"key": "k", "value": {"stringValue": format!("key {secret}")}}]);
    one["name"] = json!(secret);
    one["attributes"] = hidden.clone();
    one["events"] = json!([{"name": "e", "timeUnixNano": "1", "attributes": hidden}]);
    one["status"] = json!({"code": 2, "message": secret});
    assert_eq!(server.post(JSON, body(&[one])).await.status(), 200);
    let mut seen = 0;
    for file in std::fs::read_dir(server.home.inbox()).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        assert!(!text.contains(secret));
        seen += text.matches("[redacted:provider_key:").count();
    }
    assert_eq!(seen, 4);
    server.end().await;
}
