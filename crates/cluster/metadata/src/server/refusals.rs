//! Who was refused what: for an audit log, which is kept by whoever started the server.
//!
//! Nothing waits for who listens: what comes too fast is counted, for each who is refused: who is refused all the time leaves room
//! for others.

use super::access::Peer;
use crate::call::{Call, Op};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most refusals that wait to be heard of.
const MAX_WAITING: usize = 64;
/// Of one who is refused.
const MAX_WAITING_OF_ONE: usize = 8;
/// Of so many names it is counted how many refusals were not told; of all others together, under the empty name.
const MAX_COUNTED: usize = 256;
/// Of a call with more bytes the keys are told, not the values.
const MAX_BYTES: usize = 64 * 1024;

/// What somebody asked for who may not.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Who.
    pub peer: Peer,
    /// From where.
    pub source: IpAddr,
    /// What, where it was about keys.
    pub call: Option<Call>,
    /// In words: `a change`, `a watch`, ...
    pub asked: &'static str,
}

/// What waits, and what does not any more, by the name of who was refused.
#[derive(Debug, Default)]
struct Counts {
    waiting: HashMap<String, usize>,
    missed: HashMap<String, u64>,
}

impl Counts {
    fn miss(&mut self, name: &str) {
        let is_counted = self.missed.contains_key(name) || self.missed.len() < MAX_COUNTED;
        let name = if is_counted { name } else { "" };
        *self.missed.entry(name.to_owned()).or_default() += 1;
    }
}

/// Where refusals are told.
#[derive(Clone, Debug)]
pub struct Refusals {
    sender: SyncSender<Refused>,
    counts: Arc<Mutex<Counts>>,
}

/// Where refusals are heard.
#[derive(Debug)]
pub struct Heard {
    receiver: Receiver<Refused>,
    counts: Arc<Mutex<Counts>>,
}

impl Heard {
    /// The next one, and how many of which names were not told up to now, because too many waited (the empty name: of others than
    /// are counted); waits no longer than that.
    ///
    /// # Errors
    /// There was none in that time, or the server has ended.
    pub fn next(&self, patience: Duration) -> Result<(Refused, HashMap<String, u64>), RecvTimeoutError> {
        let refused = self.receiver.recv_timeout(patience)?;
        let mut counts = lock(&self.counts);
        let name = &refused.peer.name;
        if let Some(waiting) = counts.waiting.get_mut(name) {
            *waiting -= 1;
            if *waiting == 0 {
                counts.waiting.remove(name);
            }
        }
        let missed = std::mem::take(&mut counts.missed);
        drop(counts);
        Ok((refused, missed))
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Refusals {
    /// And where they are heard.
    #[must_use]
    pub fn channel() -> (Refusals, Heard) {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let heard = Heard {
            receiver,
            counts: Arc::clone(&counts),
        };
        (Refusals { sender, counts }, heard)
    }

    pub(super) fn tell(&self, peer: &Peer, source: IpAddr, call: Option<&Call>, asked: &'static str) {
        let mut counts = lock(&self.counts);
        let waiting = counts.waiting.get(&peer.name).copied().unwrap_or(0);
        if waiting >= MAX_WAITING_OF_ONE {
            counts.miss(&peer.name);
            return;
        }
        let refused = Refused {
            peer: peer.clone(),
            source,
            call: call.map(bounded),
            asked,
        };
        if self.sender.try_send(refused).is_ok() {
            counts.waiting.insert(peer.name.clone(), waiting + 1);
        } else {
            counts.miss(&peer.name);
        }
    }
}

fn bounded(call: &Call) -> Call {
    if call.size_bytes() <= MAX_BYTES {
        return call.clone();
    }
    let without = |op: &Op| match op {
        Op::Put { key, .. } => Op::Put {
            key: key.clone(),
            value: Vec::new(),
            lease: None,
        },
        other => other.clone(),
    };
    let mut bytes = 0;
    let few = |op: &Op| {
        bytes += op.key().len();
        bytes <= MAX_BYTES
    };
    Call {
        then: call.then.iter().map(without).take_while(few).collect(),
        ..Call::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_identity::{Name, Role};

    const SOON: Duration = Duration::ZERO;

    fn viewer(name: &str) -> Peer {
        Peer::from(Name::new(amita_types::ClusterId(1), Role::Operator, name).unwrap())
    }

    #[test]
    fn what_nobody_hears_in_time_is_counted_and_large_calls_are_told_by_their_keys() {
        let (refusals, heard) = Refusals::channel();
        let call = Call::put("/amita/a", vec![7; MAX_BYTES + 1]);
        let noisy = viewer("noisy");
        for _ in 0..1000 {
            refusals.tell(&noisy, [192, 0, 2, 1].into(), Some(&call), "a change");
        }
        let quiet = viewer("quiet");
        refusals.tell(&quiet, [192, 0, 2, 2].into(), None, "a lease");
        let (first, missed) = heard.next(SOON).unwrap();
        let wanted = 1000 - MAX_WAITING_OF_ONE as u64;
        assert_eq!(missed, HashMap::from([(noisy.name.clone(), wanted)]));
        let first = first.call.unwrap();
        assert!(first.size_bytes() < 100 && first.then[0].key() == "/amita/a");
        let rest: Vec<_> = std::iter::from_fn(|| heard.next(SOON).ok()).collect();
        assert_eq!(rest.len(), MAX_WAITING_OF_ONE);
        assert!(rest.iter().all(|(_, missed)| missed.is_empty()), "they were told once");
        assert_eq!(rest.last().unwrap().0.peer, quiet, "who is quiet is heard");
        refusals.tell(&noisy, [192, 0, 2, 1].into(), None, "a lease");
        assert!(heard.next(SOON).unwrap().1.is_empty());
    }

    #[test]
    fn however_many_are_refused_no_more_than_so_many_wait() {
        let (refusals, heard) = Refusals::channel();
        for number in 0..1000 {
            refusals.tell(&viewer(&format!("v{number}")), [192, 0, 2, 1].into(), None, "a lease");
        }
        assert_eq!(lock(&heard.counts).missed.len(), MAX_COUNTED + 1);
        let (_, missed) = heard.next(SOON).unwrap();
        let all: u64 = missed.values().sum();
        assert_eq!(all, 1000 - MAX_WAITING as u64, "each is counted, of whomever it was");
        let waited = std::iter::from_fn(|| heard.next(SOON).ok()).count();
        assert_eq!(waited, MAX_WAITING - 1);
        assert!(lock(&heard.counts).waiting.is_empty());
    }
}
