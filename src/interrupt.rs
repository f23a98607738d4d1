//! Ctrl-C, and what a service manager sends instead: the first asks the work to end, the second ends the process.
//!
//! Place in the flow: signal -> **interrupt** -> the cancellation that a run races everything against. A run that is
//! ended by either can be resumed: what was acknowledged is on its tape.

use std::sync::LazyLock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

static AT_ONCE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// Where an interruption came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Most likely the keyboard, whose terminal then shows `^C`.
    Key,
    /// Another process.
    Process,
}

/// Cancelled by the first interruption; the second ends [`at_once`]. `tell` tells people what that means.
pub(crate) fn first(
    tasks: &mut JoinSet<()>,
    tell: impl Fn(&str, Source) + Send + 'static,
) -> CancellationToken {
    let cancel = CancellationToken::new();
    let cancelled = cancel.clone();
    tasks.spawn(async move {
        if let Some(source) = signal().await {
            tell("interrupted: ending after recording what is under way; once more ends at once", source);
            cancelled.cancel();
        }
        if signal().await.is_some() {
            AT_ONCE.cancel();
        }
    });
    cancel
}

/// Tells a line on stderr, for commands without a screen of their own.
pub(crate) fn plainly(text: &str, _: Source) {
    crate::say::talk(text);
}

/// Resolves at the second interruption.
pub(crate) async fn at_once() {
    AT_ONCE.cancelled().await;
}

/// Waits for an interruption; `None` where none can be waited for.
#[cfg(unix)]
async fn signal() -> Option<Source> {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return None;
    };
    tokio::select! {
        came = interrupt.recv() => came.map(|()| Source::Key),
        came = terminate.recv() => came.map(|()| Source::Process),
    }
}

#[cfg(not(unix))]
async fn signal() -> Option<Source> {
    tokio::signal::ctrl_c().await.ok().map(|()| Source::Key)
}
