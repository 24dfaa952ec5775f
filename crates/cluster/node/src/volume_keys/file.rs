//! The file with what wraps data keys (`amita serve --volume-keys`): the cluster's, the same on all nodes that serve encrypted volumes.
//!
//! ```text
//! # a comment
//! amita-seal-1:BASE64:          a key (`amita volume key init` makes a file with one)
//! passphrase:TEXT               a passphrase: all that stands behind the colon
//! vault:https://HOST[:PORT] key=NAME token-file=PATH ca-file=PATH [mount=PATH] [namespace=PATH]
//!                               a key that Vault keeps, and is asked to wrap and unwrap with
//! kmip:HOST[:PORT][,HOST[:PORT]] key=ID cert-file=PATH key-file=PATH ca-file=PATH [way=encrypt|get] [version=1.4]
//!                               a key of a KMIP server, which wraps and unwraps, or gives it
//! tenant=NAME LINE              any of these, for the volumes of a tenant alone
//! ```
//!
//! All lines open. Those of a tenant wrap for nobody else, and which one does is said by the metadata (`amita tenant key set`), never by their order. Of the
//! others the first wraps the cluster's first data key, and from then on all are wrapped by that one, wherever it stands: what
//! it is stands in the metadata ([`WrappingKey`]), and a file without it makes none. It is changed by giving the new line to all nodes, putting
//! it in front, wrapping all data keys again (`amita volume key rewrap`), and taking the old line away. The file is its owner's alone (mode
//! 0600), and is read again each time that it is needed.

use super::keeper::{Keeper, Trouble};
use super::lines::{Keepers, Line, Loaded, Place, Step, first_of, unwrap};
use super::reading;
use amita_control::admin::{DataKeys, KeyTrouble, Rewrap};
use amita_crypt::{Binding, DataKey, WrappedKey, WrappingKey, Zeroizing};
use amita_keys::system_random;
use amita_types::ClusterId;
use amita_types::map::KeyName;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A file is at most this long: some hundreds of keys, of as many tenants.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Certificates are at most this long: those of all authorities of a system.
const MAX_PUBLIC_BYTES: u64 = 512 << 10;
/// Rights of anybody but the owner.
const OTHERS: u32 = 0o077;
/// Rights of anybody but the owner to change it.
const OTHERS_WRITE: u32 = 0o022;

/// Why there is nothing in a file that wraps. Nothing of what it holds is said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It is not there, or not to be read.
    #[error("it cannot be read: {0}")]
    File(#[from] io::Error),
    /// Others could read it.
    #[error("it can be read by others (mode {mode:03o}): give it to this program's user alone (chmod 600)")]
    Permissions {
        /// Its permissions.
        mode: u32,
    },
    /// Others could change it.
    #[error("it can be changed by others (mode {mode:03o}): let this program's user alone write it (chmod go-w)")]
    Changeable {
        /// Its permissions.
        mode: u32,
    },
    /// Somebody else could change it.
    #[error("it belongs to another user (number {owner}): give it to this program's user (chown {user}), or to root")]
    Owner {
        /// Whose it is.
        owner: u32,
        /// Who reads it.
        user: u32,
    },
    /// A line of it is none.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from 1 on.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// It is not known: where it lies nothing answers.
    #[error(
        "reading it has taken more than {seconds} s: its file system does not answer; bring that back, or put the file on one of this machine"
    )]
    Hangs {
        /// For so long it was waited.
        seconds: u64,
    },
    /// It was not read.
    #[error("reads of {files} other files hang, and so many are the most: bring their file systems back")]
    TooManyHang {
        /// How many.
        files: usize,
    },
    /// It is another thing.
    #[error("{0}")]
    NoKeys(&'static str),
}

impl KeyFileError {
    /// Is it not there at all, so that it may come?
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, KeyFileError::File(why) if why.kind() == io::ErrorKind::NotFound)
    }
}

/// Wipes what may be had again for nothing.
fn let_go(loaded: &mut Option<Loaded>) {
    if loaded.as_ref().is_some_and(|loaded| !loaded.is_costly) {
        *loaded = None;
    }
}

