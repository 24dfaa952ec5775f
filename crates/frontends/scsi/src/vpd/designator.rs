//! The device identification page (SPC-4, "Device Identification VPD page"): the names of a logical unit, of the target port, of the target.

use crate::inquiry::VENDOR;
use crate::unit::{Target, Unit};
use crate::vpd::serial_number;
use amita_types::map::naa;
use uuid::Uuid;

const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF_8: u8 = 3;
/// Before the UUID: its kind, a reserved byte.
const UUID_BEGIN: [u8; 2] = [0x10, 0];
/// How long a name of a logical unit is that is text.
const TEXT_BYTES: usize = 40;

/// What a designator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Unit = 0,
    Port = 1,
    Target = 2,
}

/// Types of designator.
pub(crate) mod kind {
    pub const VENDOR: u8 = 1;
    pub const NAA: u8 = 3;
    pub const RELATIVE_PORT: u8 = 4;
    pub const PORT_GROUP: u8 = 5;
    pub const NAME: u8 = 8;
    pub const UUID: u8 = 0xa;
}

/// All of a logical unit, as the target port of that tag tells them.
pub(super) fn all(unit: &Unit, target: &Target, tag: u16) -> Vec<u8> {
    let mut body = Vec::new();
    for (code_set, kind, name) in names(unit) {
        body.extend(designator(Of::Unit, code_set, kind, &name));
    }
    let [high, low] = tag.to_be_bytes();
    body.extend(designator(Of::Port, BINARY, kind::RELATIVE_PORT, &[0, 0, high, low]));
    body.extend(designator(Of::Port, BINARY, kind::PORT_GROUP, &[0, 0, high, low]));
    body.extend(designator(
        Of::Port,
        UTF_8,
        kind::NAME,
        &padded(&port_name(target, tag)),
    ));
    body.extend(designator(Of::Target, UTF_8, kind::NAME, &padded(&target.name)));
    body
}

/// The names of a logical unit: code set, type, designator. The best first.
pub(crate) fn names(unit: &Unit) -> [(u8, u8, Vec<u8>); 4] {
    let naa = naa(&Uuid::from_bytes(unit.uuid));
    let text = format!("naa.{:032X}", u128::from_be_bytes(naa));
    // SPC-5 has it.
    let mut uuid = UUID_BEGIN.to_vec();
    uuid.extend(unit.uuid);
    [
        (BINARY, kind::NAA, naa.to_vec()),
        (UTF_8, kind::NAME, padded(&text)),
        (
            ASCII,
            kind::VENDOR,
            [&VENDOR[..], serial_number(unit).as_bytes()].concat(),
        ),
        (BINARY, kind::UUID, uuid),
    ]
}

/// Is it a name of that logical unit? A copy asks that of all of them, so that nothing is made of those that it is not.
pub(crate) fn is_of_unit(unit: &Unit, code_set: u8, kind: u8, name: &[u8]) -> bool {
    match (code_set, kind) {
        (BINARY, kind::NAA) => *name == naa(&Uuid::from_bytes(unit.uuid)),
        (BINARY, kind::UUID) => name.strip_prefix(&UUID_BEGIN).is_some_and(|name| *name == unit.uuid),
        (UTF_8, kind::NAME) | (ASCII, kind::VENDOR) if name.len() == TEXT_BYTES => names(unit)
            .into_iter()
            .any(|(set, of_kind, known)| (set, of_kind) == (code_set, kind) && known == name),
        _ => false,
    }
}

/// The name of a target port of iSCSI (RFC 7143, 4.4.2).
fn port_name(target: &Target, tag: u16) -> String {
    format!("{},t,0x{tag:04x}", target.name)
}

/// A SCSI name string: it ends with a zero, and is a multiple of four long.
fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn designator(of: Of, code_set: u8, kind: u8, name: &[u8]) -> Vec<u8> {
    const ISCSI: u8 = 0x50;
    // PIV: the protocol is told, where it is not a logical unit's.
    const HAS_PROTOCOL: u8 = 0x80;
    let (protocol, flag) = match of {
        Of::Unit => (0, 0),
        Of::Port | Of::Target => (ISCSI, HAS_PROTOCOL),
    };
    let mut bytes = vec![protocol | code_set, flag | (of as u8) << 4 | kind, 0, name.len() as u8];
    bytes.extend(name);
    bytes
}
