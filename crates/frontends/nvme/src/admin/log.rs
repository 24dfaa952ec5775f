//! Log pages (NVM Express Base 2.1, 5.1.12).

mod ana;
mod discovery;
mod effects;
mod health;
mod notices;

use super::event::Happening;
use super::page::Page;
use super::scope::Scope;
use super::status::{INVALID_FIELD, INVALID_LOG_PAGE};
use super::{ALL_NAMESPACES, Kind, Limits, opcode};
use crate::admin::event::Events;
use crate::admin::feature::Features;
use crate::catalog::Subsystem;
use crate::command::{Command, Reply, Status};
use crate::failure::Failure;
use crate::reservations::host_key;
use amita_types::VolumeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The admin commands of I/O controllers.
pub(crate) const ADMIN_OPCODES: &[u8] = &[
    opcode::GET_LOG_PAGE,
    opcode::IDENTIFY,
    opcode::ABORT,
    opcode::SET_FEATURES,
    opcode::GET_FEATURES,
    opcode::ASYNC_EVENT_REQUEST,
    opcode::KEEP_ALIVE,
];
/// Those of discovery controllers.
pub(crate) const DISCOVERY_OPCODES: &[u8] = &[
    opcode::GET_LOG_PAGE,
    opcode::IDENTIFY,
    opcode::SET_FEATURES,
    opcode::GET_FEATURES,
    opcode::ASYNC_EVENT_REQUEST,
    opcode::KEEP_ALIVE,
];

mod lid {
    pub const SUPPORTED: u8 = 0x00;
    pub const ERRORS: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    pub const EFFECTS: u8 = 0x05;
    pub const ANA: u8 = 0x0c;
    pub const FEATURES: u8 = 0x12;
    pub const MANAGEMENT: u8 = 0x13;
    pub const DISCOVERY: u8 = 0x70;
    pub const RESERVATION: u8 = 0x80;
}

const IO_LOGS: &[u8] = &[
    lid::SUPPORTED,
    lid::ERRORS,
    lid::HEALTH,
    lid::FIRMWARE,
    lid::CHANGED_NAMESPACES,
    lid::EFFECTS,
    lid::ANA,
    lid::FEATURES,
    lid::MANAGEMENT,
    lid::RESERVATION,
];
const DISCOVERY_LOGS: &[u8] = &[lid::SUPPORTED, lid::ERRORS, lid::DISCOVERY];

/// A Get Log Page command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub log: u8,
    /// "LSP": of the log page.
    specific: u8,
    /// "RAE": the event that belongs to the page stays masked.
    retain: bool,
    pub length_bytes: u32,
    offset: u64,
    csi: u8,
}

impl Request {
    pub fn decode(command: &Command, limits: &Limits) -> Result<Request, Status> {
        let (first, second, last) = (command.dword(10), command.dword(11), command.dword(14));
        let dwords = u64::from(first >> 16 | second << 16) + 1;
        let length = dwords * 4;
        let offset = command.qword(12);
        // "MDTS", and offsets of whole dwords; offsets by index (OT) are of no page here.
        if length > u64::from(limits.transfer_bytes) || !offset.is_multiple_of(4) || last >> 23 & 1 == 1 {
            return Err(INVALID_FIELD);
        }
        Ok(Request {
            log: first as u8,
            specific: (first >> 8 & 0x7f) as u8,
            retain: first >> 15 & 1 == 1,
            length_bytes: length as u32,
            offset,
            csi: (last >> 24) as u8,
        })
    }
}

/// What a controller keeps for its log pages.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// Newest first, with their number.
    errors: VecDeque<(u64, Failure)>,
    error_count: u64,
    /// Namespaces that came, went or changed since the host last read of it.
    changed: BTreeSet<u32>,
    /// When a group's state last changed, in the count of the subsystem's changes.
    groups: BTreeMap<u32, u64>,
    /// What the discovery log says, and the catalog's revision since which it says so.
    discovery: Vec<discovery::Entry>,
    discovery_generation: u64,
    notices: notices::Notices,
    /// By volume: the number of the last notice of its reservation that was looked at.
    seen_notices: BTreeMap<VolumeId, u64>,
}

/// Does the command ask for a page that tells of what failed, on I/O queues as well?
pub(super) fn tells_errors(scope: &Scope, command: &Command) -> bool {
    let request = Request::decode(command, &scope.session.limits);
    // Discovery controllers have no I/O queues.
    scope.session.kind == Kind::Io && request.is_ok_and(|request| matches!(request.log, lid::ERRORS | lid::HEALTH))
}

impl Logs {
    /// The logs of a controller that begins, or begins anew: the errors stay.
    pub(super) fn begin(&mut self, scope: &Scope) {
        self.changed.clear();
        self.groups.clear();
        if let Some(subsystem) = &scope.subsystem {
            let count = subsystem.ana_changes;
            self.groups = subsystem
                .namespaces
                .iter()
                .map(|namespace| (namespace.nsid, count))
                .collect();
        }
        self.discovery = match scope.session.kind {
            Kind::Discovery => discovery::entries(&scope.catalog, &scope.session),
            Kind::Io => Vec::new(),
        };
        self.discovery_generation = scope.catalog.revision;
        self.notices = notices::Notices::default();
    }

