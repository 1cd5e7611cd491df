//! argv → run → exit code.

fn main() -> std::process::ExitCode {
    eigenstream::cli::main()
}
