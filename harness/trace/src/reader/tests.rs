//! Who answers a reader.

use super::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::open(folder.path().to_owned()).unwrap();
    (folder, home)
}

#[tokio::test]
async fn a_reader_that_is_alone_answers_itself() {
    let (_folder, home) = home();
    let reader = Reader::open(&home, Duration::ZERO).unwrap();
    let table = reader.query("select 1 as one", &[], 1).await.unwrap();
    assert_eq!(json!(table.rows), json!([[1]]));
    let none = reader.find_run("latest").await.unwrap_err().to_string();
    assert_eq!(none, "there is no run `latest`; `loopdeck runs` lists them");
}

#[tokio::test]
async fn a_second_reader_waits_for_the_first_and_then_says_who_it_is() {
    let (_folder, home) = home();
    let first = Reader::open(&home, Duration::ZERO).unwrap();
    let told = Reader::open(&home, Duration::from_millis(50)).unwrap_err().to_string();
    assert!(told.contains("is in use by") && told.contains(&std::process::id().to_string()), "{told}");
    let waiting = std::thread::spawn(move || Reader::open(&home, WAIT).is_ok());
    std::thread::sleep(Duration::from_millis(50));
    drop(first);
    assert!(waiting.join().unwrap());
}

/// An owner that answers one request with this, and hands out what it was asked.
fn owner(status: &'static str, body: String) -> (std::net::SocketAddr, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut asked, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            asked.push_str(&line);
        }
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).unwrap();
        asked.push_str(&String::from_utf8(bytes).unwrap());
        write!(
            stream,
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        asked
    });
    (addr, thread)
}

#[tokio::test]
async fn beside_serve_a_reader_asks_the_owner_with_its_token() {
    let (_folder, home) = home();
    let lock = Lock::try_take(&home).unwrap();
    let table = Table { rows: vec![vec![json!(7)]], ..Table::default() };
    let (addr, served) = owner("200 OK", serde_json::to_string(&table).unwrap());
    lock.announce(addr, "secret").unwrap();
    let reader = Reader::open(&home, Duration::ZERO).unwrap();
    assert_eq!(reader.query("select $1", &[json!(7)], 5).await.unwrap(), table);
    let asked = served.join().unwrap();
    assert!(asked.starts_with("POST /api/query HTTP/1.1"), "{asked}");
    assert!(asked.contains("authorization: Bearer secret"), "{asked}");
    assert!(asked.contains(r#""limit":5"#) && asked.contains(r#""params":[7]"#), "{asked}");
}

#[tokio::test]
async fn what_the_owner_refuses_is_told_in_its_words() {
    let (addr, _served) = owner("400 Bad Request", r#"{"error":"no such column"}"#.to_owned());
    let reader = Reader::remote(&format!("http://{addr}/"), "t").unwrap();
    let told = reader.query("select x", &[], 5).await.unwrap_err().to_string();
    assert_eq!(told, "no such column");
}
