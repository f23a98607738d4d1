//! `loopdeck serve`: pages, OTLP in, alerts out.

use crate::exit::{Done, Exit, Failure};
use crate::house::House;
use crate::{say, terminal};
use dashboard::{ServeConfig, ServeError};
use tokio::task::JoinSet;

/// Arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/serve.txt"))]
pub(crate) struct Args {
    /// Address of pages and API; loopback only
    #[arg(long, default_value = "127.0.0.1:7878", value_name = "HOST:PORT")]
    listen: String,
    /// Address where OTLP over HTTP is taken; loopback only
    #[arg(long, default_value = "127.0.0.1:4318", value_name = "HOST:PORT")]
    otlp_http: String,
}

pub(crate) async fn run(args: Args) -> Done {
    let house = House::open()?;
    let config = ServeConfig {
        listen: args.listen,
        otlp_http: args.otlp_http,
        redactor: house.redactor()?,
        user: terminal::user(),
    };
    let serving = dashboard::start(config, house.home).await.map_err(failure)?;
    say::talk(&format!("pages  http://{}/", serving.pages));
    say::talk(&format!("OTLP   http://{}/v1/traces", serving.otlp));
    say::talk(&format!("owner  {} (to decide about calls in the browser)", serving.enter()));
    let mut tasks = JoinSet::new();
    let cancel = crate::interrupt::first(&mut tasks, crate::interrupt::plainly);
    serving.until(ended(cancel)).await.map_err(failure)?;
    Ok(Exit::Ok)
}

/// Ctrl-C, or the signal of a service manager.
async fn ended(cancel: tokio_util::sync::CancellationToken) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                () = cancel.cancelled() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    cancel.cancelled().await;
}

fn failure(why: ServeError) -> Failure {
    match why {
        ServeError::Settings(_) | ServeError::Listen(_) => Failure::usage(why),
        other => Failure::infrastructure(other),
    }
}
