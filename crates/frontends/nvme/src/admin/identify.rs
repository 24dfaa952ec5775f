//! Identify (NVM Express Base 2.1, 5.1.13): each answer is one page.

mod controller;
mod namespace;

pub(crate) use controller::COMMANDS_OF_NVM;

use super::page::Page;
use super::scope::Scope;
use super::status::{INVALID_FIELD, INVALID_IO_COMMAND_SET, INVALID_NAMESPACE};
use super::{ALL_NAMESPACES, Kind, MAX_NAMESPACES};
use crate::catalog::Namespace;
use crate::command::{Command, Reply, Status};
use std::sync::Arc;

/// Every answer has this size.
pub(crate) const PAGE_BYTES: u32 = 4096;

/// The NVM command set, the only one there is.
const CSI_NVM: u8 = 0;

mod cns {
    pub const NAMESPACE: u8 = 0x00;
    pub const CONTROLLER: u8 = 0x01;
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    pub const DESCRIPTORS: u8 = 0x03;
    pub const NAMESPACE_OF_SET: u8 = 0x05;
    pub const CONTROLLER_OF_SET: u8 = 0x06;
    pub const ACTIVE_NAMESPACES_OF_SET: u8 = 0x07;
    pub const INDEPENDENT_NAMESPACE: u8 = 0x08;
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    pub const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    pub const CONTROLLERS: u8 = 0x13;
    pub const ALLOCATED_NAMESPACES_OF_SET: u8 = 0x1a;
    pub const ALLOCATED_NAMESPACE_OF_SET: u8 = 0x1b;
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// Answers an Identify, except for lists of controllers.
pub(super) fn page(scope: &Scope, command: &Command) -> Result<Reply, Status> {
    let cns = command.dword(10) as u8;
    if scope.session.kind == Kind::Discovery {
        // A discovery controller knows its own structure only (NVM Express Base 2.1, 3.1.3.4).
        return match cns {
            cns::CONTROLLER => Ok(controller::discovery(scope).reply()),
            _ => Err(INVALID_FIELD),
        };
    }
    let nsid = command.nsid();
    let csi = (command.dword(11) >> 24) as u8;
    let page = match cns {
        cns::CONTROLLER => controller::io(scope),
        // All that exists is attached: what is allocated is what is active.
        cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => match active(scope, nsid)? {
            Some(namespace) => namespace::nvm(namespace, &scope.session.limits),
            None => Page::new(PAGE_BYTES as usize),
        },
        cns::ACTIVE_NAMESPACES | cns::ALLOCATED_NAMESPACES => list(scope, nsid)?,
        cns::DESCRIPTORS => namespace::descriptors(active(scope, nsid)?.ok_or(INVALID_NAMESPACE)?),
        cns::INDEPENDENT_NAMESPACE => match active(scope, nsid)? {
            Some(namespace) => namespace::independent(namespace),
            None => Page::new(PAGE_BYTES as usize),
        },
        cns::NAMESPACE_OF_SET
        | cns::CONTROLLER_OF_SET
        | cns::ACTIVE_NAMESPACES_OF_SET
        | cns::ALLOCATED_NAMESPACES_OF_SET
        | cns::ALLOCATED_NAMESPACE_OF_SET
            if csi != CSI_NVM =>
        {
            return Err(INVALID_IO_COMMAND_SET);
        }
        cns::NAMESPACE_OF_SET | cns::ALLOCATED_NAMESPACE_OF_SET => {
            // No protection information, no storage tags, no further granularities: all of it is zero.
            active(scope, nsid)?;
            Page::new(PAGE_BYTES as usize)
        }
        cns::CONTROLLER_OF_SET => controller::of_nvm(&scope.session.limits),
        cns::ACTIVE_NAMESPACES_OF_SET | cns::ALLOCATED_NAMESPACES_OF_SET => list(scope, nsid)?,
        cns::COMMAND_SETS => command_sets(scope, command)?,
        // Namespace management, virtualization, domains, endurance groups, ... are not there.
        _ => return Err(INVALID_FIELD),
    };
    Ok(page.reply())
}

/// Does the command ask for a list of controllers? The register has it.
pub(super) fn lists_controllers(scope: &Scope, command: &Command) -> bool {
    let cns = command.dword(10) as u8;
    scope.session.kind == Kind::Io && matches!(cns, cns::CONTROLLERS_OF_NAMESPACE | cns::CONTROLLERS)
}

/// A list of controllers from the number in dword 10 on: of the subsystem, or of those that have a namespace
/// (NVM Express Base 2.1, 5.1.13.2.9 and 5.1.13.2.10). These are the controllers at this gateway: the numbers that hosts have got
/// elsewhere nobody here knows. Every one of them has all namespaces of the subsystem.
pub(super) fn controllers(scope: &Scope, command: &Command, numbers: &[u16]) -> Result<Reply, Status> {
    /// What a page has room for behind its count.
    const MOST: usize = 2047;
    let numbers = match command.dword(10) as u8 {
        cns::CONTROLLERS_OF_NAMESPACE if command.nsid() == ALL_NAMESPACES => return Err(INVALID_FIELD),
        // That of a number that no namespace has now is empty.
        cns::CONTROLLERS_OF_NAMESPACE if active(scope, command.nsid())?.is_none() => &[],
        _ => numbers,
    };
    let first = (command.dword(10) >> 16) as u16;
    let mut page = Page::new(PAGE_BYTES as usize);
    let mut count = 0;
    for number in numbers.iter().filter(|number| **number >= first).take(MOST) {
        count += 1;
        page.u16(2 * count, *number);
    }
    page.u16(0, count as u16);
    Ok(page.reply())
}

/// The namespace of that number: an error where there can be none, none where there is none now.
fn active(scope: &Scope, nsid: u32) -> Result<Option<&Arc<Namespace>>, Status> {
    if nsid == 0 || nsid > MAX_NAMESPACES {
        return Err(INVALID_NAMESPACE);
    }
    Ok(scope.namespace(nsid))
}

/// Up to 1,024 numbers of namespaces above that one.
fn list(scope: &Scope, above: u32) -> Result<Page, Status> {
    // "FFFFFFFEh and FFFFFFFFh shall be aborted": nothing can lie above them.
    if above >= 0xffff_fffe {
        return Err(INVALID_NAMESPACE);
    }
    let mut page = Page::new(PAGE_BYTES as usize);
    let numbers = scope
        .namespaces()
        .map(|namespace| namespace.nsid)
        .filter(|nsid| *nsid > above);
    for (index, nsid) in numbers.take(PAGE_BYTES as usize / 4).enumerate() {
        page.u32(index * 4, nsid);
    }
    Ok(page)
}

/// One combination of command sets: NVM by itself.
fn command_sets(scope: &Scope, command: &Command) -> Result<Page, Status> {
    let controller = (command.dword(10) >> 16) as u16;
    if controller != 0xffff && controller != scope.session.controller {
        return Err(INVALID_FIELD);
    }
    let mut page = Page::new(PAGE_BYTES as usize);
    page.u64(0, 1 << CSI_NVM);
    Ok(page)
}
