//! Reservations of a volume: which hosts may read and write it. The same for NVMe ("Reservations", NVM Express Base 2.1,
//! 8.1.24) and SCSI (persistent reservations, SPC-4): pure, and kept in the metadata as [`State`].
//!
//! A host registers a key; registrants can reserve the volume, in one of six types, and take the reservation or the
//! registration of a host that has failed away from it. The volume's owner holds all I/O against the state
//! ([`State::allows`]), so that a change holds at every gateway from the moment that it is acknowledged.
//!
//! The others hear of what was done to them: the state remembers the last notices, each with a number, and whoever looks
//! at the state finds those that are new to it ([`State::notices_after`]).
//!
//! Hosts of SCSI do more than those of NVMe: they register several nexuses at once, hand a reservation over, and
//! [lock](Lock) a volume as SPC-2 has it. It is all one state: what one protocol has reserved the other one goes by.

mod apply;
mod lock;
mod several;
#[cfg(test)]
mod tests;

pub use lock::{Connection, Lock};

use crate::service::HostKey;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Hosts that can be registered at a volume. (Clusters of hosts that share a disk have up to 64 members.)
pub const MAX_REGISTRANTS: usize = 256;
/// Notices that are remembered.
pub const MAX_NOTICES: usize = 16;
/// Bytes of the names of all registrants' ports together, so that a state without its notices has at most 64 KiB of text: another gateway
/// answers with that (`RESERVATION_CHARGE_BYTES` of the fabric). [`MAX_REGISTRANTS`] have room for 64 bytes each.
pub const MAX_NAMES_BYTES: usize = 16 << 10;
/// Bytes of the name of one port. That of iSCSI has 240 at most (RFC 7143, 4.2.7.2 and 4.4.1).
pub const MAX_NAME_BYTES: usize = 256;

/// What a host asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Nothing is changed: the state is told.
    Report,
    /// Makes the host a registrant; a registrant may only say its key again, or `ignore_key`.
    Register {
        /// The host's identifier in full.
        host_id: [u8; 16],
        /// Its new key: not 0.
        key: u64,
        /// Another key that it has is replaced.
        ignore_key: bool,
        /// Whether reservations are to outlive a loss of power, from now on.
        persist: Option<bool>,
    },
    /// The host is a registrant no more; what it holds is released.
    Unregister {
        key: u64,
        /// Whatever its key is.
        ignore_key: bool,
        /// As in `Register`.
        persist: Option<bool>,
    },
    /// The host gets another key.
    Replace {
        /// The host's identifier in full.
        host_id: [u8; 16],
        key: u64,
        /// Its new key: not 0.
        new_key: u64,
        /// Whatever its key is; if it has none, it registers.
        ignore_key: bool,
        /// As in `Register`.
        persist: Option<bool>,
    },
    /// Reserves the volume.
    Acquire {
        /// The host's key.
        key: u64,
        kind: Kind,
    },
    /// Takes the reservation, or registrations, away from others.
    Preempt {
        /// The host's key.
        key: u64,
        /// The key of those who lose theirs; 0 are all others, where all registrants hold the reservation.
        victim: u64,
        /// How the volume is reserved then, if the victim held it.
        kind: Kind,
        /// I/O of the victims that is under way ends before the command does.
        abort: bool,
    },
    /// Gives the reservation up.
    Release {
        /// The host's key.
        key: u64,
        /// The reservation's type.
        kind: Kind,
    },
    /// Removes the reservation and all registrations.
    Clear {
        /// The host's key.
        key: u64,
    },
    /// Whether reservations are to outlive a loss of power.
    Persist(bool),
    /// Makes these registrants, all or none of them (SPC-4 5.13.7: REGISTER, with SPEC_I_PT and ALL_TG_PT): a host of SCSI is registered by
    /// its port's name.
    RegisterAll {
        /// The one that asks comes first; all have the same key: not 0.
        registrants: Vec<Registrant>,
        /// Another key that the asking one or others of its initiator port have is replaced; else none of them may be registered.
        ignore_key: bool,
        /// As in `Register`.
        persist: Option<bool>,
    },
    /// The holder hands the reservation over (SPC-4 5.13.8: REGISTER AND MOVE).
    Move {
        /// The holder's key.
        key: u64,
        /// Who holds it then, with its key: not 0. It is registered with that, or gets it in place of the one that it has.
        to: Box<Registrant>,
        /// The holder is a registrant no more.
        unregister: bool,
        /// As in `Register`.
        persist: Option<bool>,
    },
    /// Locks the volume for the host alone (SPC-2: RESERVE).
    Lock {
        /// By which connection: whatever a front says, the service says it.
        by: Connection,
    },
    /// Gives that up; of who has no lock it changes nothing (SPC-2: RELEASE).
    Unlock,
    /// A reset of the logical unit: whosever the lock is, it ends; and all hosts of SCSI hear of it ([`State::resets`]).
    Reset,
    /// The connection of that very lock is gone, or its gateway: it ends.
    Expire(Lock),
}

