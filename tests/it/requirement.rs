//! Requirements of the loop that no other story shows: what the model is told, what spans tell, how calls overlap.

use crate::kit::{Deed, InProcess, Kit, asks, requests, said, studio};
use crate::scenario::{self, Scenario};
use harness::agent::record;
use harness::driver::Unobserved;
use harness::model::scripted::ScriptTurn;
use harness::port::Live;
use harness::tool::typed::Typed;
use harness::tool::{Effect, Risk, Tool, Toolbox};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use trace::attribute::{self as name, operation};
use trace::fact::{Fact, Fault};
use trace::outcome::{FaultClass, StopReason, ToolStatus};
use trace::span::{Span, from_tape};
use trace::tape::Tape;

/// Every scenario, run.
async fn stories() -> Vec<(Scenario, Kit, crate::kit::Recorded)> {
    let mut stories = Vec::new();
    for scenario in scenario::all() {
        let kit = (scenario.kit)();
        let run = kit.run().await;
        stories.push((scenario, kit, run));
    }
    stories
}

fn spans(tape: &Tape, kind: &str) -> Vec<Span> {
    let is =
        |span: &Span| [name::OPERATION_NAME, name::SPAN_KIND].iter().any(|key| span.text(key) == Some(kind));
    from_tape(tape).into_iter().filter(is).collect()
}

/// Whether a text stands as a whole string anywhere in a JSON value.
fn says(value: &Value, text: &str) -> bool {
    match value {
        // A planner is told results as messages that begin with the tool's name.
        Value::String(one) => one == text || one.ends_with(&format!(": {text}")),
        Value::Array(list) => list.iter().any(|one| says(one, text)),
        Value::Object(members) => members.values().any(|one| says(one, text)),
        _ => false,
    }
}

/// R22 and R23.
#[tokio::test(start_paused = true)]
async fn the_model_is_told_what_really_happened_and_never_a_success_that_was_none() {
    let mut told = 0;
    for (scenario, kit, run) in stories().await {
        let requests = requests(&run.tape);
        let asked: Vec<u32> = run
            .tape
            .lines()
            .iter()
            .filter_map(|line| if let Fact::ModelAsked(fact) = &line.fact { Some(fact.turn) } else { None })
            .collect();
        for result in run.results() {
            let next = asked.iter().position(|turn| *turn > result.key.turn);
            if let Some(request) = next.map(|at| &requests[at]) {
                assert!(says(&request.json, &result.content), "{}: {}", scenario.name, result.content);
                told += 1;
            }
            // A result may stand under its name.
            let said = result.content.split_once(" = ").filter(|(name, _)| name.starts_with("$$r"));
            let said = said.map_or(result.content.as_str(), |(_, said)| said);
            let error = serde_json::from_str::<Value>(said).ok().filter(|one| one["error"].is_string());
            let is_ok = result.status == ToolStatus::Ok;
            assert_eq!(error.is_none(), is_ok, "{}: {:?}", scenario.name, result);
            let ran = kit.tools.iter().find(|tool| tool.spec().name == result.tool_name);
            // The loop's own tools have no body: that they were called is all that happens.
            // An agent's body is a run of its own.
            let is_own = harness::tool::reserved::NAMES.contains(&result.tool_name.as_str())
                || kit.agents.iter().any(|(table, _)| table.name == result.tool_name);
            assert!(
                !is_ok || is_own || ran.is_some_and(|tool| tool.entered() > 0),
                "{}: {:?}",
                scenario.name,
                result
            );
        }
    }
    assert!(told > 30, "only {told} results were told");
}

/// R29: the span of a tool call tells the risk; a tool that nobody knows has none.
#[tokio::test(start_paused = true)]
async fn the_span_of_a_call_tells_the_risk_of_its_tool() {
    let run =
        Kit::new([asks(&[("a", "look", "{}"), ("b", "pay", "{}"), ("c", "missing", "{}")]), said("So.")])
            .tool(&InProcess::reading("look", Deed::Say("seen")))
            .tool(&InProcess::writing("pay", Deed::Say("paid")))
            .run()
            .await;
    let risks: BTreeMap<String, Option<String>> = spans(&run.tape, operation::EXECUTE_TOOL)
        .iter()
        .map(|span| {
            (span.text(name::TOOL_NAME).unwrap().to_owned(), span.text(name::TOOL_RISK).map(str::to_owned))
        })
        .collect();
    let wanted = [("look", Some("read")), ("missing", None), ("pay", Some("write"))];
    assert_eq!(risks, wanted.map(|(tool, risk)| (tool.to_owned(), risk.map(str::to_owned))).into());
}

