//! Responses: how an end proves that it has the secret (NVM Express Base 2.1, 8.3.4.5.7).

use amita_keys::Hash;
use aws_lc_rs::hmac;

/// Whose response it is. The two differ in what is hashed, so that none can be used as the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Controller,
}

/// All that goes into a response.
pub(super) struct Proof<'a> {
    pub side: Side,
    pub hash: Hash,
    /// The transformed key.
    pub key: &'a [u8],
    /// What both ends agreed on by Diffie-Hellman; none without a group.
    pub agreed: Option<&'a [u8]>,
    pub challenge: &'a [u8],
    pub sequence: u32,
    pub transaction: u16,
    /// Secure channel concatenation, as in the Negotiate message.
    pub concatenation: u8,
    pub hostnqn: &'a str,
    pub subnqn: &'a str,
}

impl Proof<'_> {
    /// The augmented challenge, and what is hashed with it.
    fn text(&self) -> Vec<u8> {
        let augmented = match self.agreed {
            None => self.challenge.to_vec(),
            Some(agreed) => self.hash.hmac(&self.hash.digest(agreed), &[self.challenge]),
        };
        let (role, first, second) = match self.side {
            Side::Host => (&b"HostHost"[..], self.hostnqn, self.subnqn),
            Side::Controller => (&b"Controller"[..], self.subnqn, self.hostnqn),
        };
        [
            &augmented,
            &self.sequence.to_le_bytes()[..],
            &self.transaction.to_le_bytes(),
            &[self.concatenation],
            role,
            first.as_bytes(),
            &[0],
            second.as_bytes(),
        ]
        .concat()
    }

    pub fn response(&self) -> Vec<u8> {
        self.hash.hmac(self.key, &[&self.text()])
    }

    /// Is this the response? In a time that tells nothing.
    pub fn verify(&self, response: &[u8]) -> bool {
        let key = hmac::Key::new(self.hash.hmac_algorithm(), self.key);
        hmac::verify(&key, &self.text(), response).is_ok()
    }
}