/// What is known of it.
#[derive(Default)]
struct Known {
    loaded: Option<Loaded>,
    /// Their threads stay: they keep connections open, and tokens alive.
    keepers: Keepers,
    /// By which version each key of Vault's wraps, as it was heard last.
    newest: Vec<(WrappingKey, u32)>,
    /// What was opened last by who keeps the cluster's key, to show that he has it.
    opened: Option<KeyName>,
    /// Those of each key's servers at which everything opens that was proven since this was set: a bit each.
    common: Vec<(WrappingKey, u8)>,
    /// So often there was none such any more.
    proofs: u64,
}

/// See the module.
pub struct KeyFile {
    path: PathBuf,
    known: Mutex<Known>,
    /// Whose data keys are wrapped by it, where that is known.
    cluster: OnceLock<ClusterId>,
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyFile").field(&self.path).finish()
    }
}

impl KeyFile {
    /// The file there, whether it is there already or not.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> KeyFile {
        KeyFile {
            path: path.into(),
            known: Mutex::default(),
            cluster: OnceLock::new(),
        }
    }

    /// The same for this cluster: what was wrapped for another one by who keeps keys for both does not open by it.
    #[must_use]
    pub fn of_cluster(self, cluster: ClusterId) -> KeyFile {
        let _ = self.cluster.set(cluster);
        self
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks at it.
    ///
    /// # Errors
    /// There is nothing in it that wraps.
    pub fn check(&self) -> Result<(), KeyFileError> {
        let mut known = self.lock();
        let found = self.look(&mut known).map(drop);
        let_go(&mut known.loaded);
        found
    }

    /// Wipes what is kept of it: it is read again when it is needed.
    pub(super) fn forget(&self) {
        self.lock().loaded = None;
    }

    /// Is anything kept of it?
    #[cfg(test)]
    pub(super) fn keeps(&self) -> bool {
        self.lock().loaded.is_some()
    }

    /// What it gives, and that it is wiped behind it. Nothing in here waits for anybody but the file.
    fn given<T>(&self, work: impl FnOnce(&mut Loaded) -> Result<T, String>) -> Result<T, String> {
        let mut known = self.lock();
        let done = match self.look(&mut known) {
            Ok(found) => {
                if let Some(cluster) = self.cluster.get() {
                    let lines = found.lines.iter_mut();
                    lines.for_each(|line| line.provider.of_cluster(*cluster));
                }
                work(found)
            }
            Err(why) => Err(of_node(&why)),
        };
        let_go(&mut known.loaded);
        done
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it gives now: what it gave before, where it is the same.
    fn look<'a>(&self, known: &'a mut Known) -> Result<&'a mut Loaded, KeyFileError> {
        let text = reading::within(&self.path, reading::LIMIT, read).inspect_err(|why| {
            known.loaded = None;
            if why.is_absent() {
                known.keepers.clear();
            }
        })?;
        if known.loaded.as_ref().is_none_or(|before| *before.text != *text) {
            known.loaded = None;
            known.loaded = Some(Loaded::of(text, &mut known.keepers)?);
        }
        Ok(known.loaded.as_mut().expect("it was put there"))
    }

    /// Unwraps data keys, each of exactly this binding, by one look at the file: for each the key, or whom to ask for it, or why nothing in the
    /// file opens it, for people.
    pub(super) fn unwrap_all(&self, wanted: &[(Binding, WrappedKey)]) -> Vec<Result<Step<DataKey>, String>> {
        let unwrap = |found: &mut Loaded| {
            let keys = wanted.iter();
            Ok(keys
                .map(|(binding, wrapped)| unwrap(&mut found.lines, binding, wrapped))
                .collect())
        };
        self.given(unwrap)
            .unwrap_or_else(|why| wanted.iter().map(|_| Err(why.clone())).collect())
    }

    /// Unwraps the data key of exactly this binding.
    ///
    /// # Errors
    /// Nothing in the file opens it: why, for people.
    pub fn unwrap(&self, binding: &Binding, wrapped: &WrappedKey) -> Result<DataKey, String> {
        Ok(self
            .given(|found| unwrap(&mut found.lines, binding, wrapped))?
            .finish()?)
    }

    /// Is what the cluster wraps data keys with in the file, so that it is the cluster's? `true`: its first line is it.
    ///
    /// # Errors
    /// Nothing in the file is: why, for people.
    pub fn is_of(&self, by: &WrappingKey) -> Result<bool, String> {
        self.given(|found| {
            found.wrapper(by, None).map(drop)?;
            found.first(Some(by)).map(|first| first == *by)
        })
    }

    /// The tenants of whom the file has lines.
    ///
    /// # Errors
    /// The file is of no use: why, for people.
    pub fn tenants(&self) -> Result<BTreeSet<String>, String> {
        self.given(|found| Ok(found.lines.iter().filter_map(|line| line.tenant.clone()).collect()))
    }

    /// Is what wraps for a tenant in the file, as a line of his?
    ///
    /// # Errors
    /// It is not: why, for people.
    pub fn is_of_tenant(&self, tenant: &str, by: &WrappingKey) -> Result<(), String> {
        self.given(|found| found.wrapper(by, Some(tenant)).map(drop))
    }
}

