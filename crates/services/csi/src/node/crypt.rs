//! Volumes that are encrypted at this node, by a passphrase that a Secret of Kubernetes has (decision 099): LUKS2 on the volume's disk, and a mapping of dm-crypt above it, which is what is
//! mounted or bound. The cluster has ciphertext alone, and no key.
//!
//! A mapping has the volume and the number of the disk beneath in its name: so it is found again by a driver that was started anew, and it is told whether the disk that it lies on is gone
//! (the kernel gives that number to no other disk as long as the mapping has it).
//!
//! LUKS is made as a file system is, by the key that says so (`stage.rs`): whoever finds one that was cut makes it anew, for nothing was ever written by it. A passphrase goes by standard input
//! alone: arguments can be read by every process of the machine.

use super::attach::Target;
use super::copied::Copied;
use super::filesystem::{self, Content};
use super::hold::Held;
use super::machine::{Claim, Ran};
use super::mounts::Mount;
use super::nvme::{self, Disk};
use super::{Node, iscsi};
use crate::id::{self, VolumeId};
use crate::parameters::{BY_SECRET, LUKS_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use tonic::Status;

/// What the Secret has: by what the volume is encrypted,
const NOW: &str = "encryptionPassphrase";
/// and by what it was before, or what it is a clone of. What is opened by that one alone is opened by the other from then on.
const PREVIOUS: &str = "encryptionPassphrasePrevious";
/// Bytes of a passphrase. The lower one is that of volume keys.
const LENGTHS: std::ops::RangeInclusive<usize> = 12..=512;
/// Before the name of a mapping: the subsystem of its volume, and the number of its disk follow.
const PREFIX: &str = "amita-";
/// What is on the disk, as blkid says.
const LUKS: &str = "crypto_LUKS";
/// `cryptsetup` (8), "RETURN VALUES": no key slot is opened by this passphrase; it has no memory; nothing is there; it is there already, or somebody uses it. And what [`Ran`] has for a signal.
const NO_KEY: i32 = 2;
const NO_MEMORY: i32 = 3;
const NOT_THERE: i32 = 4;
const IN_USE: i32 = 5;
const KILLED: i32 = -1;
/// How data are encrypted.
const CIPHER: &str = "aes-xts-plain64";
/// A passphrase is stretched by this. By itself cryptsetup takes up to a GiB, which no container of the driver need have.
const STRETCHED: [&str; 8] = [
    "--pbkdf",
    "argon2id",
    "--pbkdf-memory",
    "65536",
    "--pbkdf-parallel",
    "1",
    "--iter-time",
    "1000",
];
/// The KiB of it: more than these no key slot of the driver's takes to be opened.
const STRETCHED_KIB: u64 = 65536;
/// What takes so much.
const STRETCHES: [&str; 4] = ["luksFormat", "open", "luksAddKey", "luksRemoveKey"];
/// Volumes that are opened at one time: each takes this memory, and a core, for a second or several.
pub(super) const AT_ONCE: usize = 4;
/// So long one waits for its turn. Kubelet gives up after two minutes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the data begin, in sectors of 512 bytes: [`crate::parameters::LUKS_BYTES`]. What the controller tells of changed blocks is counted from there.
const DATA_AT: &str = "32768";

/// In which order a head is written: the keys, of which nothing speaks yet, and then its two descriptions one after the other, of which one is whole at every moment, and the newer one counts
/// (LUKS2 On-Disk Format Specification, 2 "LUKS2 On-Disk Format").
const PIECES: [Range<u64>; 3] = [
    2 * DESCRIPTION_BYTES..LUKS_BYTES,
    0..DESCRIPTION_BYTES,
    DESCRIPTION_BYTES..2 * DESCRIPTION_BYTES,
];
/// Bytes of one description,
const DESCRIPTION_BYTES: u64 = 16384;
/// as `cryptsetup` is told to make it, with keys in the rest of the head.
const AREAS: [&str; 4] = ["--luks2-metadata-size", "16k", "--luks2-keyslots-size", "16352k"];

/// The head of a disk.
struct Head<'a> {
    device: &'a str,
    copy: Box<dyn Copied>,
    /// Where the copy is.
    path: String,
    /// As luksDump shows it.
    dump: String,
}

