//! The HTTP transport against real sockets: exact bytes, arrival times, cut and stalled connections.

use super::*;
use crate::model::wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const KEY: &str = "sk-very-secret";

/// What the server does after it read a request: bytes and pauses in milliseconds, then it closes.
type Script = &'static [(&'static str, u64)];

/// Reads one request with its body and plays the script; returns the request.
async fn play(mut socket: TcpStream, script: Script) -> String {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !seen.ends_with(b"{\"q\":1}") {
        let count = socket.read(&mut buffer).await.expect("request");
        assert!(count > 0, "the request ended early");
        seen.extend_from_slice(&buffer[..count]);
    }
    for (bytes, pause_ms) in script {
        socket.write_all(bytes.as_bytes()).await.expect("answer");
        tokio::time::sleep(Duration::from_millis(*pause_ms)).await;
    }
    String::from_utf8(seen).expect("text")
}

struct Told {
    result: Result<Reply, Fault>,
    pieces: Vec<Vec<u8>>,
    request: String,
    debug: String,
}

async fn tell(script: Script) -> Told {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("address");
    let mut server = JoinSet::new();
    server.spawn(async move { play(listener.accept().await.expect("a client").0, script).await });
    let mut endpoint = Endpoint::new(format!("http://{address}/v1/"));
    endpoint.idle_timeout = Duration::from_millis(150);
    endpoint.answer_timeout = Duration::from_millis(300);
    let wire = wire("chat").expect("known");
    let http = Http::new(&endpoint, wire.as_ref(), Some(&SecretString::from(KEY))).expect("built");
    let mut pieces = Vec::new();
    let request =
        WireRequest { endpoint: "/chat/completions".to_owned(), body: b"{\"q\":1}".to_vec(), stream: true };
    let result = http.send(&request, &mut |piece| pieces.push(piece.to_vec())).await;
    let debug = format!("{http:?}");
    let request = server.join_next().await.expect("served").expect("no panic");
    Told { result, pieces, request, debug }
}

#[tokio::test]
async fn bytes_go_out_and_come_in_exactly_with_the_headers_that_matter() {
    let told = tell(&[
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nset-cookie: secret\r\nx-request-id: r1\r\n\
          x-ratelimit-remaining-tokens: 9\r\nopenai-organization: acme\r\ntransfer-encoding: chunked\r\n\r\n",
            0,
        ),
        ("5\r\ndata:\r\n", 40),
        ("3\r\n x\n\r\n0\r\n\r\n", 0),
    ])
    .await;
    let reply = told.result.expect("an answer");
    assert_eq!((reply.status, reply.body.as_slice(), reply.cut), (200, b"data: x\n".as_slice(), None));
    assert_eq!(told.pieces, [b"data:".to_vec(), b" x\n".to_vec()]);
    assert_eq!(reply.chunks.iter().map(|chunk| chunk.bytes).collect::<Vec<_>>(), [5, 3]);
    assert!(
        reply.chunks[1].after_ns > reply.chunks[0].after_ns && reply.latency_ns >= reply.chunks[1].after_ns
    );
    let names: Vec<&str> = reply.headers.keys().map(String::as_str).collect();
    assert_eq!(names, ["content-type", "x-ratelimit-remaining-tokens", "x-request-id"]);
    assert!(told.request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", told.request);
    assert!(told.request.contains("authorization: Bearer sk-very-secret\r\n"));
    assert!(told.request.contains("accept: text/event-stream\r\n"));
    assert!(!told.request.contains("accept-encoding"));
    assert!(!told.debug.contains("secret"), "{}", told.debug);
}

#[tokio::test]
async fn a_connection_that_is_cut_leaves_what_arrived_and_says_so() {
    let told = tell(&[("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of", 0)]).await;
    let reply = told.result.expect("an answer");
    let cut = reply.cut.expect("it was cut");
    assert_eq!((reply.body.as_slice(), cut.class), (b"half of".as_slice(), FaultClass::Transient));
    assert!(cut.message.starts_with("the connection to 127.0.0.1:"), "{}", cut.message);
    assert!(!cut.message.contains("/v1"), "{}", cut.message);
}

#[tokio::test]
async fn an_answer_that_stalls_is_cut_as_a_timeout() {
    let told = tell(&[("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf", 400)]).await;
    let reply = told.result.expect("an answer");
    assert_eq!(
        (reply.body.as_slice(), reply.cut.expect("stalled").class),
        (b"half".as_slice(), FaultClass::Timeout)
    );
}

