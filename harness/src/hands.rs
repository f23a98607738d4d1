//! Carrying out permitted calls: timeouts, retries, panics and cancellation end in exactly one result.
//!
//! Place in the flow: the driver hands a [`Permit`] over and records what comes back. [`LiveHands`] run real
//! tools; a replay's hands answer from a tape.

use crate::config::Verdict;
use crate::machine::retry;
use crate::policy::{CanUse, Permit};
use crate::port::Ports;
use crate::tool::{ToolSpec, Toolbox, output};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::fact::{Child, Fault, Wants};
use trace::id::CallKey;
use trace::outcome::{FailureStage, FaultClass, ToolStatus};

/// The one result of a call that was permitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Executed {
    /// How it ended.
    pub status: ToolStatus,
    /// What the tool said, whole.
    pub content: String,
    /// The kind of failure.
    pub error_class: Option<FaultClass>,
    /// Where it failed.
    pub failure_stage: Option<FailureStage>,
    /// How often it was tried.
    pub attempts: u32,
    /// Time inside the tool, pauses included, in nanoseconds.
    pub latency_ns: u64,
    /// The run that the call was, where the tool is an agent.
    pub child: Option<Box<Child>>,
    /// The question that the tool came back with instead of a result.
    pub needs: Option<Needs>,
}

/// What a tool needs of a person before it can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// A yes, or words.
    pub wants: Wants,
    /// The question.
    pub prompt: String,
}

/// Carries out permitted calls.
pub trait Hands: Send + Sync + Debug {
    /// Runs a call to its one result; never fails, never panics.
    fn carry_out<'a>(&'a self, permit: Permit, spec: &'a ToolSpec) -> BoxFuture<'a, Executed>;

    /// Asks the tool itself about a call whose arguments fit its schema.
    ///
    /// # Errors
    /// What the tool says is wrong with the arguments, for the model to correct itself.
    fn check(&self, key: CallKey, spec: &ToolSpec, arguments: &Value) -> Result<CanUse, String>;
}

/// Hands that run real tools.
#[derive(Debug)]
pub struct LiveHands {
    toolbox: Arc<Toolbox>,
    ports: Arc<dyn Ports>,
    max_retries: u32,
}

impl LiveHands {
    /// Hands over these tools; repeatable tools are tried again up to `max_retries` times.
    #[must_use]
    pub fn new(toolbox: Arc<Toolbox>, ports: Arc<dyn Ports>, max_retries: u32) -> Self {
        Self { toolbox, ports, max_retries }
    }

    async fn attempt(&self, permit: &Permit, spec: &ToolSpec) -> Result<String, Fault> {
        let Some(tool) = self.toolbox.tool(permit.tool_name()) else {
            return Err(Fault::new(
                FaultClass::Permanent,
                "the tool is known but not at hand in this process",
            ));
        };
        let limit = Duration::from_millis(spec.timeout_ms);
        let guarded = AssertUnwindSafe(tool.call(permit)).catch_unwind();
        tokio::select! {
            done = tokio::time::timeout(limit, guarded) => match done {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(Fault::new(FaultClass::Permanent, "the tool panicked")),
                Err(_) => Err(Fault {
                    elapsed_ms: Some(spec.timeout_ms),
                    ..Fault::new(FaultClass::Timeout, format!("no result within {} ms", spec.timeout_ms))
                }),
            },
            () = self.ports.interruption() => {
                Err(Fault::new(FaultClass::Cancelled, "cancelled while it ran: it may have taken effect"))
            }
        }
    }

    /// Why a call that may run in a sandbox only cannot: it is then not run at all.
    fn no_sandbox(&self, permit: &Permit) -> Option<String> {
        let tool = self.toolbox.tool(permit.tool_name()).filter(|_| permit.is_sandboxed())?;
        tool.can_sandbox().err()
    }

    async fn to_the_end(&self, permit: Permit, spec: &ToolSpec) -> Executed {
        if let Some(why) = self.no_sandbox(&permit) {
            return unheld(&permit, &why);
        }
        let begun = Instant::now();
        let mut attempts = 1;
        loop {
            let result = self.attempt(&permit, spec).await;
            if let Some(pause) = self.pause(&result, spec, attempts) {
                tokio::select! {
                    () = self.ports.sleep(pause) => {
                        attempts += 1;
                        continue;
                    }
                    // No further attempt: what the last one said is the result.
                    () = self.ports.interruption() => {}
                }
            }
            let latency_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let executed = executed(result, attempts, latency_ns);
            return match self.question(&permit, &executed) {
                Some(needs) => Executed { needs: Some(needs), ..executed },
                None => self.checked(spec, executed),
            };
        }
    }

