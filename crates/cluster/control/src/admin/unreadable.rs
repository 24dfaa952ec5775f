//! Subsystems and targets of which some cannot be read: a newer version has written their records, or somebody by hand.
//!
//! Such a record may make any volume somebody's disk, and who deletes a volume has to know. It stops what it may speak of, and nothing else:
//! disks name their volumes by number, so it is of those whose numbers it says that it may speak. One that ends too early, or is no text, may
//! have said any.

use super::{AdminError, Result, parse};
use amita_metadata::{Call, KeyValue, Transact};
use amita_types::VolumeId;
use amita_types::map::{self, IscsiTarget, Subsystem};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A record that has disks.
pub(super) trait HasDisks: DeserializeOwned {
    /// What it is.
    const WHAT: What;
    /// What its disks are called.
    const DISK: &'static str;

    /// Where such records are.
    fn prefix() -> String;
}

/// What a record is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct What {
    pub(super) name: &'static str,
    /// The command that takes it away.
    pub(super) ends_by: &'static str,
    /// And what that is told behind the name.
    pub(super) flag: &'static str,
}

impl HasDisks for Subsystem {
    const WHAT: What = What {
        name: "subsystem",
        ends_by: "subsystem delete",
        flag: " --force",
    };
    const DISK: &'static str = "namespace";

    fn prefix() -> String {
        map::subsystems_prefix()
    }
}

impl HasDisks for IscsiTarget {
    const WHAT: What = What {
        name: "target",
        ends_by: "target delete",
        flag: " --force",
    };
    const DISK: &'static str = "LUN";

    fn prefix() -> String {
        map::iscsi_targets_prefix()
    }
}

/// Records of a kind, by name, as far as they can be read.
#[derive(Debug)]
pub struct Listed<T> {
    pub readable: Vec<T>,
    /// Which cannot be, and why: for whoever looks. They stop nobody from seeing the others.
    pub unreadable: Vec<AdminError>,
}

impl<T: DeserializeOwned> Listed<T> {
    pub(super) fn read(meta: &dyn Transact, what: What, prefix: &str) -> Result<Listed<T>> {
        let (readable, unreadable) = read(meta, what, prefix)?;
        Ok(Listed {
            readable,
            unreadable: unreadable.iter().map(|found| found.error("")).collect(),
        })
    }

    /// All of them.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn whole(mut self) -> Result<Vec<T>> {
        match self.unreadable.is_empty() {
            true => Ok(self.readable),
            false => Err(self.unreadable.swap_remove(0)),
        }
    }
}

fn read<T: DeserializeOwned>(meta: &dyn Transact, what: What, prefix: &str) -> Result<(Vec<T>, Vec<Unreadable>)> {
    let reply = meta.txn(&Call::prefix(prefix))?;
    let (mut readable, mut unreadable) = (Vec::new(), Vec::new());
    for found in reply.values(0) {
        match parse(found) {
            Ok(record) => readable.push(record),
            Err(why) => {
                let name = found.key.strip_prefix(prefix).unwrap_or(&found.key);
                unreadable.push(Unreadable::of(what, name, found, &why));
            }
        }
    }
    Ok((readable, unreadable))
}

/// All records of a kind that has disks.
#[derive(Debug)]
pub(super) struct Known<T> {
    /// By name.
    pub(super) readable: Vec<T>,
    unreadable: Vec<Unreadable>,
}

impl<T: HasDisks> Known<T> {
    pub(super) fn read(meta: &dyn Transact) -> Result<Known<T>> {
        let (readable, unreadable) = read(meta, T::WHAT, &T::prefix())?;
        Ok(Known { readable, unreadable })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.readable.len() + self.unreadable.len()
    }

    /// Is there one of that name that cannot be read?
    pub(super) fn is_unreadable(&self, name: &str) -> bool {
        self.unreadable.iter().any(|found| found.name == name)
    }

    /// None of those that cannot be read has a disk of a volume of which `is_it` holds.
    ///
    /// # Errors
    /// One may have. `of`: the volume, or the snapshot of it, as it was named.
    pub(super) fn none_may_show(&self, of: &str, is_it: impl Fn(VolumeId) -> bool) -> Result<()> {
        let may = self.unreadable.iter().find(|found| found.may_show(&is_it));
        may.map_or(Ok(()), |found| {
            Err(found.error(&format!(", and it may say that {of} is a {} of it", T::DISK)))
        })
    }

