//! What a node tells of its machine: a record of at most 16 KiB that any node and any command reads.
//!
//! Every fact says either what is so or why that is not known: nothing that could not be read looks as if it were well.

use amita_control::records::inventory_prefix;
use amita_types::NodeId;
use serde::{Deserialize, Serialize};

/// The version of the record. A reader refuses a newer one; fields that it does not know in its own version are left alone.
pub const VERSION: u32 = 1;
/// The longest record.
pub const MAX_BYTES: usize = 16 << 10;
/// The longest text of a fact, in characters: what a device says of itself may be anything.
pub const MAX_TEXT: usize = 120;
/// The most network interfaces that are told.
pub const MAX_NICS: usize = 24;
/// The most samples of a disk's past.
pub const MAX_SAMPLES: usize = 8;
/// Authorities of a node: while one is exchanged there are two.
pub const MAX_AUTHORITIES: usize = 4;

/// A fact, or why it is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known<T> {
    /// It is so.
    Is(T),
    /// Nobody can say, for this reason.
    NotKnown(String),
}

impl<T> Known<T> {
    /// The fact, or the reason.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn get(&self) -> Result<&T, &str> {
        match self {
            Known::Is(fact) => Ok(fact),
            Known::NotKnown(why) => Err(why),
        }
    }
}

impl<T> From<Result<T, String>> for Known<T> {
    fn from(read: Result<T, String>) -> Known<T> {
        match read {
            Ok(fact) => Known::Is(fact),
            Err(why) => Known::NotKnown(short(&why)),
        }
    }
}

/// A text, cut to what a record takes.
#[must_use]
pub fn short(text: &str) -> String {
    text.trim().chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

/// What a node tells of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// [`VERSION`].
    pub version: u32,
    /// When it was read, in seconds since 1970 by the node's clock.
    pub taken_at: u64,
    /// The version of the node's program.
    pub program: String,
    /// How many addresses of the metadata the node was given.
    pub metadata_addresses: usize,
    /// The machine.
    pub host: Host,
    /// Its clock.
    pub clock: Clock,
    /// Its network interfaces: those that have a device, and those that the node listens on.
    pub nics: Known<Vec<Nic>>,
    /// The disks beneath the node's stores.
    pub disks: Vec<Disk>,
    /// The node's certificate; none: it has no identity.
    pub certificate: Known<Option<Certificate>>,
    /// Settings of the node that an operator may have changed.
    pub settings: Vec<Setting>,
    /// What did not fit into the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Made anew by the kernel at each start: two nodes that have the same one share a machine.
    pub boot_id: Known<String>,
    /// The kernel's release, as `uname -r` says it.
    pub kernel: Known<String>,
    /// What its `io_uring` can do.
    pub uring: Known<Vec<String>>,
    /// `kernel.io_uring_disabled`: 0 is free for all, 1 for a group, 2 for nobody. Kernels before 6.6 have no such switch, and say 0.
    pub uring_disabled: Known<u8>,
    /// Governors of the processors' frequency, each once.
    pub governors: Known<Vec<String>>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Known<String>,
    /// Bytes of memory.
    pub memory_bytes: Known<u64>,
    /// Swap.
    pub swap: Known<Swap>,
    /// Limits of the node's process.
    pub limits: Known<Limits>,
}

/// Swap of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// Bytes of it in all; 0: there is none.
    pub total_bytes: u64,
    /// Bytes of the node's own process that lie there now.
    pub process_bytes: u64,
}

/// Limits of a process; none: there is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Open files.
    pub open_files: Option<u64>,
    /// Bytes of memory that may be locked.
    pub locked_bytes: Option<u64>,
}

/// A machine's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Does the kernel hold it for synchronised (`STA_UNSYNC` is not set)?
    pub synchronised: Known<bool>,
    /// The least that was seen of (this clock minus the stamp of another node), in milliseconds: the difference of the clocks plus the
    /// way of the stamp.
    pub seen: Vec<Sight>,
}

/// What a node has seen of another one's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    /// The other node's number.
    pub node: u32,
    /// Its own clock minus the other one's stamp, in milliseconds.
    pub least_ms: i64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// What the node serves by it: `fabric`, `fabric2`, `nbd`, `nvme`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<String>,
    /// Is it up (`operstate`)? `lo` and others without a state count as up.
    pub up: bool,
    /// Has it no device of its own (a bridge, a tunnel, a container's)?
    pub is_virtual: bool,
    /// Megabits a second.
    pub speed_mbit: Known<u64>,
    /// Can it send and receive at once?
    pub full_duplex: Known<bool>,
    /// The longest packet, in bytes.
    pub mtu: Known<u32>,
    /// Packets, received and sent, since it is up.
    pub packets: u64,
    /// Of them, those that failed or were damaged.
    pub errors: u64,
    /// How often its link came and went.
    pub carrier_changes: u64,
    /// The interfaces that it joins, and which of them are up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bond: Vec<Joined>,
}