impl KeyFile {
    /// Asks those who keep keys that the file names whether they wrap with them, and bind what they wrap: each server of each that is no tenant's.
    ///
    /// # Errors
    /// One does not: why, for people.
    pub fn answers(&self) -> Result<(), String> {
        self.answers_for(None)
    }

    /// The same of a tenant's lines.
    ///
    /// # Errors
    /// As [`KeyFile::answers`].
    pub fn answers_for(&self, tenant: Option<&str>) -> Result<(), String> {
        let asked = self.given(|found| {
            let lines = found.lines.iter().filter(|line| line.tenant.as_deref() == tenant);
            Ok(lines.filter_map(|line| line.keeper.clone()).collect::<Vec<_>>())
        })?;
        for (place, keeper) in asked {
            for server in 0..keeper.servers() {
                place.probe(&keeper, server)?;
            }
        }
        Ok(())
    }

    /// By this one of its keys, of a line of the tenant's that it is bound to. A server that keeps it and was not seen to bind what it wraps has to show that first. What one server has wrapped has
    /// to open at each that answers.
    fn wrap(&self, by: &WrappingKey, binding: &Binding, key: &DataKey) -> Result<WrappedKey, KeyTrouble> {
        let tenant = binding.tenant.as_deref();
        let begin = || self.given(|found| found.wrapper(by, tenant)?.wrap(by, binding, key));
        let wrapped = match self.given(|found| Ok(found.wrapper(by, tenant)?.keeper.clone()))? {
            None => begin()?.finish()?,
            Some((place, keeper)) => first_of(&keeper, |server| {
                if !keeper.was_probed(server) {
                    place.probe(&keeper, server)?;
                }
                begin()?
                    .finish_at(server)?
                    .map_err(|why| keeper.refused_at(&why, server))
            })?,
        };
        // As it will be read.
        let read = WrappedKey::parse(&wrapped.to_text()).map_err(|why| why.to_string())?;
        let opened = self.opened_by(by, &read)?;
        match opened.check_value() == key.check_value() && read == wrapped {
            true => Ok(wrapped),
            false => Err(KeyTrouble::Key(format!(
                "what was wrapped as data key {} does not open as that",
                binding.key
            ))),
        }
    }

    /// By nothing but the line that has this one: all others may be destroyed. Where several servers have it, at each of them that answers: one of them
    /// that has another key of that name would wrap what the others do not open.
    fn opened_by(&self, by: &WrappingKey, wrapped: &WrappedKey) -> Result<DataKey, KeyTrouble> {
        let of_line = |line: &mut Line| unwrap(std::slice::from_mut(line), wrapped.binding(), wrapped);
        let begin = || self.given(|found| of_line(found.with(by)?));
        let Some((_, keeper)) = self.given(|found| Ok(found.with(by)?.keeper.clone()))? else {
            return Ok(begin()?.finish()?);
        };
        let (mut opened, mut at, mut silent) = (None, 0, Vec::new());
        for server in 0..keeper.servers() {
            match begin()?.finish_at(server) {
                Ok(Ok(key)) => {
                    opened = Some(key);
                    at |= 1 << server;
                }
                Ok(Err(why)) => return Err(keeper.refused_at(&why, server).into()),
                Err(trouble) => silent.push(trouble),
            }
        }
        let key = opened.ok_or_else(|| Trouble::of_all(silent))?;
        self.opens_at(by, at);
        Ok(key)
    }

