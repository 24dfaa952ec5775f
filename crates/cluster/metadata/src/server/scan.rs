//! What a message would take when it is decoded, found before it is: two bytes of a transaction become an operation of a
//! hundred, so that the largest request would make a hundred megabytes.

use crate::call::MAX_OPS;
use crate::wire::{self, words};
use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};
use tonic::Status;

/// A message that a peer sends.
pub(super) trait Inbound: prost::Message + Default {
    /// # Errors
    /// It holds more parts than are served.
    fn scan(_bytes: &[u8]) -> Result<(), Status> {
        Ok(())
    }
}

impl Inbound for wire::RangeRequest {}
impl Inbound for wire::PutRequest {}
impl Inbound for wire::DeleteRangeRequest {}
impl Inbound for wire::CompactionRequest {}
impl Inbound for wire::LeaseGrantRequest {}
impl Inbound for wire::LeaseRevokeRequest {}
impl Inbound for wire::LeaseKeepAliveRequest {}
impl Inbound for wire::LeaseTimeToLiveRequest {}
impl Inbound for wire::LeaseLeasesRequest {}
impl Inbound for wire::StatusRequest {}
impl Inbound for wire::AlarmRequest {}
impl Inbound for wire::WatchRequest {}

impl Inbound for wire::TxnRequest {
    fn scan(bytes: &[u8]) -> Result<(), Status> {
        // Compares, and the operations of both branches.
        let mut counts = [0; 3];
        fields(bytes, |tag, part| {
            let Some(count) = counts.get_mut((tag as usize).wrapping_sub(1)) else {
                return Ok(());
            };
            *count += 1;
            if *count > MAX_OPS {
                return Err(Status::invalid_argument(words::TOO_MANY_OPS));
            }
            if tag == 1 { Ok(()) } else { fields(part, refuse_nested) }
        })
    }
}

fn refuse_nested(tag: u32, _: &[u8]) -> Result<(), Status> {
    const NESTED: u32 = 4;
    if tag == NESTED {
        return Err(Status::unimplemented("transactions inside transactions are not served"));
    }
    Ok(())
}

/// Calls `each` with the number of every field, and its bytes where it has a length.
fn fields(mut bytes: &[u8], mut each: impl FnMut(u32, &[u8]) -> Result<(), Status>) -> Result<(), Status> {
    let bad = || Status::invalid_argument("the message is malformed");
    while bytes.has_remaining() {
        let (tag, kind) = decode_key(&mut bytes).map_err(|_| bad())?;
        let length = match kind {
            WireType::Varint => {
                decode_varint(&mut bytes).map_err(|_| bad())?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut bytes).map_err(|_| bad())?,
            WireType::StartGroup | WireType::EndGroup => return Err(bad()),
        };
        let length = usize::try_from(length).map_err(|_| bad())?;
        let (part, rest) = bytes.split_at_checked(length).ok_or_else(bad)?;
        each(tag, part)?;
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
