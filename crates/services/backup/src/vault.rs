//! A vault: its objects, its keys, and what is known of it.
//!
//! ```text
//! keys/VAULT/NN                the vault's key, sealed by a passphrase: 00 to 15
//! journal/VAULT/NUMBER         entries, 20 digits
//! packs/VAULT/SESSION-COUNT    packs, 16 and 8 hexadecimal digits
//! states/VAULT/NUMBER          checkpoints
//! ```

use crate::error::{Error, of};
use crate::journal::{Head, Landed};
use crate::pack::PackName;
use crate::seal::{Keys, MasterKey, random};
use crate::slot::{Cost, KeySlot, SLOT_BYTES, is_drawn};
use crate::state::State;
use crate::store::{ObjectStore, Retention, StoreError, list_all};
use crate::verify::Judged;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// How many passphrases a vault may have. All are looked for by name: no listing decides whether a vault opens.
const SLOTS: usize = 16;
/// When so many of them cannot be read, it is the store that does not answer.
const UNREAD_SLOTS: usize = 3;
/// The same of objects that are locked, one after the other.
const SILENT_LOCKS: usize = 3;

/// What was found of a vault's keys.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// So many there are.
    pub found: usize,
    /// What is wrong with some of them.
    pub damaged: Vec<Error>,
    /// It has ended before all were looked at.
    pub failed: Option<Error>,
}

/// The name of a vault: random.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VaultId(pub [u8; 16]);

impl fmt::Display for VaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for VaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl VaultId {
    /// Reads its text: 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<VaultId> {
        let mut id = [0; 16];
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(VaultId(id))
    }

    pub(crate) fn key(self, slot: usize) -> String {
        format!("keys/{self}/{slot:02}")
    }

    pub(crate) fn journals(self) -> String {
        format!("journal/{self}/")
    }

    pub(crate) fn journal(self, number: u64) -> String {
        format!("journal/{self}/{number:020}")
    }

    pub(crate) fn packs(self) -> String {
        format!("packs/{self}/")
    }

    pub(crate) fn pack(self, name: PackName) -> String {
        format!("packs/{self}/{name}")
    }

    pub(crate) fn checkpoints(self) -> String {
        format!("states/{self}/")
    }

    pub(crate) fn checkpoint(self, number: u64) -> String {
        format!("states/{self}/{number:020}")
    }
}

/// How a vault is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A pack is put when it has so many bytes. At most 512 MiB are taken.
    pub pack_bytes: u64,
    /// So many packs are told of in one entry: so much is sent again after a crash.
    pub packs_per_entry: usize,
    /// Every object that is put is locked until then, by the store's clock.
    pub retain: Option<Retention>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            pack_bytes: 16 << 20,
            packs_per_entry: 8,
            retain: None,
        }
    }
}

/// A key's object, as much of it as a key has and a byte: others may have put something longer under its name.
pub(crate) fn read_slot(store: &dyn ObjectStore, object: &str) -> Result<Option<Vec<u8>>, StoreError> {
    store.get_range(object, 0, SLOT_BYTES + 1)
}

/// A vault that is open.
pub struct Vault {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) id: VaultId,
    pub(crate) keys: Keys,
    pub(crate) state: State,
    pub(crate) head: Head,
    pub(crate) options: Options,
    pub(crate) passed_over: Vec<Error>,
    /// The entry of the newest checkpoint that is known.
    pub(crate) saved: u64,
    /// Who works with it.
    pub(crate) whence: String,
    master: MasterKey,
}

