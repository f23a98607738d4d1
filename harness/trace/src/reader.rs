//! Asking the index from a command: in this process, or over HTTP from the `serve` that owns it.
//!
//! Place in the flow: command -> **reader** -> [`crate::store`]. Whoever gets the lock indexes what was appended
//! and answers itself; who does not asks the owner, which has to catch up before it answers.

use crate::home::Home;
use crate::id::RunId;
use crate::lock::{Lock, LockError, Owner};
use crate::question::{self, FindError, Question};
use crate::store::{Indexed, QueryError, Store, StoreError, Table};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a command waits for another one that reads.
pub const WAIT: Duration = Duration::from_secs(5);
/// How long to pause between two looks at the lock.
const POLL: Duration = Duration::from_millis(20);
/// How long the owner may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way to ask the index.
#[derive(Debug)]
pub enum Reader {
    /// This process holds the lock.
    Local {
        /// The index.
        store: Arc<Store>,
        /// What opening it indexed, and what of the logs cannot be read.
        indexed: Indexed,
    },
    /// Another process answers.
    Remote(Remote),
}

/// A loopdeck that answers over HTTP.
#[derive(Debug)]
pub struct Remote {
    url: String,
    token: String,
    client: reqwest::Client,
}

/// The body of `POST /api/query`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The statement.
    pub sql: String,
    /// Its parameters, `$1` first.
    #[serde(default)]
    pub params: Vec<Value>,
    /// How many rows at most come back.
    pub limit: usize,
}

/// The index cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// It cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The statement got no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The text names no run, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The owner cannot be reached.
    #[error("cannot ask {url}: {source}; is `loopdeck serve` running there?")]
    Http {
        /// Where it was asked.
        url: String,
        /// Why.
        source: reqwest::Error,
    },
    /// The owner refused.
    #[error("{0}")]
    Refused(String),
    /// The task that asked was lost.
    #[error("the query was lost: {0}")]
    Lost(#[from] tokio::task::JoinError),
}

impl From<LockError> for ReaderError {
    fn from(why: LockError) -> Self {
        Self::Store(why.into())
    }
}

impl Reader {
    /// Opens the index of a home, or finds the process that owns it; waits at most this long for another reader.
    ///
    /// # Errors
    /// When somebody holds the lock and answers nobody, or the index cannot be opened.
    pub fn open(home: &Home, wait: Duration) -> Result<Self, ReaderError> {
        let started = Instant::now();
        loop {
            match Lock::try_take(home) {
                Ok(lock) => {
                    let store = Store::with_lock(home, lock)?;
                    let indexed = store.catch_up()?;
                    return Ok(Self::Local { store: Arc::new(store), indexed });
                }
                Err(held @ LockError::Held { .. }) => {
                    // Only while the lock is held does the file mean anything.
                    if let Some(owner) = Owner::read(home) {
                        return Self::remote(&format!("http://{}", owner.addr), &owner.token);
                    }
                    if started.elapsed() >= wait {
                        return Err(held.into());
                    }
                    std::thread::sleep(POLL);
                }
                Err(other) => return Err(other.into()),
            }
        }
    }

    /// Asks a loopdeck at this address, such as `http://127.0.0.1:7878`.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn remote(url: &str, token: &str) -> Result<Self, ReaderError> {
        let url = format!("{}/api/query", url.trim_end_matches('/'));
        // A proxy of the environment has no business between two processes of one machine.
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        let client = client.map_err(|source| ReaderError::Http { url: url.clone(), source })?;
        Ok(Self::Remote(Remote { url, token: token.to_owned(), client }))
    }

    /// Asks one of the questions of [`crate::question`].
    ///
    /// # Errors
    /// As [`Reader::query`].
    pub async fn ask(&self, question: &Question) -> Result<Table, ReaderError> {
        self.query(question.sql, &question.params, question.limit).await
    }

    /// The one run that a text means.
    ///
    /// # Errors
    /// When it is none or several, and as [`Reader::query`].
    pub async fn find_run(&self, text: &str) -> Result<RunId, ReaderError> {
        let answer = self.ask(&question::find_run(text)).await?;
        Ok(question::one_run(text, &answer)?)
    }

    /// Runs one reading statement; see [`Store::query`].
    ///
    /// # Errors
    /// When it is refused, fails, or the owner cannot be reached.
    pub async fn query(&self, sql: &str, params: &[Value], limit: usize) -> Result<Table, ReaderError> {
        match self {
            Self::Local { store, .. } => {
                let (store, sql, params) = (Arc::clone(store), sql.to_owned(), params.to_vec());
                Ok(tokio::task::spawn_blocking(move || store.query(&sql, &params, limit)).await??)
            }
            Self::Remote(remote) => remote.query(sql, params, limit).await,
        }
    }
}

impl Remote {
    async fn query(&self, sql: &str, params: &[Value], limit: usize) -> Result<Table, ReaderError> {
        let failed = |source| ReaderError::Http { url: self.url.clone(), source };
        let body = json!({"sql": sql, "params": params, "limit": limit});
        let answer =
            self.client.post(&self.url).bearer_auth(&self.token).json(&body).send().await.map_err(failed)?;
        let status = answer.status();
        if status.is_success() {
            return answer.json().await.map_err(failed);
        }
        let text = answer.text().await.map_err(failed)?;
        let told = serde_json::from_str::<Value>(&text).ok();
        let told = told.as_ref().and_then(|value| value.get("error")?.as_str());
        Err(ReaderError::Refused(
            told.map_or_else(|| format!("{} answered {status}", self.url), str::to_owned),
        ))
    }
}

#[cfg(test)]
mod tests;
