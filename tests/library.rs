//! Tests that need no binary: they run with the command line and without it.

mod basis;
mod elsewhere;
mod front_door;
mod given_kernel;
mod kernel_scores;
mod laws;
#[allow(dead_code)]
mod oracle;
mod progress;
mod rooms;
mod tutorial;
#[allow(dead_code)]
mod workdir;