    pub(super) fn page(&mut self, scope: &Scope, events: &mut Events, command: &Command) -> Result<Reply, Status> {
        let request = Request::decode(command, &scope.session.limits)?;
        let logs = match scope.session.kind {
            Kind::Io => IO_LOGS,
            Kind::Discovery => DISCOVERY_LOGS,
        };
        if !logs.contains(&request.log) {
            return Err(INVALID_LOG_PAGE);
        }
        // Where the page that is made begins in the log page, and how long that is.
        let mut base = 0;
        let mut whole = None;
        let page = match request.log {
            lid::SUPPORTED => effects::supported(logs),
            lid::ERRORS => self.error_page(),
            lid::HEALTH => {
                // "LPA bit 0": there is no health of a namespace.
                if !matches!(command.nsid(), 0 | ALL_NAMESPACES) {
                    return Err(INVALID_FIELD);
                }
                self.health_page(scope)
            }
            lid::FIRMWARE => health::firmware(),
            lid::CHANGED_NAMESPACES => self.changed_page(),
            lid::EFFECTS => effects::commands(request.csi)?,
            lid::ANA => ana::page(scope, &self.groups, request.specific & 1 == 1),
            lid::FEATURES => effects::features(),
            // No command of the management interface is carried out.
            lid::MANAGEMENT => Page::new(effects::EFFECTS_BYTES),
            lid::DISCOVERY => {
                let (page, from, size) = self.discovery_page(request.offset, request.length_bytes);
                (base, whole) = (from, Some(size));
                page
            }
            lid::RESERVATION => self.notices.page(),
            _ => return Err(INVALID_LOG_PAGE),
        };
        // "An offset that is greater than the size of the log page shall be aborted"; what lies behind its end is zero.
        if request.offset > whole.unwrap_or(page.0.len() as u64) {
            return Err(INVALID_FIELD);
        }
        let mut page = page.0;
        page.drain(..(request.offset - base) as usize);
        page.resize(request.length_bytes as usize, 0);
        if !request.retain {
            self.page_was_read(events, request.log);
        }
        Ok(Page(page).reply())
    }

    fn page_was_read(&mut self, events: &mut Events, log: u8) {
        events.read(log);
        match log {
            lid::CHANGED_NAMESPACES => {
                self.changed.clear();
                events.settled(Happening::Namespaces);
            }
            lid::RESERVATION if !self.notices.next() => events.settled(Happening::Reservation),
            lid::RESERVATION => events.happen(Happening::Reservation),
            _ => {}
        }
    }

    /// Reservations are others: what of them is news for the host? Of a volume that it has not seen before, nothing.
    pub(super) fn reservations_changed(&mut self, scope: &Scope, features: &Features, events: &mut Events) {
        let host = host_key(&scope.session.host, &scope.session.host_id);
        let before = std::mem::take(&mut self.seen_notices);
        let volumes: Vec<_> = scope
            .namespaces()
            .filter(|namespace| !namespace.is_write_protected())
            .map(|namespace| (namespace.nsid, namespace.volume))
            .collect();
        for (nsid, volume) in volumes {
            let state = scope.catalog.reservations.get(&volume).cloned().unwrap_or_default();
            self.seen_notices.insert(volume, state.last_notice);
            let Some(&seen) = before.get(&volume) else {
                continue;
            };
            // An operator has removed the record, and hosts have begun anew.
            let seen = if state.last_notice < seen { 0 } else { seen };
            for notice in state.notices_after(seen, host) {
                if !features.masks(nsid, notice as u8) {
                    self.notices.push(nsid, notice);
                    events.happen(Happening::Reservation);
                }
            }
        }
    }

    /// The catalog of a discovery controller is another: is what it says to this host?
    pub(super) fn discovery_changed(&mut self, scope: &Scope, events: &mut Events) {
        let entries = discovery::entries(&scope.catalog, &scope.session);
        if entries != self.discovery {
            self.discovery = entries;
            self.discovery_generation = scope.catalog.revision;
            events.happen(Happening::Discovery);
        }
    }

    /// The subsystem of an I/O controller is another: what of it is news for the host?
    pub(super) fn namespaces_changed(&mut self, scope: &Scope, events: &mut Events, old: Option<&Subsystem>) {
        let now = scope.subsystem.clone();
        let count = now.as_deref().map_or(0, |subsystem| subsystem.ana_changes);
        let before = old.into_iter().flat_map(Subsystem::sound);
        let mut old_of: BTreeMap<u32, _> = before.map(|namespace| (namespace.nsid, namespace)).collect();
        for namespace in now.iter().flat_map(|subsystem| subsystem.sound()) {
            let known = old_of.remove(&namespace.nsid);
            let same = known.is_some_and(|known| {
                (
                    known.source(),
                    known.size_bytes,
                    known.chunk_bytes,
                    known.block_bytes,
                    known.uuid,
                    known.nguid,
                ) == (
                    namespace.source(),
                    namespace.size_bytes,
                    namespace.chunk_bytes,
                    namespace.block_bytes,
                    namespace.uuid,
                    namespace.nguid,
                )
            });
            if !same {
                self.namespace_changed(events, namespace.nsid);
            }
            if known.is_none_or(|known| known.ana != namespace.ana) {
                self.groups.insert(namespace.nsid, count);
                // Of a namespace that is new the host reads everything anyway.
                if known.is_some() {
                    events.happen(Happening::Ana);
                }
            }
        }
        for gone in old_of.into_keys() {
            self.groups.remove(&gone);
            self.notices.forget(gone);
            self.namespace_changed(events, gone);
        }
    }

    fn namespace_changed(&mut self, events: &mut Events, nsid: u32) {
        self.changed.insert(nsid);
        events.happen(Happening::Namespaces);
    }

    /// The numbers of up to 1,024 namespaces; there are no more.
    fn changed_page(&self) -> Page {
        let mut page = Page::new(4096);
        for (index, nsid) in self.changed.iter().enumerate() {
            page.u32(index * 4, *nsid);
        }
        page
    }
}
