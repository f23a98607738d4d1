//! Ctrl-C, and what a service manager sends instead: the first asks the work to end, the second ends the process.
//!
//! Place in the flow: signal -> **interrupt** -> the cancellation that a run races everything against. A run that is
//! ended by either can be resumed: what was acknowledged is on its tape.

use std::sync::LazyLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

static AT_ONCE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Cancelled by the first interruption; the second ends [`at_once`]. `tell` tells people what that means.
pub(crate) fn first(tasks: &mut JoinSet<()>, tell: impl Fn(&str) + Send + 'static) -> CancellationToken {
    let cancel = CancellationToken::new();
    let cancelled = cancel.clone();
    tasks.spawn(async move {
        if signal().await {
            tell("interrupted: ending after recording what is under way; once more ends at once");
            cancelled.cancel();
        }
        if signal().await {
            AT_ONCE.cancel();
        }
    });
    cancel
}

/// Resolves at the second interruption.
pub(crate) async fn at_once() {
    AT_ONCE.cancelled().await;
}

/// Waits for an interruption; false where none can be waited for.
#[cfg(unix)]
async fn signal() -> bool {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return false;
    };
    tokio::select! {
        came = interrupt.recv() => came.is_some(),
        came = terminate.recv() => came.is_some(),
    }
}

#[cfg(not(unix))]
async fn signal() -> bool {
    tokio::signal::ctrl_c().await.is_ok()
}
