//! Recorded OTLP of three instrumentations: 775 traces, 2604 spans, however they arrive.

use crate::running::{JSON, PROTOBUF, Running, serve};
use futures::future::join_all;
use prost::Message as _;
use std::path::PathBuf;

/// The bodies, one a line; `None`, said aloud, where they are not there.
fn bodies() -> Option<Vec<Vec<u8>>> {
    let root = std::env::var_os("LOOPDECK_REAL_DATA")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let names = ["openinference", "openllmetry", "pydantic-ai-agents"];
    let texts: Result<Vec<String>, _> = names
        .iter()
        .map(|name| std::fs::read_to_string(root.join("otlp").join(format!("{name}.jsonl"))))
        .collect();
    match texts {
        Ok(texts) => {
            Some(texts.iter().flat_map(|text| text.lines()).map(|line| line.as_bytes().to_vec()).collect())
        }
        Err(why) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "no real data in CI: {why}");
            // Past the capture of the test runner, or nobody would hear it.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("skipped: no real data ({why})\n"),
            );
            None
        }
    }
}

/// One line over all rows, the same whatever the order in which they were written.
async fn checksum(server: &Running) -> Vec<String> {
    let mut sums = Vec::new();
    for view in ["spans", "runs", "turns", "model_calls", "tool_calls", "messages"] {
        let sql = format!(
            "select '{view} ' || count(*) || ' ' || coalesce(md5(string_agg(h, '' order by h)), '') from (select md5(t::varchar) as h from {view} as t)"
        );
        sums.push(server.ask(&sql).await.as_str().unwrap().to_owned());
    }
    sums
}

/// The pages over all of it, and of the run that said most.
async fn pages_stay_small(server: &Running) {
    let longest = "select run_id from messages group by run_id order by sum(length(content)) desc limit 1";
    let longest = server.ask(longest).await.as_str().unwrap().to_owned();
    let busiest = server.ask("select run_id from runs order by tool_calls desc, run_id limit 1").await;
    let runs = [format!("/runs/{longest}"), format!("/runs/{}", busiest.as_str().unwrap())];
    for path in ["/", "/alerts", &runs[0], &runs[1]] {
        let began = std::time::Instant::now();
        let bytes = server.page(path).await.len();
        println!("{path}: {bytes} bytes in {} ms", began.elapsed().as_millis());
        assert!((500..100 * 1024).contains(&bytes), "{path} has {bytes} bytes");
    }
}

async fn send(server: &Running, content_type: &str, bodies: &[Vec<u8>]) {
    for body in bodies {
        let answer = server.post(content_type, body.clone()).await;
        assert_eq!(answer.status(), 200);
        let told = answer.bytes().await.unwrap();
        assert!(told.is_empty() || told.as_ref() == b"{}", "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_rows_come_of_the_same_spans_however_they_arrive() {
    let Some(bodies) = bodies() else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];

    let once = serve(folders[0].path()).await;
    send(&once, JSON, &bodies).await;
    assert_eq!(once.ask("select count(distinct trace_id) from spans").await, 775);
    assert_eq!(once.ask("select count(*) from spans").await, 2604);
    let expected = checksum(&once).await;
    println!("{expected:#?}");
    pages_stay_small(&once).await;
    send(&once, JSON, &bodies).await;
    assert_eq!(checksum(&once).await, expected, "sent twice");
    once.end().await;
    let again = serve(folders[0].path()).await;
    assert_eq!(checksum(&again).await, expected, "after a restart");
    again.end().await;

    let protobuf: Vec<Vec<u8>> = bodies
        .iter()
        .map(|body| trace::otlp::encode(&trace::otlp::decode_json(body).unwrap().spans).encode_to_vec())
        .collect();
    let binary = serve(folders[1].path()).await;
    send(&binary, PROTOBUF, &protobuf).await;
    assert_eq!(checksum(&binary).await, expected, "as protobuf");
    binary.end().await;

    let crowd = serve(folders[2].path()).await;
    // Each sender sends everything, beginning at another place, half of them the other encoding.
    let senders = (0..8).map(|sender| {
        let (content_type, mut mine) =
            if sender % 2 == 0 { (JSON, bodies.clone()) } else { (PROTOBUF, protobuf.clone()) };
        let shift = mine.len() * sender / 8;
        mine.rotate_left(shift);
        let crowd = &crowd;
        async move { send(crowd, content_type, &mine).await }
    });
    join_all(senders).await;
    assert_eq!(checksum(&crowd).await, expected, "from eight senders at once");
    crowd.end().await;
}
