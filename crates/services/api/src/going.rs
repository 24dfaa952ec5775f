//! Whether an image that is copied is still wanted: whoever asked may have gone, or may not any more.

use crate::problem::{Code, Problem};
use crate::session::Api;
use crate::who::Standing;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often it is looked whether whoever asked still may.
const LOOK: Duration = Duration::from_secs(5);
/// A copy ends where nobody could say that for so long.
const UNKNOWN: Duration = Duration::from_secs(60);

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
pub(crate) struct Watched {
    going: Going,
    looks: JoinHandle<()>,
}

impl Watched {
    /// Of a copy that begins, for whoever has shown that; where nobody shows anything, nothing.
    pub(crate) fn begin(api: &Api, standing: Option<Standing>) -> Watched {
        let going = Going::default();
        let (api, ends) = (api.clone(), going.clone());
        let looks = tokio::spawn(async move {
            if let Some(standing) = standing {
                ends.end(look(&api, &standing).await);
            }
        });
        Watched { going, looks }
    }

    pub(crate) fn going(&self) -> &Going {
        &self.going
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.looks.abort();
        self.going
            .end(Problem::new(Code::Incomplete, "whoever asked for it has gone"));
    }
}

/// Looks again and again at what was shown: why it is good no more.
async fn look(api: &Api, standing: &Standing) -> Problem {
    let mut known = Instant::now();
    loop {
        tokio::time::sleep(LOOK).await;
        match standing.is_good(api).await {
            Some(true) => known = Instant::now(),
            Some(false) => {
                let why = "the token or the certificate of whoever asked was revoked meanwhile, or has ended";
                return Problem::new(Code::Unauthenticated, why);
            }
            None if known.elapsed() >= UNKNOWN => {
                let why = format!(
                    "the metadata could not say for {} s whether whoever asked still may",
                    UNKNOWN.as_secs()
                );
                return Problem::new(Code::MetadataAway, why);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_metadata::model::State;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn api() -> Api {
        Api::new(Arc::new(Mutex::new(State::new())))
    }

    #[tokio::test]
    async fn the_first_reason_is_told_and_who_waits_is_woken() {
        let watched = Watched::begin(&api(), None);
        let going = watched.going().clone();
        going.check().unwrap();
        let waiting = tokio::spawn({
            let going = going.clone();
            async move { going.ended().await }
        });
        going.end(Problem::new(Code::NotInTime, "it takes too long"));
        waiting.await.unwrap();
        drop(watched);
        assert_eq!(going.check().unwrap_err().code, "not-in-time");
    }

    #[tokio::test]
    async fn a_request_that_is_gone_ends_its_copy() {
        let watched = Watched::begin(&api(), None);
        let going = watched.going().clone();
        going.check().unwrap();
        drop(watched);
        assert_eq!(going.check().unwrap_err().code, "incomplete");
    }

    #[tokio::test]
    async fn a_certificate_that_is_revoked_ends_its_copy() {
        let good = Arc::new(AtomicBool::new(true));
        let is_good = Arc::clone(&good);
        let standing = Standing::Certificate(Arc::new(move || is_good.load(Ordering::Relaxed)));
        let watched = Watched::begin(&api(), Some(standing));
        watched.going().check().unwrap();
        good.store(false, Ordering::Relaxed);
        watched.going().ended().await;
        assert_eq!(watched.going().check().unwrap_err().code, "unauthenticated");
    }
}