    /// The question in an answer, where the tool is one that may ask.
    fn question(&self, permit: &Permit, executed: &Executed) -> Option<Needs> {
        let tool = self.toolbox.tool(permit.tool_name())?;
        let may_ask = tool.may_ask() && executed.status == ToolStatus::Ok;
        may_ask.then(|| output::needs(&executed.content)).flatten()
    }

    /// The pause before the next attempt; `None` where there is none. The wall time of the run ends it early.
    fn pause(&self, result: &Result<String, Fault>, spec: &ToolSpec, attempts: u32) -> Option<Duration> {
        let Err(fault) = result else { return None };
        if !spec.is_repeatable() {
            return None;
        }
        let pause = retry::tool_pause_ms(fault.class, attempts, self.max_retries)?;
        Some(Duration::from_millis(fault.retry_after_ms.unwrap_or(0).max(pause)))
    }

    /// An answer that breaks the tool's output schema is a failure that shows the answer.
    fn checked(&self, spec: &ToolSpec, executed: Executed) -> Executed {
        if executed.status != ToolStatus::Ok {
            return executed;
        }
        match self.toolbox.validate_answer(&spec.name, &executed.content) {
            Ok(()) => executed,
            Err(why) => Executed {
                status: ToolStatus::Error,
                content: serde_json::json!({
                    "error": "invalid_result",
                    "message": format!("the tool ran, but what it answered breaks its own schema: {why}"),
                    "result": executed.content,
                })
                .to_string(),
                error_class: Some(FaultClass::Permanent),
                failure_stage: Some(FailureStage::Validation),
                ..executed
            },
        }
    }
}

impl Hands for LiveHands {
    fn carry_out<'a>(&'a self, permit: Permit, spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        Box::pin(self.to_the_end(permit, spec))
    }

    fn check(&self, _key: CallKey, spec: &ToolSpec, arguments: &Value) -> Result<CanUse, String> {
        let Some(tool) = self.toolbox.tool(&spec.name) else { return Ok(CanUse::default()) };
        match catch_unwind(AssertUnwindSafe(|| tool.validate(arguments))) {
            Ok(valid) => valid?,
            Err(_) => return Err("the tool panicked while it checked the arguments".to_owned()),
        }
        let decided = catch_unwind(AssertUnwindSafe(|| tool.can_use(arguments)));
        // What cannot be decided is not allowed.
        let deny = |why: &str| CanUse {
            verdict: Verdict::Deny,
            reason: format!("whether `{}` may run could not be decided: {why}", spec.name),
        };
        Ok(match decided {
            Ok(Ok(own)) => own,
            Ok(Err(why)) => deny(&why),
            Err(_) => deny("the tool panicked"),
        })
    }
}

/// The result of a call that policy wants in a sandbox where there is none: it is not run.
pub(crate) fn unheld(permit: &Permit, why: &str) -> Executed {
    let (name, rule) = (permit.tool_name(), permit.rule());
    let why =
        format!("policy wants `{name}` in a sandbox ({rule}), and there is none: {why}; it was not run");
    Executed {
        status: ToolStatus::Denied,
        content: error_text("permission_denied", &why),
        error_class: None,
        failure_stage: Some(FailureStage::Permission),
        attempts: 0,
        latency_ns: 0,
        child: None,
        needs: None,
    }
}

fn executed(result: Result<String, Fault>, attempts: u32, latency_ns: u64) -> Executed {
    match result {
        Ok(content) => Executed {
            status: ToolStatus::Ok,
            content,
            error_class: None,
            failure_stage: None,
            attempts,
            latency_ns,
            child: None,
            needs: None,
        },
        Err(fault) => {
            let (status, stage) = match fault.class {
                FaultClass::Timeout => (ToolStatus::Timeout, FailureStage::Timeout),
                FaultClass::Cancelled => (ToolStatus::Cancelled, FailureStage::Execution),
                _ => (ToolStatus::Error, FailureStage::Execution),
            };
            Executed {
                status,
                content: fault_text(&fault),
                error_class: Some(fault.class),
                failure_stage: Some(stage),
                attempts,
                latency_ns,
                child: None,
                needs: None,
            }
        }
    }
}

/// A failure as the model sees it: JSON text with the kind and the message.
#[must_use]
pub fn error_text(kind: &str, message: &str) -> String {
    serde_json::json!({ "error": kind, "message": message }).to_string()
}

