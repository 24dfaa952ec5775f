//! What was agreed of a connection's PDUs, and PDUs in and out by that.

use super::{BHS_BYTES, DIGEST_BYTES, Fatal, Header, MAX_AHS_BYTES, opcode, padded};
use amita_reactor::{Inbox, Outbox, Pool, Slice};
use amita_types::crc32c;

/// How PDUs are framed on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub header_digest: bool,
    pub data_digest: bool,
    /// The most data of a PDU that comes (the target's MaxRecvDataSegmentLength).
    pub max_receive: usize,
    /// The most data of a PDU that goes (the initiator's).
    pub max_send: usize,
}

/// A PDU that is in the inbox as a whole, and whose header is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub header: Header,
    ahs_bytes: usize,
    /// Where the data begins.
    data_offset: usize,
    pub data_bytes: usize,
    has_header_digest: bool,
    has_data_digest: bool,
}

/// What is at the front of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Less than a PDU.
    Nothing,
    /// A PDU.
    Whole(Frame),
    /// A PDU that is longer than was agreed. What kind it is can be told.
    TooLong(Header),
}

/// A PDU's parts, out of the inbox.
#[derive(Debug)]
pub struct Taken {
    pub header: Header,
    /// The additional headers.
    pub ahs: Slice,
    /// The data; none: its digest was wrong.
    pub data: Option<Slice>,
}

impl Link {
    /// That of a login: without digests, and with data of the default length (13.12).
    pub const LOGIN: Link = Link {
        header_digest: false,
        data_digest: false,
        max_receive: 8192,
        max_send: 8192,
    };

    fn header_digest_bytes(&self) -> usize {
        if self.header_digest { DIGEST_BYTES } else { 0 }
    }

    /// Looks at the front of the inbox. The header is judged before data is waited for.
    ///
    /// # Errors
    /// When nothing behind it can be found: the connection has to end.
    pub fn frame(&self, inbox: &mut Inbox) -> Result<Incoming, Fatal> {
        let bytes = inbox.data();
        let Some(header) = bytes.first_chunk::<BHS_BYTES>() else {
            return Ok(Incoming::Nothing);
        };
        let header = Header(*header);
        let ahs_bytes = header.ahs_bytes();
        if ahs_bytes > MAX_AHS_BYTES || (ahs_bytes > 0 && header.opcode() != opcode::SCSI_COMMAND) {
            return Err(Fatal("more additional headers than the PDU can have"));
        }
        let header_bytes = BHS_BYTES + ahs_bytes;
        let data_offset = header_bytes + self.header_digest_bytes();
        if self.header_digest {
            if bytes.len() < data_offset {
                inbox.need(data_offset);
                return Ok(Incoming::Nothing);
            }
            // Nothing is recovered within a connection, so that its end is what is left (7.8).
            let digest = u32::from_le_bytes([
                bytes[header_bytes],
                bytes[header_bytes + 1],
                bytes[header_bytes + 2],
                bytes[header_bytes + 3],
            ]);
            if crc32c(&bytes[..header_bytes]) != digest {
                return Err(Fatal("the header digest is wrong"));
            }
        }
        let data_bytes = header.data_bytes();
        if data_bytes > self.max_receive {
            return Ok(Incoming::TooLong(header));
        }
        // Without data there is no digest of it (11.2.3).
        let has_data_digest = self.data_digest && data_bytes > 0;
        let digest_bytes = if has_data_digest { DIGEST_BYTES } else { 0 };
        let pdu_bytes = data_offset + padded(data_bytes) + digest_bytes;
        if inbox.len() < pdu_bytes {
            inbox.need(pdu_bytes);
            return Ok(Incoming::Nothing);
        }
        Ok(Incoming::Whole(Frame {
            header,
            ahs_bytes,
            data_offset,
            data_bytes,
            has_header_digest: self.header_digest,
            has_data_digest,
        }))
    }