impl Vault {
    /// The vaults of a repository, as its listing tells them.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn all(store: &dyn ObjectStore) -> Result<BTreeSet<VaultId>, Error> {
        let listed = list_all(store, "keys/").map_err(of("keys/", "list it"))?;
        let id = |name: &str| VaultId::parse(name.strip_prefix("keys/")?.split('/').next()?);
        Ok(listed.iter().filter_map(|object| id(&object.name)).collect())
    }

    /// Makes a new vault.
    ///
    /// # Errors
    /// When it cannot be put.
    pub fn create(
        store: Arc<dyn ObjectStore>,
        passphrase: &[u8],
        cost: Cost,
        options: Options,
    ) -> Result<Vault, Error> {
        let id = VaultId(random()?);
        let master = MasterKey::new(random()?);
        let vault = Vault::new(store, id, master, options)?;
        vault.add_passphrase(passphrase, cost)?;
        Ok(vault)
    }

    fn new(store: Arc<dyn ObjectStore>, id: VaultId, master: MasterKey, options: Options) -> Result<Vault, Error> {
        Ok(Vault {
            store,
            id,
            keys: Keys::new(id, &master)?,
            state: State::default(),
            head: Head {
                number: 0,
                hash: [0; 32],
            },
            options,
            passed_over: Vec::new(),
            saved: 0,
            whence: String::new(),
            master,
        })
    }

    /// Opens a vault, and reads what it is.
    ///
    /// # Errors
    /// When it is not there, when the passphrase opens no key of it, when its journal is damaged.
    pub fn open(store: Arc<dyn ObjectStore>, id: VaultId, passphrase: &[u8], options: Options) -> Result<Vault, Error> {
        Vault::open_within(store, id, passphrase, options, Cost::MOST, &|| false)
    }

    /// The same, of a vault that may be another one's: whoever may write into a repository may put keys there that take gigabytes and hours to be
    /// tried. A passphrase that was drawn is tried on those alone that such a one has sealed, any other one on what costs no more than `most`.
    /// `ends` is asked before each whether it is to end.
    ///
    /// # Errors
    /// As [`Vault::open`]; [`Error::Untried`] when one cannot be tried and no other one opens; [`Error::Ended`].
    pub fn open_within(
        store: Arc<dyn ObjectStore>,
        id: VaultId,
        passphrase: &[u8],
        options: Options,
        most: Cost,
        ends: &dyn Fn() -> bool,
    ) -> Result<Vault, Error> {
        let (mut slots, mut costly, mut damage, mut unread) = (0, 0, None, Vec::new());
        let (mut untried, is_drawn) = (None, is_drawn(passphrase));
        for number in 0..SLOTS {
            if ends() {
                return Err(Error::Ended);
            }
            let object = id.key(number);
            let bytes = match read_slot(&*store, &object).map_err(of(&object, "read it")) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => continue,
                // Another one may open it; each may be waited for.
                Err(error) => {
                    unread.push(error);
                    match unread.len() < UNREAD_SLOTS {
                        true => continue,
                        false => break,
                    }
                }
            };
            let why = match KeySlot::parse(&bytes) {
                Ok(slot) if slot.vault() == id && !is_drawn && !slot.is_within(most) => {
                    costly += 1;
                    continue;
                }
                Ok(slot) if slot.vault() == id => {
                    slots += 1;
                    match slot.open(passphrase) {
                        Ok(Some(master)) => {
                            let mut vault = Vault::new(store, id, master, options)?;
                            vault.read()?;
                            vault.passed_over.extend(damage.into_iter().chain(unread));
                            return Ok(vault);
                        }
                        Ok(None) => {}
                        // Another one may be cheaper.
                        Err(Error::Cryptography(why)) => untried = Some(Error::Untried { object, why }),
                        Err(error) => return Err(error),
                    }
                    continue;
                }
                Ok(_) => "it is a key of another vault",
                Err(why) => why.0,
            };
            slots += 1;
            damage = Some(Error::Damaged { object, why });
        }
        Err(match unread.into_iter().next().or(untried).or(damage) {
            Some(why) => why,
            None if slots + costly == 0 => Error::NoVault { vault: id },
            None => Error::Passphrase {
                vault: id,
                slots,
                costly,
                is_drawn,
            },
        })
    }

    fn read(&mut self) -> Result<(), Error> {
        self.load_checkpoint()?;
        self.refresh()?;
        self.check_end()
    }

    /// Another one that is open, as another process would have it.
    #[cfg(test)]
    pub(crate) fn again(&self, store: Arc<dyn ObjectStore>) -> Result<Vault, Error> {
        let mut vault = Vault::new(store, self.id, self.master.clone(), self.options)?;
        vault.state.switches = self.state.switches;
        vault.read()?;
        Ok(vault)
    }

    /// Seals the vault's key by one more passphrase; returns its object.
    ///
    /// # Errors
    /// When it cannot be put, or the vault has 16 already.
    pub fn add_passphrase(&self, passphrase: &[u8], cost: Cost) -> Result<String, Error> {
        let slot = KeySlot::seal(self.id, &self.master, passphrase, cost)?;
        let mut unread = Vec::new();
        for number in 0..SLOTS {
            let object = self.id.key(number);
            match self.put(&object, slot.bytes()) {
                Ok(Landed::Ours) => return Ok(object),
                Ok(Landed::Another) => {}
                // What is there cannot be read, say: another one may be free. Two that are the same do no harm.
                Err(error @ Error::Store { .. }) if unread.len() + 1 < UNREAD_SLOTS => unread.push(error),
                Err(error) => return Err(error),
            }
        }
        Err(match unread.into_iter().next() {
            Some(error) => error,
            None => Error::Limit {
                what: "the number of passphrases",
                most: SLOTS as u64,
            },
        })
    }

    /// Removes the keys that a passphrase opens, but never the last one; returns how many. Who has read one keeps the vault's key. What is
    /// sealed by another passphrase counts as another key, for only that one tells whether it opens.
    ///
    /// # Errors
    /// [`Error::LastKey`] when nothing else would open the vault; [`Error::Untried`] when there is no memory to try one, which may be this
    /// passphrase's still, and is not counted on to open the vault: those that it opens for certain are removed if yet another one stays;
    /// when a key cannot be read or deleted.
    pub fn remove_passphrase(&self, passphrase: &[u8]) -> Result<usize, Error> {
        let (mut opened, mut others, mut untried) = (Vec::new(), 0, None);
        for number in 0..SLOTS {
            let object = self.id.key(number);
            let Some(bytes) = read_slot(&*self.store, &object).map_err(of(&object, "read it"))? else {
                continue;
            };
            match KeySlot::parse(&bytes) {
                Ok(slot) if slot.vault() == self.id => match slot.open(passphrase) {
                    Ok(Some(_)) => opened.push(object),
                    Ok(None) => others += 1,
                    // Others may have put it, for more memory than there is, or it is this passphrase's: neither is known.
                    Err(Error::Cryptography(why)) => {
                        untried.get_or_insert(Error::Untried { object, why });
                    }
                    Err(error) => return Err(error),
                },
                // It opens nothing, and is not told of here: verifying does.
                _ => {}
            }
        }
        if others == 0 {
            let object = opened.pop().unwrap_or_else(|| self.id.key(0));
            return Err(untried.unwrap_or(Error::LastKey { object }));
        }
        for object in &opened {
            self.store.delete(object).map_err(of(object, "delete it"))?;
        }
        untried.map_or(Ok(opened.len()), Err)
    }

    /// The keys that there are, and those that are damaged. `judge`: is it damage that one cannot be read, or was it read after all? Else it ends by that.
    pub(crate) fn damaged_keys(&self, judge: &mut dyn FnMut(Error) -> Result<Judged<Option<Vec<u8>>>, Error>) -> Slots {
        let mut slots = Slots::default();
        for number in 0..SLOTS {
            let object = self.id.key(number);
            let judged = match read_slot(&*self.store, &object).map_err(of(&object, "read it")) {
                Ok(bytes) => Ok(Judged::Read(bytes)),
                Err(error) => judge(error),
            };
            let damage = match judged {
                Ok(Judged::Read(None)) => continue,
                Ok(Judged::Read(Some(bytes))) => match KeySlot::parse(&bytes) {
                    Ok(slot) if slot.vault() == self.id => None,
                    Ok(_) => Some("it is a key of another vault"),
                    Err(why) => Some(why.0),
                }
                .map(|why| Error::Damaged { object, why }),
                Ok(Judged::Damage(error)) => Some(error),
                Err(error) => {
                    slots.failed = Some(error);
                    break;
                }
            };
            slots.found += 1;
            slots.damaged.extend(damage);
        }
        slots
    }

    /// Locks all that the points need, and all that the vault's order needs, at least until then: for a store with object lock, once for
    /// each point and whenever the lock is to be longer. What is put from now on is locked as well. `ends` is asked before each object whether
    /// it is to end: then not all is locked. What is damaged, or cannot be locked, keeps nothing else from being locked.
    ///
    /// # Errors
    /// Why the first of it could not be locked, or read: a point is damaged, and that was not known ([`Vault::give_up`]);
    /// [`Error::Unanswered`] when it is one object of which the store does not answer, [`Error::Store`] whatever is damaged when the store
    /// answers nothing any more, for then what is behind that is not locked; [`Error::Ended`].
    pub fn retain(&mut self, until: Retention, ends: &dyn Fn() -> bool) -> Result<(), Error> {
        self.refresh()?;
        self.options.retain = Some(until);
        let mut walk = crate::walk::Walk::over_what_is_unread(ends);
        walk.all(self)?;
        let mut failed = walk.passed_over(&self.state);
        let packs = walk.needed(&self.state, &BTreeSet::new())?;
        let lost = &self.state.lost;
        // What was given up as lost is locked where it is there.
        let packs = packs.iter().map(|pack| (self.id.pack(*pack), lost.contains(pack)));
        let entries = (1..=self.head.number).map(|number| (self.id.journal(number), false));
        let mut objects: Vec<(String, bool)> = packs.chain(entries).collect();
        for slot in (0..SLOTS).map(|slot| self.id.key(slot)) {
            match read_slot(&*self.store, &slot).map_err(of(&slot, "read it")) {
                Ok(None) => {}
                Ok(Some(_)) => objects.push((slot, false)),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        let (mut silent, mut answered) = (0, None);
        for (object, is_lost) in &objects {
            if ends() {
                return Err(Error::Ended);
            }
            let Err(why) = self.store.retain(object, until) else {
                (silent, answered) = (0, Some(object));
                continue;
            };
            let is_silent = matches!(why, StoreError::Unknown(_));
            silent = if is_silent { silent + 1 } else { 0 };
            // Several in a row that are not answered, or one that the store cannot do: with the rest it would come to the same. Whatever was
            // found before, it is for this that what follows is not locked.
            if silent == SILENT_LOCKS || matches!(why, StoreError::Unsupported(_)) {
                return Err(of(object, "lock it")(why));
            }
            if !is_lost {
                failed.get_or_insert(of(object, "lock it")(why));
            }
        }
        // It was the last ones that were not answered for: does the store answer at all?
        if let Some(object) = answered.filter(|_| silent > 0) {
            self.store.retain(object, until).map_err(of(object, "lock it"))?;
        }
        match failed {
            Some(error) if error.is_unknown() && answered.is_some() => Err(Error::Unanswered(Box::new(error))),
            failed => failed.map_or(Ok(()), Err),
        }
    }

    /// Says who works with it: it stands behind the labels of sessions that begin from now on.
    pub fn work_at(&mut self, whence: &str) {
        whence.clone_into(&mut self.whence);
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> VaultId {
        self.id
    }

    /// What it is, as far as the journal was read.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The last entry that is known.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// What was found damaged when it was opened, and not needed.
    #[must_use]
    pub fn passed_over(&self) -> &[Error] {
        &self.passed_over
    }
}
