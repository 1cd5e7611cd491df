//! Links the system's OpenBLAS, which has BLAS and LAPACK. (The crates that would find it bring a whole HTTP client
//! along, to download what is installed already.)

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let found = pkg_config::Config::new().atleast_version("0.3").probe("openblas");
    if let Err(error) = found {
        println!("cargo::error=OpenBLAS was not found; scripts/setup installs it ({error})");
    }
}
