//! Who was refused what: for an audit log, which is kept by whoever started the server.
//!
//! Nothing waits for who listens: what comes too fast is counted.

use super::access::Peer;
use crate::call::{Call, Op};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The most refusals that wait to be heard of.
const MAX_WAITING: usize = 64;
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

/// Where refusals are told.
#[derive(Clone, Debug)]
pub struct Refusals {
    sender: SyncSender<Refused>,
    missed: Arc<AtomicU64>,
}

impl Refusals {
    /// And where they are heard.
    #[must_use]
    pub fn channel() -> (Refusals, Receiver<Refused>) {
        let (sender, heard) = sync_channel(MAX_WAITING);
        let missed = Arc::default();
        (Refusals { sender, missed }, heard)
    }

    /// How many were not told since this was asked last, because too many waited.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.swap(0, Ordering::Relaxed)
    }

    pub(super) fn tell(&self, peer: &Peer, source: IpAddr, call: Option<&Call>, asked: &'static str) {
        let refused = Refused {
            peer: peer.clone(),
            source,
            call: call.map(bounded),
            asked,
        };
        if self.sender.try_send(refused).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
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

    #[test]
    fn what_nobody_hears_in_time_is_counted_and_large_calls_are_told_by_their_keys() {
        let peer = Peer::from(Name::new(amita_types::ClusterId(1), Role::Operator, "x").unwrap());
        let (refusals, heard) = Refusals::channel();
        let call = Call::put("/amita/a", vec![7; MAX_BYTES + 1]);
        for _ in 0..MAX_WAITING + 3 {
            refusals.tell(&peer, [192, 0, 2, 1].into(), Some(&call), "a change");
        }
        assert_eq!((refusals.missed(), refusals.missed()), (3, 0));
        let first = heard.recv().unwrap().call.unwrap();
        assert!(first.size_bytes() < 100 && first.then[0].key() == "/amita/a");
        assert_eq!(heard.try_iter().count(), MAX_WAITING - 1);
    }
}