/// By what a volume is opened. It is shown nowhere.
pub(super) struct Passphrases {
    now: String,
    previous: Option<String>,
}

/// A disk that shows another one's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub disk: Disk,
    name: String,
    /// The number of the disk beneath.
    beneath: String,
}

/// How a volume is to be opened.
pub(super) struct Opening<'a> {
    pub by: &'a Passphrases,
    /// Other nodes may have it at the same time.
    pub is_shared: bool,
    pub is_read_only: bool,
    /// Bytes of a logical block, as its class has it.
    pub block_bytes: u32,
}

/// What is used in place of a disk.
pub(super) struct Opened {
    pub disk: Disk,
    pub held: Held,
    /// It was made just now: there is nothing on it, though it is not of zeros.
    pub is_new: bool,
}

impl Passphrases {
    /// Of a volume's context and the request's secrets; none: it is not encrypted here.
    pub(super) fn read(
        context: &BTreeMap<String, String>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Option<Passphrases>, Status> {
        if !is_wanted(context) {
            return Ok(None);
        }
        let now = passphrase(secrets, NOW)?.ok_or_else(|| {
            Status::invalid_argument(format!(
                "its class has {BY_SECRET}, and no {NOW} has come with it: the class is to name a Secret that has one (csi.storage.k8s.io/node-stage-secret-name and -namespace)"
            ))
        })?;
        let previous = passphrase(secrets, PREVIOUS)?.filter(|previous| *previous != now);
        Ok(Some(Passphrases { now, previous }))
    }
}

/// Is a volume of this context encrypted at its node?
pub(super) fn is_wanted(context: &BTreeMap<String, String>) -> bool {
    context.get(BY_SECRET).is_some_and(|value| value == "true")
}

fn passphrase(secrets: &BTreeMap<String, String>, key: &str) -> Result<Option<String>, Status> {
    let Some(text) = secrets.get(key).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let refused = |why: &str| Err(Status::invalid_argument(format!("{key} of the Secret {why}")));
    if text.contains(['\n', '\r', '\0']) {
        // Nobody could type it, and the tool takes it for the end.
        return refused("has a line end (make the Secret by --from-literal, or by printf and not by echo)");
    }
    match LENGTHS.contains(&text.len()) {
        true => Ok(Some(text.clone())),
        false => refused(&format!(
            "has {} bytes; it may have {} to {}",
            text.len(),
            LENGTHS.start(),
            LENGTHS.end()
        )),
    }
}

fn said(ran: &Ran) -> &str {
    if ran.err.is_empty() { &ran.out } else { &ran.err }
}

/// A command that has not done what it should, to a disk or a mapping.
fn bad(what: &str, to: &str, ran: &Ran) -> Status {
    let why = |why: &str| format!("cryptsetup {what} of {to}: {why}: {}", said(ran));
    match ran.code {
        IN_USE => Status::failed_precondition(why(
            "it is in use, or there already, by whatever (lsblk and dmsetup ls --tree show it)",
        )),
        NO_MEMORY | KILLED => Status::unavailable(why(&format!(
            "it had no memory, or was ended by a signal: each passphrase takes {STRETCHED_KIB} KiB (does the driver's container have a limit?)"
        ))),
        code => Status::internal(why(&format!("it has ended with {code}"))),
    }
}

/// How a head, as luksDump shows it, is another one than the driver makes. Whoever has the disk may have written what is shown, line ends in its label as well: so each line counts, and none
/// makes good for another one.
fn strange(dump: &str) -> Option<String> {
    let lines: Vec<&str> = dump.lines().collect();
    let fields = lines.iter().filter_map(|line| line.trim().split_once(':'));
    let fields: Vec<(String, &str)> = fields
        .map(|(key, value)| (key.to_ascii_lowercase(), value.trim()))
        .collect();
    let all = |wanted: &str| -> Vec<&str> {
        let own = fields.iter().filter(|(key, _)| key == wanted);
        own.map(|(_, value)| *value).collect()
    };
    // One that encrypts nothing, or keeps its keys in the clear, opens by any passphrase.
    let ciphers = all("cipher");
    if ciphers.is_empty() || ciphers.iter().any(|cipher| *cipher != CIPHER) {
        return Some(format!(
            "is encrypted by {}, and not by {CIPHER} alone",
            ciphers.join(", ")
        ));
    }
    // Tokens are asked for a passphrase before the Secret's is tried.
    if lines
        .windows(2)
        .any(|pair| pair[0].trim() == "Tokens:" && pair[1].starts_with(' '))
    {
        return Some("names tokens that open it".to_owned());
    }
    // One that says that it is being encrypted anew, or decrypted, is so by whatever opens it.
    if let Some(required) = all("requirements").first() {
        return Some(format!("is in the middle of something ({required})"));
    }
    let is_much = |kib: &str| kib.parse::<u64>().ok().is_none_or(|kib| kib > STRETCHED_KIB);
    let much = all("memory").into_iter().find(|kib| is_much(kib))?;
    Some(format!("takes {much} KiB of memory to be opened"))
}

/// Do its descriptions and keys lie where [`PIECES`] has them?
fn is_laid_out(dump: &str) -> bool {
    let has = |key: &str, bytes: u64| {
        let mut all = dump.lines().filter_map(|line| line.strip_prefix(key));
        let is_it = |value: &str| value.trim() == format!("{bytes} [bytes]");
        all.next().is_some_and(is_it) && all.all(is_it)
    };
    has("Metadata area:", DESCRIPTION_BYTES) && has("Keyslots area:", LUKS_BYTES - 2 * DESCRIPTION_BYTES)
}

/// The number of the disk beneath, of a mapping's name.
fn beneath(name: &str) -> Option<String> {
    let mut parts = name.strip_prefix(PREFIX)?.rsplitn(3, '-');
    let (minor, major) = (parts.next()?, parts.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}:{minor}"))
}

impl Node {
    fn cryptsetup(&self, words: &[&str], input: &str) -> Result<Ran, Status> {
        // Not while a head is read: that waits for as long as a disk has no path.
        let _turn = match words.first().is_some_and(|what| STRETCHES.contains(what)) {
            true => Some(self.openings.take(self.machine(), PATIENCE).ok_or_else(|| {
                Status::unavailable(format!(
                    "{AT_ONCE} volumes are opened by passphrases at one time, for each takes {STRETCHED_KIB} KiB of memory, and others had their turns for {} s; ask again",
                    PATIENCE.as_secs()
                ))
            })?),
            false => None,
        };
        let ran = self.machine().run_with("cryptsetup", words, input);
        ran.map_err(|why| {
            Status::failed_precondition(format!(
                "cryptsetup cannot be started: volumes with {BY_SECRET} need it beside the driver (2.4 or later), and dm_crypt in the kernel: {why}"
            ))
        })
    }

