//! Additional header segments of a SCSI command (11.2.2).
//!
//! ```text
//! | AHSLength (2) | AHSType (1) | specific (1) | specific, padded to 4 ...
//! ```
//! The length counts what is specific, without the padding.

use super::{MAX_AHS_BYTES, u16_at, u32_at};

/// The longest CDB, in bytes (SPC-4, 4.2.4: variable length CDBs).
const MAX_CDB_BYTES: usize = 260;

const EXTENDED_CDB: u8 = 1;
const READ_LENGTH: u8 = 2;

/// What the additional headers of a command say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ahs<'a> {
    /// What the CDB has beyond its first 16 bytes (11.2.2.3).
    pub cdb_rest: &'a [u8],
    /// How much a bidirectional command expects to read (11.2.2.4).
    pub read_bytes: Option<u32>,
}

impl Ahs<'_> {
    /// Reads all of them. Each may come once; types that are not known make no sense.
    ///
    /// # Errors
    /// What is wrong, for the log.
    pub fn parse(bytes: &[u8]) -> Result<Ahs<'_>, &'static str> {
        if bytes.len() > MAX_AHS_BYTES {
            return Err("more additional headers than a command can have");
        }
        let mut found = Ahs::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            if rest.len() < 4 {
                return Err("an additional header that is cut");
            }
            let (length, kind) = (usize::from(u16_at(rest, 0)), rest[2]);
            let end = 3 + length;
            if length == 0 || end > rest.len() {
                return Err("an additional header that is longer than all of them");
            }
            match kind {
                // The first byte is reserved.
                EXTENDED_CDB if found.cdb_rest.is_empty() && length > 1 && 16 + length - 1 <= MAX_CDB_BYTES => {
                    found.cdb_rest = &rest[4..end];
                }
                READ_LENGTH if found.read_bytes.is_none() && length == 5 => {
                    found.read_bytes = Some(u32_at(rest, 4));
                }
                EXTENDED_CDB | READ_LENGTH => {
                    return Err("an additional header that comes twice, or is of a wrong length");
                }
                _ => return Err("an additional header of an unknown type"),
            }
            let next = end.next_multiple_of(4).min(rest.len());
            rest = &rest[next..];
        }
        Ok(found)
    }
}