/// An interface that a bond joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Its name.
    pub name: String,
    /// Is it up?
    pub up: bool,
}

/// The disk beneath a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// The store's path, as the node was given it.
    pub path: String,
    /// The device, or why there is none that could be looked at.
    pub device: Known<Device>,
    /// How long requests took in the last minutes before.
    pub latency: Known<Latency>,
    /// How it was, at most [`MAX_SAMPLES`] times, a day or more apart; the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, as in `/sys/block`.
    pub name: String,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Its serial number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// Does it turn?
    pub rotational: Known<bool>,
    /// Does the kernel flush it (`write back`)? Where it does not, it holds what is written for safe.
    pub flushed: Known<bool>,
    /// May it not be written?
    pub read_only: Known<bool>,
    /// What it says of its health, where it is an NVMe disk.
    pub health: Known<Health>,
    /// What a SATA or SAS disk says of its health; none: it is an NVMe disk, or it says nothing, and `health` has the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smart: Option<Smart>,
}

/// The health of an NVMe disk, by its log page 02h and its Identify data (NVM Express Base Specification, "SMART / Health
/// Information").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Critical warnings, as bits.
    pub warnings: u8,
    /// Degrees Celsius.
    pub temperature_c: i32,
    /// From this temperature on it says that it is too hot; none: it does not tell.
    pub warns_at_c: Option<i32>,
    /// Percent of the spare blocks that are left.
    pub spare_percent: u8,
    /// Under this it says that they are too few.
    pub spare_least_percent: u8,
    /// Percent of its life that is used; it goes on after 100, to 255.
    pub used_percent: u8,
    /// Hours that it was on.
    pub on_hours: u64,
    /// Reads and writes that it could not do right.
    pub media_errors: u64,
    /// Has it a cache that a power cut empties (VWC)? None: it was not asked.
    pub volatile_cache: Option<bool>,
}

/// The command set by which a disk was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandSet {
    /// SMART of ATA (ACS-4), through the ATA PASS-THROUGH command of SCSI (SAT-5).
    Ata,
    /// Log pages of SCSI (SPC-5, SBC-4).
    Scsi,
}

/// The health of a SATA or SAS disk. What a disk does not tell is none, and not zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// How it was asked.
    pub by: CommandSet,
    /// Does it predict its failure? None: it does not tell.
    pub failing: Option<bool>,
    /// By what it predicts its failure, in words; empty: it does not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// Degrees Celsius.
    pub temperature_c: Option<i32>,
    /// From this temperature on it is too hot.
    pub warns_at_c: Option<i32>,
    /// Hours that it was on.
    pub on_hours: Option<u64>,
    /// Percent of its life that is used.
    pub used_percent: Option<u8>,
    /// Sectors that it has replaced by spare ones: attribute 5, or the grown defects.
    pub reallocated: Option<u64>,
    /// Sectors that it could not read, and replaces when they are written: attribute 197.
    pub pending: Option<u64>,
    /// Reads and writes that it could not do right: the greater of the attributes 187 and 198, or the totals of the error counters.
    pub uncorrectable: Option<u64>,
    /// Commands that took too long: attribute 188.
    pub timeouts: Option<u64>,
    /// Damaged frames of its link (attribute 199), or errors that are not of the medium.
    pub link_errors: Option<u64>,
}

/// How long requests of a store took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests that were counted.
    pub reads: u64,
    /// Microseconds under which 99 of 100 reads stayed.
    pub read_p99_us: u64,
    /// Requests that were counted.
    pub writes: u64,
    /// Microseconds under which 99 of 100 writes stayed.
    pub write_p99_us: u64,
}

/// How a disk was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in seconds since 1970.
    pub at: u64,
    /// Bytes of the store that held something; none: it did not serve.
    pub used_bytes: Option<u64>,
    /// Percent of the disk's life that was used.
    pub worn_percent: Option<u8>,
    /// Of reads; none: there were too few.
    pub read_p99_us: Option<u64>,
    /// Of writes; none: there were too few.
    pub write_p99_us: Option<u64>,
    /// See [`Smart::reallocated`]; none: the disk does not tell, or a program wrote it that did not ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reallocated: Option<u64>,
    /// See [`Smart::pending`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// See [`Smart::uncorrectable`]; of an NVMe disk, its media errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrectable: Option<u64>,
}

/// A node's certificate; times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// From when on.
    pub begins: u64,
    /// Until when.
    pub ends: u64,
    /// When the last of the authorities that are trusted ends.
    pub authority_ends: Option<u64>,
    /// What it says of itself. Programs of before do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub what: Option<Shown>,
    /// The authorities that are trusted, at most [`MAX_AUTHORITIES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorities: Vec<Shown>,
    /// The one that the API shows to browsers, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<Shown>,
}

