//! What a client's requests to many servers tell each of them of the others: the two counts of dmClock (Gulati, Merchant, Varman:
//! "mClock: Handling Throughput Variability for Hypervisor IO Scheduling", OSDI 2010, section 3.2).
//!
//! A volume's I/O goes to all stores of its pool, and none of those sees more than its part. So a request carries how much work of
//! this client ended at other servers since its last request to this one, in all and under its reservation: the server counts
//! that as if it had done it, and the volume gets its reservation once, and not once a store. The counts are work, not requests.

/// Work that ended at other servers since the last request to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// In all (delta).
    pub served: u64,
    /// Of it, what was done because it was reserved (rho).
    pub reserved: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The totals, when the last request went there.
    served: u64,
    reserved: u64,
    /// Of the totals since, what this server did itself.
    own_served: u64,
    own_reserved: u64,
}

/// One client's counts; its servers are numbered from zero.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    served: u64,
    reserved: u64,
    servers: Vec<Seen>,
}

impl Tracker {
    /// A server has answered that it did so much work, reserved or not. Work is bytes as [`crate::scheduler`] counts them: the
    /// totals last for centuries.
    pub fn answered(&mut self, server: usize, work: u64, reserved: bool) {
        self.served += work;
        let part = if reserved { work } else { 0 };
        self.reserved += part;
        let seen = self.seen(server);
        seen.own_served += work;
        seen.own_reserved += part;
    }

    /// What a request tells that goes to this server now.
    pub fn ask(&mut self, server: usize) -> Elsewhere {
        let (served, reserved) = (self.served, self.reserved);
        let seen = self.seen(server);
        let elsewhere = Elsewhere {
            served: served - seen.served - seen.own_served,
            reserved: reserved - seen.reserved - seen.own_reserved,
        };
        *seen = Seen {
            served,
            reserved,
            ..Seen::default()
        };
        elsewhere
    }

    fn seen(&mut self, server: usize) -> &mut Seen {
        if self.servers.len() <= server {
            self.servers.resize(server + 1, Seen::default());
        }
        &mut self.servers[server]
    }
}

#[cfg(test)]
mod tests;
