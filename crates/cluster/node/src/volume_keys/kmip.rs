//! A key of a KMIP server's, over the network: what carries the questions of [`amita_crypt::Kmip`] there ([`Keeper`]), in TTLV over mutual TLS
//! (OASIS KMIP Profiles 1.4, 3.1: port 5696). A server that binds nothing of what it wraps is asked for nothing ([`probe`]).
//!
//! A line may name several servers that have the same keys: one is asked, and where it does not answer, or refuses, the next one (`way.rs`). What is
//! proven is proven of one server, and whoever wraps asks one by one.

pub(super) mod line;
mod way;

use super::keeper::{Carry, Keeper, Pause, Trouble};
use amita_crypt::{Kmip, KmipRequest, Request, Response};
use amita_keys::system_random;
use line::Place;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
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

/// Has seen that this one of its servers wraps by its key and binds what it wraps, or that it gives the key. `kmip`: of its line.
///
/// # Errors
/// It does not, or does not answer: why, for people.
pub(super) fn probe(keeper: &Keeper, kmip: &Kmip, server: usize) -> Result<(), Trouble> {
    let mut next = Some(kmip.probe(&mut system_random));
    while let Some(question) = next {
        let probed = keeper.ask_at(question, server)?;
        next = probed.map_err(|why| keeper.refused_at(&why, server))?.0;
    }
    keeper.proven(server);
    Ok(())
}

struct Worker {
    name: String,
    way: Way,
    pause: Pause,
    runtime: Runtime,
}

impl Worker {
    fn asked<'a>(&self, request: &'a Request) -> Result<&'a KmipRequest, Trouble> {
        match request {
            Request::Kmip(request) => Ok(request),
            Request::Http(_) => Err(Trouble {
                why: format!("{} speaks KMIP, and was asked by another protocol", self.name),
                is_passing: false,
            }),
        }
    }
}

impl Carry for Worker {
    fn carry(&mut self, request: &Request) -> Result<Response, Trouble> {
        let request = self.asked(request)?;
        if let Some(trouble) = self.pause.holds(Instant::now()) {
            return Err(trouble.clone());
        }
        match self.runtime.block_on(self.way.ask(request)) {
            Ok(answer) => {
                self.pause = Pause::default();
                Ok(Response::Kmip(answer))
            }
            Err(Trouble { why, is_passing }) => {
                // It is not asked for a while.
                let why = format!("{}: {why}", self.name);
                let trouble = Trouble { why, is_passing };
                self.pause.begin(Instant::now(), trouble.clone());
                Err(trouble)
            }
        }
    }

    fn carry_at(&mut self, request: &Request, server: usize) -> Result<Response, Trouble> {
        let request = self.asked(request)?;
        let answer = self.runtime.block_on(self.way.ask_at(request, server))?;
        Ok(Response::Kmip(answer))
    }

    fn servers(&self) -> Vec<String> {
        let servers = self.way.servers.iter();
        servers
            .map(|server| format!("KMIP server at {}", server.host.authority()))
            .collect()
    }

    fn wait(&self, _: Instant) -> Duration {
        self.way.wait()
    }

    fn keep(&mut self, _: bool) {
        self.way.let_go();
    }

    fn end(self) {
        // A name that is still being looked up is nobody's business any more.
        self.runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests;