/// Types of reservations, by their numbers in NVMe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// The holder writes, all read.
    WriteExclusive = 1,
    /// The holder writes and reads.
    ExclusiveAccess = 2,
    /// Registrants write, all read.
    WriteExclusiveRegistrants = 3,
    /// Registrants write and read.
    ExclusiveAccessRegistrants = 4,
    /// Registrants write, all read; all registrants hold it.
    WriteExclusiveAll = 5,
    /// Registrants write and read; all registrants hold it.
    ExclusiveAccessAll = 6,
}

impl Kind {
    /// All types.
    pub const ALL: [Kind; 6] = [
        Kind::WriteExclusive,
        Kind::ExclusiveAccess,
        Kind::WriteExclusiveRegistrants,
        Kind::ExclusiveAccessRegistrants,
        Kind::WriteExclusiveAll,
        Kind::ExclusiveAccessAll,
    ];

    /// Do all registrants hold it?
    #[must_use]
    pub fn is_held_by_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAll | Kind::ExclusiveAccessAll)
    }

    /// May registrants do what the holder may?
    #[must_use]
    pub fn is_for_registrants(self) -> bool {
        !matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    /// May everybody read?
    #[must_use]
    pub fn is_open_for_reading(self) -> bool {
        matches!(
            self,
            Kind::WriteExclusive | Kind::WriteExclusiveRegistrants | Kind::WriteExclusiveAll
        )
    }
}

/// What an I/O does, as reservations see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read, Compare, Verify, the source of a Copy.
    Read,
    /// Write, Write Zeroes, Dataset Management, Flush, the target of a Copy.
    Write,
}

/// The ports of a nexus of SCSI, by their names: who reads the full status is told these.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PortName {
    /// The initiator port's, as its transport has it (iSCSI: `NAME,i,0xISID`).
    pub initiator: String,
    /// The target port's relative identifier: the tag of its gateway.
    pub tag: u16,
}

impl PortName {
    /// Is it one that can be kept?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        (1..=MAX_NAME_BYTES).contains(&self.initiator.len()) && self.initiator.bytes().all(is_plain)
    }
}

/// A host that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registrant {
    /// The host, as I/O is held against the reservation.
    pub host: HostKey,
    /// Its identifier in full.
    pub host_id: [u8; 16],
    pub key: u64,
    /// The ports of a host of SCSI; a host of NVMe has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortName>,
}

/// A reservation that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub kind: Kind,
    /// By whom; nobody by itself, where all registrants hold it.
    pub holder: Option<HostKey>,
}

/// What a registrant hears that another host did. The numbers are those of NVMe's log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Its registration was taken away.
    RegistrationPreempted = 1,
    /// The reservation was released.
    ReservationReleased = 2,
    /// All registrations, and the reservation, were removed.
    ReservationPreempted = 3,
}

