//! The reader of Parquet, footer and pages: refused with a sentence, or fitted.

#![no_main]

use eigenstream::{Dataset, Fit, Nulls, Quiet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("eigenstream-fuzz-{}.parquet", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary directory can be written to");
    if let Ok(data) = Dataset::from_paths(&[path.to_str().expect("a name of our own")]) {
        let fit = Fit::pca().components(2).nulls(Nulls::Drop).memory(100_000_000);
        let _ = fit.plan(&data).and_then(|plan| plan.run(&Quiet));
    }
});
