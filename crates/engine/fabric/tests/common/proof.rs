//! What stands in for TLS: a handshake of its shape, by whoever knows the secret of a pretended authority.
//!
//! ```text
//! caller                                        acceptor
//!   nonce, name of the protocol (ALPN)      ──►
//!                                           ◄──  nonce, certificate, proof over all of it
//!   certificate, proof over all of it       ──►  the last to judge: what it has against the caller comes
//!                                                when the caller believes that all is well
//! ```
#![allow(dead_code)]

use amita_fabric::secure::{Handshake, Handshakes, Peer, Protection, Recorded, Role, SECRET_BYTES, Secrets, Step};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What an end that fails says before it closes. As long as an alert of TLS is, and no frame.
pub const ALERT: [u8; 24] = *b"\x17\x03\x03\x00\x13it does not believe";
const PROOF_BYTES: usize = 32;
const NONCE_BYTES: usize = 16;

/// Whoever says who is who, in one cluster, and what it has to say: shared by all ends.
#[derive(Debug)]
pub struct Authority {
    secret: [u8; 32],
    revoked: Mutex<BTreeSet<u64>>,
    serial: AtomicU64,
}

impl Authority {
    pub fn new(secret: u8) -> Arc<Authority> {
        Arc::new(Authority {
            secret: [secret; 32],
            revoked: Mutex::default(),
            serial: AtomicU64::new(1),
        })
    }

    fn key(&self) -> Key {
        Key::new(HMAC_SHA256, &self.secret)
    }

    pub fn certificate(&self, role: Role, name: &str) -> Certificate {
        let mut bytes = vec![role as u8, 0];
        bytes.extend_from_slice(&self.serial.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        bytes.extend_from_slice(name.as_bytes());
        self.signed(bytes)
    }

    /// One whose time is over.
    pub fn expired(&self, role: Role, name: &str) -> Certificate {
        let mut bytes = self.certificate(role, name).0;
        bytes.truncate(bytes.len() - PROOF_BYTES);
        bytes[1] = 1;
        self.signed(bytes)
    }

    fn signed(&self, mut bytes: Vec<u8>) -> Certificate {
        let proof = sign(&self.key(), &bytes);
        bytes.extend_from_slice(proof.as_ref());
        Certificate(bytes)
    }

    pub fn revoke(&self, certificate: &Certificate) {
        let revoked = &mut self.revoked.lock().expect("no panic");
        revoked.insert(certificate.serial());
    }

    fn judge(&self, bytes: &[u8]) -> Result<Peer, String> {
        let at = bytes
            .len()
            .checked_sub(PROOF_BYTES)
            .filter(|at| *at >= 10)
            .ok_or("no certificate")?;
        let (said, proof) = bytes.split_at(at);
        verify(&self.key(), said, proof).map_err(|_| "a certificate of another authority")?;
        if said[1] != 0 {
            return Err("its certificate is over".to_owned());
        }
        if self.revoked.lock().expect("no panic").contains(&serial(said)) {
            return Err("its certificate was revoked".to_owned());
        }
        let roles = [Role::Node, Role::Gateway, Role::Client, Role::Operator];
        let role = roles.into_iter().find(|role| *role as u8 == said[0]).ok_or("no role")?;
        Ok(Peer {
            role,
            name: String::from_utf8_lossy(&said[10..]).into_owned(),
            certificates: vec![bytes.to_vec()],
        })
    }
}

/// Role (1), over (1), serial (8), name, proof (32).
#[derive(Clone, Debug)]
pub struct Certificate(Vec<u8>);

impl Certificate {
    fn serial(&self) -> u64 {
        serial(&self.0)
    }
}

fn serial(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes[2..].first_chunk().expect("at least ten bytes"))
}

/// Makes the handshakes of one end.
#[derive(Debug)]
pub struct StandIn {
    pub authority: Arc<Authority>,
    pub certificate: Certificate,
    pub protection: Protection,
    pub seed: u64,
    /// It takes so many flights, and fails.
    pub fails_after: Option<usize>,
    /// Bytes of nothing in each flight.
    pub padding: usize,
    /// Revoked after the handshake has looked at it, and before it ends.
    pub revoked_meanwhile: Option<Certificate>,
    number: AtomicU64,
}

impl StandIn {
    pub fn new(authority: &Arc<Authority>, certificate: Certificate, protection: Protection, seed: u64) -> StandIn {
        StandIn {
            authority: authority.clone(),
            certificate,
            protection,
            seed,
            fails_after: None,
            padding: 0,
            revoked_meanwhile: None,
            number: AtomicU64::new(0),
        }
    }

