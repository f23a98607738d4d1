//! One server: started, asked, started again when it died, at most a few times.

use crate::config::McpTable;
use crate::tool::builtin::USUAL_ENV;
use crate::tool::http;
use crate::tool::toolbox::{Environment, ToolboxError};
use reqwest::Url;
use rmcp::ServiceError;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, Tool,
};
use rmcp::service::{ClientInitializeError, RoleClient, RunningService, ServiceExt as _};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::TokioChildProcess;
use rmcp::transport::streamable_http_client::{AuthRequiredError, StreamableHttpClientTransportConfig};
use secrecy::{ExposeSecret as _, SecretString};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStderr;
use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;
use trace::fact::Fault;
use trace::outcome::FaultClass;

/// How often a server that ended is started again.
const MAX_RESTARTS: u32 = 3;
/// What is kept of the end of a server's standard error, in bytes.
const KEPT_STDERR_BYTES: usize = 2_000;
/// Most tools that a server may list.
const MAX_TOOLS: usize = 1_000;

/// A server, running or not.
#[derive(Debug)]
pub(super) struct Server {
    name: String,
    target: Target,
    start_timeout: Duration,
    state: Mutex<State>,
}

/// How a server is reached.
#[derive(Debug)]
enum Target {
    Program { command: Vec<String>, folder: PathBuf, env: Vec<(String, String)> },
    Url { url: Url, client: reqwest::Client, bearer: Option<SecretString> },
}

#[derive(Debug, Default)]
struct State {
    starts: u32,
    connection: Option<Arc<Connection>>,
}

/// One life of a server. Dropping it ends the server.
#[derive(Debug)]
struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    stderr: Stderr,
}

impl Server {
    /// A server of a table, not yet started.
    pub(super) fn of_table(
        table: &McpTable,
        folder: &Path,
        environment: Environment<'_>,
    ) -> Result<Self, ToolboxError> {
        let target = match &table.url {
            Some(url) => {
                let wrong = |why: String| ToolboxError::Client { needed_by: table.name.clone(), why };
                let url = Url::parse(url).map_err(|why| wrong(format!("`{url}` is no address: {why}")))?;
                let client = http::client(&url).map_err(|why| wrong(crate::model::http::causes(why)))?;
                let bearer = http::bearer(table.bearer_env.as_deref(), &table.name, environment)?;
                Target::Url { url, client, bearer }
            }
            None => Target::Program {
                command: table.command.clone(),
                folder: folder.to_owned(),
                env: env_of(table, environment)?,
            },
        };
        Ok(Self {
            name: table.name.clone(),
            target,
            start_timeout: Duration::from_secs(table.start_timeout_seconds),
            state: Mutex::default(),
        })
    }

    /// All tools that the server lists.
    pub(super) async fn list(&self) -> Result<Vec<Tool>, Fault> {
        let listing = async {
            let connection = self.connection().await?;
            let listed = connection.service.list_all_tools().await;
            listed.map_err(|why| self.fault(&connection, &why))
        };
        let tools = self.in_time(listing).await?;
        match tools.len() {
            0..=MAX_TOOLS => Ok(tools),
            count => Err(Fault::new(
                FaultClass::Permanent,
                format!(
                    "lists {count} tools, at most {MAX_TOOLS} are taken; name those you want with `tools`"
                ),
            )),
        }
    }

