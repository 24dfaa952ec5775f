//! Identities, each a type of its own.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.parse().map(Self)
            }
        }
    };
}

number!(
    /// A host that runs `amita serve`. Given once by the metadata and never reused.
    NodeId, u32);
number!(
    /// A pool. Given once and never reused.
    PoolId, u32);
number!(
    /// A volume. Given once and never reused (a deleted volume's chunks can never be taken for another's).
    VolumeId, u64);
number!(
    /// The index of a group inside its pool: `0 .. 2^n`.
    GroupIndex, u32);
number!(
    /// The number of a group's membership; each change of membership raises it by compare-and-set in the metadata.
    Epoch, u64);
number!(
    /// The number of a volume's ownership; each takeover raises it. Below [`Generation::DELETED`] (24 bits).
    Generation, u32);
number!(
    /// A snapshot of a volume: 1, 2, 3, ... in the order in which they were made; never reused. What was written while
    /// the newest snapshot was `n` belongs to snapshot `n + 1` and later ones.
    SnapshotId, u32);
number!(
    /// An epoch of a mirror: of the right to write what it mirrors. One end takes even ones and the other one odd ones, so that none is taken twice.
    MirrorEpoch, u64);
number!(
    /// A set of snapshots of several volumes. Given once and never reused.
    SetId, u64);
number!(
    /// Names a request among those of one sender; the answer carries it back.
    RequestId, u64);

impl Generation {
    /// The largest generation that fits a packed version.
    pub const MAX: Generation = Generation((1 << 24) - 1);
    /// No owner ever has this one: a store that knows a volume by it knows that the volume is deleted, for good.
    pub const DELETED: Generation = Generation::MAX;

    /// The next one, or `None` when the space is used up.
    #[must_use]
    pub fn next(self) -> Option<Generation> {
        let next = Generation(self.0.saturating_add(1));
        (next < Self::DELETED).then_some(next)
    }
}

impl SnapshotId {
    /// No snapshot: the volume itself.
    pub const HEAD: SnapshotId = SnapshotId(0);
}

impl Epoch {
    /// The last one that a record may have: no number of changes comes near, and there is always one that follows.
    pub const MAX: Epoch = Epoch(u64::MAX >> 1);

    /// The epoch that follows.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

/// A placement group: an index inside a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId {
    /// The pool.
    pub pool: PoolId,
    /// The index inside the pool.
    pub index: GroupIndex,
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.pool, self.index)
    }
}

macro_rules! uuid {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let v = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    v >> 96,
                    v >> 80 & 0xffff,
                    v >> 64 & 0xffff,
                    v >> 48 & 0xffff,
                    v & 0xffff_ffff_ffff
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadUuid;
            fn from_str(text: &str) -> Result<Self, BadUuid> {
                let bytes = text.as_bytes();
                let dashes_right = bytes.len() == 36 && [8, 13, 18, 23].iter().all(|&i| bytes[i] == b'-');
                if !dashes_right {
                    return Err(BadUuid(text.to_owned()));
                }
                let hex: String = text.chars().filter(|c| *c != '-').collect();
                if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(BadUuid(text.to_owned()));
                }
                u128::from_str_radix(&hex, 16).map(Self).map_err(|_| BadUuid(text.to_owned()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

uuid!(
    /// A store's UUID, made when the disk is formatted. Membership names these, never paths or addresses.
    StoreId);
uuid!(
    /// A cluster's UUID, made when its metadata is first written; a store of another cluster is refused.
    ClusterId);
uuid!(
    /// A mirror's UUID, made when it is added at its first end; both ends know it by it.
    MirrorId);

/// A text that is no UUID in the form 8-4-4-4-12.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUuid(pub String);

impl fmt::Display for BadUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a UUID of the form 8-4-4-4-12 hexadecimal digits",
            self.0
        )
    }
}

impl std::error::Error for BadUuid {}
