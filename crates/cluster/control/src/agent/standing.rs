//! Is the metadata that answers the one that this node knows? What the thread that reads it has found, for the others.

use amita_metadata::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
enum State {
    /// Nobody has read it since the stream of the watch broke.
    Unsure,
    Believed,
    /// And why not.
    Refused(String),
}

/// A handle; its clones are one.
#[derive(Clone)]
pub(super) struct Standing {
    state: Arc<(Mutex<State>, Condvar)>,
    endpoints: String,
}

impl Standing {
    pub(super) fn new(endpoints: String) -> Standing {
        Standing {
            state: Arc::new((Mutex::new(State::Unsure), Condvar::new())),
            endpoints,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.state.1.notify_all();
    }

    pub(super) fn unsure(&self) {
        let mut state = self.lock();
        // What was refused is until it has been read again.
        if matches!(*state, State::Believed) {
            *state = State::Unsure;
        }
    }

    pub(super) fn believe(&self) {
        self.set(State::Believed);
    }

    pub(super) fn refuse(&self, why: String) {
        self.set(State::Refused(why));
    }

    /// Calls are carried out unless the metadata was refused: they compare what they rest on.
    ///
    /// # Errors
    /// It was: it is as if it were away.
    pub(super) fn allow(&self) -> Result<(), Error> {
        match &*self.lock() {
            State::Refused(why) => Err(self.away(why.clone())),
            State::Unsure | State::Believed => Ok(()),
        }
    }

    /// For what is not to be done before the metadata was read; waits for that, but no longer than told.
    ///
    /// # Errors
    /// It is not believed, or was not read.
    pub(super) fn await_belief(&self, longest: Duration) -> Result<(), Error> {
        let is_unsure = |state: &mut State| matches!(state, State::Unsure);
        let (state, _) = self
            .state
            .1
            .wait_timeout_while(self.lock(), longest, is_unsure)
            .unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Believed => Ok(()),
            State::Unsure => Err(self.away("it has not been read yet".to_owned())),
            State::Refused(why) => Err(self.away(why.clone())),
        }
    }

    fn away(&self, what: String) -> Error {
        Error::Unavailable {
            what,
            endpoints: self.endpoints.clone(),
        }
    }
}