    /// None of those that cannot be read says this word.
    ///
    /// # Errors
    /// One may say it. `what`: what it would be.
    pub(super) fn none_may_say(&self, what: &str, word: &str) -> Result<()> {
        let may = self.unreadable.iter().find(|found| found.may_say(word));
        may.map_or(Ok(()), |found| Err(found.error(&format!(", and it may {what} {word}"))))
    }
}

/// A record that is named, and its revision.
///
/// # Errors
/// It cannot be read; the metadata is away.
pub(super) fn named<T: DeserializeOwned>(
    meta: &dyn Transact,
    what: What,
    name: &str,
    key: &str,
) -> Result<Option<(T, u64)>> {
    match whatever(meta, what, name, key)? {
        Some((record, revision)) => Ok(Some((record?, revision))),
        None => Ok(None),
    }
}

/// The same, whatever it says: in its place why it cannot be read.
///
/// # Errors
/// The metadata is away.
pub(super) fn whatever<T: DeserializeOwned>(
    meta: &dyn Transact,
    what: What,
    name: &str,
    key: &str,
) -> Result<Option<(Result<T>, u64)>> {
    let reply = meta.txn(&Call::get(key))?;
    let found = reply.value(0);
    Ok(found.map(|found| (read_as(what, name, found), found.mod_revision)))
}

/// A record that could be read, and does nothing where it lies.
pub(super) fn misplaced(what: What, name: &str, found: &KeyValue, why: &str) -> AdminError {
    let shown = name.escape_debug().to_string();
    AdminError::Unreadable {
        what: what.name,
        said: format!("({}) does nothing: {why}", found.key.escape_debug()),
        ends_by: format!("{} {shown}{}", what.ends_by, what.flag),
        name: shown,
    }
}

/// A record of that kind and name.
///
/// # Errors
/// It cannot be read.
pub(super) fn read_as<T: DeserializeOwned>(what: What, name: &str, found: &KeyValue) -> Result<T> {
    parse(found).map_err(|why| Unreadable::of(what, name, found, &why).error(""))
}

#[derive(Debug)]
struct Unreadable {
    what: What,
    name: String,
    key: String,
    value: Vec<u8>,
    why: String,
}

/// What is needed of a record. What stands there twice is none, as in the record itself; what does not stand there may be called otherwise by
/// a newer version.
#[derive(Deserialize)]
struct Disks {
    #[serde(default)]
    luns: Option<Vec<Disk>>,
    #[serde(default)]
    namespaces: Option<Vec<Disk>>,
}

#[derive(Deserialize)]
struct Disk {
    volume: u64,
}

impl Unreadable {
    fn of(what: What, name: &str, found: &KeyValue, why: &AdminError) -> Unreadable {
        let why = match why {
            AdminError::Metadata(amita_metadata::Error::Refused {
                reason: amita_metadata::Refusal::BadRecord { what, .. },
            }) => what.clone(),
            other => other.to_string(),
        };
        Unreadable {
            what,
            name: name.to_owned(),
            key: found.key.clone(),
            value: found.value.clone(),
            why,
        }
    }

    fn error(&self, so: &str) -> AdminError {
        // Whoever may write has chosen the key.
        let name = self.name.escape_debug().to_string();
        AdminError::Unreadable {
            what: self.what.name,
            said: format!("({}) cannot be read{so}: {}", self.key.escape_debug(), self.why),
            ends_by: format!("{} {name}{}", self.what.ends_by, self.what.flag),
            name,
        }
    }

    /// Its text, if that is all of it.
    fn text(&self) -> Option<&str> {
        let is_cut = serde_json::from_slice::<serde::de::IgnoredAny>(&self.value).is_err_and(|why| why.is_eof());
        std::str::from_utf8(&self.value).ok().filter(|_| !is_cut)
    }

    fn may_show(&self, is_it: impl Fn(VolumeId) -> bool) -> bool {
        let disks = serde_json::from_slice::<Disks>(&self.value).ok();
        if let Some(disks) = disks.and_then(|disks| disks.luns.or(disks.namespaces)) {
            return disks.iter().any(|disk| is_it(VolumeId(disk.volume)));
        }
        let Some(text) = self.text() else { return true };
        let mut numbers = text
            .split(|c: char| !c.is_ascii_digit())
            .filter(|digits| !digits.is_empty());
        numbers.any(|digits| digits.parse().is_ok_and(|number| is_it(VolumeId(number))))
    }

    fn may_say(&self, word: &str) -> bool {
        // Behind a backslash any character may stand.
        self.text()
            .is_none_or(|text| text.contains('\\') || text.to_lowercase().contains(&word.to_lowercase()))
    }
}
