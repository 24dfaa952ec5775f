//! The capability of a client in its certificate: an X.509 extension that is not critical (decision 034).
//!
//! ```text
//! Capability ::= SEQUENCE {
//!     version  INTEGER,        -- 1
//!     made     INTEGER,        -- seconds since 1970: notBefore is backdated
//!     tenant   UTF8String,     -- 0 to 63 characters
//!     entries  OCTET STRING }  -- 0 to 64 of ten octets: kind, number (eight, the highest first), rights
//! ```
//!
//! As DER: what is granted has one text, and whatever else says the same is refused. Entries are octets so that 64 of them fit
//! into 1,024 bytes whatever their numbers are. They stand in the order of kind and number, none twice.
//!
//! The extension is named by the object identifier 2.25.N: the branch for whoever has not registered a number (ITU-T X.667). N is
//! to be a UUID there; certificate libraries take no arc of 128 bits, so it is a random number of 62.

use crate::certificate::validity_of;
use crate::name::Role;
use amita_types::capability::{BadGrant, Capability, Entry, Grant, MAX_ENTRIES, Rights, Scope};
use rcgen::CustomExtension;
use x509_parser::certificate::X509Certificate;

/// The most bytes of it.
pub const MAX_BYTES: usize = 1024;

const OID: [u64; 3] = [2, 25, 2_888_107_559_684_724_880];
/// The same as it stands in a certificate.
const OID_DER: [u8; 10] = [0x69, 0xa8, 0x8a, 0xa7, 0xd0, 0xe1, 0x81, 0x83, 0xb1, 0x10];
const VERSION: u64 = 1;
const ENTRY_BYTES: usize = 10;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;

// The longest there is: 64 entries, the longest tenant, two numbers of eight bytes and a sign.
const _: () = assert!(4 + 2 * 11 + 2 + 63 + 4 + MAX_ENTRIES * ENTRY_BYTES <= MAX_BYTES);

/// Why what stands in a certificate is no capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCapability {
    /// It is longer than any.
    #[error("it has {0} bytes, and {MAX_BYTES} are the most")]
    Long(usize),
    /// It has not the form.
    #[error("its {0} is not there, or not in the form that it has to have (DER)")]
    Form(&'static str),
    /// It is of another version.
    #[error("it is of version {0}, and {VERSION} is known here")]
    Version(u64),
    /// It grants what nobody can have.
    #[error(transparent)]
    Grant(#[from] BadGrant),
    /// It says the same in other words than it has to.
    #[error("its entries are not in order, or a number is longer than it has to be")]
    NotCanonical,
    /// The certificate has two.
    #[error("there are two of them")]
    Twice,
    /// The certificate is no client's.
    #[error("only clients have one, and this is a certificate of the role {0}")]
    Role(Role),
    /// It was not made in the certificate's time.
    #[error("it says that it was made at second {0}, when its certificate was not valid")]
    Made(u64),
}

/// The capability as DER, of [`MAX_BYTES`] at most.
#[must_use]
pub fn encode(capability: &Capability) -> Vec<u8> {
    let mut body = Vec::with_capacity(MAX_BYTES);
    for number in [VERSION, capability.made_s] {
        put_integer(&mut body, number);
    }
    put(&mut body, UTF8_STRING, capability.grant.tenant().as_bytes());
    let mut entries = Vec::with_capacity(MAX_ENTRIES * ENTRY_BYTES);
    for entry in capability.grant.entries() {
        let (kind, number) = entry.scope.parts();
        entries.push(kind);
        entries.extend_from_slice(&number.to_be_bytes());
        entries.push(entry.rights.bits());
    }
    put(&mut body, OCTET_STRING, &entries);
    let mut whole = Vec::with_capacity(body.len() + 4);
    put(&mut whole, SEQUENCE, &body);
    whole
}

/// Tag, length, value. Nothing here has 64 KiB.
fn put(out: &mut Vec<u8>, tag: u8, value: &[u8]) {
    out.push(tag);
    match u16::try_from(value.len()).expect("limits keep it short").to_be_bytes() {
        [0, short @ ..=0x7f] => out.push(short),
        [0, long] => out.extend_from_slice(&[0x81, long]),
        [high, low] => out.extend_from_slice(&[0x82, high, low]),
    }
    out.extend_from_slice(value);
}

/// A number without a sign: with a zero in front where its highest bit would be one.
fn put_integer(out: &mut Vec<u8>, number: u64) {
    let mut octets = [0; 9];
    octets[1..].copy_from_slice(&number.to_be_bytes());
    let spare = octets.windows(2).take_while(|two| two[0] == 0 && two[1] < 0x80).count();
    put(out, INTEGER, &octets[spare..]);
}

/// Reads one.
///
/// # Errors
/// Why it is none.
pub fn decode(der: &[u8]) -> Result<Capability, BadCapability> {
    if der.len() > MAX_BYTES {
        return Err(BadCapability::Long(der.len()));
    }
    let mut whole = Reader(der);
    let mut body = Reader(whole.take(SEQUENCE, "frame")?);
    // Of another version, nothing else is known.
    let version = body.integer("version")?;
    if version != VERSION {
        return Err(BadCapability::Version(version));
    }
    let made_s = body.integer("time")?;
    let tenant = std::str::from_utf8(body.take(UTF8_STRING, "tenant")?).map_err(|_| BadCapability::Form("tenant"))?;
    let entries = body.take(OCTET_STRING, "list of entries")?;
    let capability = Capability {
        made_s,
        grant: Grant::new(tenant, entries_of(entries)?)?,
    };
    // One text: also nothing behind it, and no length or number written in another way.
    if encode(&capability) != der {
        return Err(BadCapability::NotCanonical);
    }
    Ok(capability)
}

fn entries_of(octets: &[u8]) -> Result<Vec<Entry>, BadCapability> {
    let (entries, rest) = octets.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(BadCapability::Form("list of entries"));
    }
    let entry = |octets: &[u8; ENTRY_BYTES]| {
        let [kind, number @ .., rights] = octets;
        Some(Entry {
            scope: Scope::of(*kind, u64::from_be_bytes(*number))?,
            rights: Rights::new(*rights)?,
        })
    };
    let read: Option<Vec<Entry>> = entries.iter().map(entry).collect();
    read.ok_or(BadCapability::Form("list of entries"))
}

