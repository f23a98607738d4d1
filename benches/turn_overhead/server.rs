//! A model that answers at once: OpenAI Chat Completions over HTTP/1.1, standard library only, a process of its own,
//! so that the CPU time of an agent loop can be told from the provider's.
//!
//! `rustc -O server.rs && ./server 8901`. The model's name is its script: `fake-20` asks for the tool `add` twenty
//! times and then answers `42`. Spans posted to `/v1/traces` are taken in and forgotten.

use std::io::{BufRead, BufReader, Result, Write};
use std::net::{TcpListener, TcpStream};

fn main() -> Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8901".to_owned());
    for stream in TcpListener::bind(format!("127.0.0.1:{port}"))?.incoming() {
        let stream = stream?;
        // A client that goes away ends its own thread only.
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut out = stream.try_clone()?;
    let mut input = BufReader::with_capacity(64 * 1024, stream);
    while let Some((path, body)) = request(&mut input)? {
        let answer = if path.ends_with("/chat/completions") { chat(&body) } else { "{}".to_owned() };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        out.write_all((head + &answer).as_bytes())?;
    }
    Ok(())
}

/// The path and the body of the next request; `None` at the end of the connection.
fn request(input: &mut impl BufRead) -> Result<Option<(String, Vec<u8>)>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let (mut length, mut chunked) = (0, false);
    loop {
        line.clear();
        input.read_line(&mut line)?;
        let header = line.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
    }
    let mut body = Vec::new();
    while chunked {
        line.clear();
        input.read_line(&mut line)?;
        length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let start = body.len();
        body.resize(start + length + 2, 0);
        input.read_exact(&mut body[start..])?;
        body.truncate(start + length);
        chunked = length > 0;
        length = 0;
    }
    let start = body.len();
    body.resize(start + length, 0);
    input.read_exact(&mut body[start..])?;
    Ok(Some((path, body)))
}

fn chat(body: &[u8]) -> String {
    let turns: usize = after(body, b"fake-").and_then(|rest| {
        let digits = rest.iter().take_while(|one| one.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    }).unwrap_or(0);
    let done = count(body, b"\"role\":\"tool\"") + count(body, b"\"role\": \"tool\"");
    let step = done + 1;
    let (message, finish) = match done < turns {
        true => (
            format!(
                "{{\"role\":\"assistant\",\"content\":\"Step {step}: I will call the add tool.\",\"tool_calls\":[{{\"id\":\
                 \"call_{step}\",\"type\":\"function\",\"function\":{{\"name\":\"add\",\"arguments\":\
                 \"{{\\\"a\\\":{step},\\\"b\\\":2}}\"}}}}]}}"
            ),
            "tool_calls",
        ),
        false => ("{\"role\":\"assistant\",\"content\":\"42\"}".to_owned(), "stop"),
    };
    let tokens = body.len() / 4;
    format!(
        "{{\"id\":\"chatcmpl-{step}\",\"object\":\"chat.completion\",\"created\":1750000000,\"model\":\"fake-{turns}\",\
         \"choices\":[{{\"index\":0,\"message\":{message},\"finish_reason\":\"{finish}\"}}],\"usage\":{{\
         \"prompt_tokens\":{tokens},\"completion_tokens\":30,\"total_tokens\":{}}}}}",
        tokens + 30
    )
}

fn after<'a>(text: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let at = text.windows(words.len()).position(|window| window == words)?;
    Some(&text[at + words.len()..])
}

fn count(text: &[u8], words: &[u8]) -> usize {
    let (mut found, mut rest) = (0, text);
    while let Some(more) = after(rest, words) {
        (found, rest) = (found + 1, more);
    }
    found
}
