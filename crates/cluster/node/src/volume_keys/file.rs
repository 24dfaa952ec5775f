//! The file with what wraps data keys (`amita serve --volume-keys`): the cluster's, the same on all nodes that serve encrypted volumes.
//!
//! ```text
//! # a comment
//! amita-seal-1:BASE64:          a key (`amita volume key init` makes a file with one)
//! passphrase:TEXT               a passphrase: all that stands behind the colon
//! ```
//!
//! All lines open. The cluster's first data key is wrapped by the first line, and from then on all are by that one, wherever it stands: what
//! it is stands in the metadata ([`WrappingKey`]), and a file without it makes none. It is changed by giving the new line to all nodes, putting
//! it in front, wrapping all data keys again (`amita volume key rewrap`), and taking the old line away. The file is its owner's alone (mode
//! 0600), and is read again each time that it is needed.

use super::reading;
use amita_control::admin::{DataKeys, Rewrap};
use amita_crypt::{
    Binding, Cost, DataKey, KeyError, Next, PURPOSE, Passphrase, Provider, SealedFile, WrappedKey, WrappingKey,
    Zeroizing,
};
use amita_keys::{SealKey, system_random};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file is at most this long: some dozens of keys, or of passphrases of the longest.
const MAX_FILE_BYTES: u64 = 16 << 10;
/// A passphrase may cost a stretching of a third of a second for each data key that another process has wrapped: they are few.
const MAX_PASSPHRASES: usize = 4;
/// Rights of anybody but the owner.
const OTHERS: u32 = 0o077;
const KEY: &str = "amita-seal-1:";
const PASSPHRASE: &str = "passphrase:";

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

/// What the file gave when it was last looked at.
struct Loaded {
    text: Zeroizing<String>,
    /// Never empty; the first one wraps.
    providers: Vec<Box<dyn Provider>>,
    /// There is a passphrase in it, which is stretched again whenever it is read again.
    is_costly: bool,
}

/// Wipes what may be had again for nothing.
fn let_go(loaded: &mut Option<Loaded>) {
    if loaded.as_ref().is_some_and(|loaded| !loaded.is_costly) {
        *loaded = None;
    }
}

