//! Messages to the client, written into the outbox.

use super::wire::{
    Errno, MAX_STRING_BYTES, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, Writer, chunk,
};
use amita_frontend::Cx;
use amita_reactor::{Outbox, Pool};

/// Why a request failed: the number, and a sentence for people where the reply has room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// "Error values".
    pub errno: Errno,
    pub message: &'static str,
}

impl Failure {
    pub(super) const fn new(errno: Errno, message: &'static str) -> Failure {
        Failure { errno, message }
    }
}

/// Extents are written so many at a time.
const EXTENTS_AT_ONCE: usize = 64;

/// Where replies go.
pub(super) struct Replies<'a> {
    pub outbox: &'a mut Outbox,
    pub pool: &'a Pool,
}

/// A step that can reply.
pub(super) trait Reply {
    fn replies(&mut self) -> Replies<'_>;
}

impl Reply for Cx<'_> {
    fn replies(&mut self) -> Replies<'_> {
        Replies {
            outbox: &mut *self.outbox,
            pool: self.pool,
        }
    }
}

impl Replies<'_> {
    /// The fixed part of a reply to an option ("Fixed newstyle negotiation"); `length` bytes are to follow.
    fn option_header(&mut self, option: u32, kind: u32, length: usize) {
        let header = Writer::<20>::new()
            .u64(OPTION_REPLY_MAGIC)
            .u32(option)
            .u32(kind)
            .u32(length as u32);
        self.outbox.append(self.pool, header.as_bytes());
    }

    /// A reply to an option, its data in parts.
    pub fn option(&mut self, option: u32, kind: u32, parts: &[&[u8]]) {
        self.option_header(option, kind, parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.outbox.append(self.pool, part);
        }
    }

    /// An error reply to an option with a text for people ("Option reply types").
    pub fn option_error(&mut self, option: u32, kind: u32, message: &str) {
        let message = cut(message);
        self.option(option, kind, &[message.as_bytes()]);
    }

    /// "Simple reply message", without data.
    pub fn simple(&mut self, cookie: u64, error: u32) {
        let reply = Writer::<16>::new().u32(SIMPLE_REPLY_MAGIC).u32(error).u64(cookie);
        self.outbox.append(self.pool, reply.as_bytes());
    }

    /// "Structured reply chunk message": the header, for `length` bytes of payload.
    fn chunk(cookie: u64, flags: u16, kind: u16, length: u32) -> Writer<40> {
        Writer::new()
            .u32(STRUCTURED_REPLY_MAGIC)
            .u16(flags)
            .u16(kind)
            .u64(cookie)
            .u32(length)
    }

    /// `NBD_REPLY_TYPE_NONE`: success, and nothing to say.
    pub fn none(&mut self, cookie: u64) {
        self.outbox.append(
            self.pool,
            Self::chunk(cookie, chunk::FLAG_DONE, chunk::NONE, 0).as_bytes(),
        );
    }

    /// The beginning of `NBD_REPLY_TYPE_OFFSET_DATA`; `length` bytes of data are to follow.
    pub fn data_header(&mut self, cookie: u64, done: bool, offset: u64, length: u32) {
        let header = Self::chunk(cookie, flag(done), chunk::OFFSET_DATA, length + 8).u64(offset);
        self.outbox.append(self.pool, header.as_bytes());
    }

    /// `NBD_REPLY_TYPE_OFFSET_HOLE`.
    pub fn hole(&mut self, cookie: u64, done: bool, offset: u64, length: u32) {
        let hole = Self::chunk(cookie, flag(done), chunk::OFFSET_HOLE, 12)
            .u64(offset)
            .u32(length);
        self.outbox.append(self.pool, hole.as_bytes());
    }

    /// `NBD_REPLY_TYPE_ERROR`, or `NBD_REPLY_TYPE_ERROR_OFFSET` where it is known where.
    pub fn error(&mut self, cookie: u64, done: bool, failure: Failure, offset: Option<u64>) {
        let message = cut(failure.message).as_bytes();
        let (kind, tail) = if offset.is_some() {
            (chunk::ERROR_OFFSET, 8)
        } else {
            (chunk::ERROR, 0)
        };
        let length = 6 + message.len() + tail;
        let head = Self::chunk(cookie, flag(done), kind, length as u32);
        let head = head.u32(failure.errno as u32).u16(message.len() as u16);
        self.outbox.append(self.pool, head.as_bytes());
        self.outbox.append(self.pool, message);
        if let Some(offset) = offset {
            self.outbox.append(self.pool, &offset.to_be_bytes());
        }
    }

    /// `NBD_REPLY_TYPE_BLOCK_STATUS` for a context.
    pub fn block_status(&mut self, cookie: u64, done: bool, context: u32, extents: &[(u32, u32)]) {
        let length = 4 + 8 * extents.len() as u32;
        let head = Self::chunk(cookie, flag(done), chunk::BLOCK_STATUS, length).u32(context);
        self.outbox.append(self.pool, head.as_bytes());
        for some in extents.chunks(EXTENTS_AT_ONCE) {
            let mut bytes = [0; 8 * EXTENTS_AT_ONCE];
            for (place, (length, flags)) in bytes.chunks_exact_mut(8).zip(some) {
                place[..4].copy_from_slice(&length.to_be_bytes());
                place[4..].copy_from_slice(&flags.to_be_bytes());
            }
            self.outbox.append(self.pool, &bytes[..8 * some.len()]);
        }
    }
}

fn flag(done: bool) -> u16 {
    if done { chunk::FLAG_DONE } else { 0 }
}

/// Texts are at most 4096 bytes ("Conventions"): cut at a character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_STRING_BYTES)]
}
