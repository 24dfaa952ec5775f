//! What was agreed for a connection, and PDUs in and out by that.

use super::*;
use crate::command::{COMPLETION_BYTES, Command};
use amita_reactor::{Inbox, Outbox, Pool, Slice};
use amita_types::crc32c;

/// What one connection has agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub header_digest: bool,
    pub data_digest: bool,
    /// Data in a PDU to the host begins at a multiple of this many bytes.
    alignment: usize,
    /// R2Ts of one command that may be outstanding.
    pub max_r2t: u32,
    /// The most data of an H2CData.
    max_data_bytes: usize,
    /// The most data in a capsule.
    pub max_capsule_bytes: usize,
}

/// A PDU that is in the inbox as a whole, and whose header is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    /// Where the data begins.
    data_offset: usize,
    pub data_bytes: usize,
    /// The digest behind the data.
    has_data_digest: bool,
}

impl Link {
    pub fn new(request: &InitRequest, max_data_bytes: u32, max_capsule_bytes: usize) -> Link {
        Link {
            header_digest: request.header_digest,
            data_digest: request.data_digest,
            alignment: (usize::from(request.alignment) + 1) * 4,
            max_r2t: request.max_r2t,
            max_data_bytes: max_data_bytes as usize,
            max_capsule_bytes,
        }
    }

    fn header_digest_bytes(&self) -> usize {
        if self.header_digest { DIGEST_BYTES } else { 0 }
    }

    /// The PDU at the front of the inbox, when all of it has come.
    pub fn frame(&self, inbox: &mut Inbox) -> Result<Option<Frame>, Fatal> {
        let bytes = inbox.data();
        let Some(common) = bytes.first_chunk::<COMMON_BYTES>() else {
            return Ok(None);
        };
        let head = Common::parse(common);
        let header_bytes = match head.kind {
            kind::COMMAND => COMMAND_HEADER_BYTES,
            kind::H2C_DATA | kind::H2C_TERMINATE => SHORT_HEADER_BYTES,
            kind::IC_REQUEST => return Err(Fatal::new(fatal::SEQUENCE, 0, "a second ICReq")),
            _ => return Err(Fatal::field(0, "a type of PDU that hosts do not send")),
        };
        if usize::from(head.header_bytes) != header_bytes {
            return Err(Fatal::field(2, "the header's length is not that of its type"));
        }
        let pdu_bytes = head.pdu_bytes as usize;
        if head.kind == kind::H2C_TERMINATE {
            // Its data is the header in error; there are no digests.
            if !(header_bytes..=header_bytes + MAX_TERMINATE_DATA_BYTES).contains(&pdu_bytes) {
                return Err(Fatal::field(4, "an H2CTermReq of a wrong length"));
            }
            return Ok(self.whole(inbox, pdu_bytes, || Frame {
                kind: head.kind,
                flags: 0,
                data_offset: header_bytes,
                data_bytes: pdu_bytes - header_bytes,
                has_data_digest: false,
            }));
        }
        if (head.flags & flag::HEADER_DIGEST != 0) != self.header_digest {
            return Err(Fatal::field(1, "the header digest is not as was agreed"));
        }
        let least = header_bytes + self.header_digest_bytes();
        let has_data = head.kind == kind::H2C_DATA || pdu_bytes > least;
        let most = match head.kind {
            kind::COMMAND => self.max_capsule_bytes,
            _ => self.max_data_bytes,
        };
        let frame = if has_data {
            let data_offset = usize::from(head.data_offset);
            let digest = if self.data_digest { DIGEST_BYTES } else { 0 };
            if (head.flags & flag::DATA_DIGEST != 0) != self.data_digest {
                return Err(Fatal::field(1, "the data digest is not as was agreed"));
            }
            // CPDA is 0: dwords.
            if data_offset < least || data_offset % 4 != 0 || data_offset > header_bytes + 4 * 32 {
                return Err(Fatal::field(3, "the data begins at a place where it may not"));
            }
            let Some(data_bytes) = pdu_bytes.checked_sub(data_offset + digest) else {
                return Err(Fatal::field(4, "a PDU shorter than its header and digests"));
            };
            if data_bytes > most {
                return match head.kind {
                    kind::COMMAND => Err(Fatal::field(4, "more data in a capsule than is allowed")),
                    _ => Err(Fatal::new(
                        fatal::LIMIT_EXCEEDED,
                        4,
                        "more data in a PDU than is allowed",
                    )),
                };
            }
            Frame {
                kind: head.kind,
                flags: head.flags,
                data_offset,
                data_bytes,
                has_data_digest: self.data_digest,
            }
        } else {
            if pdu_bytes < least {
                return Err(Fatal::field(4, "a PDU shorter than its header"));
            }
            Frame {
                kind: head.kind,
                flags: head.flags,
                data_offset: least,
                data_bytes: 0,
                has_data_digest: false,
            }
        };
        // The header is judged before its data is waited for.
        if self.header_digest {
            let Some((header, digest)) = bytes.split_at_checked(header_bytes) else {
                inbox.need(pdu_bytes);
                return Ok(None);
            };
            let Some(digest) = digest.first_chunk::<DIGEST_BYTES>() else {
                inbox.need(pdu_bytes);
                return Ok(None);
            };
            let digest = u32::from_le_bytes(*digest);
            if crc32c(header) != digest {
                return Err(Fatal::new(fatal::HEADER_DIGEST, digest, "the header digest is wrong"));
            }
        }
        Ok(self.whole(inbox, pdu_bytes, || frame))
    }

