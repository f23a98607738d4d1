//! The whole house, end to end: one test binary, one module a story. `kit` is what the stories share.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics, and one that skips says so"
)]

mod approval;
mod bad_input;
mod complaint;
mod concurrency;
mod context;
mod crash;
mod disk;
mod ending;
mod goal;
mod house;
mod interleaving;
mod kit;
mod local_model;
mod mutation;
mod offline;
mod old_tape;
mod provider;
mod provider_fault;
mod reference;
mod replay;
mod replay_person;
mod requirement;
mod reseal;
mod resume;
mod run;
mod run_edge;
mod sandbox;
mod scenario;
mod session;
mod stage_order;
mod stop;
mod stored;
mod strike;
mod surface;
mod tau_bench;
mod team;
mod told;
mod variant;
