//! Keeping the index up with the logs.
//!
//! Place in the flow: log -> **index** -> pages and rules. A round at least every half second, and at once when
//! this server has received something; other processes append without telling anybody.

use crate::clock;
use crate::server::{Server, blocking};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const ROUND: Duration = Duration::from_millis(500);

/// Catches up until it is stopped, between two rounds.
pub(crate) async fn keep_up(server: Arc<Server>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tokio::time::timeout(ROUND, server.received.notified()) => {}
        }
        let working = Arc::clone(&server);
        if let Err(why) = blocking(move || catch_up(&working)).await {
            server.counters.index_failures.add(1);
            tracing::error!(%why, "the index cannot keep up");
            tokio::time::sleep(ROUND).await;
        }
    }
}

/// One round. Blocks; when it returns, everything acknowledged before the call can be asked for.
pub(crate) fn catch_up(server: &Server) -> Result<(), IndexError> {
    let began = clock::now_ns();
    let indexed = server.store.catch_up()?;
    server.counters.indexed_at.set(began);
    server.counters.spans_indexed.add(indexed.spans);
    Ok(())
}

/// The index cannot be brought up to date.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] trace::store::StoreError),
    /// The thread that did it died.
    #[error("the indexing thread died: {0}")]
    Thread(#[from] std::io::Error),
}
