//! argv → run → exit code.

/// Runs before libraries initialise.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[used]
// SAFETY: the section holds such functions, and this one needs nothing but the C library.
#[unsafe(link_section = ".preinit_array")]
static BEFORE_LIBRARIES: extern "C" fn() = eigenstream::cli::check_address_space;

fn main() -> std::process::ExitCode {
    eigenstream::cli::main()
}
