//! Tools of this process: they work, fail, hang or panic, and remember that they were entered.

use futures::future::BoxFuture;
use harness::config::Verdict;
use harness::policy::{CanUse, Permit};
use harness::tool::{Effect, Risk, Tool, ToolSpec};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use trace::fact::{Fault, Wants};
use trace::outcome::FaultClass;

/// What happened, in order, told by whoever takes part.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// Ends what is said about panics that a story wants; others are told as ever.
pub(crate) fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload_as_str().is_some_and(|said| said.ends_with("as this story wants it")) {
                usual(info);
            }
        }));
    });
}

/// What a tool does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Deed {
    /// It answers.
    Say(&'static str),
    /// It answers after so many milliseconds.
    After(u64, &'static str),
    /// It answers how often it was asked before.
    Count,
    /// It fails.
    Fail(FaultClass),
    /// It fails so many times, then answers.
    FailFirst(u32, FaultClass),
    /// It never comes back.
    Hang,
    /// It panics.
    Panic,
    /// It wants no 1, never runs with 2, has a person asked about 3, and may run with 4.
    Rule,
    /// It asks a person this, and answers with what the person said.
    Ask(Wants, &'static str),
}

/// A tool that takes an object with an optional whole number `n`.
#[derive(Debug)]
pub(crate) struct InProcess {
    spec: ToolSpec,
    deed: Deed,
    entered: AtomicU32,
    log: Log,
}

impl InProcess {
    /// A tool that only reads and may be repeated.
    pub(crate) fn reading(name: &str, deed: Deed) -> Arc<Self> {
        Self::build(name, deed, Risk::Read, Effect::Pure, Log::default())
    }

    /// A tool with a side effect that must not happen twice.
    pub(crate) fn writing(name: &str, deed: Deed) -> Arc<Self> {
        Self::logging(name, deed, Log::default())
    }

    /// The same, telling this log when its body is entered.
    pub(crate) fn logging(name: &str, deed: Deed, log: Log) -> Arc<Self> {
        Self::build(name, deed, Risk::Write, Effect::AtMostOnce, log)
    }

    fn build(name: &str, deed: Deed, risk: Risk, effect: Effect, log: Log) -> Arc<Self> {
        let input_schema = json!({
            "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false
        });
        let description = format!("Does {name}.");
        let spec = ToolSpec {
            name: name.to_owned(),
            description,
            input_schema,
            risk,
            effect,
            timeout_ms: 5_000,
            output_schema: None,
        };
        Arc::new(Self { spec, deed, entered: AtomicU32::new(0), log })
    }

    /// How often its body was entered: its side effects.
    pub(crate) fn entered(&self) -> u32 {
        self.entered.load(Ordering::SeqCst)
    }

    async fn act(&self, permit: &Permit) -> Result<String, Fault> {
        let before = self.entered.fetch_add(1, Ordering::SeqCst);
        self.log.lock().unwrap().push(format!("enter {}", self.spec.name));
        match self.deed {
            Deed::FailFirst(times, class) if before < times => Err(Fault::new(class, "not yet")),
            Deed::FailFirst(..) => Ok("at last".to_owned()),
            Deed::Say(text) => Ok(text.to_owned()),
            Deed::After(ms, text) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(text.to_owned())
            }
            Deed::Count => Ok(before.to_string()),
            Deed::Rule => Ok("done".to_owned()),
            Deed::Fail(class) => Err(Fault::new(class, "it does not work")),
            Deed::Hang => std::future::pending().await,
            Deed::Ask(wants, prompt) => Ok(match permit.spoken() {
                Some(spoken) => format!("{}: {}", spoken.word(), spoken.said),
                None => json!({ "needs_person": { "wants": wants, "prompt": prompt } }).to_string(),
            }),
            Deed::Panic => panic!("a tool that panics, as this story wants it"),
        }
    }
}

impl Tool for InProcess {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn validate(&self, arguments: &Value) -> Result<(), String> {
        match (&self.deed, arguments["n"].as_u64()) {
            (Deed::Rule, Some(1)) => Err("n must not be 1".to_owned()),
            _ => Ok(()),
        }
    }

    fn can_use(&self, arguments: &Value) -> Result<CanUse, String> {
        let own = |verdict, reason: &str| Ok(CanUse { verdict, reason: reason.to_owned() });
        match (&self.deed, arguments["n"].as_u64()) {
            (Deed::Rule, Some(2)) => own(Verdict::Deny, "never 2"),
            (Deed::Rule, Some(3)) => own(Verdict::Ask, "is 3 right?"),
            _ => own(Verdict::Allow, ""),
        }
    }

    fn may_ask(&self) -> bool {
        matches!(self.deed, Deed::Ask(..))
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(self.act(permit))
    }
}