/// A notice, and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Counts the notices of the volume.
    pub number: u64,
    pub notice: Notice,
    /// Who hears of it.
    pub hosts: Vec<HostKey>,
}

/// What is reserved, and who is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields")]
pub struct State {
    /// Counts the changes ("GEN").
    #[serde(default)]
    pub generation: u32,
    /// Do reservations outlive a loss of power ("PTPLS")? They do anyhow; it is told as the hosts have set it.
    #[serde(default)]
    pub persist: bool,
    /// In the order in which they came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registrants: Vec<Registrant>,
    /// The reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The last notices, in order.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub notices: VecDeque<Notification>,
    /// The number of the last notice.
    #[serde(default)]
    pub last_notice: u64,
    /// The volume is one host's alone. Then nobody is registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked: Option<Lock>,
    /// How often the logical unit was reset. A front of SCSI that sees it grow carries the reset out for its sessions, whichever gateway it came to.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub resets: u64,
}

/// Most volumes are never reset: their records say nothing of it.
fn is_none_yet(resets: &u64) -> bool {
    *resets == 0
}

/// The same as it was read: by whom it was written nobody knows.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    generation: u32,
    #[serde(default)]
    persist: bool,
    #[serde(default)]
    registrants: Vec<Registrant>,
    #[serde(default)]
    held: Option<Held>,
    #[serde(default)]
    notices: VecDeque<Notification>,
    #[serde(default)]
    last_notice: u64,
    #[serde(default)]
    locked: Option<Lock>,
    #[serde(default)]
    resets: u64,
}

impl TryFrom<Fields> for State {
    type Error = String;

    fn try_from(fields: Fields) -> Result<State, String> {
        let state = State {
            generation: fields.generation,
            persist: fields.persist,
            registrants: fields.registrants,
            held: fields.held,
            notices: fields.notices,
            last_notice: fields.last_notice,
            locked: fields.locked,
            resets: fields.resets,
        };
        state.check_sound()?;
        Ok(state)
    }
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// It conflicts with what is reserved or registered.
    Conflict,
    /// It makes no sense as the volume is reserved now: to release another type than is held, to preempt nobody, to hand over what nobody
    /// holds, to register beside oneself who is registered.
    Invalid,
    /// [`MAX_REGISTRANTS`] are registered, or their names are [`MAX_NAMES_BYTES`] long.
    Full,
    /// The volume cannot be reached now; nothing was done.
    Unavailable,
    /// It may have been carried out: nobody knows. A report shows what is reserved now.
    Unknown,
}

impl State {
    /// May the host do that now (NVM Express Base 2.1, figure "Command Behavior in the Presence of a Reservation")?
    #[must_use]
    pub fn allows(&self, host: HostKey, access: Access) -> bool {
        if let Some(lock) = self.locked {
            return lock.host == host;
        }
        let Some(held) = self.held else {
            return true;
        };
        if access == Access::Read && held.kind.is_open_for_reading() {
            return true;
        }
        if held.kind.is_for_registrants() {
            self.registrant(host).is_some()
        } else {
            held.holder == Some(host)
        }
    }

    /// The registration of a host.
    #[must_use]
    pub fn registrant(&self, host: HostKey) -> Option<&Registrant> {
        self.registrants.iter().find(|registrant| registrant.host == host)
    }

    /// Does the host hold the reservation?
    #[must_use]
    pub fn is_holder(&self, host: HostKey) -> bool {
        match self.held {
            Some(held) if held.kind.is_held_by_all() => self.registrant(host).is_some(),
            Some(held) => held.holder == Some(host),
            None => false,
        }
    }

    /// Is there nothing that would have to be kept?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == State::default()
    }

    /// The notices for a host with numbers above `seen`, in order.
    pub fn notices_after(&self, seen: u64, host: HostKey) -> impl Iterator<Item = Notice> {
        let new = self.notices.iter().filter(move |told| told.number > seen);
        new.filter(move |told| told.hosts.contains(&host))
            .map(|told| told.notice)
    }
}
