//! One binary for all integration tests: they share their helpers and link once.

mod allocation;
mod cli;
mod corrupt;
mod errors;
mod faults;
mod forms;
mod golden;
mod kernel;
mod laws;
mod memory;
mod oracle;
mod readme;
mod soak;
mod states;
mod supervised;
mod theory;
mod workdir;
mod writers;

#[global_allocator]
static ALLOCATOR: allocation::Watched = allocation::Watched;
