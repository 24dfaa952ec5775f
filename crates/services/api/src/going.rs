//! Whether an image that is copied is still wanted: whoever asked may have gone.

use crate::problem::{Code, Problem};
use std::sync::Arc;
use tokio::sync::watch;

/// Is it still wanted? If not, why not.
#[derive(Clone, Debug)]
pub struct Going(Arc<watch::Sender<Option<Problem>>>);

impl Default for Going {
    fn default() -> Going {
        Going(Arc::new(watch::Sender::new(None)))
    }
}

impl Going {
    /// # Errors
    /// It is not wanted any more; the first reason.
    pub fn check(&self) -> Result<(), Problem> {
        self.0.borrow().clone().map_or(Ok(()), Err)
    }

    /// It is not wanted any more.
    pub(crate) fn end(&self, why: Problem) {
        self.0.send_if_modified(|was| {
            let is_first = was.is_none();
            was.get_or_insert(why);
            is_first
        });
    }

    /// Waits until it is not wanted any more.
    pub(crate) async fn ended(&self) {
        let mut seen = self.0.subscribe();
        let _ = seen.wait_for(Option::is_some).await;
    }
}

/// A copy for as long as its request lasts. Dropped, it is not wanted any more: it has ended, or its connection has.
#[derive(Debug)]
pub(crate) struct Watched(Going);

impl Watched {
    /// Of a copy that begins.
    pub(crate) fn begin() -> Watched {
        Watched(Going::default())
    }

    pub(crate) fn going(&self) -> &Going {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0
            .end(Problem::new(Code::Incomplete, "whoever asked for it has gone"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_is_told_and_who_waits_is_woken() {
        let watched = Watched::begin();
        let going = watched.going().clone();
        going.check().unwrap();
        let waiting = tokio::spawn({
            let going = going.clone();
            async move { going.ended().await }
        });
        going.end(Problem::new(Code::Unauthenticated, "the token was revoked"));
        waiting.await.unwrap();
        drop(watched);
        assert_eq!(going.check().unwrap_err().code, "unauthenticated");
    }

    #[test]
    fn a_request_that_is_gone_ends_its_copy() {
        let watched = Watched::begin();
        let going = watched.going().clone();
        going.check().unwrap();
        drop(watched);
        assert_eq!(going.check().unwrap_err().code, "incomplete");
    }
}