/// R42: what a failure is told as reads back as what it was, a timeout with how long it took.
#[tokio::test(start_paused = true)]
async fn a_failure_is_told_with_its_class_and_a_timeout_with_its_time() {
    let rows = [
        ("transient", FaultClass::Transient, ToolStatus::Error),
        ("permanent", FaultClass::Permanent, ToolStatus::Error),
        ("auth", FaultClass::Auth, ToolStatus::Error),
        ("timeout", FaultClass::Timeout, ToolStatus::Timeout),
    ];
    for (word, class, status) in rows {
        let deed = if class == FaultClass::Timeout { Deed::Hang } else { Deed::Fail(class) };
        let kit = Kit::new([asks(&[("a", "fails", "{}")]), said("Well.")]);
        let run = kit.tool(&InProcess::writing("fails", deed)).run().await;
        let result = run.results()[0];
        assert_eq!((result.status, result.error_class), (status, Some(class)));
        let told: Value = serde_json::from_str(&result.content).unwrap();
        let elapsed_ms = (class == FaultClass::Timeout).then_some(5000);
        assert_eq!((told["error"].as_str(), told["elapsed_ms"].as_u64()), (Some(word), elapsed_ms), "{told}");
        let fault = Fault { elapsed_ms, retry_after_ms: Some(3), ..Fault::new(class, "why") };
        assert_eq!(serde_json::from_str::<Fault>(&serde_json::to_string(&fault).unwrap()).unwrap(), fault);
    }
}