    /// Something opens at exactly these servers of all that have answered.
    fn opens_at(&self, by: &WrappingKey, at: u8) {
        let mut known = self.lock();
        let before = known.common.iter().find(|(of, _)| of == by).map(|(_, at)| *at);
        let common = before.unwrap_or(u8::MAX) & at;
        if common == 0 {
            known.proofs += 1;
        }
        let common = if common == 0 { at } else { common };
        known.common.retain(|(of, _)| of != by);
        known.common.push((by.clone(), common));
    }

    /// Asks who keeps a key whether he wraps by it, and by which version.
    fn asked(&self, by: &WrappingKey, keeper: Option<(Place, Arc<Keeper>)>) -> Result<(), Trouble> {
        if let Some((place, keeper)) = keeper {
            let version = place.probe_any(&keeper)?;
            let mut known = self.lock();
            known.newest.retain(|(of, _)| of != by);
            known.newest.extend(version.map(|version| (by.clone(), version)));
        }
        Ok(())
    }

    /// The version of Vault's key is this at least.
    fn heard(&self, by: &WrappingKey, version: u32) {
        let mut known = self.lock();
        match known.newest.iter_mut().find(|(of, _)| of == by) {
            Some((_, newest)) => *newest = version.max(*newest),
            None => known.newest.push((by.clone(), version)),
        }
    }
}

/// Where it is on the node is for the node's log.
fn of_node(why: &KeyFileError) -> String {
    format!("the file of volume keys is of no use: {why}")
}

impl DataKeys for KeyFile {
    fn make(&self, cluster: ClusterId, by: Option<&WrappingKey>, binding: &Binding) -> Result<WrappedKey, String> {
        let _ = self.cluster.set(cluster);
        let key = DataKey::generate(&mut system_random);
        let by = match by {
            Some(by) => by.clone(),
            None => self.given(|found| found.first(None))?,
        };
        self.wrap(&by, binding, &key).map_err(|why| why.to_string())
    }

    fn opens(&self, cluster: ClusterId, by: &WrappingKey, wrapped: &WrappedKey) -> Result<(), KeyTrouble> {
        let _ = self.cluster.set(cluster);
        self.opened_by(by, wrapped)?;
        self.lock().opened = Some(wrapped.binding().key);
        Ok(())
    }

    fn opened(&self) -> Option<KeyName> {
        self.lock().opened
    }

    fn has_line_of(&self, tenant: &str) -> Result<bool, String> {
        Ok(self.tenants()?.contains(tenant))
    }
}

/// The cluster's by the first line that is no tenant's.
impl Rewrap for KeyFile {
    fn to(&self, now: Option<&WrappingKey>) -> Result<WrappingKey, String> {
        self.lock().common.clear();
        let (to, asked) = self.given(|found| {
            let to = found.first(now)?;
            Ok((to, found.first_line()?.keeper.clone()))
        })?;
        self.asked(&to, asked)?;
        Ok(to)
    }

    fn to_of(&self, tenant: &str, now: Option<&WrappingKey>, identifier: Option<&str>) -> Result<WrappingKey, String> {
        self.lock().common.clear();
        let (to, asked) = self.given(|found| {
            let keys = found.of_tenant(tenant, now)?;
            let to = one_of(tenant, &keys, identifier)?;
            Ok((to.clone(), found.wrapper(to, Some(tenant))?.keeper.clone()))
        })?;
        self.asked(&to, asked)?;
        Ok(to)
    }

    fn has(&self, tenant: Option<&str>, to: &WrappingKey) -> Result<(), KeyTrouble> {
        let asked = self.given(|found| Ok(found.wrapper(to, tenant)?.keeper.clone()))?;
        Ok(self.asked(to, asked)?)
    }

    fn version(&self, to: &WrappingKey) -> Option<u32> {
        let known = self.lock();
        let newest = known.newest.iter().find(|(of, _)| of == to);
        newest.map(|(_, version)| *version)
    }

