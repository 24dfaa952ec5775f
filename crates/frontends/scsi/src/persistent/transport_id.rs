//! TransportIDs (SPC-4, "TransportID identifiers"): the names of initiator ports.

use crate::nexus::InitiatorPort;
use crate::sense::Sense;

/// The name of an initiator port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportId {
    /// Of iSCSI.
    Iscsi(InitiatorPort),
    /// Of another protocol: the identifier by which that knows the host.
    Other([u8; 16]),
}

/// PROTOCOL IDENTIFIER.
const ISCSI: u8 = 0x5;
const NO_PROTOCOL: u8 = 0xf;
/// FORMAT CODE 1: the name has the session's identifier in it.
const WITH_SESSION: u8 = 0x40;
/// Between them.
const BETWEEN: &str = ",i,0x";
/// The shortest that there is.
const MIN_BYTES: usize = 24;
/// The longest name of iSCSI (RFC 7143, 4.2.7.2), what comes between, 12 digits, a zero, padded.
const MAX_NAME_BYTES: usize = 223 + 5 + 12 + 1 + 3;

impl TransportId {
    /// As it travels: a multiple of four bytes, at least 24.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            TransportId::Iscsi(port) => {
                let mut name = port.port_name().into_bytes();
                name.push(0);
                name.resize(name.len().next_multiple_of(4).max(MIN_BYTES - 4), 0);
                let [high, low] = (name.len() as u16).to_be_bytes();
                let mut bytes = vec![WITH_SESSION | ISCSI, 0, high, low];
                bytes.extend(name);
                bytes
            }
            TransportId::Other(identifier) => {
                let mut bytes = vec![NO_PROTOCOL, 0, 0, 0, 0, 0, 0, 0];
                bytes.extend(identifier);
                bytes
            }
        }
    }

    /// The initiator port of that name, as [`InitiatorPort::port_name`] has it.
    #[must_use]
    pub fn named(name: &str) -> Option<TransportId> {
        port(name.as_bytes()).map(TransportId::Iscsi)
    }

    /// The initiator port that the first of `bytes` name, and how many they are; `at` is where they stand in the parameter list. Ports of another
    /// protocol than iSCSI are not known here. Neither is a name without its session: which ports it would mean depends on who is there.
    ///
    /// # Errors
    /// INVALID FIELD IN PARAMETER LIST, with where.
    pub fn parse(bytes: &[u8], at: u16) -> Result<(InitiatorPort, usize), Sense> {
        let wrong = |offset: usize| Sense::in_list(at.saturating_add(offset as u16), None);
        let [kind, _, high, low, rest @ ..] = bytes else {
            return Err(wrong(0));
        };
        if *kind != WITH_SESSION | ISCSI {
            return Err(wrong(0));
        }
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length < MIN_BYTES - 4 || !length.is_multiple_of(4) || length > MAX_NAME_BYTES {
            return Err(wrong(2));
        }
        let name = rest.get(..length).ok_or(wrong(2))?;
        let end = name.iter().position(|byte| *byte == 0).ok_or(wrong(4))?;
        let port = port(&name[..end]).ok_or(wrong(4))?;
        Ok((port, 4 + length))
    }
}

/// The port of such a name, `NAME,i,0xISID`. The name of the node is compared as text: names are canonical in small letters.
fn port(name: &[u8]) -> Option<InitiatorPort> {
    let text = std::str::from_utf8(name).ok()?;
    let (node, session) = text.split_once(BETWEEN)?;
    let is_session = session.len() == 12 && session.bytes().all(|digit| digit.is_ascii_hexdigit());
    let session = u64::from_str_radix(session, 16).ok().filter(|_| is_session)?;
    let [_, _, isid @ ..] = session.to_be_bytes();
    let is_name = !node.is_empty() && node.len() <= 223 && node.bytes().all(|byte| byte.is_ascii_graphic());
    is_name.then(|| InitiatorPort {
        name: node.to_ascii_lowercase().into(),
        isid,
    })
}
