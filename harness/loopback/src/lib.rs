//! A model provider on loopback: speaks every real wire from a script and checks every request.
//!
//! Place in the flow: tests and the demo point an agent's `base_url` at [`Loopback::base_url`]; everything
//! between the loop and the socket is then the real thing. A request that a real provider would refuse is
//! refused with 400 and remembered, so a test can also ask for [`Loopback::violations`].

pub mod check;
pub mod play;
pub mod request;
pub mod server;
mod stored;

pub use play::{Cuts, Play};
pub use request::RequestSeen;
pub use server::{Loopback, by_model};
