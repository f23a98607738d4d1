//! The server: what its parts share, how it starts and how it ends.
//!
//! Place in the flow: `loopdeck serve` calls [`start`], tells the addresses, then waits in [`Serving::until`].
//! The server owns the home's lock for its life, indexes what others append, evaluates the rules, delivers, and
//! answers readers.

use crate::alert::Board;
use crate::clock;
use crate::counter::Counters;
use crate::listen::{self, ListenError};
use crate::owner::Key;
use crate::settings::{Settings, SettingsError};
use crate::{deliver, index, receive, router, watch};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trace::home::Home;
use trace::inbox::Inbox;
use trace::ops::Ops;
use trace::redact::Redactor;
use trace::store::{Store, StoreError};

/// How long the server waits for the lock: another command may just be answering.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Where to listen, and with what to redact.
#[derive(Debug)]
pub struct ServeConfig {
    /// Pages, API and metrics: `HOST:PORT` on loopback; port 0 takes a free one.
    pub listen: String,
    /// OTLP/HTTP: `HOST:PORT` on loopback; port 0 takes a free one.
    pub otlp_http: String,
    /// What takes secrets out of what comes in.
    pub redactor: Redactor,
    /// Who decides on pages unless another name is given; `None` where nobody knows.
    pub user: Option<String>,
}

/// The server cannot start or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// `loopdeck.toml` cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The index cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was known of alerts cannot be read back.
    #[error("cannot read the alerts back from the index: {0}")]
    Alerts(String),
    /// A listener failed.
    #[error("cannot serve: {0}")]
    Io(#[from] std::io::Error),
    /// The system has no randomness for the token of readers and the key of the owner.
    #[error("cannot draw a token: {0}")]
    Token(getrandom::Error),
}

/// What the parts of a server share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) home: Home,
    pub(crate) store: Store,
    pub(crate) inbox: Inbox,
    pub(crate) ops: Ops,
    pub(crate) redactor: Redactor,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    /// Turns of requests whose bodies are in memory.
    pub(crate) bodies: Semaphore,
    /// Something was received: the index need not wait for its next round.
    pub(crate) received: Notify,
    /// What readers of this machine present.
    pub(crate) token: String,
    /// What a browser presents that may decide.
    pub(crate) key: Key,
    /// Who decides unless another name is given.
    pub(crate) user: Option<String>,
    /// Where the pages are, for links in what is delivered.
    pub(crate) pages: SocketAddr,
    pub(crate) board: Mutex<Board>,
}

impl Server {
    /// The alerts, for as long as the guard is held: never across an await.
    pub(crate) fn board(&self) -> std::sync::MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the index, after it has taken in all that was acknowledged before. Blocks.
    pub(crate) fn ask(
        &self,
        sql: &str,
        params: &[serde_json::Value],
        limit: usize,
    ) -> Result<trace::store::Table, trace::store::QueryError> {
        self.store.query(sql, params, limit)
    }
}

/// A server that listens and waits to be run.
#[derive(Debug)]
pub struct Serving {
    /// Where the pages are.
    pub pages: SocketAddr,
    /// Where OTLP is taken.
    pub otlp: SocketAddr,
    server: Arc<Server>,
    page_listener: TcpListener,
    otlp_listener: TcpListener,
}