    fn whole(&self, inbox: &mut Inbox, pdu_bytes: usize, frame: impl FnOnce() -> Frame) -> Option<Frame> {
        if inbox.len() < pdu_bytes {
            inbox.need(pdu_bytes);
            return None;
        }
        Some(frame())
    }

    /// The command of a capsule at the front of the inbox.
    pub fn command(inbox: &Inbox) -> Command {
        let bytes = &inbox.data()[COMMON_BYTES..COMMAND_HEADER_BYTES];
        Command(bytes.try_into().expect("64 bytes"))
    }

    /// Takes a PDU out of the inbox: its data, or `None` when the data's digest is wrong.
    pub fn take(frame: Frame, inbox: &mut Inbox) -> Option<Slice> {
        inbox.skip(frame.data_offset);
        let data = inbox.take(frame.data_bytes);
        if frame.has_data_digest {
            let digest = u32_at(inbox.data(), 0);
            inbox.skip(DIGEST_BYTES);
            if crc32c(&data) != digest {
                return None;
            }
        }
        Some(data)
    }

    /// A header without data behind it, into the outbox.
    fn send_header<const BYTES: usize>(&self, mut header: [u8; BYTES], outbox: &mut Outbox, pool: &Pool) {
        header[2] = SHORT_HEADER_BYTES as u8;
        let end = SHORT_HEADER_BYTES + self.header_digest_bytes();
        header[4..8].copy_from_slice(&(end as u32).to_le_bytes());
        self.seal(&mut header);
        outbox.append(pool, &header[..end]);
    }

    /// Sets the header's digest, if there is to be one.
    fn seal(&self, header: &mut [u8]) {
        if self.header_digest {
            header[1] |= flag::HEADER_DIGEST;
            let digest = crc32c(&header[..SHORT_HEADER_BYTES]);
            header[SHORT_HEADER_BYTES..SHORT_HEADER_BYTES + DIGEST_BYTES].copy_from_slice(&digest.to_le_bytes());
        }
    }

    /// Sends a response capsule ("TCP", CapsuleResp).
    pub fn respond(&self, completion: &[u8; COMPLETION_BYTES], outbox: &mut Outbox, pool: &Pool) {
        let mut header = [0; SHORT_HEADER_BYTES + DIGEST_BYTES];
        header[0] = kind::RESPONSE;
        header[8..24].copy_from_slice(completion);
        self.send_header(header, outbox, pool);
    }

    /// Asks for data ("TCP", R2T).
    pub fn ask(&self, id: u16, tag: u16, offset: u32, length: u32, outbox: &mut Outbox, pool: &Pool) {
        let mut header = [0; SHORT_HEADER_BYTES + DIGEST_BYTES];
        header[0] = kind::R2T;
        header[8..10].copy_from_slice(&id.to_le_bytes());
        header[10..12].copy_from_slice(&tag.to_le_bytes());
        header[12..16].copy_from_slice(&offset.to_le_bytes());
        header[16..20].copy_from_slice(&length.to_le_bytes());
        self.send_header(header, outbox, pool);
    }

    /// Sends data, by reference ("TCP", C2HData).
    pub fn send_data(&self, id: u16, offset: u32, data: Slice, flags: u8, outbox: &mut Outbox, pool: &Pool) {
        /// What a header, its digest and the longest padding take.
        const MOST: usize = (MAX_ALIGNMENT as usize + 1) * 4;
        const { assert!(MOST >= SHORT_HEADER_BYTES + DIGEST_BYTES) };
        let mut header = [0; MOST];
        let data_offset = (SHORT_HEADER_BYTES + self.header_digest_bytes()).next_multiple_of(self.alignment);
        let digest_bytes = if self.data_digest { DIGEST_BYTES } else { 0 };
        let data_flag = if self.data_digest { flag::DATA_DIGEST } else { 0 };
        let head = Common {
            kind: kind::C2H_DATA,
            flags: flags | data_flag,
            header_bytes: SHORT_HEADER_BYTES as u8,
            data_offset: data_offset as u8,
            pdu_bytes: (data_offset + data.len() + digest_bytes) as u32,
        };
        head.write(&mut header);
        header[8..10].copy_from_slice(&id.to_le_bytes());
        header[12..16].copy_from_slice(&offset.to_le_bytes());
        header[16..20].copy_from_slice(&(data.len() as u32).to_le_bytes());
        self.seal(&mut header);
        outbox.append(pool, &header[..data_offset]);
        let digest = self.data_digest.then(|| crc32c(&data));
        outbox.push(data);
        if let Some(digest) = digest {
            outbox.append(pool, &digest.to_le_bytes());
        }
    }
}
