//! The mode pages.

use super::{Modes, Values};
use crate::unit::{Space, Unit};
use crate::vpd::threshold_set_bytes;

/// A mode page, or a subpage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    pub code: u8,
    /// 0: it is no subpage.
    pub subpage: u8,
    /// All bytes after its header.
    body: fn(&Unit, Modes) -> Vec<u8>,
    /// Which bits of them can be changed.
    changeable: &'static [(usize, u8)],
}

/// SPF: the header is that of a subpage.
const SUBPAGE_FORMAT: u8 = 0x40;

const CONTROL: u8 = 0x0a;
/// D_SENSE, in byte 2 of the control page.
pub(super) const DESCRIPTOR_SENSE: u8 = 0x04;
/// SWP, in byte 4 of the control page.
pub(super) const SOFTWARE_WRITE_PROTECT: u8 = 0x08;

/// In order of code and subpage.
pub(crate) const PAGES: &[Page] = &[
    Page {
        code: 0x01,
        subpage: 0,
        body: error_recovery,
        changeable: &[],
    },
    Page {
        code: 0x08,
        subpage: 0,
        body: caching,
        changeable: &[],
    },
    Page {
        code: CONTROL,
        subpage: 0,
        body: control,
        changeable: &[(2, DESCRIPTOR_SENSE), (4, SOFTWARE_WRITE_PROTECT)],
    },
    Page {
        code: 0x1c,
        subpage: 0,
        body: informational_exceptions,
        changeable: &[],
    },
    Page {
        code: 0x1c,
        subpage: 0x02,
        body: provisioning,
        changeable: &[],
    },
];

impl Page {
    pub(super) fn is_control(&self) -> bool {
        self.code == CONTROL && self.subpage == 0
    }

    /// How long its header is.
    fn header_bytes(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }

    /// The whole page. PS is 0: nothing is saved.
    pub(crate) fn encode(&self, unit: &Unit, modes: Modes, values: Values) -> Vec<u8> {
        let body = match values {
            Values::Default => (self.body)(unit, Modes::default()),
            _ => (self.body)(unit, modes),
        };
        let mut bytes = match self.subpage {
            0 => vec![self.code, body.len() as u8],
            subpage => {
                let [high, low] = (body.len() as u16).to_be_bytes();
                vec![self.code | SUBPAGE_FORMAT, subpage, high, low]
            }
        };
        if values == Values::Changeable {
            bytes.resize(bytes.len() + body.len(), 0);
            for &(at, bits) in self.changeable {
                bytes[at] = bits;
            }
        } else {
            bytes.extend(body);
        }
        debug_assert!(bytes.len() > self.header_bytes());
        bytes
    }

    /// The page whose header that is, and how long it says that it is, header included; `None`: there is no such page.
    pub(super) fn of_header(bytes: &[u8]) -> Option<(&'static Page, usize)> {
        let code = bytes[0] & 0x3f;
        let (subpage, length) = match bytes[0] & SUBPAGE_FORMAT {
            0 => (0, 2 + usize::from(*bytes.get(1)?)),
            _ => {
                let (high, low) = (*bytes.get(2)?, *bytes.get(3)?);
                (*bytes.get(1)?, 4 + usize::from(u16::from_be_bytes([high, low])))
            }
        };
        let page = PAGES.iter().find(|page| (page.code, page.subpage) == (code, subpage))?;
        Some((page, length))
    }
}

/// SBC-3, "Read-Write Error Recovery mode page": nothing is hidden from hosts, and nothing but what was asked for is sent. LBPERE: hosts hear of
/// thresholds of space.
fn error_recovery(unit: &Unit, _: Modes) -> Vec<u8> {
    let thresholds = if unit.space.is_some() { 0x80 } else { 0 };
    // AWRE and ARRE: what is found damaged is repaired from other copies.
    vec![0xc0, 0, 0, 0, 0, thresholds, 0, 0, 0, 0]
}

/// SBC-3, "Caching mode page": WCE is 0, all that is answered is durable; RCD is 0.
fn caching(_: &Unit, _: Modes) -> Vec<u8> {
    vec![0; 18]
}

/// SPC-4, "Control mode page".
fn control(_: &Unit, modes: Modes) -> Vec<u8> {
    // TST: each nexus has a task set of its own.
    const TASK_SETS: u8 = 0x20;
    // QUEUE ALGORITHM MODIFIER: tasks are carried out in any order.
    const UNRESTRICTED: u8 = 0x10;
    // TAS: a task that another nexus's reset has ended is answered TASK ABORTED, so that its host repeats it at once. (Without an answer it would
    // wait for as long as it gives a command, and ask in vain for its task then.)
    const TASK_ABORTED_STATUS: u8 = 0x40;
    let mut body = vec![0; 10];
    body[0] = TASK_SETS | if modes.descriptor_sense { DESCRIPTOR_SENSE } else { 0 };
    body[1] = UNRESTRICTED;
    body[2] = if modes.write_protect { SOFTWARE_WRITE_PROTECT } else { 0 };
    body[3] = TASK_ABORTED_STATUS;
    // BUSY TIMEOUT PERIOD: not limited.
    body[6..8].copy_from_slice(&[0xff, 0xff]);
    body
}

/// SPC-4, "Informational Exceptions Control mode page": there are none that are not told otherwise.
fn informational_exceptions(_: &Unit, _: Modes) -> Vec<u8> {
    vec![0; 10]
}

/// SBC-4 6.5.9: one threshold, of the space that is used of the pool, told once to each nexus (SITUA is 0).
fn provisioning(unit: &Unit, _: Modes) -> Vec<u8> {
    const ENABLED: u8 = 0x80;
    // THRESHOLD TYPE 0 (a count of threshold sets), THRESHOLD ARMING 1 (SBC-4 6.5.9.2).
    const ARMED_INCREASING: u8 = 0x01;
    const USED_RESOURCE: u8 = 0x02;
    let mut body = vec![0; 12];
    if let Some(space) = unit.space {
        body.extend([ENABLED | ARMED_INCREASING, USED_RESOURCE, 0, 0]);
        body.extend(threshold_count(unit, space).to_be_bytes());
    }
    body
}

/// How many threshold sets are used when hosts are warned.
fn threshold_count(unit: &Unit, space: Space) -> u32 {
    let bytes = u128::from(space.total_bytes) * u128::from(space.warning_percent) / 100;
    u32::try_from(bytes / u128::from(threshold_set_bytes(unit))).unwrap_or(u32::MAX)
}
