//! NBD for the server of volumes in memory, for tests and examples.

use crate::{Config, NbdFront};
use amita_frontend::memory::{Accept, Accepted, MemoryService};
use amita_frontend::{FrontId, Who};
use amita_reactor::{Outbox, Time};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// NBD with these settings.
#[derive(Clone, Debug, Default)]
pub struct Nbd(Arc<Config>);

impl From<Config> for Nbd {
    fn from(config: Config) -> Nbd {
        Nbd(Arc::new(config))
    }
}

impl Accept for Nbd {
    fn accept(
        &self,
        id: FrontId,
        now: Time,
        _: Option<(SocketAddr, SocketAddr)>,
        _: &mut MemoryService,
        outbox: &mut Outbox,
    ) -> io::Result<Accepted> {
        Ok(Accepted {
            front: Box::new(NbdFront::accept(self.0.clone(), id, Who::Local, now, outbox)),
            look: Box::new(|_| None),
        })
    }
}