    /// Calls a tool. Dropping the future tells the server that nobody waits any more.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResult, Fault> {
        let connection = self.in_time(self.connection()).await?;
        let answered = connection.service.call_tool(params).await;
        answered.map_err(|why| self.fault(&connection, &why))
    }

    async fn in_time<T>(&self, starting: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        match tokio::time::timeout(self.start_timeout, starting).await {
            Ok(done) => done,
            Err(_) => {
                let why =
                    format!("server `{}` was not ready within {} s", self.name, self.start_timeout.as_secs());
                Err(Fault::new(FaultClass::Timeout, why))
            }
        }
    }

    /// The running server; it is started where it has not been, or has ended.
    async fn connection(&self) -> Result<Arc<Connection>, Fault> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection {
            if !connection.service.is_closed() && !connection.service.is_transport_closed() {
                return Ok(connection.clone());
            }
            state.connection = None;
        }
        if state.starts > MAX_RESTARTS {
            let why = format!(
                "server `{}` ended {} times and is not started again in this process",
                self.name, state.starts
            );
            return Err(Fault::new(FaultClass::Permanent, why));
        }
        state.starts += 1;
        let connection = Arc::new(self.start().await?);
        state.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn start(&self) -> Result<Connection, Fault> {
        let about = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("loopdeck", env!("CARGO_PKG_VERSION")),
        );
        let (started, stderr) = match &self.target {
            Target::Program { command, folder, env } => {
                let (child, stderr) = spawn(command, folder, env).map_err(|why| {
                    let why = format!("server `{}`: cannot start `{}`: {why}", self.name, command.join(" "));
                    Fault::new(FaultClass::Permanent, why)
                })?;
                let stderr = Stderr::of(stderr);
                (about.serve(child).await, stderr)
            }
            Target::Url { url, client, bearer } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                if let Some(bearer) = bearer {
                    config = config.auth_header(bearer.expose_secret());
                }
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                (about.serve(transport).await, Stderr::default())
            }
        };
        match started {
            Ok(service) => Ok(Connection { service, stderr }),
            Err(why) => {
                stderr.to_its_end().await;
                Err(self.no_start(&why, &stderr))
            }
        }
    }

    fn no_start(&self, why: &ClientInitializeError, stderr: &Stderr) -> Fault {
        let class = match why.is_authorization_required() {
            true => FaultClass::Auth,
            false => FaultClass::Permanent,
        };
        Fault::new(class, format!("server `{}` did not start: {}{}", self.name, chain(why), stderr.said()))
    }

    fn fault(&self, connection: &Connection, why: &ServiceError) -> Fault {
        let (class, what) = match why {
            ServiceError::McpError(error) => (FaultClass::Permanent, format!("refused: {error}")),
            ServiceError::TransportClosed => (
                FaultClass::Transient,
                format!("ended during the call, which may have taken effect{}", connection.stderr.said()),
            ),
            ServiceError::TransportSend(error) if wants_authorization(error) => {
                (FaultClass::Auth, "wants other credentials".to_owned())
            }
            ServiceError::TransportSend(error) => (
                FaultClass::Transient,
                format!("cannot be reached: {}{}", chain(error), connection.stderr.said()),
            ),
            other => (FaultClass::Permanent, chain(other)),
        };
        Fault::new(class, format!("server `{}` {what}", self.name))
    }
}

/// The variables of a server's process. One that the table names must be there.
fn env_of(table: &McpTable, environment: Environment<'_>) -> Result<Vec<(String, String)>, ToolboxError> {
    let usual = USUAL_ENV.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let mut all: Vec<(String, String)> = usual.collect();
    for name in &table.env {
        let value = environment(name).ok_or_else(|| ToolboxError::Variable {
            variable: name.clone(),
            needed_by: table.name.clone(),
        })?;
        all.push((name.clone(), value));
    }
    Ok(all)
}

fn spawn(
    command: &[String],
    folder: &Path,
    env: &[(String, String)],
) -> std::io::Result<(TokioChildProcess, Option<ChildStderr>)> {
    let [program, arguments @ ..] = command else {
        return Err(std::io::Error::from(std::io::ErrorKind::InvalidInput));
    };
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .kill_on_drop(true);
    TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()
}

/// How long a server that did not start may take to say why.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The end of what a server writes to its standard error, for messages.
#[derive(Debug, Clone, Default)]
struct Stderr {
    tail: Arc<StdMutex<Vec<u8>>>,
    reading: TaskTracker,
}

impl Stderr {
    fn of(pipe: Option<ChildStderr>) -> Self {
        let tail: Arc<StdMutex<Vec<u8>>> = Arc::default();
        let reading = TaskTracker::new();
        if let Some(pipe) = pipe {
            reading.spawn(keep_tail(pipe, tail.clone()));
        }
        reading.close();
        Self { tail, reading }
    }

    /// Waits a moment for the last words of a server that is dying.
    async fn to_its_end(&self) {
        let _ = tokio::time::timeout(LAST_WORDS, self.reading.wait()).await;
    }

    /// What was said, as the end of a message.
    fn said(&self) -> String {
        let Ok(tail) = self.tail.lock() else { return String::new() };
        match String::from_utf8_lossy(&tail).trim() {
            "" => String::new(),
            said => format!("; it had said: {said}"),
        }
    }
}

/// Reads to the end, so that the server never waits for a full pipe.
async fn keep_tail(mut pipe: ChildStderr, tail: Arc<StdMutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        let Ok(mut tail) = tail.lock() else { return };
        tail.extend_from_slice(&buffer[..length]);
        let surplus = tail.len().saturating_sub(KEPT_STDERR_BYTES);
        tail.drain(..surplus);
    }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn wants_authorization(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|error| error.is::<AuthRequiredError>())
}

/// An error with its causes, each said once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for error in causes(error) {
        let said = error.to_string();
        if !text.contains(&said) {
            text = if text.is_empty() { said } else { format!("{text}: {said}") };
        }
    }
    text
}
