//! The controller's properties (NVM Express Base 2.1, 3.1.4): what on PCIe are registers, and here is read and written by
//! the Property Get and Property Set commands of Fabrics.

use super::status::INVALID_FIELD;
use super::{Kind, Limits};
use crate::command::Status;

/// The version of the specification: 2.1.
pub(crate) const VERSION: u32 = 0x0002_0100;
/// Becoming ready takes no time. In units of 500 ms, with room for a node that is busy.
const READY_TIMEOUT: u16 = 30;

const CAP: u32 = 0x00;
const VS: u32 = 0x08;
const CC: u32 = 0x14;
const CSTS: u32 = 0x1c;
const CRTO: u32 = 0x68;

const CC_ENABLE: u32 = 1;
/// The fields that stand while the controller is enabled (CSS, MPS, AMS).
const CC_FIXED: u32 = 0x3ff0;
const CC_KNOWN: u32 = 0x01ff_fff1;

const CSTS_READY: u32 = 1;
const CSTS_FATAL: u32 = 2;
const CSTS_SHUTDOWN_DONE: u32 = 2 << 2;

const CSS_NVM: u32 = 0;
const CSS_ALL: u32 = 6;
const CSS_ADMIN_ONLY: u32 = 7;

#[derive(Debug)]
pub(crate) struct Properties {
    kind: Kind,
    cap: u64,
    cc: u32,
    csts: u32,
}

/// What writing a property has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// The controller has become ready.
    Enabled,
    /// The controller was reset: it forgets what it was told.
    Reset,
    /// The controller was shut down.
    ShutDown,
}

impl Properties {
    pub fn new(kind: Kind, limits: &Limits) -> Properties {
        let entries = u64::from(limits.queue_entries.max(2) - 1);
        // Contiguous queues (CQR), as Fabrics demands; ready with media (CRMS.CRWMS); one page size, 4 KiB.
        let mut cap = entries | 1 << 16 | u64::from(READY_TIMEOUT.min(255)) << 24 | 1 << 37 | 1 << 59;
        if kind == Kind::Io {
            // CSS bit 6: the command sets can be told one by one (Identify 1Ch).
            cap |= 1 << 43;
        }
        Properties {
            kind,
            cap,
            cc: 0,
            csts: 0,
        }
    }

    pub fn get(&self, offset: u32, size: usize) -> Result<u64, Status> {
        // "NSSRS" is 0, so that there is no NSSR; queues are not made by properties (AQA, ASQ, ACQ), nor interrupts masked.
        match (offset, size) {
            (CAP, 8) => Ok(self.cap),
            (VS, 4) => Ok(VERSION.into()),
            (CC, 4) => Ok(self.cc.into()),
            (CSTS, 4) => Ok(self.csts.into()),
            // Ready with media in that time (CRWMT).
            (CRTO, 4) => Ok(READY_TIMEOUT.into()),
            _ => Err(INVALID_FIELD),
        }
    }

    pub fn set(&mut self, offset: u32, size: usize, value: u64) -> Result<Change, Status> {
        if (offset, size) != (CC, 4) {
            return Err(INVALID_FIELD);
        }
        let value = value as u32 & CC_KNOWN;
        let was_enabled = self.cc & CC_ENABLE != 0;
        let now_enabled = value & CC_ENABLE != 0;
        let wanted_shutdown = value >> 14 & 3 != 0;
        // "These fields shall only be modified while EN is 0": what is written beside a set EN does not count.
        self.cc = if was_enabled && now_enabled {
            value & !CC_FIXED | self.cc & CC_FIXED
        } else {
            value
        };
        match (was_enabled, now_enabled) {
            (false, true) => {
                self.csts = if self.is_usable() { CSTS_READY } else { CSTS_FATAL };
                if wanted_shutdown {
                    self.csts |= CSTS_SHUTDOWN_DONE;
                }
                Ok(if self.is_ready() {
                    Change::Enabled
                } else {
                    Change::Nothing
                })
            }
            (true, false) => {
                self.csts = if wanted_shutdown { CSTS_SHUTDOWN_DONE } else { 0 };
                Ok(Change::Reset)
            }
            // Everything that was acknowledged is durable, so that a shutdown is done at once. Until it is reset, the
            // controller takes no more commands.
            _ if wanted_shutdown && self.csts & CSTS_SHUTDOWN_DONE == 0 => {
                self.csts |= CSTS_SHUTDOWN_DONE;
                Ok(Change::ShutDown)
            }
            _ => Ok(Change::Nothing),
        }
    }

    /// Does it take commands?
    pub fn is_ready(&self) -> bool {
        self.csts == CSTS_READY
    }

    /// May the host ask for command sets by name?
    pub fn has_all_command_sets(&self) -> bool {
        self.cc >> 4 & 7 == CSS_ALL
    }

    /// Is what the host has chosen among what is offered?
    fn is_usable(&self) -> bool {
        let css = self.cc >> 4 & 7;
        let (mps, ams) = (self.cc >> 7 & 15, self.cc >> 11 & 7);
        let entry_sizes = self.cc >> 16 & 0xff;
        let of_kind = match self.kind {
            // 64 byte commands, 16 byte completions.
            Kind::Io => matches!(css, CSS_NVM | CSS_ALL) && entry_sizes == 0x46,
            // No I/O queues, so that it does not matter what their entries would be like.
            Kind::Discovery => matches!(css, CSS_NVM | CSS_ADMIN_ONLY),
        };
        of_kind && mps == 0 && ams == 0
    }
}
