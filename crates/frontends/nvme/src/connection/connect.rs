//! The Connect command's fields, and whether they are such as may connect (NVM Express Base 2.1, 6.3).

use crate::admin::{self, DISCOVERY_NQN};
use crate::catalog::Catalog;
use crate::command::{Command, Status};
use crate::hub::{Party, invalid};
use crate::port::{self, Config};
use crate::wire::{status, u16_at};

/// Bytes of its data.
pub const DATA_BYTES: usize = 1024;
/// "A value of FFFFh [...] the dynamic controller model."
const DYNAMIC: u16 = 0xffff;
/// An NQN has at most 223 bytes (Base 2.1, 4.7).
const MAX_NQN_BYTES: usize = 223;
/// Where fields are in the data.
const CONTROLLER_AT: u16 = 16;
const SUBSYSTEM_AT: u16 = 256;
pub const HOST_AT: u16 = 512;

/// A Connect command that has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    pub party: Party,
    /// Of the discovery subsystem.
    pub discovery: bool,
    /// The queue's number: 0 is the admin queue.
    pub queue: u16,
    pub entries: u16,
    pub flow_control: bool,
    /// Keep alive; 0: none.
    pub kato_ms: u32,
    /// The controller that an I/O queue is of.
    pub controller: u16,
}

type Wrong = (Status, u32);

fn wrong(offset: u16, in_data: bool) -> Wrong {
    (status::CONNECT_PARAMETERS, invalid(offset, in_data))
}

/// An NQN out of its field of 256 bytes.
fn nqn(data: &[u8], at: u16) -> Result<String, Wrong> {
    let field = &data[usize::from(at)..usize::from(at) + 256];
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    match std::str::from_utf8(&field[..end]) {
        Ok(text) if (1..=MAX_NQN_BYTES).contains(&end) && text.starts_with("nqn.") => Ok(text.to_owned()),
        _ => Err(wrong(at, true)),
    }
}

/// May the host connect to the subsystem, as far as its name goes?
pub fn may_connect(catalog: &Catalog, subsystem: &str, host: &str) -> bool {
    catalog
        .subsystem(subsystem)
        .is_some_and(|subsystem| subsystem.any_host || subsystem.host(host).is_some())
}

/// Checks the fields; the status and the result of the answer when one is wrong.
pub fn check(command: &Command, data: &[u8], catalog: &Catalog, config: &Config) -> Result<Connect, Wrong> {
    if u16_at(&command.0, 40) != 0 {
        return Err((status::CONNECT_FORMAT, 0));
    }
    let queue = u16_at(&command.0, 42);
    let size = u16_at(&command.0, 44);
    let attributes = command.0[46];
    // SQSIZE counts from 0, and a queue of one entry cannot hold anything.
    if size == 0 || size >= config.entries {
        return Err(wrong(44, false));
    }
    let controller = u16_at(data, CONTROLLER_AT.into());
    let host = nqn(data, HOST_AT)?;
    let mut subsystem = nqn(data, SUBSYSTEM_AT)?;
    let asked = subsystem.clone();
    let discovery = subsystem == DISCOVERY_NQN || subsystem == catalog.discovery_nqn;
    if discovery {
        // One subsystem of two names.
        subsystem = DISCOVERY_NQN.into();
        // "Discovery controllers [...] do not support I/O queues."
        if queue != 0 {
            return Err(wrong(42, false));
        }
    } else {
        let here = catalog
            .subsystem(&subsystem)
            .is_some_and(|subsystem| subsystem.gateways.contains(&catalog.node));
        if !here {
            return Err(wrong(SUBSYSTEM_AT, true));
        }
        if !may_connect(catalog, &subsystem, &host) {
            return Err((status::CONNECT_HOST, invalid(HOST_AT, true)));
        }
    }
    if queue == 0 && controller != DYNAMIC {
        return Err(wrong(CONTROLLER_AT, true));
    }
    let host_id = data[..16].try_into().expect("16 bytes");
    // "A value of 0h [...] is not valid" for Fabrics (Base 2.1, 5.1.25.1.22).
    if host_id == [0; 16] {
        return Err(wrong(0, true));
    }
    Ok(Connect {
        party: Party {
            subsystem,
            asked,
            host,
            host_id,
        },
        discovery,
        queue,
        entries: size + 1,
        flow_control: attributes & 1 << 2 == 0,
        kato_ms: command.dword(12),
        controller,
    })
}

/// What this transport can do.
pub fn limits(config: &Config) -> admin::Limits {
    admin::Limits {
        queue_entries: config.entries,
        io_queues: config.queues,
        transfer_bytes: port::MAX_TRANSFER_BYTES,
        capsule_data_bytes: port::IO_CAPSULE_BYTES,
        copy_range_bytes: port::MAX_TRANSFER_BYTES,
        copy_bytes: port::MAX_TRANSFER_BYTES,
        copy_ranges: port::MAX_COPY_RANGES,
        disconnect: true,
        ..admin::Limits::default()
    }
}