/// See the module.
pub struct KeyFile {
    path: PathBuf,
    loaded: Mutex<Option<Loaded>>,
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
            loaded: Mutex::default(),
        }
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
        let mut loaded = self.lock();
        let found = self.look(&mut loaded).map(drop);
        let_go(&mut loaded);
        found
    }

    /// Wipes what is kept of it: it is read again when it is needed.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    /// Is anything kept of it?
    #[cfg(test)]
    pub(super) fn keeps(&self) -> bool {
        self.lock().is_some()
    }

    /// What it gives, and that it is wiped behind it.
    fn given<T>(&self, work: impl FnOnce(&mut Loaded) -> Result<T, String>) -> Result<T, String> {
        let mut loaded = self.lock();
        let done = match self.look(&mut loaded) {
            Ok(found) => work(found),
            Err(why) => Err(of_node(&why)),
        };
        let_go(&mut loaded);
        done
    }

    fn lock(&self) -> MutexGuard<'_, Option<Loaded>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it gives now: what it gave before, where it is the same.
    fn look<'a>(&self, loaded: &'a mut Option<Loaded>) -> Result<&'a mut Loaded, KeyFileError> {
        let text = reading::within(&self.path, reading::LIMIT, read).inspect_err(|_| *loaded = None)?;
        if loaded.as_ref().is_none_or(|before| *before.text != *text) {
            *loaded = None;
            let providers = parse(&text)?;
            let is_costly = text.lines().any(|line| line.starts_with(PASSPHRASE));
            *loaded = Some(Loaded {
                text,
                providers,
                is_costly,
            });
        }
        Ok(loaded.as_mut().expect("it was put there"))
    }

    /// Unwraps data keys, each of exactly this binding, by one look at the file: for each the key, or why nothing in the file opens it, for
    /// people.
    #[must_use]
    pub fn unwrap_all(&self, wanted: &[(Binding, WrappedKey)]) -> Vec<Result<DataKey, String>> {
        let unwrap = |found: &mut Loaded| {
            let keys = wanted.iter();
            Ok(keys
                .map(|(binding, wrapped)| unwrap(&mut found.providers, binding, wrapped))
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
        self.given(|found| unwrap(&mut found.providers, binding, wrapped))
    }

    /// Is what the cluster wraps data keys with in the file, so that it is the cluster's? `true`: its first line is it.
    ///
    /// # Errors
    /// Nothing in the file is: why, for people.
    pub fn is_of(&self, by: &WrappingKey) -> Result<bool, String> {
        self.given(|found| {
            found.with(by).map(drop)?;
            found.first(Some(by)).map(|first| first == *by)
        })
    }
}

fn unwrap(providers: &mut [Box<dyn Provider>], binding: &Binding, wrapped: &WrappedKey) -> Result<DataKey, String> {
    let mut refused: Option<KeyError> = None;
    for provider in providers {
        match provider.unwrap(binding, wrapped) {
            Ok(Next::Done(key)) => return Ok(key),
            Ok(Next::Ask(_)) => return Err(format!("{} is asked by no line of the file", provider.kind())),
            // What is of its kind says more than what is not.
            Err(why) if refused.is_none() || !matches!(why, KeyError::OtherProvider { .. }) => refused = Some(why),
            Err(_) => {}
        }
    }
    Err(refused.map_or_else(String::new, |why| why.to_string()))
}

fn wrap(provider: &mut dyn Provider, by: &WrappingKey, binding: &Binding, key: &DataKey) -> Result<WrappedKey, String> {
    let wrapped = provider.wrap_by(by, binding, key, &mut system_random);
    let kind = provider.kind();
    let wrapped = wrapped.map_err(|why| why.to_string())?.done();
    wrapped.ok_or_else(|| format!("{kind} is asked by no line of the file"))
}

impl Loaded {
    /// The first line's key. A passphrase has as many as there are salts: the one that the cluster has now, where it is of that.
    fn first(&mut self, now: Option<&WrappingKey>) -> Result<WrappingKey, String> {
        let first = self.providers.first_mut().expect("it is never empty");
        if let Some(now) = now.filter(|now| now.is_of_passphrase())
            && first.has(now).map_err(|why| why.to_string())?
        {
            return Ok(now.clone());
        }
        first.first().map_err(|why| why.to_string())
    }

    /// Who has this one.
    fn with(&mut self, by: &WrappingKey) -> Result<&mut dyn Provider, String> {
        let mut place = None;
        for (at, provider) in self.providers.iter_mut().enumerate() {
            if provider.has(by).map_err(|why| why.to_string())? {
                place = Some(at);
                break;
            }
        }
        let place = place.ok_or_else(|| {
            format!(
                "the file of volume keys is not the cluster's: no line of it is what data keys are wrapped with ({by}); give it the \
                 cluster's file (`amita volume key status` compares them)"
            )
        })?;
        Ok(&mut *self.providers[place])
    }
}

/// Where it is on the node is for the node's log.
fn of_node(why: &KeyFileError) -> String {
    format!("the file of volume keys is of no use: {why}")
}

impl DataKeys for KeyFile {
    fn make(&self, by: Option<&WrappingKey>, binding: &Binding) -> Result<WrappedKey, String> {
        self.given(|found| {
            let by = match by {
                Some(by) => by.clone(),
                None => found.first(None)?,
            };
            wrap(found.with(&by)?, &by, binding, &DataKey::generate(&mut system_random))
        })
    }
}

/// By the first line.
impl Rewrap for KeyFile {
    fn to(&self, now: Option<&WrappingKey>) -> Result<WrappingKey, String> {
        self.given(|found| found.first(now))
    }

    fn rewrap(&self, to: &WrappingKey, wrapped: &WrappedKey) -> Result<WrappedKey, String> {
        self.given(|found| {
            let binding = wrapped.binding();
            let key = unwrap(&mut found.providers, binding, wrapped)?;
            let again = wrap(
                &mut **found.providers.first_mut().expect("it is never empty"),
                to,
                binding,
                &key,
            )?;
            // As it will be read, and by nothing but that line: the one that wraps it now may be destroyed then.
            let read = WrappedKey::parse(&again.to_text()).map_err(|why| why.to_string())?;
            let opened = unwrap(&mut found.providers[..1], binding, &read)?;
            match opened.check_value() == wrapped.check_value() && read == again {
                true => Ok(again),
                false => Err(format!("what was wrapped again is not data key {}", binding.key)),
            }
        })
    }
}

/// Reads it, of the open file's facts: it cannot be exchanged in between.
fn read(path: &Path) -> Result<Zeroizing<String>, KeyFileError> {
    // A FIFO that nobody writes would not be opened: it is refused below, as all that is no file.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(KeyFileError::NoKeys("it is no regular file"));
    }
    let mode = facts.mode() & 0o777;
    if mode & OTHERS != 0 {
        return Err(KeyFileError::Permissions { mode });
    }
    let (owner, user) = (facts.uid(), rustix::process::geteuid().as_raw());
    // Root's may be: nothing is hidden from root anyway.
    if owner != user && owner != 0 {
        return Err(KeyFileError::Owner { owner, user });
    }
    if facts.size() > MAX_FILE_BYTES {
        return Err(KeyFileError::NoKeys("it is too long for a file of volume keys"));
    }
    // With room for all of it: a string that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES as usize));
    file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str) -> Result<Vec<Box<dyn Provider>>, KeyFileError> {
    let mut providers: Vec<Box<dyn Provider>> = Vec::new();
    // Half of a passphrase is a passphrase.
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(KeyFileError::NoKeys(
            "its last line has no end: it was not written to its end, or by an editor that leaves that out; see that it is whole, and end it with \
             a newline",
        ));
    }
    // All keys are one provider, at the place of the first.
    let (mut keys, mut keys_at): (Vec<&str>, usize) = (Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let bad = |why: String| KeyFileError::Line { line: index + 1, why };
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(passphrase) = line.strip_prefix(PASSPHRASE) {
            let made = Passphrase::new(passphrase, Cost::RECOMMENDED, &mut system_random);
            providers.push(Box::new(made.map_err(|why| bad(why.to_string()))?));
            if providers.len() > MAX_PASSPHRASES {
                return Err(bad(format!("more than {MAX_PASSPHRASES} passphrases")));
            }
        } else if line.starts_with(KEY) {
            if SealKey::of_lines(&[line]).is_none() {
                return Err(bad(format!("a key is `{KEY}BASE64:` with 32 bytes")));
            }
            if keys.is_empty() {
                keys_at = providers.len();
            }
            keys.push(line);
        } else {
            return Err(bad(format!("neither a key (`{KEY}BASE64:`) nor `{PASSPHRASE}TEXT`")));
        }
    }
    let derived = SealKey::of_lines(&keys).map(|key| key.derive(PURPOSE));
    if let Some(sealed) = derived.and_then(SealedFile::new) {
        providers.insert(keys_at, Box::new(sealed));
    }
    match providers.is_empty() {
        true => Err(KeyFileError::NoKeys(
            "there is no key in it (`amita volume key init` makes one)",
        )),
        false => Ok(providers),
    }
}
