//! What is asked for, and when: offsets, directions, times of arrival. No clock and no I/O here.

use crate::case::Order;
use crate::load::protocol::Job;

/// A small generator of random numbers (xorshift64*): quick, and the same for the same seed everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts at a seed; neighbouring seeds are far apart.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// A share, 0 included and 1 not.
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }
}

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
