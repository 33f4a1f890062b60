//! Runs one function for many numbers, a few at a time.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};

/// Concurrent cycles: more would only wait for the disk.
const AT_ONCE: usize = 2;

/// Calls the function for each number below `count`, until one call breaks off or fails.
pub(super) fn for_each(
    count: u64,
    work: impl Fn(u64) -> Result<ControlFlow<()>> + Sync,
) -> Result<()> {
    let next = AtomicU64::new(0);
    let worker = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            match work(number) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => next.store(count, Ordering::Relaxed),
                Err(error) => {
                    next.store(count, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| bail!("a worker of the harness panicked"))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_number_once_until_one_breaks_off() {
        let seen = Mutex::new(Vec::new());
        let note = |number| {
            seen.lock().unwrap().push(number);
            Ok(ControlFlow::Continue(()))
        };
        for_each(20, note).unwrap();
        let mut all = std::mem::take(&mut *seen.lock().unwrap());
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());

        for_each(1000, |number| match number {
            3 => Ok(ControlFlow::Break(())),
            number => note(number),
        })
        .unwrap();
        assert!(seen.lock().unwrap().len() < 999);
        let error = for_each(9, |_| bail!("no")).unwrap_err();
        assert_eq!(error.to_string(), "no");
    }
}
