//! What a process is given, and the program needs: address space, a stack, an error where a file
//! may not grow. Held: a stack of [`STACK_BYTES`].

use crate::budget::Bytes;
use crate::error::{Error, Result};
use crate::words::megabytes;
use std::process::ExitCode;

/// The stack of a process that is enough: what shells allow by default.
const LEAST_STACK: u64 = 8 << 20;

/// The stack of the thread that does the work: whatever the limit of the first one is.
const STACK_BYTES: usize = 16 << 20;

/// Address space of the program and its libraries, and of each thread that OpenBLAS starts: it
/// reserves 128 MiB for each, and waits for ever where it cannot (found by trying).
const PROGRAM_SPACE: u64 = 256 << 20;
const THREAD_SPACE: u64 = 224 << 20;

/// Refuses to start where the address space (`ulimit -v`) is too small for OpenBLAS. To be called
/// before libraries initialise: OpenBLAS starts its threads then.
pub extern "C" fn check_address_space() {
    // SAFETY: all zeros are values of it, and the call writes to it alone.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0).then_some(limit.rlim_cur)
    };
    // SAFETY: reads a number of the system.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u64;
    let Some(problem) = limit.and_then(|limit| too_small(limit, cores)) else { return };
    // SAFETY: the bytes are ours; nothing has been started that would have to be ended.
    unsafe {
        libc::write(2, problem.as_ptr().cast(), problem.len());
        libc::_exit(1);
    }
}

/// What is wrong with a limit, if anything is.
fn too_small(limit: u64, cores: u64) -> Option<String> {
    let needs = PROGRAM_SPACE + cores * THREAD_SPACE;
    (limit < needs).then(|| {
        let (limit, kilobytes) = (Bytes(limit), needs >> 10);
        format!(
            "eigenstream: the address space is limited to {limit}, and OpenBLAS reserves {} for \
             {cores} threads; allow it with ulimit -v {kilobytes}, and limit what is held with \
             --memory\n",
            megabytes(needs)
        )
    })
}

/// Lets a write beyond the largest size of a file (`ulimit -f`) fail, instead of ending the process
/// with what it has staged left behind.
pub(super) fn fail_on_large_files() {
    // SAFETY: no handler is installed; called before other threads exist.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Runs the work on a stack that is large enough: that of the process where it may grow so far. (A
/// thread has a heap of its own, and what is freed there is not returned.)
pub(super) fn with_stack(work: fn() -> ExitCode) -> Result<ExitCode> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is ours to write to.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } == 0;
    if known && limit.rlim_cur >= LEAST_STACK {
        return Ok(work());
    }
    let thread = std::thread::Builder::new().name("main".into()).stack_size(STACK_BYTES);
    let thread = thread.spawn(work).map_err(Error::io("start", "a thread"))?;
    thread.join().map_err(|_| Error::Internal("the main thread has panicked".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_address_space_is_told_with_what_is_needed() {
        assert_eq!(too_small(u64::MAX, 64), None);
        assert_eq!(too_small(704 << 20, 2), None);
        let said = too_small(300_000 << 10, 2).unwrap();
        assert!(said.contains("limited to 307.2 MB"), "{said}");
        assert!(said.contains("ulimit -v 720896,"), "{said}");
    }
}