/// R43: a tool that keeps the keys of what it did has one effect, however often it is tried, in this process or in
/// the next one.
#[tokio::test(start_paused = true)]
async fn the_same_key_twice_is_one_effect() {
    let done: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let (book, tries) = (done.clone(), Arc::new(Mutex::new(0_u32)));
    let count = tries.clone();
    let book = Typed::new("book", "Books.", Risk::External, Effect::Idempotent, move |_: Value, permit| {
        let is_new = book.lock().unwrap().insert(permit.idempotency_key().to_owned());
        *count.lock().unwrap() += 1;
        // The effect is there, and its answer is lost on the way.
        let lost = Fault::new(FaultClass::Transient, "the line broke");
        std::future::ready(if is_new { Err(lost) } else { Ok("booked".to_owned()) })
    });
    let mut toolbox = Toolbox::default();
    toolbox.add(Arc::new(book) as Arc<dyn Tool>).unwrap();
    let kit = Kit::new([asks(&[("a", "book", "{}"), ("b", "book", "{}")]), said("Booked.")]);
    let live = Live::new(kit.cancel.clone(), Duration::from_secs(60));
    let setup = kit.setup_with(toolbox, Arc::new(live), kit.scripted());
    let folder = tempfile::tempdir().unwrap();
    let run = record(&setup, kit.task.clone(), &studio(folder.path()), &mut Unobserved).await.unwrap();
    assert_eq!(run.outcome.stop_reason, StopReason::Completed);
    assert_eq!((done.lock().unwrap().len(), *tries.lock().unwrap()), (2, 4), "two calls, two tries each");
    // Another process: the run, killed before the first result, goes on with the same keys.
    let sealed = crate::reseal::OpenLines::read(&run.tape).sealed();
    let kept = sealed.lines().position(|line| line.contains("\"type\":\"tool_started\"")).unwrap() + 1;
    let path = folder.path().join("killed.tape");
    std::fs::write(&path, sealed.lines().take(kept).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let tape = Tape::read(&path).unwrap();
    let mut writer = trace::tape::TapeWriter::reopen(&tape, studio(folder.path()).redactor).unwrap();
    let rest = kit.clone().say(vec![said("Booked.")]);
    let setup = harness::driver::Setup { model: rest.setup().model, ..setup };
    let resumed = serde_json::from_value(json!({})).unwrap();
    let outcome = harness::driver::resume(&setup, &tape, tape.lines(), resumed, &mut writer, &mut Unobserved)
        .await
        .unwrap();
    assert_eq!((outcome.stop_reason, done.lock().unwrap().len()), (StopReason::Completed, 2), "nothing new");
}

/// R45: a result over its size is cut, its span says so, and the whole is kept.
#[tokio::test(start_paused = true)]
async fn a_result_over_its_size_is_cut_and_its_span_says_so() {
    let long = "a rather long line that nobody wants to read whole";
    for (limit, is_cut) in [(20, true), (100, false)] {
        let run = Kit::new([asks(&[("a", "look", "{}")]), said("Long.")])
            .tool(&InProcess::reading("look", Deed::Say(long)))
            .with(|config| config.budget.max_tool_result_chars = limit)
            .run()
            .await;
        let span = spans(&run.tape, operation::EXECUTE_TOOL).remove(0);
        let flag = span.attributes.get(name::TOOL_TRUNCATED).and_then(Value::as_bool);
        assert_eq!(flag, is_cut.then_some(true), "{limit}");
        assert_eq!(span.text(name::TOOL_RESULT), Some(long), "the span has the whole");
        assert_eq!(run.results()[0].content != long, is_cut, "{limit}");
    }
}

/// R53: blocks of tools that the provider runs itself stay in the history as they came, and nobody here runs them.
#[tokio::test]
async fn what_the_provider_ran_itself_is_kept_and_never_run_here() {
    let messages = [
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "search", "input": {"query": "q"}}),
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}),
        json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "s", "input": {"a": 1}}),
        json!({"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": false,
            "content": [{"type": "text", "text": "hi"}]}),
    ];
    let call = json!({"type": "tool_use", "id": "t1", "name": "look", "input": {}});
    let body = json!({"id": "m", "type": "message", "role": "assistant", "model": "x",
        "content": messages.iter().chain([&call]).collect::<Vec<_>>(), "stop_reason": "tool_use"});
    let responses = [
        json!({"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": []}),
        json!({"type": "mcp_call", "id": "mcp_1", "name": "echo", "arguments": "{}", "server_label": "s", "output": "hi"}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
    ];
    let item =
        json!({"type": "function_call", "id": "fc_1", "call_id": "t1", "name": "look", "arguments": "{}"});
    let output = json!({"id": "r", "status": "completed", "model": "x",
        "output": responses.iter().chain([&item]).collect::<Vec<_>>()});
    let stream = streamed(&messages, &call);
    let rows: [(&str, bool, String, &[Value]); 3] = [
        ("messages", false, body.to_string(), &messages),
        ("messages", true, stream, &messages),
        ("responses", false, output.to_string(), &responses),
    ];
    for (wire, stream, body, blocks) in rows {
        let others =
            [InProcess::writing("echo", Deed::Say("no")), InProcess::writing("search", Deed::Say("no"))];
        let raw = ScriptTurn::Raw { status: 200, headers: [].into(), body };
        let run = Kit::new([raw, said("Done.")])
            .tool(&InProcess::reading("look", Deed::Say("seen")))
            .tool(&others[0])
            .tool(&others[1])
            .with(|config| {
                wire.clone_into(&mut config.model.wire);
                config.model.stream = stream;
            })
            .run()
            .await;
        assert_eq!(run.outcome.stop_reason, StopReason::Completed, "{wire}: {:?}", run.outcome);
        assert_eq!((run.results().len(), others[0].entered() + others[1].entered()), (1, 0), "{wire}");
        let next = requests(&run.tape).pop().unwrap();
        let listed = next.messages().iter().flat_map(|one| match one["content"].as_array() {
            Some(blocks) => blocks.clone(),
            None => vec![one.clone()],
        });
        let kept: Vec<Value> = listed.filter(|one| blocks.contains(one)).collect();
        assert_eq!(kept, blocks, "{wire}: in order and as they came");
    }
}