/// What a certificate shows to whoever sees it. Texts are cut to [`MAX_TEXT`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Whom it names.
    pub name: String,
    /// The name of the authority that made it.
    pub issuer: String,
    /// Its serial number, in hexadecimal digits.
    pub serial: String,
    /// SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
    /// From when on it is valid, in seconds since 1970.
    pub begins: u64,
    /// Until when.
    pub ends: u64,
}

/// A setting of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The flag without its dashes.
    pub name: String,
    /// What it is.
    pub value: String,
    /// What it is where nobody has set it.
    pub usual: String,
}

/// The key of a node's facts.
#[must_use]
pub fn facts_key(node: NodeId) -> String {
    format!("{}{node}/facts", inventory_prefix())
}

/// The key of a node's clock stamp.
#[must_use]
pub fn clock_key(node: NodeId) -> String {
    format!("{}{node}/clock", inventory_prefix())
}

/// The node that a key is about, and which of its records it is.
#[must_use]
pub fn of_key(key: &str) -> Option<(NodeId, &str)> {
    let (node, what) = key.strip_prefix(&inventory_prefix())?.split_once('/')?;
    Some((NodeId(node.parse().ok()?), what))
}

impl Inventory {
    /// As the bytes of a record, at most [`MAX_BYTES`]. What does not fit is left out, and that is said: first the disks' past but for its
    /// ends, then all of it, then network interfaces that the node does not serve by, then disks.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut fits = self.clone();
        let steps: [fn(&mut Inventory); 3] = [Inventory::keep_ends, Inventory::drop_samples, Inventory::drop_idle_nics];
        for step in steps {
            let bytes = fits.bytes();
            if bytes.len() <= MAX_BYTES {
                return bytes;
            }
            step(&mut fits);
        }
        while fits.bytes().len() > MAX_BYTES && !fits.disks.is_empty() {
            let kept = fits.disks.len() - 1;
            fits.disks.truncate(kept);
            let note = format!("{} disks", self.disks.len() - kept);
            fits.left_out.retain(|known| !known.ends_with(" disks"));
            fits.left_out.push(note);
        }
        fits.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        // Only maps with keys that are no text, and writers that fail, can make it fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn keep_ends(&mut self) {
        for disk in &mut self.disks {
            if disk.samples.len() > 2 {
                let last = disk.samples.len() - 1;
                disk.samples.drain(1..last);
            }
        }
        self.left_out.push("the middle of the disks' past".to_owned());
    }

    fn drop_samples(&mut self) {
        self.disks.iter_mut().for_each(|disk| disk.samples.clear());
        self.left_out = vec!["the disks' past".to_owned()];
    }

    fn drop_idle_nics(&mut self) {
        if let Known::Is(nics) = &mut self.nics {
            nics.retain(|nic| !nic.serves.is_empty());
        }
        self.left_out
            .push("network interfaces that nothing is served by".to_owned());
    }

    /// From a record.
    ///
    /// # Errors
    /// It is none, or of a newer version.
    pub fn decode(bytes: &[u8]) -> Result<Inventory, String> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_slice(bytes).map_err(|why| format!("its record cannot be read: {why}"))?;
        if head.version > VERSION {
            return Err(format!(
                "a newer program wrote its record (version {}; this one knows {VERSION})",
                head.version
            ));
        }
        serde_json::from_slice(bytes).map_err(|why| format!("its record cannot be read: {why}"))
    }

    /// What does not change by itself: two that are the same in this are not worth a second record.
    #[must_use]
    pub fn lasting(&self) -> Inventory {
        let mut same = self.clone();
        same.taken_at = 0;
        for sight in &mut same.clock.seen {
            // Under a tenth of a second it is the way of the stamp.
            sight.least_ms /= 100;
        }
        if let Known::Is(nics) = &mut same.nics {
            for nic in nics {
                (nic.packets, nic.errors, nic.carrier_changes) = (0, 0, 0);
            }
        }
        if let Known::Is(swap) = &mut same.host.swap {
            swap.process_bytes >>= 24;
        }
        for disk in &mut same.disks {
            disk.samples.clear();
            disk.latency = Known::NotKnown(String::new());
            if let Known::Is(device) = &mut disk.device {
                if let Known::Is(health) = &mut device.health {
                    (health.temperature_c, health.on_hours) = (0, 0);
                }
                if let Some(smart) = &mut device.smart {
                    (smart.temperature_c, smart.on_hours) = (None, None);
                }
            }
        }
        same
    }
}

#[cfg(test)]
pub(crate) mod tests;