    /// Before the names of a volume's mappings.
    pub(super) fn mappings_of(&self, number: u64) -> String {
        format!("{PREFIX}{}{number}-", id::subsystem_before(&self.driver.name))
    }

    /// All mappings whose names begin so.
    pub(super) fn mappings(&self, before: &str) -> Vec<Mapping> {
        let machine = self.machine();
        // What goes away while it is looked at is none.
        let all = machine.list("/sys/block").unwrap_or_default();
        let own = all
            .into_iter()
            .filter(|name| name.starts_with("dm-"))
            .filter_map(|disk| {
                let name = machine.read(&format!("/sys/block/{disk}/dm/name")).ok()?;
                let name = name.trim().to_owned();
                let paths = Vec::new();
                Some(Mapping {
                    beneath: beneath(&name).filter(|_| name.starts_with(before))?,
                    disk: Disk { name: disk, paths },
                    name,
                })
            });
        own.collect()
    }

    /// The mapping that a volume's disk is used by; none: it is not open.
    pub(super) fn mapping(&self, id: &VolumeId, disk: &Disk) -> Result<Option<Mapping>, Status> {
        let number = nvme::number(self.machine(), disk)?;
        let mut all = self.mappings(&self.mappings_of(id.number)).into_iter();
        Ok(all.find(|mapping| mapping.beneath == number))
    }