/// The same of a fault, with how long it was waited for where it took too long.
fn fault_text(fault: &Fault) -> String {
    match fault.elapsed_ms {
        None => error_text(fault.class.as_str(), &fault.message),
        Some(elapsed_ms) => {
            let (error, message) = (fault.class.as_str(), &fault.message);
            serde_json::json!({ "error": error, "message": message, "elapsed_ms": elapsed_ms }).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Live;
    use crate::tool::typed::Typed;
    use crate::tool::{Effect, Risk, Tool, sample};
    use serde_json::Value;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio_util::sync::CancellationToken;

    /// A tool that is busy for its first calls, asks to wait 7 s, and then gives the key of its call.
    fn busy(times: u32, effect: Effect) -> Typed {
        let calls = Arc::new(AtomicU32::new(0));
        Typed::new("busy", "Is busy.", Risk::External, effect, move |_: Value, permit| {
            let (call, key) = (calls.fetch_add(1, Ordering::Relaxed), permit.idempotency_key().to_owned());
            let busy = Fault { retry_after_ms: Some(7000), ..Fault::new(FaultClass::Transient, "busy") };
            std::future::ready(if call < times { Err(busy) } else { Ok(key) })
        })
    }

    async fn carried_out(tool: Typed, cancel: CancellationToken) -> Executed {
        let spec = tool.spec().clone();
        let mut toolbox = Toolbox::default();
        toolbox.add(Arc::new(tool)).unwrap();
        let ports = Arc::new(Live::new(cancel, Duration::from_secs(60)));
        let hands = LiveHands::new(Arc::new(toolbox), ports, 2);
        hands.carry_out(sample::permit(&spec, "{}"), &spec).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_tool_is_asked_again_when_it_said_and_with_the_same_key() {
        let begun = tokio::time::Instant::now();
        let done = carried_out(busy(1, Effect::Idempotent), CancellationToken::new()).await;
        assert_eq!((done.status, done.attempts), (ToolStatus::Ok, 2));
        assert!(begun.elapsed() >= Duration::from_secs(7), "{:?}", begun.elapsed());
        let tool = busy(0, Effect::Pure);
        assert_eq!(done.content, sample::permit(tool.spec(), "{}").idempotency_key());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_may_not_be_repeated_is_asked_once() {
        let done = carried_out(busy(1, Effect::AtMostOnce), CancellationToken::new()).await;
        assert_eq!((done.status, done.attempts), (ToolStatus::Error, 1));
        assert_eq!(done.error_class, Some(FaultClass::Transient));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_tried_again_after_an_interruption() {
        let cancel = CancellationToken::new();
        let later = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        };
        let (done, ()) = tokio::join!(carried_out(busy(9, Effect::Pure), cancel.clone()), later);
        assert_eq!((done.attempts, done.error_class), (1, Some(FaultClass::Transient)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_breaks_its_schema_is_an_error_that_shows_the_answer() {
        let promised =
            Typed::new("t", "T.", Risk::Read, Effect::Pure, |_: Value, _| async { Ok(vec![1, 2]) });
        let honest = carried_out(promised, CancellationToken::new()).await;
        assert_eq!((honest.status, honest.content.as_str()), (ToolStatus::Ok, "[1,2]"));
        let lying = sample::lying(serde_json::json!({"type": "object"}), "prose");
        let spec = lying.spec().clone();
        let mut toolbox = Toolbox::default();
        toolbox.add(Arc::new(lying)).unwrap();
        let ports = Arc::new(Live::new(CancellationToken::new(), Duration::from_secs(60)));
        let done =
            LiveHands::new(Arc::new(toolbox), ports, 2).carry_out(sample::permit(&spec, "{}"), &spec).await;
        assert_eq!((done.status, done.failure_stage), (ToolStatus::Error, Some(FailureStage::Validation)));
        let told: Value = serde_json::from_str(&done.content).unwrap();
        assert_eq!(
            (told["error"].as_str(), told["result"].as_str()),
            (Some("invalid_result"), Some("prose"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_tool_that_hangs_or_panics_has_one_result_too() {
        let hangs = Typed::new("t", "T.", Risk::Read, Effect::AtMostOnce, |_: Value, _| {
            std::future::pending::<Result<String, Fault>>()
        });
        let done = carried_out(hangs, CancellationToken::new()).await;
        assert_eq!((done.status, done.failure_stage), (ToolStatus::Timeout, Some(FailureStage::Timeout)));
        assert!(done.content.contains("no result within 30000 ms"), "{}", done.content);
        let panics = Typed::new("t", "T.", Risk::Read, Effect::Pure, |order: Value, _| async move {
            assert!(order.is_string(), "as it does");
            Ok(String::new())
        });
        let done = carried_out(panics, CancellationToken::new()).await;
        assert_eq!(done.status, ToolStatus::Error);
        assert!(done.content.contains("the tool panicked"), "{}", done.content);
    }
}
