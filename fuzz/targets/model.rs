//! The reader of models: refused, or read and written again as it was.

#![no_main]

use eigenstream::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    let written = model.to_bytes().expect("what was read can be written");
    let again = Model::from_bytes(&written).expect("and read");
    assert_eq!(again.n_components(), model.n_components());
});
