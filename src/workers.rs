//! Results in order, whoever computes them: the threads under [`crate::pass`] and under the
//! products with a kernel matrix ([`in_order`]), and pieces of work that are all held at once
//! ([`for_each`]).
//!
//! ```text
//!            ┌► worker: unit 0 ─► channel 0 ─┐
//! units ─────┼► worker: unit 1 ─► channel 1 ─┼─► taken strictly in unit order
//!            └► worker: unit 2 ─► channel 2 ─┘
//! ```
//!
//! Units are handed out in order, a few more than there are workers; each has a bounded channel of
//! its own, and the caller empties the channels in order. So results arrive in unit order whatever
//! the number of threads, the first error in that order is the one reported, and what is held is
//! bounded by the window and the length of a channel, not by the number of units. A worker whose
//! channel is full waits for its turn.
//!
//! A panic is our bug. It is caught, and told as [`Error::Internal`] with its file and line where
//! [`record_panics`] is installed.

use crate::blas;
use crate::budget::count_heaps;
use crate::error::{Error, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::thread::Builder;

/// The stack of a worker, whatever the limit of the process is.
const STACK_BYTES: usize = 8 << 20;

/// Units in flight for a number of threads: one more than workers, so that none waits for a merge.
pub(crate) const fn window(threads: usize) -> usize {
    threads + 1
}

/// Workers, and how many pieces each unit may have waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crew {
    /// Workers.
    pub threads: usize,
    /// Pieces of a unit that wait for their turn.
    pub queue: usize,
}

/// Where a worker puts the pieces of its unit.
pub(crate) struct Output<P> {
    channel: Sender<Result<P>>,
}

impl<P> Output<P> {
    /// Waits while the queue is full. A piece nobody wants any more (the pass has failed) is
    /// dropped.
    pub(crate) fn give(&self, piece: P) {
        let _ = self.channel.send(Ok(piece));
    }
}

/// Does all units and takes what they give, in their order. BLAS calls use one thread each.
pub(crate) fn in_order<P: Send>(
    units: usize,
    crew: Crew,
    work: impl Fn(usize, &Output<P>) -> Result<()> + Sync,
    take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    blas::serial(|| workers(units, crew, work, take))
}

fn workers<P: Send>(
    units: usize,
    crew: Crew,
    work: impl Fn(usize, &Output<P>) -> Result<()> + Sync,
    mut take: impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    let threads = crew.threads.clamp(1, units.max(1));
    count_heaps(threads);
    let (jobs, queue) = bounded::<Job<P>>(window(threads));
    let work = &work;
    std::thread::scope(|scope| {
        let worker = |queue: Receiver<Job<P>>| {
            for (unit, channel) in queue {
                let output = Output { channel };
                let work = || blas::work_for(true, || work(unit, &output));
                if let Err(error) = caught(work) {
                    let _ = output.channel.send(Err(error));
                }
            }
        };
        let spawn = |queue: Receiver<Job<P>>| {
            let thread = Builder::new().stack_size(STACK_BYTES);
            thread
                .spawn_scoped(scope, move || worker(queue))
                .map_err(Error::io("start", "a thread"))
        };
        let started: Vec<_> = (0..threads).map(|_| spawn(queue.clone())).collect::<Result<_>>()?;
        drop(queue);
        // Uses `jobs` and the receivers up, so that whatever comes of it lets every worker go.
        let done = take_in_order(units, crew.queue.max(1), window(threads), jobs, &mut take);
        // Until they are gone for good: their heaps are free then.
        started.into_iter().for_each(|thread| drop(thread.join()));
        done
    })
}

/// A unit, and where its pieces go.
type Job<P> = (usize, Sender<Result<P>>);

/// Hands units out, `ahead` of them at most before they are taken, and takes what they give.
fn take_in_order<P>(
    units: usize,
    queue: usize,
    ahead: usize,
    jobs: Sender<Job<P>>,
    take: &mut impl FnMut(usize, P) -> Result<()>,
) -> Result<()> {
    let mut pending = VecDeque::new();
    let mut next = 0;
    for unit in 0..units {
        while next < units && pending.len() < ahead {
            let (sender, receiver) = bounded(queue);
            if jobs.send((next, sender)).is_err() {
                return Err(Error::Internal("all workers have stopped".into()));
            }
            pending.push_back(receiver);
            next += 1;
        }
        let Some(pieces) = pending.pop_front() else {
            break;
        };
        for piece in pieces {
            take(unit, piece?)?;
        }
    }
    Ok(())
}