    /// What decrypts a volume's disk, where it is open.
    pub(super) fn opened(&self, number: u64) -> Option<Disk> {
        let mut all = self.mappings(&self.mappings_of(number)).into_iter();
        all.find(|mapping| !self.is_lost(mapping)).map(|mapping| mapping.disk)
    }

    /// Does anybody use what decrypts a volume's disk?
    pub(super) fn is_text_used(&self, number: u64) -> bool {
        let all = self.mappings(&self.mappings_of(number));
        all.iter().any(|mapping| self.not_used(&mapping.disk).is_err())
    }

    /// The mapping that a disk is; none: it is a disk of its own.
    pub(super) fn as_mapping(&self, disk: &Disk) -> Option<Mapping> {
        self.mappings(PREFIX)
            .into_iter()
            .find(|mapping| mapping.disk.name == disk.name)
    }

    /// The mapping that is mounted, or bound as a file.
    pub(super) fn mapping_shown(&self, mount: &Mount) -> Option<Mapping> {
        let is_it = |mapping: &Mapping| {
            let number = nvme::number(self.machine(), &mapping.disk);
            number.is_ok_and(|number| number == mount.device) || self.files(&mapping.disk).contains(&mount.root)
        };
        self.mappings(PREFIX).into_iter().find(is_it)
    }

    /// The number of the disk beneath, where this is one of a mapping; else itself.
    pub(super) fn number_beneath(&self, number: &str) -> String {
        let name = self.machine().read(&format!("/sys/dev/block/{number}/dm/name"));
        let found = name.ok().and_then(|name| beneath(name.trim()));
        found.unwrap_or_else(|| number.to_owned())
    }

    /// The disk beneath a mapping.
    pub(super) fn disk_beneath(&self, mapping: &Mapping) -> Result<Disk, Status> {
        if let Some(map) = iscsi::map_at(self, &mapping.beneath) {
            return Ok(map);
        }
        let file = format!("/sys/dev/block/{}/uevent", mapping.beneath);
        let event = self.machine().read(&file).map_err(nvme::failed(&file))?;
        let name = event.lines().find_map(|line| line.strip_prefix("DEVNAME="));
        let name = name.ok_or_else(|| Status::internal(format!("{file} names no disk")))?;
        Ok(Disk {
            name: name.to_owned(),
            paths: Vec::new(),
        })
    }

    /// Holds a disk for as long as its head is looked at, made and opened, by its name each time: where it went away meanwhile, which takes seconds, another volume's disk could have that.
    pub(super) fn pin(&self, target: &Target, disk: &Disk) -> Result<Claim, Status> {
        let device = disk.device();
        let pin = self.machine().pin(&device).map_err(nvme::failed(&device))?;
        match target.disk(self)? {
            Some(there) if there.name == disk.name => Ok(pin),
            _ => Err(Status::unavailable(format!(
                "{device} is not the volume's disk any more; ask again"
            ))),
        }
    }

