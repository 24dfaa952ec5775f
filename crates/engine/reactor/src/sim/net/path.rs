//! What each end's kernel counts of the way of a connection, and links that lose segments.
//!
//! A segment that is lost is sent again when nothing has acknowledged it for [`RESEND`], and then after twice as long each time:
//! what comes after it waits, as a stream is in order. Where the other direction loses, it is the acknowledgement that does not come: the
//! segment is sent again all the same, and the other end says that it had it (D-SACK), which is what tells the two directions apart.

use super::*;
use crate::driver::PathCounts;

/// Bytes of a segment on an Ethernet.
const SEGMENT_BYTES: usize = 1448;
/// The shortest time after which a kernel sends a segment again.
const RESEND: Duration = Duration::from_millis(200);
/// So often in a row a segment is lost at most.
const MOST_RESENDS: u32 = 4;
/// The shortest round trip is that of so long a time.
const LEAST_OF: Duration = Duration::from_secs(300);

/// What one end's kernel has counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path {
    counts: PathCounts,
    least_at: Time,
}

impl Path {
    /// So many segments were sent for the first time.
    fn sent(&mut self, segments: u32) {
        self.counts.sent = self.counts.sent.wrapping_add(segments);
    }

    /// So many were sent again; the other end had them, or not.
    fn resent(&mut self, times: u32, had: bool) {
        let counts = &mut self.counts;
        counts.sent = counts.sent.wrapping_add(times);
        counts.resent = counts.resent.wrapping_add(times);
        counts.doubled = counts.doubled.wrapping_add(if had { times } else { 0 });
    }

    /// A round trip was measured. What was sent again measures none (Karn).
    fn measured(&mut self, now: Time, takes: Duration) {
        let takes = u32::try_from(takes.as_micros()).unwrap_or(u32::MAX).max(1);
        let counts = &mut self.counts;
        let is_first = counts.least_us == 0;
        counts.round_trip_us = match is_first {
            true => takes,
            false => counts.round_trip_us - counts.round_trip_us / 8 + takes / 8,
        };
        if is_first || takes <= counts.least_us || now.since(self.least_at) > LEAST_OF {
            (counts.least_us, self.least_at) = (takes, now);
        }
    }
}

/// How much later something arrives that was sent again so often, where the first time was after `first`.
pub(super) fn waited(first: Duration, times: u32) -> Duration {
    first * ((1 << times) - 1)
}

impl Net {
    /// So many of a thousand segments are lost in that direction from now on.
    pub fn set_loss(&mut self, from: u32, to: u32, per_mille: u32) {
        match per_mille {
            0 => self.losses.remove(&(from, to)),
            _ => self.losses.insert((from, to), per_mille),
        };
    }

    fn loss(&self, from: u32, to: u32) -> u32 {
        self.losses.get(&(from, to)).copied().unwrap_or(0)
    }

    /// How often in a row one segment is lost on its way, `most` times at most.
    pub(super) fn lose(&self, engine: &mut Engine, from: u32, to: u32, most: u32) -> u32 {
        let per_mille = self.loss(from, to);
        let mut times = 0;
        while times < most && engine.random.permille(per_mille) {
            engine.coverage.count(Fault::NetLost);
            times += 1;
        }
        times
    }

    /// Data leaves an end, and takes so long to the other one; `None`: it goes with what was sent just before. How much later it
    /// arrives because segments were lost.
    pub(super) fn carry(
        &mut self,
        engine: &mut Engine,
        (index, end): (usize, usize),
        bytes: usize,
        latency: Option<Duration>,
    ) -> Duration {
        let [from, to] = [end, 1 - end].map(|end| self.connections[index].ends[end].process.node);
        let segments = bytes.div_ceil(SEGMENT_BYTES) as u32;
        let (mut resent, mut longest) = (0, 0);
        if self.loss(from, to) > 0 {
            for _ in 0..segments {
                let times = self.lose(engine, from, to, MOST_RESENDS);
                // Those that were lost together are sent again together.
                (resent, longest) = (resent + times, longest.max(times));
            }
        }
        // One acknowledgement is for all that was sent together.
        let doubled = match latency {
            Some(_) => self.lose(engine, to, from, 1),
            None => 0,
        };
        let back = (self.config.latency.0 + self.config.latency.1) / 2;
        let back = back + self.delays.get(&(to, from)).copied().unwrap_or_default();
        let path = &mut self.connections[index].ends[end].path;
        path.sent(segments);
        path.resent(resent, false);
        path.resent(doubled, true);
        if let Some(latency) = latency
            && (longest, doubled) == (0, 0)
        {
            path.measured(engine.now, latency + back);
        }
        waited(RESEND, longest)
    }

    /// What an end has sent was not acknowledged for so long, and now it is: it was sent again meanwhile.
    pub(super) fn count_stall(&mut self, index: usize, end: usize, length: Duration, had: bool) {
        let times = (1..=MOST_RESENDS)
            .take_while(|times| waited(RESEND, *times) <= length)
            .count() as u32;
        self.connections[index].ends[end].path.resent(times, had);
    }

    /// What the kernel has counted of a socket of a process.
    pub fn path_of(&self, process: Process, socket: SocketId) -> Option<PathCounts> {
        let (index, end) = self.end_of(process, socket)?;
        let end = &self.connections[index].ends[end];
        end.is_usable().then_some(end.path.counts)
    }
}