/// Does every job, on this many threads, each taking the next one that is left; gives what they
/// give in the order of the jobs. A job that panics makes this panic.
pub(crate) fn for_each<J: Send, R: Send>(
    threads: usize,
    jobs: Vec<J>,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let threads = threads.clamp(1, jobs.len().max(1));
    count_heaps(threads);
    let jobs = Mutex::new(jobs.into_iter().enumerate());
    let next = || jobs.lock().unwrap_or_else(|e| e.into_inner()).next();
    let inside = blas::is_inside();
    let run = || {
        let mut done = Vec::new();
        while let Some((at, job)) = next() {
            done.push((at, work(job)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        // One that cannot be started leaves its jobs to the others.
        let start = |_| {
            let worker = Builder::new().stack_size(STACK_BYTES);
            worker.spawn_scoped(scope, || attempt(|| blas::work_for(inside, run))).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(Ok(more)) => done.extend(more),
                Ok(Err(panic)) => panic.resume(),
                Err(payload) => resume_unwind(payload),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

thread_local! {
    /// Where this thread has panicked last.
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the file and line of every panic for [`caught`], and prints nothing: for a front end whose
/// panics are all caught. To be called once, before other threads exist.
pub fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        let at = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
        PANICKED_AT.set(at);
    }));
}

/// A panic on its way from one thread to another.
struct Panic {
    payload: Box<dyn Any + Send>,
    at: Option<String>,
}

impl Panic {
    /// Goes on in this thread.
    fn resume(self) -> ! {
        PANICKED_AT.set(self.at);
        resume_unwind(self.payload)
    }

    fn into_error(self) -> Error {
        let text = self.payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| self.payload.downcast_ref::<&str>().copied());
        let at = self.at.map_or_else(String::new, |at| format!(", at {at}"));
        let what = text.unwrap_or("a panic without words");
        Error::Internal(format!("something that cannot happen did: {what}{at}"))
    }
}

fn attempt<T>(work: impl FnOnce() -> T) -> std::result::Result<T, Panic> {
    PANICKED_AT.set(None);
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|payload| Panic { payload, at: PANICKED_AT.take() })
}

/// A panic is our bug; it is reported like one ([`Error::Internal`]) instead of taking the process
/// down.
pub fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    attempt(work).unwrap_or_else(|panic| Err(panic.into_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_arrive_in_unit_order_whatever_the_threads() {
        for threads in [1, 2, 5, 16] {
            let mut seen = Vec::new();
            let work = |unit: usize, out: &Output<usize>| {
                (0..unit % 4).for_each(|i| out.give(unit * 10 + i));
                Ok(())
            };
            in_order(23, Crew { threads, queue: 1 + threads % 3 }, work, |unit, piece| {
                assert_eq!(unit, piece / 10);
                seen.push(piece);
                Ok(())
            })
            .unwrap();
            let expected: Vec<usize> =
                (0..23).flat_map(|u| (0..u % 4).map(move |i| u * 10 + i)).collect();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn the_first_error_in_order_wins_and_nothing_hangs() {
        for threads in [1, 3] {
            let work = |unit: usize, out: &Output<usize>| {
                out.give(unit);
                out.give(unit);
                if unit >= 5 { Err(Error::Misuse(format!("unit {unit}"))) } else { Ok(()) }
            };
            let error = in_order(100, Crew { threads, queue: 1 }, work, |_, _| Ok(())).unwrap_err();
            assert_eq!(error.to_string(), "unit 5");
            let stopped = in_order(
                100,
                Crew { threads, queue: 1 },
                |u, out: &Output<usize>| {
                    out.give(u);
                    Ok(())
                },
                |u, _| {
                    if u == 3 { Err(Error::Misuse("sink".into())) } else { Ok(()) }
                },
            );
            assert_eq!(stopped.unwrap_err().to_string(), "sink");
        }
    }

    #[test]
    fn a_panic_in_a_worker_is_an_error() {
        let error = in_order(
            3,
            Crew { threads: 2, queue: 1 },
            |_, _: &Output<()>| panic!("boom"),
            |_, ()| Ok(()),
        )
        .unwrap_err();
        assert!(error.to_string().contains("boom") && error.to_string().contains("bug"), "{error}");
    }

    #[test]
    fn jobs_give_their_results_in_order() {
        for threads in [0, 1, 2, 7] {
            let jobs: Vec<usize> = (0..50).collect();
            assert_eq!(for_each(threads, jobs.clone(), |j| j), jobs);
        }
        assert_eq!(for_each(3, Vec::<u8>::new(), |j| j), Vec::<u8>::new());
    }

    #[test]
    fn a_panic_in_a_job_is_an_error() {
        for threads in [1, 4] {
            let work = |j: usize| if j == 30 { panic!("job {j}") } else { j };
            let error =
                caught(|| Ok(for_each(threads, (0..50).collect(), work))).unwrap_err().to_string();
            assert!(error.contains("job 30"), "{error}");
        }
    }

    #[test]
    fn a_panic_is_told_with_its_place() {
        let panic = Panic { payload: Box::new("boom"), at: Some("src/a.rs:7".into()) };
        let said = panic.into_error().to_string();
        assert!(said.contains("did: boom, at src/a.rs:7 (this is a bug"), "{said}");
        // The hook itself, without taking other tests' panics away.
        let before = std::panic::take_hook();
        record_panics();
        let error = caught::<()>(|| panic!("here")).unwrap_err().to_string();
        std::panic::set_hook(before);
        assert!(error.contains("here, at src/workers.rs:"), "{error}");
    }

    #[test]
    fn a_worker_may_ask_for_parallel_work() {
        let nested = |j: usize| blas::parallel(2, || j);
        assert_eq!(blas::serial(|| for_each(3, vec![1; 9], nested)), vec![1; 9]);
        let work = |unit: usize, out: &Output<usize>| {
            out.give(blas::parallel(2, || unit));
            Ok(())
        };
        in_order(5, Crew { threads: 2, queue: 1 }, work, |unit, piece| {
            assert_eq!(unit, blas::parallel(2, || piece));
            Ok(())
        })
        .unwrap();
    }
}
