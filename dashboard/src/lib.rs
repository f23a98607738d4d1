//! OTLP in, pages out, alerts on schedule: `loopdeck serve`.
//!
//! Place in the flow: sender -> inbox -> index -> rule -> alert -> webhook and page. The room owns the home's lock
//! while it serves; it never links the loop. Rules, rows and logs belong to `trace`; here they get listeners, a
//! clock and a way out.

mod alert;
mod asked;
mod clock;
mod column;
mod counter;
mod decide;
mod deliver;
mod guard;
mod index;
mod listen;
mod metric;
mod owner;
mod page;
mod query;
mod receive;
mod router;
mod server;
mod settings;
mod watch;

pub use listen::ListenError;
pub use server::{ServeConfig, ServeError, Serving, serve, start};
pub use settings::{Agent, Alerts, Settings, SettingsError, Webhook};
