//! What is asked for, and when: offsets, directions, times of arrival. No clock and no I/O here.

use crate::case::Order;
use crate::load::protocol::Job;
use amita_testkit::Random;

/// One I/O on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Is it a read? Else a write.
    pub read: bool,
    /// Where, in bytes.
    pub offset: u64,
}

/// The I/Os on one volume, one after the other.
#[derive(Clone, Debug)]
pub struct Ios {
    order: Order,
    read_percent: u64,
    block_bytes: u64,
    blocks: u64,
    next: u64,
    random: Random,
}

impl Ios {
    /// Of a job, on the volume of this number.
    #[must_use]
    pub fn new(job: &Job, volume: u64) -> Ios {
        let block_bytes = u64::from(job.block_bytes);
        Ios {
            order: job.order,
            read_percent: u64::from(job.mix.read_percent()),
            block_bytes,
            blocks: (job.size_bytes / block_bytes).max(1),
            next: 0,
            random: Random::new(job.seed ^ (volume + 1) << 32),
        }
    }

    /// The next one.
    pub fn draw(&mut self) -> Io {
        let block = match self.order {
            Order::Random => self.random.below(self.blocks),
            Order::Sequential => {
                let block = self.next;
                self.next = (block + 1) % self.blocks;
                block
            }
        };
        Io {
            read: match self.read_percent {
                0 => false,
                100 => true,
                percent => self.random.below(100) < percent,
            },
            offset: block * self.block_bytes,
        }
    }
}

/// Times at which I/Os are to start, at a rate and otherwise by chance (a Poisson process): many independent users.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gap_ns: f64,
    next_ns: f64,
    random: Random,
}

impl Arrivals {
    /// So many a second, from zero on.
    #[must_use]
    pub fn new(rate: f64, seed: u64) -> Arrivals {
        let mut arrivals = Arrivals {
            gap_ns: 1e9 / rate,
            next_ns: 0.0,
            random: Random::new(seed ^ 0xA441_7A15),
        };
        arrivals.advance();
        arrivals
    }

    /// When the next one is to start, in nanoseconds since zero.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// It was started: on to the one after it.
    pub fn advance(&mut self) {
        self.next_ns += -(1.0 - self.random.share()).ln() * self.gap_ns;
    }
}

#[cfg(test)]
mod tests;