    /// Opens a volume's disk, which is made one of LUKS where it is empty.
    pub(super) fn open(
        &self,
        id: &VolumeId,
        disk: &Disk,
        (held, keys): (Held, id::Keys),
        how: &Opening<'_>,
    ) -> Result<Opened, Status> {
        self.end_of_lost_mappings(id.number);
        if let Some(there) = self.mapping(id, disk)? {
            return Ok(Opened {
                disk: there.disk,
                held,
                is_new: false,
            });
        }
        let refused = |found: &str| {
            let why = format!(
                "{} holds {found}, and is to be encrypted by a Secret: it is left as it is",
                disk.name
            );
            Err(Status::failed_precondition(why))
        };
        let is_made = match filesystem::content(self.machine(), disk)? {
            found if held == Held::Unfinished && found.may_be_of(LUKS) && !how.is_read_only => false,
            Content::FileSystem(found) if found == LUKS => true,
            Content::Empty if how.is_read_only => return refused("nothing, and is only read"),
            Content::Empty if how.is_shared => {
                return refused(
                    "nothing, and several nodes may have it, each of which would make a key of its own (begin with a claim of ReadWriteOnce alone, use it once, and clone it)",
                );
            }
            Content::Empty => false,
            Content::Unknown => {
                return refused(
                    "data that no tool knows (if they are of an attempt that was cut, without reservations, zero its first and last MiB)",
                );
            }
            Content::FileSystem(found) | Content::Other(found) => return refused(&format!("{found} in the clear")),
        };
        let held = match is_made {
            true => held,
            false => self.make_luks(disk, (held, keys), how)?,
        };
        let number = nvme::number(self.machine(), disk)?.replace(':', "-");
        let name = format!("{}{number}", self.mappings_of(id.number));
        self.unlock(disk, &name, how)?;
        let opened = self.mapping(id, disk)?;
        let opened =
            opened.ok_or_else(|| Status::unavailable(format!("{name} was opened, and is not there; ask again")))?;
        Ok(Opened {
            disk: opened.disk,
            held,
            is_new: !is_made,
        })
    }

    /// Whoever finds the volume reserved by the other key knows that nothing was ever written by this.
    fn make_luks(&self, disk: &Disk, (held, keys): (Held, id::Keys), how: &Opening<'_>) -> Result<Held, Status> {
        if held == Held::Own {
            self.replace(disk, keys.own, keys.making)?;
        }
        let device = disk.device();
        log::info!("{device} has nothing, and is encrypted by a passphrase of a Secret");
        let own = [
            "luksFormat",
            "--batch-mode",
            "--type",
            "luks2",
            "--cipher",
            CIPHER,
            "--key-size",
            "512",
        ];
        // By itself cryptsetup takes the physical block, which is 4096 of a disk with logical ones of 512, and pods would get those.
        let block = how.block_bytes.to_string();
        let layout = [&["--sector-size", block.as_str(), "--offset", DATA_AT][..], &AREAS].concat();
        let words = [&own[..], &STRETCHED, &layout[..], &["--key-file", "-", &device]].concat();
        let ran = self.cryptsetup(&words, &how.by.now)?;
        match ran.code {
            0 if held == Held::Shared => Ok(Held::Shared),
            0 => Ok(Held::Unfinished),
            _ => Err(bad("luksFormat", &device, &ran)),
        }
    }

    /// Has a mapping of a disk be there, by the passphrase of now or by that of before.
    fn unlock(&self, disk: &Disk, name: &str, how: &Opening<'_>) -> Result<(), Status> {
        let device = disk.device();
        let head = self.head(&device)?;
        // Two nodes that change the keys of one disk at a time would spoil them.
        let may_change = !how.is_read_only && !how.is_shared;
        if self.unlock_by(&head, name, &how.by.now, how.is_read_only)? {
            if let Some(previous) = how.by.previous.as_deref().filter(|_| may_change) {
                self.forget(&head, previous)?;
            }
            return Ok(());
        }
        let refused = || {
            Status::failed_precondition(format!(
                "the Secret does not open {device}: it was encrypted by another {NOW} (where it was changed, or the volume is a clone of one with another Secret, put that one into {PREVIOUS})"
            ))
        };
        let previous = how.by.previous.as_deref().ok_or_else(refused)?;
        if !may_change {
            return match self.unlock_by(&head, name, previous, how.is_read_only)? {
                true => Ok(()),
                false => Err(refused()),
            };
        }
        if !self.add_key(&head, previous, &how.by.now)? {
            return Err(refused());
        }
        match self.unlock_by(&head, name, &how.by.now, false)? {
            true => self.forget(&head, previous),
            false => Err(refused()),
        }
    }

