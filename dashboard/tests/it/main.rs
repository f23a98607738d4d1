//! The server from outside: real listeners, real bodies, real pages.

mod alert;
mod page;
mod real_data;
mod receiver;
mod running;
