//! A key of a KMIP server's, over the network: what carries the questions of [`amita_crypt::Kmip`] there ([`Keeper`]), in TTLV over mutual TLS
//! (OASIS KMIP Profiles 1.4, 3.1: port 5696). A server that binds nothing of what it wraps is asked for nothing ([`probe`]).
//!
//! A line may name several servers that have the same keys: one is asked, and where it does not answer the next one.

pub(super) mod line;
mod way;

use super::keeper::{Carry, Keeper, Pause, Trouble};
use amita_crypt::{Kmip, Request, Response, look};
use amita_keys::system_random;
use line::Place;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;
use way::Way;

/// Starts what asks it.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn start(place: Place) -> io::Result<Arc<Keeper>> {
    let name = place.name();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let worker = Worker {
        name: name.clone(),
        way: Way::new(place),
        pause: Pause::default(),
        runtime,
    };
    Keeper::start(name, "amita-kmip", worker)
}

/// Has seen that the server wraps by its key and binds what it wraps, or that it gives the key. `kmip`: of its line.
///
/// # Errors
/// It does not, or does not answer: why, for people.
pub(super) fn probe(server: &Keeper, kmip: &Kmip) -> Result<(), Trouble> {
    if let Some(binds) = server.carry(kmip.probe(&mut system_random))? {
        server.carry(binds)?;
    }
    server.proven();
    Ok(())
}

struct Worker {
    name: String,
    way: Way,
    pause: Pause,
    runtime: Runtime,
}

impl Worker {
    /// It is not asked for a while.
    fn fail(&mut self, why: &str, is_passing: bool) -> Trouble {
        let why = format!("{}: {why}", self.name);
        let trouble = Trouble { why, is_passing };
        self.pause.begin(Instant::now(), trouble.clone());
        trouble
    }
}

impl Carry for Worker {
    fn carry(&mut self, request: &Request) -> Result<Response, Trouble> {
        let Request::Kmip(request) = request else {
            return Err(self.fail("it speaks KMIP, and was asked by another protocol", false));
        };
        if let Some(trouble) = self.pause.holds(Instant::now()) {
            return Err(trouble.clone());
        }
        let answer = match self.runtime.block_on(self.way.ask(request)) {
            Ok(answer) => answer,
            Err(why) => return Err(self.fail(&why, true)),
        };
        match look(&answer) {
            Err(why) if why.is_of_all() => Err(self.fail(&why.to_string(), false)),
            _ => {
                self.pause = Pause::default();
                Ok(Response::Kmip(answer))
            }
        }
    }

    fn end(self) {
        // A name that is still being looked up is nobody's business any more.
        self.runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests;