/// Binds both listeners, takes the lock, opens the index and tells readers where to ask.
///
/// # Errors
/// When settings, addresses or the index cannot be used; nothing is left behind then.
pub async fn start(config: ServeConfig, home: Home) -> Result<Serving, ServeError> {
    let settings = Settings::read(&home)?;
    let page_listener = listen::bind("--listen", &config.listen).await?;
    let otlp_listener = listen::bind("--otlp-http", &config.otlp_http).await?;
    let (pages, otlp) = (page_listener.local_addr()?, otlp_listener.local_addr()?);
    let token = draw()?;
    let opened = home.clone();
    let store = blocking(move || {
        let store = Store::open_within(&opened, LOCK_WAIT)?;
        store.catch_up()?;
        Ok::<_, ServeError>(store)
    })
    .await?;
    store.announce(pages, &token)?;
    let board = watch::board(&store).map_err(ServeError::Alerts)?;
    let counters = Counters::default();
    counters.indexed_at.set(clock::now_ns());
    let server = Server {
        inbox: Inbox::new(&home),
        ops: Ops::new(&home),
        home,
        store,
        redactor: config.redactor,
        settings,
        counters,
        bodies: Semaphore::new(receive::BODIES),
        received: Notify::new(),
        token,
        key: Key::new(draw()?, pages),
        user: config.user,
        pages,
        board: Mutex::new(board),
    };
    Ok(Serving { pages, otlp, server: Arc::new(server), page_listener, otlp_listener })
}

/// Starts and serves until `shutdown` is done.
///
/// # Errors
/// As [`start`] and [`Serving::until`].
pub async fn serve(
    config: ServeConfig,
    home: Home,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    start(config, home).await?.until(shutdown).await
}

impl Serving {
    /// The address that makes a browser the owner's: for the eyes of who started this process.
    #[must_use]
    pub fn enter(&self) -> String {
        self.server.key.address()
    }

    /// Serves until `shutdown` is done, then ends what is under way and frees the lock.
    ///
    /// # Errors
    /// When a listener fails.
    pub async fn until(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let stop = CancellationToken::new();
        let mut parts: JoinSet<Result<(), ServeError>> = JoinSet::new();
        let pages = axum::serve(self.page_listener, router::pages(&self.server));
        let otlp = axum::serve(self.otlp_listener, router::otlp(&self.server));
        let (ended, also_ended) = (stop.clone(), stop.clone());
        parts.spawn(async move { Ok(pages.with_graceful_shutdown(ended.cancelled_owned()).await?) });
        parts.spawn(async move { Ok(otlp.with_graceful_shutdown(also_ended.cancelled_owned()).await?) });
        parts.spawn(done(index::keep_up(Arc::clone(&self.server), stop.clone())));
        parts.spawn(done(watch::evaluate(Arc::clone(&self.server), stop.clone())));
        parts.spawn(done(deliver::deliver(Arc::clone(&self.server), stop.clone())));
        let first = tokio::select! {
            () = shutdown => None,
            ended = parts.join_next() => ended,
        };
        stop.cancel();
        let ended = drain(&mut parts, first).await;
        // The store joins its writer and frees the lock when it is dropped, which blocks.
        let server = self.server;
        blocking(move || {
            drop(server);
            ended
        })
        .await
    }
}

/// Waits for the parts; an open connection does not hold the end up for long.
async fn drain(
    parts: &mut JoinSet<Result<(), ServeError>>,
    first: Option<Result<Result<(), ServeError>, tokio::task::JoinError>>,
) -> Result<(), ServeError> {
    const LAST_WORDS: Duration = Duration::from_secs(3);
    let mut worst = first.map_or(Ok(()), flat);
    let rest = async {
        while let Some(ended) = parts.join_next().await {
            worst = std::mem::replace(&mut worst, Ok(())).and(flat(ended));
        }
    };
    if tokio::time::timeout(LAST_WORDS, rest).await.is_err() {
        parts.shutdown().await;
    }
    worst
}

fn flat(ended: Result<Result<(), ServeError>, tokio::task::JoinError>) -> Result<(), ServeError> {
    ended.unwrap_or_else(|panic| Err(std::io::Error::other(panic).into()))
}

async fn done(work: impl Future<Output = ()>) -> Result<(), ServeError> {
    work.await;
    Ok(())
}

/// Runs what blocks on a thread that may block; a panic there becomes an error here.
pub(crate) async fn blocking<T: Send + 'static, E: From<std::io::Error> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panic) => Err(std::io::Error::other(panic).into()),
    }
}

/// A secret of this process.
fn draw() -> Result<String, ServeError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(ServeError::Token)?;
    Ok(trace::id::Hash::new(bytes).to_string())
}
