//! One call for a thing at a time: a second one is told to come again (CSI 1.13, "Concurrency").

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tonic::Status;

/// What calls are at work on.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<Mutex<HashSet<String>>>);

/// A call is at work on it, until it is dropped.
#[derive(Debug)]
pub struct Hold {
    busy: Busy,
    what: String,
}

impl Busy {
    /// Takes it.
    ///
    /// # Errors
    /// Another call has it.
    pub fn take(&self, what: impl Into<String>) -> Result<Hold, Status> {
        let what = what.into();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.insert(what.clone()) {
            true => Ok(Hold {
                busy: self.clone(),
                what,
            }),
            false => Err(Status::aborted(format!("another call is at work on {what}"))),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.busy.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(&self.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let busy = Busy::default();
        let first = busy.take("7:a").expect("free");
        assert_eq!(busy.take("7:a").expect_err("held").code(), tonic::Code::Aborted);
        assert!(busy.take("8:b").is_ok());
        drop(first);
        assert!(busy.take("7:a").is_ok());
    }
}
