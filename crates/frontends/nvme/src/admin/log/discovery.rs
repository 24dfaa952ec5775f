//! The discovery log (70h; NVM Express Base 2.1, 5.1.12.3.1): where a host can connect, and to what. A host sees the
//! subsystems that it may connect to, at every gateway that serves them and lives; where it has to prove who it is, it sees them
//! when it has, and who only claims its name does not.

use super::super::page::Page;
use super::super::{DISCOVERY_NQN, Session};
use super::Logs;
use crate::catalog::{Catalog, Gateway, Subsystem};
use amita_types::NodeId;
use std::net::SocketAddr;

/// The header and each entry.
const RECORD_BYTES: usize = 1024;

/// "SUBTYPE".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// To a discovery controller that knows what this one does not.
    Referral = 1,
    Subsystem = 2,
    /// To where the host already is.
    Here = 3,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    leads: Leads,
    portal: SocketAddr,
    port: u16,
    nqn: String,
    /// The host has to use TLS.
    tls: bool,
    without_flow_control: bool,
    admin_queue_entries: u16,
}

/// What the host is told of a subsystem, if it may connect: does it have to use TLS? Where it has something to prove, it is told once it
/// has proven it here.
fn access(subsystem: &Subsystem, session: &Session) -> Option<bool> {
    let access = subsystem.host(&session.host);
    let tls = access.is_some_and(|access| access.tls.is_some());
    let usable = match access {
        Some(access) => !access.has_to_prove() || session.proven,
        None => subsystem.any_host,
    };
    (usable && (tls || !subsystem.tls_required)).then_some(tls)
}

/// A port's number: the low bits of its node's.
fn port_of(node: NodeId) -> u16 {
    node.0 as u16
}

pub(super) fn entries(catalog: &Catalog, session: &Session) -> Vec<Entry> {
    let entry = |leads, portal, node, nqn: &str, tls| Entry {
        leads,
        portal,
        port: port_of(node),
        nqn: nqn.to_owned(),
        tls,
        without_flow_control: session.limits.without_flow_control,
        admin_queue_entries: session.limits.admin_queue_entries,
    };
    let here = match catalog.discovery_nqn.as_str() {
        "" => DISCOVERY_NQN,
        unique => unique,
    };
    let visible: Vec<_> = catalog
        .subsystems
        .iter()
        .filter_map(|subsystem| Some((subsystem, access(subsystem, session)?)))
        .collect();
    let mut entries = vec![entry(Leads::Here, session.portal, catalog.node, here, false)];
    for (subsystem, tls) in &visible {
        let serving = |gateway: &&Gateway| gateway.alive && subsystem.gateways.contains(&gateway.node);
        for gateway in catalog.gateways.iter().filter(serving) {
            entries.push(entry(
                Leads::Subsystem,
                gateway.portal,
                gateway.node,
                &subsystem.nqn,
                *tls,
            ));
        }
    }
    // A gateway is worth being asked too when it serves this host something that is not served here: the host then hears
    // of its changes though this gateway is lost.
    let more = |gateway: &&Gateway| {
        let serves = |subsystem: &Subsystem, node| subsystem.gateways.contains(&node);
        let other = gateway.node != catalog.node && gateway.alive;
        other
            && visible
                .iter()
                .any(|(subsystem, _)| serves(subsystem, gateway.node) && !serves(subsystem, catalog.node))
    };
    for gateway in catalog.gateways.iter().filter(more) {
        entries.push(entry(
            Leads::Referral,
            gateway.portal,
            gateway.node,
            DISCOVERY_NQN,
            false,
        ));
    }
    entries
}

impl Logs {
    /// The part of the log page that covers a range: where it begins, and the size of all of it. The whole may be large,
    /// and hosts read it in small parts.
    pub(super) fn discovery_page(&self, offset: u64, length_bytes: u32) -> (Page, u64, u64) {
        let records = 1 + self.discovery.len() as u64;
        let size = RECORD_BYTES as u64;
        let first = (offset / size).min(records);
        let last = offset
            .saturating_add(length_bytes.into())
            .div_ceil(size)
            .clamp(first, records);
        let mut page = Page::new((last - first) as usize * RECORD_BYTES);
        for record in first..last {
            let at = (record - first) as usize * RECORD_BYTES;
            match (record as usize).checked_sub(1) {
                None => {
                    page.u64(at, self.discovery_generation)
                        .u64(at + 8, self.discovery.len() as u64)
                        .u16(at + 16, 0); // RECFMT
                }
                Some(index) => self.discovery[index].write(&mut page, at),
            }
        }
        (page, first * size, records * size)
    }
}

impl Entry {
    fn write(&self, page: &mut Page, at: usize) {
        const TCP: u8 = 3;
        /// "Dynamic controllers."
        const ANY_CONTROLLER: u16 = 0xffff;
        /// EFLAGS: a host may stay connected (EPCSD).
        const PERSISTENT: u16 = 1 << 1;
        const SECURE_CHANNEL_REQUIRED: u8 = 1;
        const SECURE_CHANNEL_NOT_REQUIRED: u8 = 2;
        const SECTYPE_TLS13: u8 = 2;
        // A socket for both families has IPv4 addresses in IPv6's clothes.
        let ip = self.portal.ip().to_canonical();
        let family = if ip.is_ipv4() { 1 } else { 2 };
        let security = if self.tls {
            SECURE_CHANNEL_REQUIRED
        } else {
            SECURE_CHANNEL_NOT_REQUIRED
        };
        let flags = if self.leads == Leads::Subsystem { 0 } else { PERSISTENT };
        page.u8(at, TCP)
            .u8(at + 1, family)
            .u8(at + 2, self.leads as u8)
            .u8(at + 3, security | u8::from(self.without_flow_control) << 2)
            .u16(at + 4, self.port)
            .u16(at + 6, ANY_CONTROLLER)
            .u16(at + 8, self.admin_queue_entries)
            .u16(at + 10, flags)
            .ascii(at + 32, 32, &self.portal.port().to_string())
            .name(at + 256, 256, &self.nqn)
            .ascii(at + 512, 256, &ip.to_string())
            .u8(at + 768, if self.tls { SECTYPE_TLS13 } else { 0 });
    }
}
