//! What is asked of an object store.
//!
//! **The contract.** An object is put whole or not at all, and never changes. `put` creates only what is not there: of several puts of one
//! name one wins, for good. What a put has confirmed every later `get` sees (S3 has given both since 2020 and 2024). A put that failed may
//! still take place at any time later, and more than once. `list` may be behind by any time: it may lack what was put and show what was
//! deleted. Nothing is decided by what a list lacks.
//!
//! **S3** ([`S3`]) is this trait over signed requests: `put` is PutObject with `If-None-Match: *` (412 and 409 are
//! [`Put::Exists`] and to be tried again), with `x-amz-object-lock-mode: COMPLIANCE` and `x-amz-object-lock-retain-until-date` for
//! [`Retention`], `get_range` is GetObject with `Range`, `list` ListObjectsV2 with `start-after`, `retain` PutObjectRetention.

mod folder;
mod limited;
#[cfg(test)]
pub(crate) mod memory;
mod s3;

pub use folder::Folder;
pub use limited::Limited;
pub use s3::{Credentials, S3, S3Address, S3Settings};

/// The longest object that is read: a checkpoint of a vault, with room. Whoever may write into a repository may put longer ones there.
pub(crate) const MAX_OBJECT_BYTES: usize = (1 << 30) + (1 << 20);
/// So much memory names take at most that are listed: of some ten million objects.
const MAX_LISTED_BYTES: usize = if cfg!(test) { 4 << 20 } else { 1 << 30 };

/// Until when an object may not be deleted, in seconds since 1970 of the *store's* clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Retention(pub u64);

/// What a put came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is there now.
    New,
    /// There was an object of this name, perhaps the same one: an earlier try that was thought lost.
    Exists,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It may or may not have been done, or may be done later: a connection was cut, an answer did not come.
    #[error("the outcome is not known: {0}")]
    Unknown(String),
    /// There is no room.
    #[error("the target is full")]
    Full,
    /// The object is locked.
    #[error("it is locked until {} (seconds since 1970)", .until.0)]
    Locked {
        /// Until then.
        until: Retention,
    },
    /// The store has no such thing.
    #[error("the target cannot do that: {0}")]
    Unsupported(&'static str),
    /// It was refused, for good.
    #[error("{0}")]
    Refused(String),
}

/// The memory that is left for a list.
pub(crate) struct Room(usize);

impl Default for Room {
    fn default() -> Room {
        Room(MAX_LISTED_BYTES)
    }
}

impl Room {
    /// Takes what a name needs.
    ///
    /// # Errors
    /// There is no more: a list may have no end.
    pub fn take(&mut self, name: &str) -> Result<(), StoreError> {
        let left = self.0.checked_sub(name.len() + size_of::<Listed>());
        self.0 = left.ok_or_else(|| {
            StoreError::Refused(format!("there are more names than {} MiB hold", MAX_LISTED_BYTES >> 20))
        })?;
        Ok(())
    }
}

/// An object store. Names are made of ASCII letters, digits, `-` and `/`.
pub trait ObjectStore: Send + Sync {
    /// Creates an object, durably, if there is none of this name.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when it may be there nevertheless, now or later.
    fn put(&self, name: &str, bytes: &[u8], retain: Option<Retention>) -> Result<Put, StoreError>;

    /// All of an object; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// `length` bytes from `offset` on, fewer where the object ends before.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get_range(&self, name: &str, offset: u64, length: usize) -> Result<Option<Vec<u8>>, StoreError>;

    /// The names that begin with `prefix` and come after `after` in the order of their bytes: at most `most` of them, in that order. An
    /// empty list is the end.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, prefix: &str, after: &str, most: usize) -> Result<Vec<Listed>, StoreError>;

    /// Removes an object. One that is not there is no error.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when it has to stay.
    fn delete(&self, name: &str) -> Result<(), StoreError>;

    /// Locks an object at least until then; it never makes a lock shorter.
    ///
    /// # Errors
    /// [`StoreError::Unsupported`] where the store has no locks.
    fn retain(&self, name: &str, until: Retention) -> Result<(), StoreError>;

    /// Removes what puts have left that were cut off, a day or longer ago; returns how many.
    ///
    /// # Errors
    /// When it cannot be looked for.
    fn tidy(&self) -> Result<usize, StoreError> {
        Ok(0)
    }
}

/// Tries whether a store does what is asked of it, above all whether a put overwrites nothing; some pass that condition over. What is put for
/// that is deleted again.
///
/// # Errors
/// It does not; or it does not answer.
pub fn try_out(store: &dyn ObjectStore) -> Result<(), StoreError> {
    let mut tag = [0; 16];
    aws_lc_rs::rand::fill(&mut tag).map_err(|_| StoreError::Refused("there are no random numbers".to_owned()))?;
    let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("trials/{tag}");
    let (first, second) = (format!("first {tag}"), format!("other {tag}"));
    let tried = tried(store, &name, first.as_bytes(), second.as_bytes());
    let deleted = store.delete(&name);
    tried.and(deleted)
}

fn tried(store: &dyn ObjectStore, name: &str, first: &[u8], second: &[u8]) -> Result<(), StoreError> {
    // Whether the first one was new is not known where it had to be sent twice.
    store.put(name, first, None)?;
    let again = store.put(name, second, None)?;
    if again == Put::New || store.get(name)?.as_deref() != Some(first) {
        return Err(StoreError::Unsupported(
            "it overwrites what is there, though it is told not to (If-None-Match): two writers could not be kept apart",
        ));
    }
    if store.get_range(name, 2, 3)?.as_deref() != first.get(2..5) {
        return Err(StoreError::Unsupported("it reads no ranges of objects"));
    }
    Ok(())
}

/// Everything that begins with `prefix`.
pub(crate) fn list_all(store: &dyn ObjectStore, prefix: &str) -> Result<Vec<Listed>, StoreError> {
    list_until(store, prefix, &|| false).map(Option::unwrap_or_default)
}

/// The same, unless `ends` says that it is to end: asked before each page. None: it has ended so.
pub(crate) fn list_until(
    store: &dyn ObjectStore,
    prefix: &str,
    ends: &dyn Fn() -> bool,
) -> Result<Option<Vec<Listed>>, StoreError> {
    // A store may tell fewer at a time, as S3 does. A folder is gone through for each page, so these are few.
    const PAGE: usize = 1 << 20;
    let (mut found, mut room): (Vec<Listed>, _) = (Vec::new(), Room::default());
    loop {
        if ends() {
            return Ok(None);
        }
        let after = found.last().map_or(String::new(), |last| last.name.clone());
        let page = store.list(prefix, &after, PAGE)?;
        // A store that does not go on would be asked for ever.
        if page.last().is_none_or(|last| last.name <= after) {
            return Ok(Some(found));
        }
        page.iter().try_for_each(|listed| room.take(&listed.name))?;
        found.extend(page);
    }
}
