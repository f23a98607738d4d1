//! The order in which a call is dealt with: found, held to its schema, to its tool, permitted, called, its answer formed.
//! The first no is the last stage.

use crate::kit::{Kit, asks, redactor, said};
use futures::future::BoxFuture;
use harness::config::Verdict;
use harness::driver::{Observer, drive};
use harness::policy::{CanUse, Permit};
use harness::tool::{Effect, Risk, Tool, ToolSpec, Toolbox};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use trace::fact::{Fact, Fault};
use trace::outcome::FaultClass;
use trace::tape::TapeWriter;

type Journal = Arc<Mutex<Vec<String>>>;

/// A tool that tells the journal whatever is asked of it, and says no at the stage whose name is in its arguments.
#[derive(Debug)]
struct Staged {
    spec: ToolSpec,
    journal: Journal,
}

impl Staged {
    fn tell(&self, stage: &str, arguments: &Value) -> bool {
        self.journal.lock().unwrap().push(stage.to_owned());
        arguments["fail"] != *stage
    }
}

impl Tool for Staged {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn validate(&self, arguments: &Value) -> Result<(), String> {
        self.tell("validate", arguments).then_some(()).ok_or_else(|| "not like this".to_owned())
    }

    fn can_use(&self, arguments: &Value) -> Result<CanUse, String> {
        match self.tell("can_use", arguments) {
            true => Ok(CanUse { verdict: Verdict::Allow, reason: String::new() }),
            // Who cannot decide has not allowed.
            false => Err("the register is closed".to_owned()),
        }
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        let arguments: Value = serde_json::from_str(permit.arguments()).unwrap();
        let works = self.tell("call", &arguments);
        let result = works.then(|| "done".to_owned());
        Box::pin(std::future::ready(result.ok_or_else(|| Fault::new(FaultClass::Permanent, "it broke"))))
    }
}

struct Facts(Journal);

impl Observer for Facts {
    fn recorded(&mut self, _seq: u64, _at_ns: i64, fact: &Fact) {
        let told = match fact {
            Fact::ToolStarted(_) => "tool_started".to_owned(),
            Fact::ToolFinished(fact) => {
                format!("tool_finished {}", fact.failure_stage.map_or("ok", |stage| stage.as_str()))
            }
            _ => return,
        };
        self.0.lock().unwrap().push(told);
    }
}

async fn journal(tool: &str, arguments: &str) -> Vec<String> {
    let journal = Journal::default();
    let spec = ToolSpec {
        name: "staged".to_owned(),
        description: "Goes through all stages.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"fail": {"type": "string"}}}),
        risk: Risk::Write,
        effect: Effect::AtMostOnce,
        timeout_ms: 1000,
        output_schema: None,
    };
    let mut toolbox = Toolbox::default();
    toolbox.add(Arc::new(Staged { spec, journal: journal.clone() })).unwrap();
    let kit = Kit::new([asks(&[("a", tool, arguments)]), said("Done.")]);
    let mut setup = kit.setup();
    setup.toolbox = Arc::new(toolbox);
    setup.hands = Arc::new(harness::hands::LiveHands::new(setup.toolbox.clone(), setup.ports.clone(), 0));
    let folder = tempfile::tempdir().unwrap();
    let run_id = trace::id::RunId::from_draw(3);
    let mut writer = TapeWriter::create(folder.path(), &run_id, 1, Arc::new(redactor())).unwrap();
    let identity = harness::agent::Identity { run_id, trace_id: trace::id::TraceId::new([1; 16]) };
    let started =
        harness::agent::started_fact(&setup.config, &setup.toolbox, &kit.task, identity, &mut writer)
            .unwrap();
    drive(&setup, started, &mut writer, &mut Facts(journal.clone())).await.unwrap();
    let tape = Arc::new(crate::kit::checked(&writer.seal().unwrap()));
    crate::kit::assert_exact(&tape).await;
    journal.lock().unwrap().clone()
}

#[tokio::test]
async fn a_call_goes_through_its_stages_in_order_and_the_first_no_is_the_last_stage() {
    for (tool, arguments, wanted) in [
        ("staged", "{}", &["validate", "can_use", "tool_started", "call", "tool_finished ok"][..]),
        ("nobody", "{}", &["tool_finished unknown_tool"]),
        ("staged", "{\"fail\":3}", &["tool_finished validation"]),
        ("staged", "{\"fail\":\"validate\"}", &["validate", "tool_finished validation"]),
        ("staged", "{\"fail\":\"can_use\"}", &["validate", "can_use", "tool_finished permission"]),
        (
            "staged",
            "{\"fail\":\"call\"}",
            &["validate", "can_use", "tool_started", "call", "tool_finished execution"],
        ),
    ] {
        assert_eq!(journal(tool, arguments).await, wanted, "{tool} {arguments}");
    }
}