/// Reads values, one behind the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, tag: u8, what: &'static str) -> Result<&'a [u8], BadCapability> {
        let bad = BadCapability::Form(what);
        let (length, rest) = match *self.0 {
            [found, ..] if found != tag => return Err(bad),
            [_, short @ ..=0x7f, ref rest @ ..] => (usize::from(short), rest),
            [_, 0x81, long, ref rest @ ..] => (usize::from(long), rest),
            [_, 0x82, high, low, ref rest @ ..] => (usize::from(u16::from_be_bytes([high, low])), rest),
            _ => return Err(bad),
        };
        let (value, rest) = rest.split_at_checked(length).ok_or(bad)?;
        self.0 = rest;
        Ok(value)
    }

    fn integer(&mut self, what: &'static str) -> Result<u64, BadCapability> {
        let octets = match self.take(INTEGER, what)? {
            [] | [0x80..=0xff, ..] => return Err(BadCapability::Form(what)),
            [0, octets @ ..] => octets,
            octets => octets,
        };
        if octets.len() > size_of::<u64>() {
            return Err(BadCapability::Form(what));
        }
        Ok(octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
    }
}

pub(crate) fn extension(capability: &Capability) -> CustomExtension {
    CustomExtension::from_oid_content(&OID, encode(capability))
}

/// The one in a certificate of that role; none: it has none.
pub(crate) fn find(certificate: &X509Certificate<'_>, role: Role) -> Result<Option<Capability>, BadCapability> {
    let mut found = certificate.extensions().iter();
    let mut next = || found.find(|extension| extension.oid.as_bytes() == OID_DER);
    let Some(extension) = next() else { return Ok(None) };
    if next().is_some() {
        return Err(BadCapability::Twice);
    }
    // Who has one is held by it: in a certificate of another role it would be passed over.
    if role != Role::Client {
        return Err(BadCapability::Role(role));
    }
    let capability = decode(extension.value)?;
    let (from, until) = validity_of(certificate);
    if !(from.0..=until.0).contains(&capability.made_s) {
        return Err(BadCapability::Made(capability.made_s));
    }
    Ok(Some(capability))
}

#[cfg(test)]
mod tests;
