//! What stands in for TLS between simulated nodes: a handshake of the same shape, without a clock or random numbers of its
//! own.
//!
//! Three flights of about the sizes that TLS 1.3 with two certificates has; each end proves that it knows the cluster's
//! secret, and says its name. What the fabric does with the outcome (names, keys, tags, who may send what) is the product's.

use amita_fabric::secure::{Handshake, Handshakes, Peer, Protection, Recorded, Role, SECRET_BYTES, Secrets, Step};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, Tag, sign, verify};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the caller's first flight, the acceptor's, and the caller's second.
const FLIGHTS: [usize; 3] = [260, 1150, 980];
/// Where a flight's nonce ends, its name begins (a byte with its length, then it), and its proof stands at the very end.
const NONCE_BYTES: usize = 16;
const PROOF_BYTES: usize = 32;

/// Makes the handshakes of a simulated node.
#[derive(Debug)]
pub struct StandIn {
    name: String,
    protection: Protection,
    seed: u64,
    /// Handshakes so far.
    number: AtomicU64,
}

impl StandIn {
    /// Of the node that is recorded under this name. `seed` is of this life of one of its cores.
    #[must_use]
    pub fn new(name: String, protection: Protection, seed: u64) -> StandIn {
        StandIn {
            name,
            protection,
            seed,
            number: AtomicU64::new(0),
        }
    }

    fn begin(&self, callee: Option<&Recorded>) -> Box<dyn Handshake + Send> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.seed.to_le_bytes());
        nonce[8..].copy_from_slice(&number.to_le_bytes());
        Box::new(Exchange {
            name: self.name.clone(),
            callee: callee.cloned(),
            key: Key::new(HMAC_SHA256, self.protection.alpn()),
            nonce,
            transcript: Vec::new(),
            flight: 0,
        })
    }
}

impl Handshakes for StandIn {
    fn protection(&self) -> Protection {
        self.protection
    }

    fn call(&self, callee: &Recorded) -> Result<Box<dyn Handshake + Send>, String> {
        Ok(self.begin(Some(callee)))
    }

    fn accept(&self) -> Result<Box<dyn Handshake + Send>, String> {
        Ok(self.begin(None))
    }

    fn trusts(&self, _: &Peer) -> bool {
        true
    }
}

#[derive(Debug)]
struct Exchange {
    name: String,
    callee: Option<Recorded>,
    key: Key,
    nonce: [u8; NONCE_BYTES],
    /// All flights so far, one after the other.
    transcript: Vec<u8>,
    /// The next one.
    flight: usize,
}

impl Exchange {
    /// Is the next flight this end's?
    fn is_mine(&self) -> bool {
        self.callee.is_some() == self.flight.is_multiple_of(2)
    }

    fn say(&mut self, out: &mut Vec<u8>) {
        let mut flight = vec![0; FLIGHTS[self.flight] - PROOF_BYTES];
        flight[..NONCE_BYTES].copy_from_slice(&self.nonce);
        flight[NONCE_BYTES] = self.name.len() as u8;
        flight[NONCE_BYTES + 1..][..self.name.len()].copy_from_slice(self.name.as_bytes());
        self.transcript.extend_from_slice(&flight);
        let proof = sign(&self.key, &self.transcript);
        self.transcript.extend_from_slice(proof.as_ref());
        out.extend_from_slice(&flight);
        out.extend_from_slice(proof.as_ref());
        self.flight += 1;
    }

    fn hear(&mut self, flight: &[u8]) -> Result<(), String> {
        let (said, proof) = flight.split_at(flight.len() - PROOF_BYTES);
        self.transcript.extend_from_slice(said);
        verify(&self.key, &self.transcript, proof).map_err(|_| "it does not know the cluster's secret")?;
        self.transcript.extend_from_slice(proof);
        self.flight += 1;
        Ok(())
    }

    /// The name that the other end has said in the flight that begins there.
    fn heard_name(&self, at: usize) -> Result<String, String> {
        let said = &self.transcript[at + NONCE_BYTES..];
        let name = &said[1..][..usize::from(said[0])];
        String::from_utf8(name.to_vec()).map_err(|why| why.to_string())
    }

    fn finish(&self) -> Result<Step, String> {
        let caller = self.callee.is_some();
        let name = self.heard_name(if caller { FLIGHTS[0] } else { 0 })?;
        let peer = Peer {
            role: Role::Node,
            name,
            certificates: Vec::new(),
        };
        if let Some(callee) = &self.callee
            && !peer.may_be(callee)
        {
            return Err(format!("{} was called, and {peer} has answered", callee.name));
        }
        let of = |end: &[u8]| {
            let whole: Tag = sign(&self.key, &[&self.transcript[..], end].concat());
            let mut secret = [0; SECRET_BYTES];
            secret.copy_from_slice(whole.as_ref());
            secret.into()
        };
        let (mine, theirs) = if caller { (b"c", b"a") } else { (b"a", b"c") };
        let secrets = Secrets {
            send: of(mine),
            receive: of(theirs),
        };
        Ok(Step::Done { peer, secrets })
    }
}

impl Handshake for Exchange {
    fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), String> {
        let mut taken = 0;
        while self.flight < FLIGHTS.len() {
            if self.is_mine() {
                self.say(out);
                continue;
            }
            let Some(flight) = input[taken..].get(..FLIGHTS[self.flight]) else {
                return Ok((taken, Step::More));
            };
            self.hear(flight)?;
            taken += flight.len();
        }
        Ok((taken, self.finish()?))
    }
}
