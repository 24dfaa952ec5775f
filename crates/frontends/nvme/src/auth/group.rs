//! The Diffie-Hellman exchange: groups, and the computing.
//!
//! It is the only thing of a protocol that takes milliseconds: one exponentiation takes (on the machine that this was
//! written on, unoptimized builds twice that) 0.5 ms with ffdhe2048, 1.3 ms with 3072, 2.7 ms with 4096, 6 ms with 6144
//! and 12 ms with 8192, and a controller computes two for each queue that a host connects. So it is cut out of the
//! state machine as [`Work`]: whoever drives that does it where no I/O waits for it, or on the spot.
//!
//! The exponentiation takes the same time for every secret exponent of a group (crypto-bigint).

use super::primes::{FFDHE2048, FFDHE3072, FFDHE4096, FFDHE6144, FFDHE8192};
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// A Diffie-Hellman group (NVM Express Base 2.1, 8.3.4.5.1: DH group identifiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// No exchange: the challenge is used as it is.
    Null = 0,
    /// 2048 bits.
    Ffdhe2048 = 1,
    /// 3072 bits.
    Ffdhe3072 = 2,
    /// 4096 bits.
    Ffdhe4096 = 3,
    /// 6144 bits.
    Ffdhe6144 = 4,
    /// 8192 bits.
    Ffdhe8192 = 5,
}

impl Group {
    pub const ALL: [Group; 6] = [
        Group::Null,
        Group::Ffdhe2048,
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
    ];

    /// The one of that number.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.id() == id)
    }

    #[must_use]
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Bytes of a public value, and of the secret that is agreed on.
    #[must_use]
    pub fn len_bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
            Group::Ffdhe6144 => 768,
            Group::Ffdhe8192 => 1024,
        }
    }

    /// Bytes of a private exponent: twice the strength of the group, as RFC 7919, 5.2 has it, and a little more. A longer
    /// one would cost more and give nothing.
    fn exponent_bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 32,
            Group::Ffdhe3072 => 40,
            Group::Ffdhe4096 => 48,
            Group::Ffdhe6144 => 48,
            Group::Ffdhe8192 => 56,
        }
    }

    /// What one exponentiation takes of a processor, about: see the figures at the head of this file.
    #[must_use]
    pub fn cost(self) -> Duration {
        Duration::from_micros(match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 500,
            Group::Ffdhe3072 => 1_300,
            Group::Ffdhe4096 => 2_700,
            Group::Ffdhe6144 => 6_000,
            Group::Ffdhe8192 => 12_000,
        })
    }

    /// The groups of an exchange up to this one, the smallest first.
    #[must_use]
    pub fn up_to(self) -> Vec<Group> {
        let all = Group::ALL.into_iter();
        all.filter(|group| *group != Group::Null && *group <= self).collect()
    }

    fn bits(self) -> u32 {
        8 * self.len_bytes() as u32
    }

    /// The prime. The groups are few and their primes constants: they are parsed anew for each use, which takes
    /// microseconds.
    pub(super) fn prime(self) -> BoxedUint {
        let digits = match self {
            Group::Null => "",
            Group::Ffdhe2048 => FFDHE2048,
            Group::Ffdhe3072 => FFDHE3072,
            Group::Ffdhe4096 => FFDHE4096,
            Group::Ffdhe6144 => FFDHE6144,
            Group::Ffdhe8192 => FFDHE8192,
        };
        BoxedUint::from_be_hex(digits, self.bits()).expect("the constants have that many digits")
    }

    /// A public value that may be computed with: not 0, 1 or p-1, which would make the outcome known to anybody
    /// (RFC 7919, 5.1).
    pub(super) fn public_value(self, bytes: &[u8]) -> Option<BoxedUint> {
        if self == Group::Null || bytes.len() != self.len_bytes() {
            return None;
        }
        let value = BoxedUint::from_be_slice(bytes, self.bits()).ok()?;
        let one = BoxedUint::one_with_precision(self.bits());
        let last = self.prime().wrapping_sub(&one);
        (value > one && value < last).then_some(value)
    }
}

/// The private half of an exchange.
#[derive(Clone)]
pub(super) struct Exponent {
    group: Group,
    bytes: Zeroizing<Vec<u8>>,
}

impl Exponent {
    pub fn draw(group: Group, random: &mut dyn FnMut(&mut [u8])) -> Exponent {
        let mut bytes = Zeroizing::new(vec![0; group.exponent_bytes()]);
        random(&mut bytes);
        // Of its full length whatever was drawn.
        if let Some(first) = bytes.first_mut() {
            *first |= 0x80;
        }
        Exponent { group, bytes }
    }

    /// `base` to this power, as long as the prime.
    fn raise(&self, base: &BoxedUint) -> Zeroizing<Vec<u8>> {
        let bits = self.group.bits();
        let prime = Odd::new(self.group.prime()).expect("a prime of that size is odd");
        let params = BoxedMontyParams::new_vartime(prime);
        let exponent_bits = 8 * self.bytes.len() as u32;
        let exponent = Zeroizing::new(
            BoxedUint::from_be_slice(&self.bytes, exponent_bits).expect("as many bits as it has bytes for"),
        );
        let power = BoxedMontyForm::new(base.clone(), &params).pow_bounded_exp(&exponent, exponent_bits);
        let power = Zeroizing::new(power.retrieve());
        let bytes = Zeroizing::new(power.to_be_bytes().to_vec());
        assert_eq!(bytes.len() as u32 * 8, bits, "a value has the prime's length");
        bytes
    }
}

/// What is to be computed before the state machine can go on. It holds what it needs, and can go to another thread.
pub struct Work {
    pub(super) exponent: Exponent,
    /// The peer's public value; none: the own public value is to be made.
    pub(super) peer: Option<BoxedUint>,
}

impl Work {
    /// Computes: milliseconds ([`Group`]).
    #[must_use]
    pub fn run(self) -> Worked {
        let group = self.exponent.group;
        let value = match &self.peer {
            // The generator is 2 in all groups.
            None => self.exponent.raise(&BoxedUint::from(2u8).resize(group.bits())),
            Some(peer) => self.exponent.raise(peer),
        };
        Worked {
            value,
            agreed: self.peer.is_some(),
        }
    }

    /// The group that it is of: how long it takes.
    #[must_use]
    pub fn group(&self) -> Group {
        self.exponent.group
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("group", &self.group())
            .finish_non_exhaustive()
    }
}

/// What was computed.
pub struct Worked {
    pub(super) value: Zeroizing<Vec<u8>>,
    /// The value is the secret that both ends share now.
    pub(super) agreed: bool,
}

impl fmt::Debug for Worked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worked")
    }
}