    fn begin(&self, callee: Option<&Recorded>) -> Box<dyn Handshake + Send> {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.seed.to_le_bytes());
        nonce[8..].copy_from_slice(&self.number.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Box::new(Exchange {
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            alpn: self.protection.alpn(),
            callee: callee.cloned(),
            nonce,
            fails_after: self.fails_after,
            padding: self.padding,
            revoked_meanwhile: self.revoked_meanwhile.clone(),
            transcript: Vec::new(),
            flight: 0,
            peer: None,
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

    fn trusts(&self, peer: &Peer) -> bool {
        self.authority.judge(&peer.certificates[0]).is_ok()
    }
}

#[derive(Debug)]
struct Exchange {
    authority: Arc<Authority>,
    certificate: Certificate,
    alpn: &'static [u8],
    callee: Option<Recorded>,
    nonce: [u8; NONCE_BYTES],
    fails_after: Option<usize>,
    padding: usize,
    revoked_meanwhile: Option<Certificate>,
    /// All flights so far.
    transcript: Vec<u8>,
    flight: usize,
    peer: Option<Peer>,
}

impl Exchange {
    /// Two bytes of length, then fields, each with a length of its own, and (but for the first) a proof over everything.
    fn say(&mut self, out: &mut Vec<u8>) {
        let padding = vec![0; self.padding];
        let nonce = self.nonce;
        let fields: [&[u8]; 3] = match self.flight {
            0 => [&nonce, self.alpn, &padding],
            1 => [&nonce, &self.certificate.0, &padding],
            _ => [&[], &self.certificate.0, &padding],
        };
        let proof_bytes = if self.flight == 0 { 0 } else { PROOF_BYTES };
        let bytes: usize = fields.iter().map(|field| 2 + field.len()).sum::<usize>() + proof_bytes;
        let from = self.transcript.len();
        self.transcript.extend_from_slice(&(bytes as u16).to_le_bytes());
        for field in fields {
            self.transcript.extend_from_slice(&(field.len() as u16).to_le_bytes());
            self.transcript.extend_from_slice(field);
        }
        if self.flight > 0 {
            let proof = sign(&self.authority.key(), &self.transcript);
            self.transcript.extend_from_slice(proof.as_ref());
        }
        out.extend_from_slice(&self.transcript[from..]);
        self.flight += 1;
    }

    fn hear(&mut self, flight: &[u8]) -> Result<(), String> {
        if self.fails_after == Some(self.flight) {
            return Err("it fails half-way".to_owned());
        }
        let proof_bytes = if self.flight == 0 { 0 } else { PROOF_BYTES };
        let at = flight.len().checked_sub(proof_bytes).ok_or("too short")?;
        let (said, proof) = flight.split_at(at);
        self.transcript.extend_from_slice(said);
        if self.flight > 0 {
            verify(&self.authority.key(), &self.transcript, proof).map_err(|_| "a wrong proof")?;
        }
        self.transcript.extend_from_slice(proof);
        let mut rest = &said[2..];
        let mut field = || {
            let bytes = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
            let (found, after) = rest[2..].split_at_checked(bytes)?;
            rest = after;
            Some(found)
        };
        let (_, second) = (field().ok_or("no fields")?, field().ok_or("one field")?);
        if self.flight == 0 {
            if second != self.alpn {
                return Err("it wants another protection".to_owned());
            }
        } else {
            let peer = self.authority.judge(second)?;
            if let Some(callee) = &self.callee
                && !peer.may_be(callee)
            {
                return Err(format!("{} was called, and {peer} has answered", callee.name));
            }
            self.peer = Some(peer);
        }
        self.flight += 1;
        Ok(())
    }

    fn finish(&mut self) -> Step {
        if let Some(revoked) = &self.revoked_meanwhile {
            self.authority.revoke(revoked);
        }
        let of = |end: &[u8]| {
            let mut secret = [0; SECRET_BYTES];
            let prk = Prk::new_less_safe(HKDF_SHA256, &self.authority.secret);
            let info = [&self.transcript, end];
            let okm = prk.expand(&info, Bytes(SECRET_BYTES)).expect("a short output");
            okm.fill(&mut secret).expect("as long");
            secret.into()
        };
        let (mine, theirs) = if self.callee.is_some() {
            (b"c", b"a")
        } else {
            (b"a", b"c")
        };
        Step::Done {
            peer: self.peer.take().expect("judged"),
            secrets: Secrets {
                send: of(mine),
                receive: of(theirs),
            },
        }
    }
}

pub struct Bytes(pub usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

impl Handshake for Exchange {
    fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(usize, Step), String> {
        let mut taken = 0;
        while self.flight < 3 {
            if self.callee.is_some() == self.flight.is_multiple_of(2) {
                self.say(out);
                continue;
            }
            let Some(flight) = flight(&input[taken..]) else {
                return Ok((taken, Step::More));
            };
            if let Err(why) = self.hear(flight) {
                out.extend_from_slice(&ALERT);
                return Err(why);
            }
            taken += flight.len();
        }
        Ok((taken, self.finish()))
    }
}

/// The flight at the front, if it is whole.
pub fn flight(data: &[u8]) -> Option<&[u8]> {
    let bytes = usize::from(u16::from_le_bytes(*data.first_chunk()?));
    data.get(..2 + bytes)
}
