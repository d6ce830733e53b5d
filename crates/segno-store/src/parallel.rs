//! The same work on many things, on all processors.
//!
//! Responsible for: results in the order of the things. Must not: start threads for a few.

use std::thread;

/// For fewer, threads cost more than they save.
const WORTH_A_THREAD: usize = 256;

/// What `work` makes of each, in order.
pub(crate) fn in_parallel<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let workers = workers.min(all.len() / WORTH_A_THREAD);
    if workers < 2 {
        return all.iter().map(work).collect();
    }
    let (first, rest) = all.split_at(all.len().div_ceil(workers));
    let work = &work;
    thread::scope(|scope| {
        let others: Vec<_> = rest
            .chunks(first.len())
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let mut done: Vec<R> = first.iter().map(work).collect();
        for other in others {
            match other.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_things() {
        for count in [0, 1, WORTH_A_THREAD, 4 * WORTH_A_THREAD + 3] {
            let all: Vec<usize> = (0..count).collect();
            let expected: Vec<usize> = (0..count).map(|n| n * 2).collect();
            assert_eq!(in_parallel(&all, |n| n * 2), expected, "{count}");
        }
    }
}