    /// Takes a PDU out of the inbox.
    #[must_use]
    pub fn take(frame: &Frame, inbox: &mut Inbox) -> Taken {
        inbox.skip(BHS_BYTES);
        let ahs = inbox.take(frame.ahs_bytes);
        inbox.skip(if frame.has_header_digest { DIGEST_BYTES } else { 0 });
        let mut data = inbox.take(padded(frame.data_bytes));
        let mut is_right = true;
        if frame.has_data_digest {
            let bytes = inbox.data();
            let digest = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            // The padding is covered (11.2.3).
            is_right = crc32c(&data) == digest;
            inbox.skip(DIGEST_BYTES);
        }
        if data.len() > frame.data_bytes {
            data = data.split_to(frame.data_bytes);
        }
        Taken {
            header: frame.header,
            ahs,
            data: is_right.then_some(data),
        }
    }

    fn send_header(&self, header: &Header, outbox: &mut Outbox, pool: &Pool) {
        if !self.header_digest {
            outbox.append(pool, &header.0);
            return;
        }
        let mut bytes = [0; BHS_BYTES + DIGEST_BYTES];
        bytes[..BHS_BYTES].copy_from_slice(&header.0);
        bytes[BHS_BYTES..].copy_from_slice(&crc32c(&header.0).to_le_bytes());
        outbox.append(pool, &bytes);
    }

    /// Sends a PDU without data.
    pub fn send(&self, header: Header, outbox: &mut Outbox, pool: &Pool) {
        self.send_header(&header.with_data_bytes(0), outbox, pool);
    }

    /// Sends a PDU with a little data, which is copied.
    pub fn send_bytes(&self, header: Header, data: &[u8], outbox: &mut Outbox, pool: &Pool) {
        debug_assert!(data.len() <= self.max_send, "a PDU longer than the initiator takes");
        self.send_header(&header.with_data_bytes(data.len()), outbox, pool);
        if data.is_empty() {
            return;
        }
        outbox.append(pool, data);
        let padding = [0; 3];
        let padding = &padding[..padded(data.len()) - data.len()];
        outbox.append(pool, padding);
        if self.data_digest {
            let digest = match padding {
                [] => crc32c(data),
                _ => crc32c(&[data, padding].concat()),
            };
            outbox.append(pool, &digest.to_le_bytes());
        }
    }

    /// Sends a PDU with data by reference.
    pub fn send_slice(&self, header: Header, data: Slice, outbox: &mut Outbox, pool: &Pool) {
        if !data.len().is_multiple_of(4) {
            // Initiators that expect parts of blocks: they pay for a copy.
            return self.send_bytes(header, &data, outbox, pool);
        }
        debug_assert!(data.len() <= self.max_send, "a PDU longer than the initiator takes");
        self.send_header(&header.with_data_bytes(data.len()), outbox, pool);
        let digest = (self.data_digest && !data.is_empty()).then(|| crc32c(&data));
        outbox.push(data);
        if let Some(digest) = digest {
            outbox.append(pool, &digest.to_le_bytes());
        }
    }
}

/// The parts of PDUs as they were sent, for tests and hosts in tests: header, data, and what is left.
///
/// # Panics
/// When a digest or the padding is wrong, or the PDU is cut.
#[cfg(test)]
pub(crate) fn split(bytes: &[u8], header_digest: bool, data_digest: bool) -> (Header, Vec<u8>, &[u8]) {
    let header = Header(*bytes.first_chunk().expect("a header"));
    assert_eq!(header.ahs_bytes(), 0, "targets send no additional headers");
    let mut rest = &bytes[BHS_BYTES..];
    if header_digest {
        assert_eq!(crc32c(&header.0).to_le_bytes(), rest[..4], "header digest");
        rest = &rest[4..];
    }
    let length = header.data_bytes();
    let (data, behind) = rest.split_at(padded(length));
    assert!(data[length..].iter().all(|byte| *byte == 0), "padding is zero");
    rest = behind;
    if data_digest && length > 0 {
        assert_eq!(crc32c(data).to_le_bytes(), rest[..4], "data digest");
        rest = &rest[4..];
    }
    (header, data[..length].to_vec(), rest)
}