    fn proofs(&self) -> u64 {
        self.lock().proofs
    }

    fn proves(&self, cluster: ClusterId, to: &WrappingKey, wrapped: &WrappedKey) -> Result<(), KeyTrouble> {
        let _ = self.cluster.set(cluster);
        let opened = self.opened_by(to, wrapped)?;
        match opened.check_value() == wrapped.check_value() && wrapped.wrapping_key() == *to {
            true => Ok(()),
            false => Err(KeyTrouble::Key(format!(
                "what opens is not data key {}",
                wrapped.binding().key
            ))),
        }
    }

    fn rewrap(&self, cluster: ClusterId, to: &WrappingKey, wrapped: &WrappedKey) -> Result<WrappedKey, KeyTrouble> {
        self.rewrap_as(cluster, to, wrapped.binding(), wrapped)
    }

    fn rewrap_as(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        binding: &Binding,
        wrapped: &WrappedKey,
    ) -> Result<WrappedKey, KeyTrouble> {
        let _ = self.cluster.set(cluster);
        let step = self.given(|found| unwrap(&mut found.lines, wrapped.binding(), wrapped))?;
        let again = self.wrap(to, binding, &step.finish()?)?;
        if let Some(version) = again.transit_version() {
            // It may have been rotated meanwhile.
            self.heard(to, version);
        }
        Ok(again)
    }
}

/// The one of this identifier, or the only one.
fn one_of<'a>(tenant: &str, keys: &'a [WrappingKey], identifier: Option<&str>) -> Result<&'a WrappingKey, String> {
    let is_it =
        |key: &&WrappingKey| identifier.is_none_or(|wanted| key.identifier() == wanted || key.to_string() == wanted);
    let mut found = keys.iter().filter(is_it);
    let all = || keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (found.next(), found.next(), identifier) {
        (Some(one), None, _) => Ok(one),
        (None, ..) if keys.is_empty() => Err(format!(
            "no line of the file of volume keys is the tenant's: put `tenant={tenant} ` before the line that is to wrap for the tenant"
        )),
        (None, _, wanted) => Err(format!(
            "no line of the tenant's in the file of volume keys is {}; there are: {}",
            wanted.unwrap_or_default(),
            all()
        )),
        (Some(_), Some(_), _) => Err(format!(
            "several lines of the file of volume keys are the tenant's, and their order says nothing: say which one wraps (--key): {}",
            all()
        )),
    }
}

/// Reads a secret, of the open file's facts: it cannot be exchanged in between.
pub(super) fn read(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let file = open(path)?;
    let facts = file.metadata()?;
    let mode = facts.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(KeyFileError::Permissions { mode });
    }
    check_owner(&facts)?;
    text_of(file, MAX_FILE_BYTES)
}

/// Reads what everybody may know, and nobody else change: certificates of who is believed. Of the open file's facts, likewise.
pub(super) fn read_public(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    let file = open(path)?;
    let facts = file.metadata()?;
    let mode = facts.mode() & 0o777;
    if mode & OTHERS_WRITE != 0 {
        return Err(KeyFileError::Changeable { mode });
    }
    check_owner(&facts)?;
    text_of(file, MAX_PUBLIC_BYTES)
}

fn check_owner(facts: &Metadata) -> Result<(), KeyFileError> {
    let (owner, user) = (facts.uid(), rustix::process::geteuid().as_raw());
    // Root's may be: nothing is hidden from root anyway.
    match owner == user || owner == 0 {
        true => Ok(()),
        false => Err(KeyFileError::Owner { owner, user }),
    }
}

fn open(path: &Path) -> Result<File, KeyFileError> {
    // A FIFO that nobody writes would not be opened: it is refused below, as all that is no file.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(KeyFileError::NoKeys("it is no regular file")),
    }
}

fn text_of(file: File, longest: u64) -> Result<Zeroizing<String>, KeyFileError> {
    if file.metadata()?.size() > longest {
        return Err(KeyFileError::NoKeys("it is too long"));
    }
    // With room for all of it: a string that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(longest as usize));
    file.take(longest).read_to_string(&mut text)?;
    Ok(text)
}
