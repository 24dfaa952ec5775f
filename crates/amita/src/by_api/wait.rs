//! Nodes are waited for in steps, so that whoever ends the command is heard while a node is silent: signals only set a flag
//! ([`interrupt::catch`]), and nothing else looks at it meanwhile.

use amita_terminal::error::Result;
use amita_terminal::interrupt;
use std::pin::{Pin, pin};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// How often it is looked whether the command is to end.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until it is done.
///
/// # Errors
/// The command is to end.
pub(crate) fn wait<T>(runtime: &Runtime, work: impl Future<Output = T>) -> Result<T> {
    let mut work = pin!(work);
    loop {
        interrupt::check()?;
        if let Some(done) = step(runtime, work.as_mut()) {
            return Ok(done);
        }
    }
}

/// The same for so long at most; none: it is not done by then.
///
/// # Errors
/// As [`wait`].
pub(crate) fn within<T>(runtime: &Runtime, patience: Duration, work: impl Future<Output = T>) -> Result<Option<T>> {
    within_while(runtime, patience, &|| Ok(()), work)
}

/// The same for as long as `wanted` says that it is.
///
/// # Errors
/// As [`wait`]; or what `wanted` says.
pub(crate) fn within_while<T>(
    runtime: &Runtime,
    patience: Duration,
    wanted: &dyn Fn() -> Result<()>,
    work: impl Future<Output = T>,
) -> Result<Option<T>> {
    let until = interrupt::deadline(patience);
    let mut work = pin!(work);
    loop {
        interrupt::check()?;
        wanted()?;
        if let Some(done) = step(runtime, work.as_mut()) {
            return Ok(Some(done));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
    }
}

/// Goes on with it for a while. What was begun is not lost by that.
fn step<T>(runtime: &Runtime, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    runtime.block_on(async move { timeout(LOOK, work).await.ok() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_terminal::capture::{self, Terms};
    use amita_terminal::error::Failure;
    use std::future::pending;
    use tokio::time::sleep;

    fn runtime() -> Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().expect("an event loop")
    }

    #[test]
    fn what_takes_longer_than_a_step_is_done_once_and_what_never_ends_is_given_up() {
        let runtime = runtime();
        let mut begun = 0;
        let long = async {
            begun += 1;
            sleep(LOOK + LOOK / 2).await;
            7
        };
        assert_eq!(wait(&runtime, long), Ok(7));
        assert_eq!(begun, 1);
        assert_eq!(within(&runtime, LOOK, pending::<()>()), Ok(None));
        assert_eq!(within(&runtime, LOOK, async { 8 }), Ok(Some(8)));
        let looks = std::cell::Cell::new(0);
        let wanted = || {
            looks.set(looks.get() + 1);
            match looks.get() {
                1 => Ok(()),
                _ => Err(Failure::new("it is wanted no more")),
            }
        };
        let ended = within_while(&runtime, Duration::MAX, &wanted, pending::<()>());
        assert!(ended.is_err_and(|why| why.what.contains("no more")) && looks.get() == 2);
        let terms = Terms {
            most_bytes: 1,
            until: Instant::now() + LOOK,
            confirmed: None,
        };
        let (ended, _) = capture::run(terms, || wait(&runtime, pending::<()>()));
        assert!(ended.is_err(), "the command is to end");
    }
}
