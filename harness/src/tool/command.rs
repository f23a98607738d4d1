//! A tool that is a program: JSON arguments on its stdin, the answer on its stdout.
//!
//! Place in the flow: made from `[[tool]]` of agent.toml. The program is started without a shell and the
//! arguments never become part of a command line, so a model's output is never interpreted by one.
//!
//! Exit 0 is success and stdout the answer. Exit 75 (`EX_TEMPFAIL` of sysexits.h) is a transient failure, 77
//! (`EX_NOPERM`) one of credentials, 70 (`EX_SOFTWARE`) ends the run; any other code is a permanent failure.
//! What the program wrote to stderr then becomes the message.
//!
//! A program may ask a person: it answers as [`super::output`] says, and is started again with `LOOPDECK_REPLY` (`accept`
//! or `update`) and `LOOPDECK_SAID`. Where policy wants a sandbox, it runs in [`crate::sandbox`].

use super::{Tool, ToolSpec};
use crate::config::ToolTable;
use crate::policy::Permit;
use crate::sandbox;
use futures::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use trace::caller::TRACEPARENT;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// The most that is read of a program's stdout or stderr; the rest is drained and dropped, and the result says so.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// A program as a tool.
#[derive(Debug)]
pub struct Command {
    spec: ToolSpec,
    program: Vec<String>,
    folder: PathBuf,
}

impl Command {
    /// The tool of a `[[tool]]` table; it runs in `folder`.
    #[must_use]
    pub fn new(table: &ToolTable, folder: &Path) -> Self {
        Self { spec: ToolSpec::of_table(table), program: table.command.clone(), folder: folder.to_owned() }
    }

    async fn run(&self, permit: &Permit) -> Result<String, Fault> {
        let fault = |doing: &str, why: std::io::Error| {
            Fault::new(FaultClass::Permanent, format!("cannot {doing} `{}`: {why}", self.program.join(" ")))
        };
        let [program, arguments @ ..] = self.program.as_slice() else {
            return Err(Fault::new(FaultClass::Permanent, "the tool has no command"));
        };
        let mut command = tokio::process::Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env("LOOPDECK_CALL_ID", permit.call_id())
            .env("LOOPDECK_IDEMPOTENCY_KEY", permit.idempotency_key())
            .envs(permit.traceparent().map(|parent| (TRACEPARENT, parent)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(spoken) = permit.spoken() {
            // A variable cannot hold a NUL.
            command.env("LOOPDECK_REPLY", spoken.word()).env("LOOPDECK_SAID", spoken.said.replace('\0', " "));
        }
        let started = sandbox::spawn(command, permit.is_sandboxed().then_some(self.folder.as_path()));
        let (mut child, _scratch) = started.map_err(|why| fault("start", why))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input closes the pipe: not a failure of the call.
                let _ = stdin.write_all(permit.arguments().as_bytes()).await;
            }
        };
        let ((), out, err, status) = tokio::join!(feed, drain(stdout), drain(stderr), child.wait());
        let status = status.map_err(|why| fault("wait for", why))?;
        let (out, err) = (out.map_err(|why| fault("read", why))?, err.map_err(|why| fault("read", why))?);
        match status.code() {
            Some(0) => Ok(out),
            code => Err(Fault::new(class(code), message(code, &out, &err))),
        }
    }
}

impl Tool for Command {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn may_ask(&self) -> bool {
        true
    }

    fn can_sandbox(&self) -> Result<(), String> {
        sandbox::available()
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(self.run(permit))
    }
}

const fn class(code: Option<i32>) -> FaultClass {
    match code {
        Some(75) => FaultClass::Transient,
        Some(77) => FaultClass::Auth,
        Some(70) => FaultClass::Fatal,
        _ => FaultClass::Permanent,
    }
}

fn message(code: Option<i32>, out: &str, err: &str) -> String {
    let said = if err.trim().is_empty() { out.trim() } else { err.trim() };
    let how = code.map_or_else(|| "was killed by a signal".to_owned(), |code| format!("exited with {code}"));
    if said.is_empty() { format!("the tool {how}") } else { format!("the tool {how}: {said}") }
}

/// Reads to the end, keeps at most [`MAX_OUTPUT_BYTES`].
pub(super) async fn drain(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let Some(mut pipe) = pipe else { return Ok(String::new()) };
    let mut kept = Vec::new();
    (&mut pipe).take(MAX_OUTPUT_BYTES as u64).read_to_end(&mut kept).await?;
    let dropped = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    let mut text = String::from_utf8_lossy(&kept).into_owned();
    if dropped > 0 {
        text.push_str(&format!("\n[{dropped} more bytes were dropped]"));
    }
    Ok(text)
}
