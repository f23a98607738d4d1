//! Carrying out permitted calls: timeouts, retries, panics and cancellation end in exactly one result.
//!
//! Place in the flow: the driver hands a [`Permit`] over and records what comes back. [`LiveHands`] run real
//! tools; a replay's hands answer from a tape.

use crate::machine::retry;
use crate::policy::Permit;
use crate::port::Ports;
use crate::tool::{ToolSpec, Toolbox};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::fmt::Debug;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace::fact::Fault;
use trace::outcome::{FailureStage, FaultClass, ToolStatus};

/// The one result of a call that was permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Carries out permitted calls.
pub trait Hands: Send + Sync + Debug {
    /// Runs a call to its one result; never fails, never panics.
    fn carry_out<'a>(&'a self, permit: Permit, spec: &'a ToolSpec) -> BoxFuture<'a, Executed>;
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
            return Err(Fault::new(FaultClass::Permanent, "the tool is known but not at hand in this process"));
        };
        let limit = Duration::from_millis(spec.timeout_ms);
        let guarded = AssertUnwindSafe(tool.call(permit)).catch_unwind();
        tokio::select! {
            done = tokio::time::timeout(limit, guarded) => match done {
                Ok(Ok(result)) => result,
                Ok(Err(_)) => Err(Fault::new(FaultClass::Permanent, "the tool panicked")),
                Err(_) => Err(Fault::new(
                    FaultClass::Timeout,
                    format!("no result within {} ms", spec.timeout_ms),
                )),
            },
            () = self.ports.interruption() => {
                Err(Fault::new(FaultClass::Cancelled, "cancelled while it ran: it may have taken effect"))
            }
        }
    }

    async fn to_the_end(&self, permit: Permit, spec: &ToolSpec) -> Executed {
        let begun = Instant::now();
        let mut attempts = 1;
        loop {
            let result = self.attempt(&permit, spec).await;
            let pause = match &result {
                Err(fault) if spec.is_repeatable() => retry::tool_pause_ms(fault.class, attempts, self.max_retries),
                _ => None,
            };
            let Some(pause) = pause else {
                let latency_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                return executed(result, attempts, latency_ns);
            };
            tokio::select! {
                () = self.ports.sleep(Duration::from_millis(pause)) => attempts += 1,
                () = self.ports.interruption() => {}
            }
        }
    }
}

impl Hands for LiveHands {
    fn carry_out<'a>(&'a self, permit: Permit, spec: &'a ToolSpec) -> BoxFuture<'a, Executed> {
        Box::pin(self.to_the_end(permit, spec))
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
        },
        Err(fault) => {
            let (status, stage) = match fault.class {
                FaultClass::Timeout => (ToolStatus::Timeout, FailureStage::Timeout),
                FaultClass::Cancelled => (ToolStatus::Cancelled, FailureStage::Execution),
                _ => (ToolStatus::Error, FailureStage::Execution),
            };
            Executed {
                status,
                content: error_text(fault.class.as_str(), &fault.message),
                error_class: Some(fault.class),
                failure_stage: Some(stage),
                attempts,
                latency_ns,
            }
        }
    }
}

/// A failure as the model sees it: JSON text with the kind and the message.
#[must_use]
pub fn error_text(kind: &str, message: &str) -> String {
    serde_json::json!({ "error": kind, "message": message }).to_string()
}
