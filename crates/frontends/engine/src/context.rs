//! What one step of a front may use, in one piece.

use crate::service::StorageService;
use amita_reactor::{Outbox, Pool, Time};

/// What the request engine needs of a step.
pub trait Context {
    /// The time of the pass.
    fn now(&self) -> Time;

    /// The storage beneath.
    fn service(&mut self) -> &mut dyn StorageService;

    /// Bytes of answers that the host has not fetched: they are memory as well.
    fn queued_bytes(&self) -> usize;
}

/// A step of a connection.
pub struct Cx<'a> {
    /// The time of the pass.
    pub now: Time,
    /// What the host is sent.
    pub outbox: &'a mut Outbox,
    /// Memory for it.
    pub pool: &'a Pool,
    /// The storage beneath.
    pub service: &'a mut dyn StorageService,
    /// Bytes that wait behind the outbox (encrypted ones).
    pub backlog: usize,
}

impl<'a> Cx<'a> {
    /// Nothing waits behind the outbox.
    pub fn new(now: Time, outbox: &'a mut Outbox, pool: &'a Pool, service: &'a mut dyn StorageService) -> Cx<'a> {
        Cx {
            now,
            outbox,
            pool,
            service,
            backlog: 0,
        }
    }

    /// Bytes that the host has not fetched.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        self.outbox.queued_bytes() + self.backlog
    }
}

impl Context for Cx<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn service(&mut self) -> &mut dyn StorageService {
        &mut *self.service
    }

    fn queued_bytes(&self) -> usize {
        Cx::queued_bytes(self)
    }
}
