//! The data of options, read and checked ("Option types").

use crate::wire::{BASE_ALLOCATION, DIRTY_BITMAP, MAX_STRING_BYTES, Reader, info};

/// The most queries of one `NBD_OPT_*_META_CONTEXT`: whoever copies asks for two.
const MAX_QUERIES: u32 = 256;

/// What is wrong with an option's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// `NBD_REP_ERR_INVALID`.
    Invalid(&'static str),
    /// `NBD_REP_ERR_TOO_BIG`.
    TooBig(&'static str),
}

/// `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InfoRequest {
    pub name: String,
    pub wants_name: bool,
    pub wants_description: bool,
    pub wants_block_size: bool,
}

/// A string by "Conventions": UTF-8 without NUL, at most 4096 bytes.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Bad> {
    if bytes.len() > MAX_STRING_BYTES {
        return Err(Bad::TooBig("a string is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Bad::Invalid("a string is not UTF-8 or contains NUL")),
    }
}

/// Reads the data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub(super) fn info_request(data: &[u8]) -> Result<InfoRequest, Bad> {
    const SHORT: Bad = Bad::Invalid("the data is shorter than its fields say");
    let mut reader = Reader(data);
    let length = reader.u32().ok_or(SHORT)?;
    let name = text(reader.bytes(length as usize).ok_or(SHORT)?)?;
    let count = reader.u16().ok_or(SHORT)?;
    let mut request = InfoRequest {
        name: name.to_owned(),
        ..InfoRequest::default()
    };
    for _ in 0..count {
        match reader.u16().ok_or(SHORT)? {
            info::NAME => request.wants_name = true,
            info::DESCRIPTION => request.wants_description = true,
            info::BLOCK_SIZE => request.wants_block_size = true,
            // "The server MUST ignore any information requests it does not understand."
            _ => {}
        }
    }
    if reader.is_empty() {
        Ok(request)
    } else {
        Err(Bad::Invalid("there is data behind the last field"))
    }
}

/// The most snapshots that one connection has compared with: each costs a question to the volume for every chunk that is asked for.
const MAX_BITMAPS: usize = 8;

/// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaRequest {
    pub name: String,
    /// Does a query (or, when listing, their absence) name `base:allocation`?
    pub allocation: bool,
    /// With which snapshots the export is to be compared.
    pub bitmaps: Bitmaps,
}

/// Which of `qemu:dirty-bitmap:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bitmaps {
    /// Those of these snapshots.
    Of(Vec<String>),
    /// Whatever there are, to be listed.
    All,
}

/// Reads the data of `NBD_OPT_LIST_META_CONTEXT` (`listing`) and `NBD_OPT_SET_META_CONTEXT`.
pub(super) fn meta_request(data: &[u8], listing: bool) -> Result<MetaRequest, Bad> {
    const SHORT: Bad = Bad::Invalid("the data is shorter than its fields say");
    let mut reader = Reader(data);
    let length = reader.u32().ok_or(SHORT)?;
    let name = text(reader.bytes(length as usize).ok_or(SHORT)?)?;
    let count = reader.u32().ok_or(SHORT)?;
    // Without a query, listing means all and setting means none.
    let mut allocation = listing && count == 0;
    let mut all = allocation;
    let mut of = Vec::new();
    let mut too_many = false;
    for number in 0..count {
        let length = reader.u32().ok_or(SHORT)?;
        let query = text(reader.bytes(length as usize).ok_or(SHORT)?)?;
        if !query.contains(':') {
            return Err(Bad::Invalid(
                "a query has no namespace: it should be like base:allocation",
            ));
        }
        // "The `base:` metadata namespace": the bare namespace is a wildcard for listing only; QEMU's has two. Other namespaces and
        // unknown leaves are ignored.
        allocation |= query == BASE_ALLOCATION || listing && query == "base:";
        all |= listing && (query == "qemu:" || query == DIRTY_BITMAP);
        if let Some(snapshot) = query.strip_prefix(DIRTY_BITMAP)
            && !snapshot.is_empty()
            && number < MAX_QUERIES
        {
            of.push(snapshot.to_owned());
        }
        too_many |= number >= MAX_QUERIES;
    }
    if !reader.is_empty() {
        return Err(Bad::Invalid("there is data behind the last field"));
    }
    if too_many {
        return Err(Bad::TooBig("more than 256 queries"));
    }
    of.sort();
    of.dedup();
    if of.len() > MAX_BITMAPS && !listing {
        return Err(Bad::TooBig("more than 8 snapshots to compare with"));
    }
    of.truncate(MAX_BITMAPS);
    Ok(MetaRequest {
        name: name.to_owned(),
        allocation,
        bitmaps: if all { Bitmaps::All } else { Bitmaps::Of(of) },
    })
}
