//! A data structure that is sent to the host: zeroes, and what is written over them, little-endian.

use crate::command::{Reply, Status};

#[derive(Debug)]
pub(crate) struct Page(pub Vec<u8>);

impl Page {
    pub fn new(size_bytes: usize) -> Page {
        Page(vec![0; size_bytes])
    }

    pub fn bytes(&mut self, at: usize, value: &[u8]) -> &mut Page {
        self.0[at..at + value.len()].copy_from_slice(value);
        self
    }

    pub fn u8(&mut self, at: usize, value: u8) -> &mut Page {
        self.bytes(at, &[value])
    }

    pub fn u16(&mut self, at: usize, value: u16) -> &mut Page {
        self.bytes(at, &value.to_le_bytes())
    }

    pub fn u32(&mut self, at: usize, value: u32) -> &mut Page {
        self.bytes(at, &value.to_le_bytes())
    }

    pub fn u64(&mut self, at: usize, value: u64) -> &mut Page {
        self.bytes(at, &value.to_le_bytes())
    }

    pub fn u128(&mut self, at: usize, value: u128) -> &mut Page {
        self.bytes(at, &value.to_le_bytes())
    }

    /// A text of fixed length: left justified and filled with spaces, what is too long is cut (NVM Express Base 2.1,
    /// 1.4.2: ASCII strings).
    pub fn ascii(&mut self, at: usize, length: usize, text: &str) -> &mut Page {
        let field = &mut self.0[at..at + length];
        field.fill(b' ');
        let visible = text
            .bytes()
            .map(|byte| if (0x20..0x7f).contains(&byte) { byte } else { b'?' });
        field.iter_mut().zip(visible).for_each(|(to, from)| *to = from);
        self
    }

    /// A text that ends in a zero: a name. What is too long is cut.
    pub fn name(&mut self, at: usize, length: usize, text: &str) -> &mut Page {
        let cut = text.len().min(length - 1);
        self.bytes(at, &text.as_bytes()[..cut])
    }

    pub fn reply(self) -> Reply {
        Reply {
            status: Status::SUCCESS,
            result: 0,
            data: self.0,
        }
    }
}

/// A reply without data.
pub(crate) fn plain(status: Status, result: u64) -> Reply {
    Reply {
        status,
        result,
        data: Vec::new(),
    }
}

/// It worked, and dword 0 says this.
pub(crate) fn told(result: u32) -> Reply {
    plain(Status::SUCCESS, result.into())
}
