//! What time brings: pings, the end of patience, new attempts.

use super::Fabric;
use crate::codec::encode_ping;
use crate::connection::Due;
use crate::event::{DownReason, Link};
use amita_reactor::{Driver, Time};

impl Fabric {
    /// Does what is due. To be called at [`Fabric::deadline`]; earlier costs little.
    pub fn tick(&mut self, driver: &mut dyn Driver) {
        self.now = driver.now();
        let now = self.now;
        while let Some(link) = self.doomed.pop() {
            self.end(driver, link, DownReason::Dropped, None);
        }
        if self.next > now {
            return;
        }
        self.next = Time(u64::MAX);
        for slot in 0..self.slots.len() {
            if let Some(link) = self.slots[slot].as_deref().map(|found| found.link) {
                self.look_at(driver, link);
            }
        }
        let next = self.dial(driver, now);
        self.due_by(next);
    }

    fn look_at(&mut self, driver: &mut dyn Driver, link: Link) {
        let now = self.now;
        // Once for each thing that may be due, and once more for what is next.
        for _ in 0..3 {
            let Some(connection) = self.connection(link) else {
                return;
            };
            if connection.starved {
                self.touch(link);
            }
            let Some(connection) = self.connection(link) else {
                return;
            };
            match connection.due(now, &self.config.timeouts, self.paused) {
                Due::At(next) => return self.due_by(next),
                Due::Ping => self.ping(link),
                Due::Doubt => self.doubt(link),
                Due::Tell => self.tell(link),
                Due::TooSlow => return self.end(driver, link, DownReason::Silent, None),
                Due::Silent => return self.end(driver, link, DownReason::Silent, None),
                Due::Stalled => return self.end(driver, link, DownReason::Stalled, None),
            }
        }
    }

    fn ping(&mut self, link: Link) {
        self.counters.pings += 1;
        let number = self.counters.pings;
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.pinged = Some(now);
        connection.busy = true;
        let version = connection.version;
        self.scratch.clear();
        encode_ping(&mut self.scratch, version, number, false);
        self.append_scratch(link);
    }

    /// A peer that is not read cannot be answered, and would take that for death.
    fn tell(&mut self, link: Link) {
        let now = self.now;
        let Some(connection) = self.connection_mut(link) else {
            return;
        };
        connection.told = now;
        let version = connection.version;
        self.scratch.clear();
        encode_ping(&mut self.scratch, version, 0, true);
        self.append_scratch(link);
    }
}
