//! Results in order, whoever computes them: the threads under [`crate::pass`] and under the products with a kernel
//! matrix.
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
//! bounded by the window and the length of a channel, not by the number of units. A worker whose channel is
//! full waits for its turn.

use crate::blas;
use crate::error::{Error, Result};
use crossbeam_channel::{Sender, bounded};
use std::collections::VecDeque;

/// Units in flight for a number of threads: one more than workers, so that none waits for a merge.
pub const fn window(threads: usize) -> usize {
    threads + 1
}

/// Workers, and how many pieces each unit may have waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crew {
    /// Workers.
    pub threads: usize,
    /// Pieces of a unit that wait for their turn.
    pub queue: usize,
}

/// Where a worker puts the pieces of its unit.
pub struct Output<P> {
    channel: Sender<Result<P>>,
}

impl<P> Output<P> {
    /// Waits while the queue is full. A piece nobody wants any more (the pass has failed) is dropped.
    pub fn give(&self, piece: P) {
        let _ = self.channel.send(Ok(piece));
    }
}

/// Does all units and takes what they give, in their order. BLAS calls use one thread each.
pub fn in_order<P: Send>(
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
    let (jobs, queue) = bounded::<(usize, Sender<Result<P>>)>(window(threads));
    let work = &work;
    // Owns `jobs` and the receivers, so that an early return lets every worker go before the join.
    std::thread::scope(move |scope| {
        for _ in 0..threads {
            let queue = queue.clone();
            scope.spawn(move || {
                for (unit, channel) in queue {
                    let output = Output { channel };
                    if let Err(error) = caught(|| work(unit, &output)) {
                        let _ = output.channel.send(Err(error));
                    }
                }
            });
        }
        drop(queue);
        let mut pending = VecDeque::new();
        let mut next = 0;
        for unit in 0..units {
            while next < units && pending.len() < window(threads) {
                let (sender, receiver) = bounded(crew.queue.max(1));
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
    })
}

/// A panic is our bug; it is reported like one instead of taking the process down.
pub fn caught(work: impl FnOnce() -> Result<()>) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|s| s.to_string()));
        Err(Error::Internal(format!(
            "something that cannot happen did: {}",
            text.unwrap_or_default()
        )))
    })
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
}
