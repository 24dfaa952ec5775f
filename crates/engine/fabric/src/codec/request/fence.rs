//! What is said to a store as a whole: fences (R6), and what is granted to the link (R7).

use super::super::control::get_generation;
use super::super::wire::{Reader, Wire, wire};
use super::super::{DecodeError, EncodeError, Kind, Prefix};
use super::{Body, exactly, from_to};
use amita_types::message::{FenceRequest, MAX_MEMBERS, SettleRequest};
use amita_types::{NodeId, StoreId};

wire! {
    /// Goes on with the stores, 16 bytes each: the first `in_sync` of them are in sync, the rest is being brought up to
    /// date.
    RawFence: 7 { owner: u32, blocks_per_chunk: u16, in_sync: u8, }
}
wire! {
    /// Before a fence of the owner to whom a volume was handed over: the generation that has ended.
    RawSucceed: 4 { given_back: u32, }
}
wire! { RawSettle: 8 { want: u32, back: u32, } }

const MEMBER_BYTES: usize = size_of::<u128>();
pub(in super::super) const FENCE_BYTES: (usize, usize) = from_to(RawFence::BYTES, MAX_MEMBERS * MEMBER_BYTES);
pub(in super::super) const SUCCEED_BYTES: (usize, usize) =
    from_to(RawSucceed::BYTES + RawFence::BYTES, MAX_MEMBERS * MEMBER_BYTES);
pub(in super::super) const SETTLE_BYTES: (usize, usize) = exactly(RawSettle::BYTES);

impl Body for FenceRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let FenceRequest {
            owner,
            in_sync,
            syncing,
            blocks_per_chunk,
            given_back,
        } = self;
        let members = in_sync.len() + syncing.len();
        if members > MAX_MEMBERS {
            return Err(EncodeError::Field {
                field: "members",
                value: members as u64,
            });
        }
        if let Some(generation) = given_back {
            let given_back = generation.0;
            RawSucceed { given_back }.put(out);
        }
        RawFence {
            owner: owner.0,
            blocks_per_chunk: *blocks_per_chunk,
            in_sync: u8::try_from(in_sync.len()).expect("a group has few members"),
        }
        .put(out);
        for member in in_sync.iter().chain(syncing) {
            out.extend_from_slice(&member.0.to_le_bytes());
        }
        Ok(match given_back {
            Some(_) => Kind::Succeed,
            None => Kind::Fence,
        })
    }

    fn get(prefix: Prefix, mut reader: Reader<'_>) -> Result<FenceRequest, DecodeError> {
        let given_back = match prefix.kind {
            Kind::Succeed => Some(get_generation(RawSucceed::get(&mut reader)?.given_back)?),
            _ => None,
        };
        let raw = RawFence::get(&mut reader)?;
        let (members, rest) = reader.rest().as_chunks::<MEMBER_BYTES>();
        Reader::new(rest).end()?;
        let in_sync = usize::from(raw.in_sync);
        if in_sync > members.len() || members.len() > MAX_MEMBERS {
            return Err(DecodeError::Field {
                field: "members",
                value: members.len() as u64,
            });
        }
        let store = |raw: &[u8; MEMBER_BYTES]| StoreId(u128::from_le_bytes(*raw));
        Ok(FenceRequest {
            owner: NodeId(raw.owner),
            in_sync: members[..in_sync].iter().map(store).collect(),
            syncing: members[in_sync..].iter().map(store).collect(),
            blocks_per_chunk: raw.blocks_per_chunk,
            given_back,
        })
    }
}

impl Body for SettleRequest {
    fn put(&self, out: &mut Vec<u8>, _: usize) -> Result<Kind, EncodeError> {
        let &SettleRequest { want, back } = self;
        RawSettle { want, back }.put(out);
        Ok(Kind::Settle)
    }

    fn get(_: Prefix, mut reader: Reader<'_>) -> Result<SettleRequest, DecodeError> {
        let RawSettle { want, back } = RawSettle::get(&mut reader)?;
        reader.end()?;
        Ok(SettleRequest { want, back })
    }
}
