//! What is kept of an initiator port and a target port (an I_T nexus: SAM-5): of a session of iSCSI.
//!
//! A host is told what happened to a logical unit by unit attention conditions: one each time it sends a command, before that is
//! looked at. Most are found by comparing the catalog of the moment with what the nexus has seen of it ([`Nexus::observe`]), so that it
//! makes no difference by which gateway, by whom or when a thing was done.

mod attention;
#[cfg(test)]
mod tests;

pub use attention::{Attentions, MAX_ATTENTIONS};

use crate::copy::Copies;
use crate::mode::Modes;
use crate::sense::{Code, Format, code};
use crate::unit::{Catalog, Target, Unit};
use amita_frontend::HostKey;
use amita_frontend::reservation::{Notice, State};
use aws_lc_rs::digest::{Context, SHA256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An initiator port of iSCSI: its name and the initiator's part of the session's identifier. (RFC 7143, 4.4.2: the port's name is both,
/// as `NAME,i,0xISID`.)
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InitiatorPort {
    /// Its iSCSI name, canonical.
    pub name: Arc<str>,
    pub isid: [u8; 6],
}

impl InitiatorPort {
    /// The name of the port.
    #[must_use]
    pub fn port_name(&self) -> String {
        let [a, b, c, d, e, f] = self.isid;
        format!("{},i,0x{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}", self.name)
    }

    /// The key by which reservations know its nexus with the target port of that tag; never [`HostKey::NONE`]. The half of a SHA-256, as NVMe
    /// has it: who has another name cannot be that host. The same in every version: the metadata has it.
    #[must_use]
    pub fn key(&self, tag: u16) -> HostKey {
        let mut context = Context::new(&SHA256);
        context.update(b"iscsi ");
        context.update(&self.isid);
        context.update(&tag.to_be_bytes());
        context.update(self.name.as_bytes());
        let digest = context.finish();
        let half = digest.as_ref().first_chunk().expect("32 bytes");
        HostKey(u128::from_be_bytes(*half).max(1))
    }
}

/// An event that only the transport knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The logical unit was reset (LOGICAL UNIT RESET, TARGET RESET).
    Reset,
    /// Tasks of this nexus were ended by another one (CLEAR TASK SET, PREEMPT AND ABORT), and not answered.
    Cleared,
    /// The session was lost and is there again, without a login.
    Lost,
}

/// What a nexus has seen of a logical unit, and what it has chosen of it.
#[derive(Clone, Debug)]
struct Seen {
    /// As it was then. Most settings leave it as it is, and it is shared.
    unit: Arc<Unit>,
    is_scarce: bool,
    /// The number of the last notice of the volume's reservations.
    notice: u64,
    attentions: Attentions,
    modes: Modes,
}

/// What is kept of a session.
#[derive(Clone, Debug)]
pub struct Nexus {
    initiator: InitiatorPort,
    tag: u16,
    key: HostKey,
    /// The catalog that was seen last.
    revision: Option<u64>,
    /// By the number of the logical unit.
    units: BTreeMap<u16, Seen>,
    /// What became of copies.
    pub(crate) copies: Copies,
    /// Bytes 0 and 1 of REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: what the transport can.
    pub functions: [u8; 2],
    /// Targets to which this nexus' initiator could not log in by what it has shown, though they admit its name: nothing is copied from or to
    /// them for it.
    pub barred: Vec<String>,
}

/// Functions of task management that RFC 7143 has: ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET.
pub const BASIC_FUNCTIONS: [u8; 2] = [0b1101_1000, 0];
/// And those that RFC 7144 adds: QUERY TASK; QUERY ASYNCHRONOUS EVENT, QUERY TASK SET, I_T NEXUS RESET.
pub const ALL_FUNCTIONS: [u8; 2] = [0b1101_1100, 0b0000_0111];

impl Nexus {
    /// A new session, at the gateway with that tag.
    #[must_use]
    pub fn new(initiator: InitiatorPort, tag: u16) -> Nexus {
        Nexus {
            key: initiator.key(tag),
            initiator,
            tag,
            revision: None,
            units: BTreeMap::new(),
            copies: Copies::default(),
            functions: BASIC_FUNCTIONS,
            barred: Vec::new(),
        }
    }

    /// Who it is.
    #[must_use]
    pub fn initiator(&self) -> &InitiatorPort {
        &self.initiator
    }

    /// The tag of the gateway: the relative target port identifier of the target port.
    #[must_use]
    pub fn tag(&self) -> u16 {
        self.tag
    }

    /// As what reservations know it. The I/O of all connections of the session is this host's.
    #[must_use]
    pub fn key(&self) -> HostKey {
        self.key
    }

    /// In which form sense data of a logical unit are sent.
    #[must_use]
    pub fn format(&self, lun: crate::Lun) -> Format {
        self.modes(lun.number()).map_or(Format::Fixed, |modes| modes.format())
    }

    pub(crate) fn modes(&self, number: Option<u16>) -> Option<&Modes> {
        self.units.get(&number?).map(|seen| &seen.modes)
    }

    /// Has it protected that logical unit from its own writes? (One of another target, which may have the same number, it cannot have.)
    pub(crate) fn protects(&self, unit: &Unit) -> bool {
        let seen = self.units.get(&unit.number).filter(|seen| seen.unit.uuid == unit.uuid);
        seen.is_some_and(|seen| seen.modes.write_protect)
    }

    pub(crate) fn modes_mut(&mut self, number: u16) -> Option<&mut Modes> {
        self.units.get_mut(&number).map(|seen| &mut seen.modes)
    }

    /// Compares the catalog of the moment with what was seen last, and notes what the host is to be told of it. (It is called by
    /// [`plan()`](crate::plan::plan), too.)
    pub fn observe(&mut self, catalog: &Catalog, target: &Target) {
        if self.revision == Some(catalog.revision) {
            return;
        }
        let is_first = self.revision.replace(catalog.revision).is_none();
        let name = self.initiator.name.clone();
        let mut is_other_inventory = false;
        let known = self.units.len();
        let shown: Vec<&Arc<Unit>> = target.units_of(&name).collect();
        self.units
            .retain(|number, _| shown.binary_search_by_key(number, |unit| unit.number).is_ok());
        is_other_inventory |= self.units.len() != known;
        for unit in shown {
            // A snapshot is not what is reserved.
            let is_reservable = !unit.is_write_protected();
            let reservations = catalog.reservations.get(&unit.volume).filter(|_| is_reservable);
            let reservations: Option<&State> = reservations.map(AsRef::as_ref);
            match self.units.get_mut(&unit.number) {
                Some(seen) if seen.unit.uuid == unit.uuid => seen.compare(unit, reservations, self.key),
                other => {
                    is_other_inventory = true;
                    let is_replaced = other.is_some();
                    let mut seen = Seen::new(unit, reservations);
                    if is_replaced {
                        seen.attentions.raise(code::INQUIRY_DATA_CHANGED);
                    }
                    self.units.insert(unit.number, seen);
                }
            }
        }
        if is_other_inventory && !is_first {
            // SPC-4, "REPORT LUNS parameter data": when the inventory changes, every logical unit says so.
            self.raise_everywhere(code::REPORTED_LUNS_CHANGED);
        }
    }

    /// Notes what the transport has seen happen to a logical unit; `None`: to all of them.
    pub fn happened(&mut self, number: Option<u16>, what: Happening) {
        let code = match what {
            Happening::Reset => code::DEVICE_RESET,
            Happening::Cleared => code::COMMANDS_CLEARED,
            Happening::Lost => code::NEXUS_LOSS,
        };
        let is_reset = what != Happening::Cleared;
        let meant = match number {
            Some(number) => self.units.range_mut(number..=number),
            None => self.units.range_mut(..),
        };
        for (_, seen) in meant {
            seen.attentions.raise(code);
            // SPC-4, "Mode parameters": what is not saved is at its default again after a reset.
            if is_reset {
                seen.modes = Modes::default();
            }
        }
    }

    pub(crate) fn raise_everywhere(&mut self, code: Code) {
        for seen in self.units.values_mut() {
            seen.attentions.raise(code);
        }
    }

    /// Has the host anything to be told of that logical unit?
    #[must_use]
    pub fn has_attention(&self, number: u16) -> bool {
        self.units.get(&number).is_some_and(|seen| !seen.attentions.is_empty())
    }

    /// What the host is to be told first of that logical unit, which is told by that.
    pub(crate) fn take_attention(&mut self, number: u16) -> Option<Code> {
        let code = self.units.get_mut(&number)?.attentions.take()?;
        if code == code::REPORTED_LUNS_CHANGED {
            // Told once, it is told (LUICLR of the extended INQUIRY data page is set).
            self.forget_inventory();
        }
        Some(code)
    }

    /// The host knows which logical units there are: REPORT LUNS has told it (SAM-5, "Unit attention condition").
    pub(crate) fn forget_inventory(&mut self) {
        for seen in self.units.values_mut() {
            seen.attentions.forget(code::REPORTED_LUNS_CHANGED);
        }
    }
}

impl Seen {
    fn new(unit: &Arc<Unit>, reservations: Option<&State>) -> Seen {
        let mut attentions = Attentions::default();
        attentions.raise(code::POWER_ON_OR_RESET);
        Seen {
            unit: unit.clone(),
            is_scarce: false,
            // What was before the nexus is none of its news.
            notice: reservations.map_or(0, |state| state.last_notice),
            attentions,
            modes: Modes::default(),
        }
    }

    fn compare(&mut self, unit: &Arc<Unit>, reservations: Option<&State>, key: HostKey) {
        if !Arc::ptr_eq(&self.unit, unit) {
            let before = std::mem::replace(&mut self.unit, unit.clone());
            if (before.blocks(), before.block_bytes) != (unit.blocks(), unit.block_bytes) {
                // SBC-3, "READ CAPACITY": another capacity is told.
                self.attentions.raise(code::CAPACITY_CHANGED);
            }
            if before.access != unit.access || before.preferred != unit.preferred {
                // SPC-4, "Transitions between target port asymmetric access states".
                self.attentions.raise(code::ASYMMETRIC_ACCESS_CHANGED);
            }
        }
        let is_scarce = unit.space.is_some_and(|space| space.is_scarce());
        if is_scarce && !self.is_scarce {
            // SBC-3, "Threshold sets": told once, when it is reached.
            self.attentions.raise(code::THIN_SOFT_THRESHOLD);
        }
        self.is_scarce = is_scarce;
        if let Some(state) = reservations {
            for notice in state.notices_after(self.notice, key) {
                self.attentions.raise(match notice {
                    Notice::RegistrationPreempted => code::REGISTRATIONS_PREEMPTED,
                    Notice::ReservationReleased => code::RESERVATIONS_RELEASED,
                    Notice::ReservationPreempted => code::RESERVATIONS_PREEMPTED,
                });
            }
        }
        self.notice = reservations.map_or(0, |state| state.last_notice);
    }
}