    /// A disk's head, as it is now: what is looked at is what is used. Who has the disk may have written another one to it, and may show one to who looks and another one to who opens.
    fn head<'a>(&self, device: &'a str) -> Result<Head<'a>, Status> {
        let copy = self
            .machine()
            .copy_start(device, LUKS_BYTES)
            .map_err(nvme::failed(device))?;
        let path = copy.path();
        let ran = self.cryptsetup(&["luksDump", &path], "")?;
        if ran.code != 0 {
            return Err(bad("luksDump", device, &ran));
        }
        match strange(&ran.out) {
            None => Ok(Head {
                device,
                path,
                copy,
                dump: ran.out,
            }),
            Some(why) => Err(Status::failed_precondition(format!(
                "{device} {why}: it was not made so by the driver, and nothing is written there"
            ))),
        }
    }

    /// Is it opened by this passphrase?
    fn unlock_by(&self, head: &Head<'_>, name: &str, by: &str, is_read_only: bool) -> Result<bool, Status> {
        // The key stays with the mapping, so that it grows without the passphrase.
        let own = [
            "open",
            "--type",
            "luks2",
            "--key-file",
            "-",
            "--disable-keyring",
            "--allow-discards",
        ];
        let read_only: &[&str] = if is_read_only { &["--readonly"] } else { &[] };
        let of = ["--header", &head.path, head.device, name];
        let ran = self.cryptsetup(&[&own[..], read_only, &of].concat(), by)?;
        match ran.code {
            0 => Ok(true),
            NO_KEY => Ok(false),
            _ => Err(bad("open", head.device, &ran)),
        }
    }

    /// Has a head be opened by another passphrase as well, in memory and then on its disk: a head that the disk showed for this alone could have its own key wrapped by the new passphrase, and
    /// be opened by that later. Not, where the one of before does not open it.
    fn add_key(&self, head: &Head<'_>, previous: &str, now: &str) -> Result<bool, Status> {
        let device = head.device;
        if !is_laid_out(&head.dump) {
            return Err(Status::failed_precondition(format!(
                "{device} has a head that is laid out otherwise than the driver makes it, which cannot be written so that a cut does no harm: it keeps its passphrase"
            )));
        }
        let words = [&["luksAddKey", "--batch-mode"][..], &STRETCHED, &[head.path.as_str()]].concat();
        let ran = self.cryptsetup(&words, &format!("{previous}\n{now}\n"))?;
        match ran.code {
            0 => {}
            NO_KEY => return Ok(false),
            _ => return Err(bad("luksAddKey", device, &ran)),
        }
        head.copy.write_back(device, &PIECES).map_err(nvme::failed(device))?;
        log::info!("{device} is opened by the Secret's new passphrase from now on");
        Ok(true)
    }

    /// A passphrase opens a disk no more. There is another one that does, by the same head: in memory and then on its disk, as a passphrase is added. A head that the disk showed for this alone
    /// could take any memory, and none of the driver's was counted for that.
    fn forget(&self, head: &Head<'_>, previous: &str) -> Result<(), Status> {
        let device = head.device;
        let words = ["luksRemoveKey", "--batch-mode", "--key-file", "-", &head.path];
        let ran = self.cryptsetup(&words, previous)?;
        match ran.code {
            0 => {}
            NO_KEY => return Ok(()),
            _ => return Err(bad("luksRemoveKey", device, &ran)),
        }
        if !is_laid_out(&head.dump) {
            // What is there can be used: it is open by now.
            log::warn!(
                "{device} is opened by the Secret's previous passphrase still: it has a head that is laid out otherwise than the driver makes it, which cannot be written so that a cut does no harm (cryptsetup luksRemoveKey takes the passphrase away while no pod uses it)"
            );
            return Ok(());
        }
        head.copy.write_back(device, &PIECES).map_err(nvme::failed(device))?;
        log::info!("{device} is not opened by the Secret's previous passphrase any more");
        Ok(())
    }

    /// Has a mapping be as large as its disk.
    pub(super) fn grow_mapping(&self, mapping: &Mapping) -> Result<(), Status> {
        let ran = self.cryptsetup(&["resize", &mapping.name], "")?;
        match ran.code {
            0 => Ok(()),
            _ => Err(bad("resize", &mapping.name, &ran)),
        }
    }

    /// Closes a mapping that nobody uses.
    fn close(&self, mapping: &Mapping) -> Result<(), Status> {
        self.not_used(&mapping.disk)?;
        iscsi::end_of_waiting_at(self, &mapping.beneath);
        let claim = self.claimed(&mapping.disk)?;
        if let Err(why) = claim.sync() {
            log::error!("not all that was written came to {}: {why}", mapping.name);
        }
        drop(claim);
        self.end_of_mapping(mapping)
    }

    /// Closes the mappings of a volume that nobody uses before it is attached: they may be of before another node had it, and what they lie on is in nobody's way then.
    pub(super) fn close_unused(&self, number: u64) -> Result<(), Status> {
        for mapping in self.mappings(&self.mappings_of(number)) {
            // Whoever wrote to it has closed it, and had the kernel write all of it by that: a path that is away is not waited for.
            if !self.is_lost(&mapping) && self.is_free(&mapping.disk)? {
                self.end_of_mapping(&mapping)?;
            }
        }
        Ok(())
    }

    pub(super) fn end_of_mapping(&self, mapping: &Mapping) -> Result<(), Status> {
        let ran = self.cryptsetup(&["close", &mapping.name], "")?;
        match ran.code {
            0 | NOT_THERE => Ok(()),
            _ => Err(bad("close", &mapping.name, &ran)),
        }
    }

    /// Closes all mappings of a volume, of which nobody uses anything here.
    pub(super) fn close_all(&self, number: u64) -> Result<(), Status> {
        self.end_of_lost_mappings(number);
        let all = self.mappings(&self.mappings_of(number));
        all.iter()
            .filter(|mapping| !self.is_lost(mapping))
            .try_for_each(|mapping| self.close(mapping))
    }

    fn is_lost(&self, mapping: &Mapping) -> bool {
        let there = self.machine().kind(&format!("/sys/dev/block/{}", mapping.beneath));
        there.is_ok_and(|there| there.is_none())
    }

    /// What lies on a disk that is gone goes when nobody uses it any more: nothing can be read there, nor written, and the volume has another disk by now.
    fn end_of_lost_mappings(&self, number: u64) {
        let all = self.mappings(&self.mappings_of(number));
        for lost in all.iter().filter(|mapping| self.is_lost(mapping)) {
            let name = &lost.name;
            log::warn!("{name} lies on a disk that is gone: it is closed");
            // Not by `cryptsetup close --deferred`: where the head cannot be read any more, 2.7.5 ends by a signal and leaves it.
            match self.machine().run("dmsetup", &["remove", "--deferred", name]) {
                Ok(ran) if ran.code == 0 => {}
                Ok(ran) => log::warn!(
                    "{name} stays: dmsetup remove has ended with {}: {}",
                    ran.code,
                    said(&ran)
                ),
                Err(why) => log::warn!("{name} stays, and its key in the kernel: dmsetup cannot be started: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_disk_beneath() {
        assert_eq!(beneath("amita-csi-0a1b2c3d-7-259-3").as_deref(), Some("259:3"));
        for none in [
            "csi-0a1b2c3d-7-259-3",
            "amita-csi",
            "amita-7-259-x",
            "amita--",
            "luks-259-3",
        ] {
            assert_eq!(beneath(none), None, "{none}");
        }
    }

    /// As cryptsetup 2.6 shows one that the driver has made, and what others would make of it.
    #[test]
    fn a_head_of_somebody_elses_is_strange() {
        let own = "LUKS header information\nVersion:       \t2\nMetadata area: \t16384 [bytes]\nKeyslots area: \t16744448 [bytes]\nLabel:         \t(no label)\nFlags:       \t(no flags)\n\n\
            Data segments:\n  0: crypt\n\toffset: 16777216 [bytes]\n\tlength: (whole device)\n\tcipher: aes-xts-plain64\n\tsector: 4096 [bytes]\n\n\
            Keyslots:\n  0: luks2\n\tKey:        512 bits\n\tCipher:     aes-xts-plain64\n\tCipher key: 512 bits\n\tPBKDF:      argon2id\n\
            \tTime cost:  17\n\tMemory:     65536\n\tThreads:    1\nTokens:\nDigests:\n  0: pbkdf2\n\tHash:       sha256\n";
        assert_eq!(strange(own), None);
        assert!(is_laid_out(own));
        for (from, to) in [
            ("\t16384 ", "\t32768 "),
            ("\t16744448 ", "\t16711680 "),
            ("(no label)", "\nMetadata area: \t4096 [bytes]"),
        ] {
            assert!(!is_laid_out(&own.replacen(from, to, 1)), "{to}");
        }
        assert!(!is_laid_out(""));
        for (from, to, wanted) in [
            (
                "cipher: aes-xts-plain64",
                "cipher: (no SW encryption)",
                "no SW encryption",
            ),
            (
                "Cipher:     aes-xts-plain64",
                "Cipher:     cipher_null-ecb",
                "cipher_null-ecb",
            ),
            ("Tokens:\n", "Tokens:\n  0: luks2-keyring\n\tKeyslot:    0\n", "tokens"),
            ("(no label)", "\nTokens:\nDigests:\n\nTokens:\n  0: ssh\n", "tokens"),
            (
                "(no flags)\n",
                "\nRequirements:\tonline-reencrypt-v2 \n",
                "online-reencrypt-v2",
            ),
            ("Memory:     65536", "Memory:     4194304", "4194304 KiB"),
            ("Memory:     65536", "Memory:     much", "much"),
        ] {
            let changed = own.replacen(from, to, 1);
            assert_ne!(changed, own, "{from}");
            let why = strange(&changed).unwrap_or_else(|| panic!("{to} is taken"));
            assert!(why.contains(wanted), "{why}");
        }
        assert!(strange("").is_some());
    }

    #[test]
    fn a_passphrase_is_one_that_can_be_typed() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        let context = of(&[(BY_SECRET, "true")]);
        let read = |pairs: &[(&str, &str)]| Passphrases::read(&context, &of(pairs));
        let good = "correct horse battery";
        let both = read(&[(NOW, good), (PREVIOUS, "open sesame, open")])
            .expect("a Secret")
            .expect("wanted");
        assert_eq!(both.previous.as_deref(), Some("open sesame, open"));
        // That of before is no other one: else it would be forgotten.
        let same = read(&[(NOW, good), (PREVIOUS, good)])
            .expect("a Secret")
            .expect("wanted");
        assert!(same.previous.is_none());
        let long = "x".repeat(513);
        for bad in ["", "too short", "correct horse battery\n", long.as_str()] {
            let why = read(&[(NOW, bad)]).err().expect("refused");
            assert!(why.message().contains(NOW), "{why}");
            assert!(bad.is_empty() || !why.message().contains(bad), "{why}");
        }
        assert!(
            Passphrases::read(&BTreeMap::new(), &of(&[(NOW, "short")]))
                .expect("not wanted")
                .is_none()
        );
    }
}
