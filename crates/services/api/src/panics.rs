//! What a panic ends. Cores, the control plane and everything else of a node that has panicked are not gone on with: the process ends at
//! once, and others take over. What carries one request of the API is ended alone: it has no part in the way of I/O.
//!
//! That takes a program that unwinds, and whose hook ends the process where [`may_unwind`] says no.

use std::cell::Cell;
use tokio::task::JoinHandle;

thread_local! {
    static MAY_UNWIND: Cell<bool> = const { Cell::new(false) };
}

/// Does this thread carry a request of the API, so that a panic ends that request and not the process?
#[must_use]
pub fn may_unwind() -> bool {
    MAY_UNWIND.try_with(Cell::get).unwrap_or(false)
}

/// For as long as it is there, a panic of this thread ends what it does and not the process.
#[derive(Debug)]
pub struct Unwinding {
    /// It might unwind before.
    before: bool,
}

impl Unwinding {
    /// From now on, on this thread: it carries a request, or a part of one.
    #[must_use]
    pub fn begin() -> Unwinding {
        Unwinding::begin_where(true)
    }

    /// The same where `may`, as it is on the thread that this one works for.
    #[must_use]
    pub fn begin_where(may: bool) -> Unwinding {
        let before = MAY_UNWIND.replace(may);
        Unwinding { before }
    }
}

impl Drop for Unwinding {
    fn drop(&mut self) {
        MAY_UNWIND.set(self.before);
    }
}

/// Carries a request on a thread that may wait.
pub(crate) fn carry<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    tokio::task::spawn_blocking(move || {
        let _unwinding = Unwinding::begin();
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_thread_that_carries_a_request_may_unwind_and_only_meanwhile() {
        assert!(!may_unwind());
        {
            let _outer = Unwinding::begin();
            {
                let _inner = Unwinding::begin();
                assert!(may_unwind());
            }
            assert!(may_unwind(), "what is inside ends for itself");
            let others = std::thread::spawn(may_unwind).join();
            assert!(!others.expect("a thread"));
            let may = may_unwind();
            let helper = std::thread::spawn(move || {
                let _unwinding = Unwinding::begin_where(may);
                may_unwind()
            });
            assert!(helper.join().expect("a thread"));
        }
        assert!(!may_unwind());
        let ended = std::panic::catch_unwind(|| {
            let _unwinding = Unwinding::begin();
            assert!(!may_unwind(), "as planned");
        });
        assert!(ended.is_err() && !may_unwind(), "a panic takes the mark away");
    }

    #[test]
    fn what_panics_is_answered_and_the_thread_is_clean_for_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let ended = carry(|| -> bool { panic!("as planned: {}", may_unwind()) }).await;
            let problem = crate::session::panicked(&ended.expect_err("a panic"));
            assert_eq!(problem.status, 500);
            assert_eq!(problem.code, crate::Code::Internal.text());
            assert!(carry(may_unwind).await.expect("it goes on"));
            let unmarked = tokio::task::spawn_blocking(may_unwind).await;
            assert!(!unmarked.expect("the same thread"));
        });
    }
}