#[tokio::test]
async fn no_answer_at_all_is_a_timeout() {
    let fault = tell(&[("", 500)]).await.result.expect_err("silence");
    assert_eq!(fault.class, FaultClass::Timeout);
    assert!(fault.message.contains("within 0.3 s"), "{}", fault.message);
}

#[tokio::test]
async fn an_error_status_is_a_reply_and_no_watcher_sees_its_body() {
    let told = tell(&[("HTTP/1.1 429 Too Many\r\nretry-after: 3\r\ncontent-length: 4\r\n\r\nslow", 0)]).await;
    let reply = told.result.expect("an answer");
    assert_eq!((reply.status, reply.body.as_slice(), told.pieces.len()), (429, b"slow".as_slice(), 0));
    assert_eq!(reply.headers["retry-after"], "3");
}

#[tokio::test]
async fn an_answer_past_the_limit_is_cut_off_and_not_kept_in_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = Endpoint::new(format!("http://{}", listener.local_addr().expect("address")));
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut socket = listener.accept().await.expect("a client").0;
        let _request = socket.read(&mut [0; 4096]).await.expect("request");
        let mebibyte = vec![b'x'; 1 << 20];
        socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("head");
        // The client hangs up before the end.
        while socket.write_all(&mebibyte).await.is_ok() {}
    });
    let wire = wire("chat").expect("known");
    let http = Http::new(&endpoint, wire.as_ref(), None).expect("built");
    let request = WireRequest { endpoint: "/chat/completions".to_owned(), body: Vec::new(), stream: false };
    let reply = http.send(&request, &mut |_| {}).await.expect("it began");
    let cut = reply.cut.expect("cut off");
    assert_eq!(cut.class, FaultClass::Permanent);
    assert!(cut.message.ends_with("is longer than 67108864 bytes"), "{}", cut.message);
    assert!(reply.body.len() <= MAX_BODY_BYTES);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let told =
        tell(&[("HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:9/x\r\ncontent-length: 0\r\n\r\n", 0)]).await;
    assert_eq!(told.result.expect("an answer").status, 307);
}

#[tokio::test]
async fn nobody_listening_is_transient() {
    let address = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("address");
    let wire = wire("messages").expect("known");
    let endpoint = Endpoint::new(format!("http://{address}"));
    let http = Http::new(&endpoint, wire.as_ref(), Some(&SecretString::from(KEY))).expect("built");
    let request = WireRequest { endpoint: "/chat/completions".to_owned(), body: Vec::new(), stream: false };
    let fault = http.send(&request, &mut |_| {}).await.expect_err("refused");
    assert_eq!(fault.class, FaultClass::Transient);
    assert!(fault.message.starts_with(&format!("no answer from {address}")), "{}", fault.message);
}

#[test]
fn a_base_url_or_header_that_cannot_be_is_an_error_that_hides_the_key() {
    let wire = wire("chat").expect("known");
    let build =
        |url: &str, key: &str| Http::new(&Endpoint::new(url), wire.as_ref(), Some(&SecretString::from(key)));
    for url in ["", "openai.com/v1", "ftp://example.org"] {
        let error = build(url, KEY).expect_err("no address").to_string();
        assert!(error.starts_with(&format!("base_url `{url}` is not an http or https address")), "{error}");
    }
    let error = build("http://localhost/v1", "bad\nkey").expect_err("no header").to_string();
    assert!(error.contains("`authorization`") && !error.contains("bad"), "{error}");
}

#[test]
fn an_endpoint_goes_below_the_base_url_and_all_queries_behind_the_path() {
    let table = [
        (
            "https://x.azure.com/d?api-version=1",
            "/chat/completions",
            "https://x.azure.com/d/chat/completions?api-version=1",
        ),
        ("https://h/v1/", "/responses", "https://h/v1/responses"),
        ("https://h", "/models/a b:do?alt=sse", "https://h/models/a%20b:do?alt=sse"),
        ("https://h/v1?k=1", "/models/m:do?alt=sse", "https://h/v1/models/m:do?k=1&alt=sse"),
    ];
    for (base_url, endpoint, expected) in table {
        assert_eq!(address(&base(base_url).expect("a base"), endpoint).as_str(), expected);
    }
}
