//! Spans to somebody else's collector: a counted copy.
//!
//! Place in the flow: span -> **OTLP/HTTP protobuf** -> their backend. Nothing here touches a tape; the answer
//! says how many spans were sent, acknowledged and lost. There is no queue that could drop silently: the caller
//! gives the spans and waits for the count.
//! Source: OTLP specification, "OTLP/HTTP": retry on 429, 502, 503 and 504 only.

mod destination;

pub use destination::{Destination, DestinationError};

use crate::attribute;
use crate::otlp::{ExportTraceServiceResponse, encode};
use crate::span::Span;
use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use std::time::Duration;

/// Spans of one request; the default of OpenTelemetry's batch processor.
const BATCH_SPANS: usize = 512;
/// A larger request is cut in two; collectors refuse what is above 64 MiB, some far less.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Tries of one request.
const ATTEMPTS: u32 = 4;
/// The pause after the first try; it doubles after each.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Nobody is waited for longer, whatever `Retry-After` says.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// More of an answer is not read: it holds a count and a sentence.
const ANSWER_BYTES: usize = 64 * 1024;

/// Attributes that hold what was said; exported only on demand.
const CONTENT: [&str; 9] = [
    attribute::INPUT_MESSAGES,
    attribute::OUTPUT_MESSAGES,
    attribute::SYSTEM_INSTRUCTIONS,
    attribute::TOOL_DEFINITIONS,
    attribute::TOOL_ARGUMENTS,
    attribute::TOOL_RESULT,
    attribute::TURN_ARGUMENTS,
    attribute::RUN_TASK,
    attribute::RUN_ANSWER,
];

/// What became of the spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    /// Spans that went out at least once.
    pub sent: u64,
    /// Spans that the collector took.
    pub acknowledged: u64,
    /// Spans that it did not take: rejected, or given up on.
    pub lost: u64,
    /// Why the first of them was lost.
    pub why: Option<String>,
}

/// Sends the spans and waits until each is acknowledged or lost. It never fails: the count says it.
pub async fn export(spans: &[Span], destination: &Destination) -> Exported {
    let mut exported = Exported::default();
    let client = match destination.client() {
        Ok(client) => client,
        Err(error) => {
            exported.lose(spans.len(), format!("cannot build an HTTP client: {error}"));
            return exported;
        }
    };
    let mut batches: Vec<&[Span]> = spans.chunks(BATCH_SPANS).rev().collect();
    while let Some(batch) = batches.pop() {
        let body = encode(&outgoing(batch, destination)).encode_to_vec();
        if body.len() > BATCH_BYTES && batch.len() > 1 {
            let (first, second) = batch.split_at(batch.len() / 2);
            batches.extend([second, first]);
            continue;
        }
        exported.sent += batch.len() as u64;
        match send(&client, destination, &body).await {
            Ok(answer) => exported.count(batch.len(), &answer),
            Err(why) => exported.lose(batch.len(), why),
        }
    }
    exported
}

impl Exported {
    fn count(&mut self, spans: usize, answer: &ExportTraceServiceResponse) {
        let partial = answer.partial_success.clone().unwrap_or_default();
        let rejected = usize::try_from(partial.rejected_spans).unwrap_or(0).min(spans);
        self.acknowledged += (spans - rejected) as u64;
        if rejected > 0 {
            self.lose(rejected, format!("the collector rejected them: {}", partial.error_message));
        }
    }

    fn lose(&mut self, spans: usize, why: String) {
        self.lost += spans as u64;
        self.why.get_or_insert(why);
    }
}

/// The spans as they may leave: without content unless it was asked for, and under the wanted service name.
fn outgoing(spans: &[Span], destination: &Destination) -> Vec<Span> {
    let mut spans = spans.to_vec();
    for span in &mut spans {
        if !destination.with_content {
            span.attributes.retain(|name, _| !is_content(name));
            span.events.iter_mut().for_each(|event| event.attributes.retain(|name, _| !is_content(name)));
        }
        if let Some(name) = &destination.service_name {
            span.resource.insert(attribute::SERVICE_NAME.to_owned(), name.clone().into());
        }
    }
    spans
}

/// Our own content, and that of the dialects that come in by OTLP.
fn is_content(name: &str) -> bool {
    const DIALECTS: [&str; 14] = [
        "input.value",
        "output.value",
        "llm.input_messages",
        "llm.output_messages",
        "llm.prompts",
        "gen_ai.prompt.",
        "gen_ai.completion.",
        "gen_ai.content.",
        "traceloop.entity.input",
        "traceloop.entity.output",
        "ai.prompt",
        "ai.response",
        "tool_arguments",
        "tool_response",
    ];
    let named_prompt = name == attribute::PROMPT_NAME || name == attribute::PROMPT_VERSION;
    !named_prompt && (CONTENT.contains(&name) || DIALECTS.iter().any(|prefix| name.starts_with(prefix)))
}

async fn send(
    client: &reqwest::Client,
    destination: &Destination,
    body: &[u8],
) -> Result<ExportTraceServiceResponse, String> {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 1;
    loop {
        let request = destination.headers.iter().fold(
            client.post(&destination.endpoint).header(CONTENT_TYPE, "application/x-protobuf"),
            |request, (name, value)| request.header(name, value),
        );
        let (why, wait) = match request.body(body.to_vec()).send().await {
            Ok(answer) if answer.status().is_success() => return Ok(read(answer).await),
            Ok(answer) => {
                let why = format!("{} answered {}", destination.endpoint, answer.status());
                if !matches!(answer.status().as_u16(), 429 | 502 | 503 | 504) {
                    return Err(why);
                }
                (why, retry_after(&answer))
            }
            Err(error) => {
                (format!("{} cannot be reached: {}", destination.endpoint, root_cause(&error)), None)
            }
        };
        if attempt == ATTEMPTS {
            return Err(format!("{why}; gave up after {ATTEMPTS} tries"));
        }
        tokio::time::sleep(wait.unwrap_or(pause).min(LONGEST_PAUSE)).await;
        pause *= 2;
        attempt += 1;
    }
}

/// What the collector said; an answer that cannot be read is a plain success, as its status said.
async fn read(mut answer: reqwest::Response) -> ExportTraceServiceResponse {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        if body.len() + chunk.len() > ANSWER_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    ExportTraceServiceResponse::decode(body.as_slice()).unwrap_or_default()
}

/// Seconds only: a date would need a wall clock, and every collector that we know sends seconds.
fn retry_after(answer: &reqwest::Response) -> Option<Duration> {
    answer.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests;