/// The blocks as events of a Messages stream, input in pieces.
fn streamed(blocks: &[Value], call: &Value) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "m", "model": "x"}})];
    for (index, block) in blocks.iter().chain([call]).enumerate() {
        let mut begun = block.clone();
        let input = begun.get_mut("input").map(|input| std::mem::replace(input, json!({})).to_string());
        events.push(json!({"type": "content_block_start", "index": index, "content_block": begun}));
        for piece in input.iter().flat_map(|input| input.as_bytes().chunks(3)) {
            let delta = json!({"type": "input_json_delta", "partial_json": String::from_utf8_lossy(piece)});
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// R57.
#[tokio::test(start_paused = true)]
async fn three_reads_of_a_tenth_of_a_second_take_a_tenth_of_a_second() {
    let calls = [("a", "look", "{\"n\":1}"), ("b", "look", "{\"n\":2}"), ("c", "look", "{\"n\":3}")];
    let kit =
        Kit::new([asks(&calls), said("Seen.")]).tool(&InProcess::reading("look", Deed::After(100, "seen")));
    let began = Instant::now();
    kit.run().await;
    assert_eq!(began.elapsed(), Duration::from_millis(100));
}

/// R76: the span of a model call shows each attempt that failed, of what class, and the pause after it.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_on_the_span_with_its_class_and_its_pause() {
    let scenario = scenario::all().into_iter().find(|one| one.name == "attempts that fail").unwrap();
    let run = (scenario.kit)().run().await;
    let chat = spans(&run.tape, operation::CHAT).remove(0);
    assert_eq!(chat.attributes[name::MODEL_ATTEMPTS], 4);
    let told: Vec<_> = chat
        .events
        .iter()
        .map(|event| {
            let of = |key: &str| event.attributes[key].clone();
            (of("attempt"), of(name::ERROR_TYPE), of("delay_ms"))
        })
        .collect();
    let wanted =
        [1000, 3000, 4000].iter().zip(1..).map(|(ms, nth)| (json!(nth), json!("transient"), json!(ms)));
    assert_eq!(told, wanted.collect::<Vec<_>>());
}

/// R98: every turn tells its number, tools, arguments, statuses, tokens and latency.
#[tokio::test(start_paused = true)]
async fn every_turn_has_a_span_that_tells_all_of_it() {
    for (scenario, _, run) in stories().await {
        let turns = spans(&run.tape, operation::TURN);
        assert_eq!(turns.len(), run.outcome.turns as usize, "{}", scenario.name);
        for (turn, index) in turns.iter().zip(1_u32..) {
            assert_eq!(turn.attributes[name::TURN_INDEX], index, "{}", scenario.name);
            let results: Vec<_> = run.results().into_iter().filter(|one| one.key.turn == index).collect();
            let list = |of: fn(&trace::fact::ToolFinished) -> &str| -> Value {
                results.iter().map(|one| json!(of(one))).collect()
            };
            assert_eq!(
                turn.attributes[name::TURN_TOOL_NAMES],
                list(|one| &one.tool_name),
                "{}",
                scenario.name
            );
            assert_eq!(
                turn.attributes[name::TURN_ARGUMENTS],
                list(|one| &one.arguments),
                "{}",
                scenario.name
            );
            let statuses = list(|one| one.status.as_str());
            assert_eq!(turn.attributes[name::TURN_TOOL_STATUSES], statuses, "{}", scenario.name);
            assert!(
                turn.attributes[name::TURN_LATENCY_MS].is_i64()
                    || turn.attributes[name::TURN_LATENCY_MS].is_u64()
            );
            let answered = run.tape.lines().iter().any(|line| {
                matches!(&line.fact, Fact::ModelAnswered(fact) if fact.turn == index && fact.response.is_some())
            });
            let tokens = [name::TURN_INPUT_TOKENS, name::TURN_OUTPUT_TOKENS];
            assert_eq!(
                tokens.map(|key| turn.attributes.contains_key(key)),
                [answered; 2],
                "{}",
                scenario.name
            );
        }
    }
}

/// R99: as many spans of tool calls as calls, whether they ran or were refused.
#[tokio::test(start_paused = true)]
async fn every_call_has_one_span() {
    for (scenario, _, run) in stories().await {
        let calls: BTreeSet<String> = run.results().iter().map(|one| one.key.to_string()).collect();
        // A call that waits for somebody has a span, and no result yet.
        let waits = usize::from(trace::fact::waiting(run.tape.lines()).is_some());
        assert_eq!(spans(&run.tape, operation::EXECUTE_TOOL).len(), calls.len() + waits, "{}", scenario.name);
        assert_eq!(run.outcome.tool_calls as usize, calls.len(), "{}", scenario.name);
    }
}
