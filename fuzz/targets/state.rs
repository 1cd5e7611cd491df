//! The reader of states: refused, or solved, merged and written without a panic.

#![no_main]

use eigenstream::{Fit, Quiet, State};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut state) = State::from_bytes(bytes) else { return };
    let _ = state.solve(&Fit::pca().components(2), &Quiet);
    let _ = state.to_bytes();
    let other = state.clone();
    let _ = state.merge(other);
});
