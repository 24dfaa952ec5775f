//! Which repository, by which key: what all commands of backups are told.

use super::failure::{self, Described as _};
use super::key::Key;
use super::s3::{Bucket, DEFAULT_REGION};
use super::sessions;
use amita_backup::store::{Folder, Limited, ObjectStore, Retention, S3Address};
use amita_backup::{Cost, Error, Options, Vault, VaultId};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::{interrupt, size};
use amita_types::map::BackupRepository;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use url::Url;

/// The largest pack, and the shortest one that a limit makes: what goes at once is to be gone within a second.
const PACK_BYTES: u64 = 16 << 20;
const MIN_PACK_BYTES: u64 = 1 << 20;
/// So many packs are told of in one entry: 64 MiB at most are put a second time when a run was killed.
const PACKS_PER_ENTRY: usize = 4;

/// So many entries of the journal are read behind a checkpoint whenever a vault is opened: each is an object.
const MOST_ENTRIES: u64 = 1000;

/// S3's own limit: a hundred years.
const MAX_LOCK_DAYS: u64 = 36_500;
const DAY_S: u64 = 86_400;

/// The vaults that this process has found, by where and by which key file: what others have put there is not tried before these again.
static FOUND: Mutex<BTreeMap<String, VaultId>> = Mutex::new(BTreeMap::new());
/// Of more than a cluster's repositories are it begins anew.
const MAX_FOUND: usize = 256;

/// Where a repository is.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// The repository: a folder that is there, local or mounted; or s3://BUCKET/PREFIX
    #[arg(long, env = "AMITA_BACKUP_REPOSITORY", value_name = "FOLDER|s3://BUCKET/PREFIX")]
    pub repository: String,
    /// The key file: one line, of its owner alone (mode 0600). Keep a copy apart from the cluster and from the repository: without it
    /// nothing can be restored
    #[arg(long, env = "AMITA_BACKUP_KEY_FILE", value_name = "FILE")]
    pub key_file: PathBuf,
    #[command(flatten)]
    pub bucket: Bucket,
}

/// Which vault is used, and how quickly.
#[derive(Debug, clap::Args)]
pub struct Target {
    #[command(flatten)]
    pub place: Place,
    /// The vault, where a repository has several that the key opens
    #[arg(long, value_name = "VAULT", value_parser = parse_vault)]
    pub vault: Option<VaultId>,
    /// At most so many bytes a second go to the repository and come from it, as an average
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub limit_rate: Option<u64>,
    /// What is put into a bucket with object lock is locked for so many days from now on, so that nobody deletes it, whatever their rights;
    /// after a backup also all that points need that was put before
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=MAX_LOCK_DAYS))]
    pub lock_days: Option<u64>,
}

fn parse_vault(text: &str) -> std::result::Result<VaultId, String> {
    VaultId::parse(text).ok_or_else(|| "a vault's name has 32 hexadecimal digits".to_owned())
}

/// Reads a rate.
///
/// # Errors
/// It is none.
pub fn parse_rate(text: &str) -> std::result::Result<u64, String> {
    match size::parse(text)? {
        0 => Err("nothing would ever go: give at least one byte a second, as 20M for 20 MiB".to_owned()),
        rate => Ok(rate),
    }
}

impl Place {
    /// Where it is, and who opens it, in a text of its own.
    fn named(&self) -> String {
        let endpoint = self
            .bucket
            .s3_endpoint
            .as_ref()
            .map_or("", |endpoint| endpoint.as_str());
        format!("{}\n{endpoint}\n{}", self.repository, self.key_file.display())
    }

    /// The store. `plain`: also by a network of others, in plain text.
    ///
    /// # Errors
    /// There is no such folder; or what a bucket needs is not said.
    pub fn store(&self, locks: bool, plain: bool) -> Result<Arc<dyn ObjectStore>> {
        if let Some(address) = S3Address::parse(&self.repository) {
            let address = address.map_err(|why| Failure::new(why).kind(Kind::Usage))?;
            return self.bucket.store(address, locks, plain);
        }
        let folder = Folder::open(Path::new(&self.repository)).map_err(|why| {
            let failure = Failure::new(format!("the repository {}: {why}", self.repository));
            match why.kind() {
                std::io::ErrorKind::NotFound => failure.kind(Kind::NotFound).advice(
                    "Is it mounted? A folder for a new repository is made by you (`mkdir`), so that none lies where a disk was to be mounted.",
                ),
                _ => failure,
            }
        })?;
        Ok(Arc::new(folder))
    }
}

impl Target {
    /// Of a repository that the cluster knows, at this node.
    ///
    /// # Errors
    /// Its record is of a program that knows more, or was written by hand.
    pub fn of(known: &BackupRepository) -> Result<Target> {
        let refused = |what: &str| {
            Failure::new(format!("backup repository {}: {what}", known.name))
                .kind(Kind::Unreadable)
                .advice("`amita backup repository set` puts it right.")
        };
        let endpoint = known.s3_endpoint.as_deref().map(str::parse::<Url>).transpose();
        let vault = known
            .vault
            .as_deref()
            .map(|id| VaultId::parse(id).ok_or(()))
            .transpose();
        Ok(Target {
            place: Place {
                repository: known.address.clone(),
                key_file: PathBuf::from(&known.key_file),
                bucket: Bucket {
                    s3_endpoint: endpoint.map_err(|_| refused("where its bucket is served is no address"))?,
                    s3_region: known.s3_region.clone().unwrap_or_else(|| DEFAULT_REGION.to_owned()),
                    s3_credentials: known.s3_credentials.as_ref().map(PathBuf::from),
                    s3_ca: known.s3_ca.as_ref().map(PathBuf::from),
                },
            },
            vault: vault.map_err(|()| refused("its vault has no such name"))?,
            limit_rate: known.limit_bytes_per_s,
            lock_days: known.lock_days,
        })
    }

    fn options(&self) -> Options {
        let most = self.limit_rate.unwrap_or(PACK_BYTES);
        Options {
            pack_bytes: most.clamp(MIN_PACK_BYTES, PACK_BYTES),
            packs_per_entry: PACKS_PER_ENTRY,
            retain: self.locked_until(),
        }
    }

    /// Until when what is put now is locked.
    pub fn locked_until(&self) -> Option<Retention> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        self.lock_days
            .map(|days| Retention(now.saturating_add(days.saturating_mul(DAY_S))))
    }

    /// Opens the vault. `plain`: also by a network of others, in plain text.
    ///
    /// # Errors
    /// No repository, no vault, a key that does not open it, a damaged journal.
    pub fn open(&self, plain: bool) -> Result<Vault> {
        let key = Key::load(&self.place.key_file)?;
        let mut store = self.place.store(self.lock_days.is_some(), plain)?;
        if let Some(rate) = self.limit_rate {
            store = Arc::new(Limited::new(store, rate, interrupt::caught));
        }
        let mut vault = match self.vault {
            Some(id) => {
                let most = Cost::MOST;
                Vault::open_within(store, id, key.bytes(), self.options(), most, &interrupt::caught).described()?
            }
            None => self.find(&store, &key)?,
        };
        vault.work_at(&sessions::whence());
        for passed in vault.passed_over() {
            log::warn!("the repository: {passed}; it is not needed");
        }
        Ok(vault)
    }

    /// The one vault that the key opens. Others may be anybody's, and made to keep everybody busy: none of them is gone into further than a
    /// vault of this key ever needs, and none keeps anybody from their own.
    fn find(&self, store: &Arc<dyn ObjectStore>, key: &Key) -> Result<Vault> {
        let all = Vault::all(&**store).described()?;
        let shown = &self.place.repository;
        let place = self.place.named();
        let found = FOUND
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&place)
            .copied();
        let found = found.filter(|id| all.contains(id));
        let (mut refused, mut unknown, mut costly) = (None, None, 0);
        for id in found.iter().chain(all.iter().filter(|id| found != Some(**id))) {
            let options = self.options();
            match Vault::open_within(
                Arc::clone(store),
                *id,
                key.bytes(),
                options,
                Cost::default(),
                &interrupt::caught,
            ) {
                Err(error @ Error::Passphrase { .. }) => {
                    costly += usize::from(matches!(error, Error::Passphrase { costly: 1.., .. }));
                    refused = Some(error);
                }
                // It is listed, and has none of the names that keys have, or has gone.
                Err(Error::NoVault { .. }) => {}
                // It may be of a newer program; or it cannot be tried, or, of several, read.
                Err(error) if is_of_key(&error) && (all.len() > 1 || !matches!(error, Error::Store { .. })) => {
                    log::warn!("the repository: {error}; so it is not known whose vault that is");
                    unknown = Some(error);
                }
                Ok(vault) => {
                    let mut known = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
                    if known.len() >= MAX_FOUND {
                        known.clear();
                    }
                    known.insert(place, *id);
                    return Ok(vault);
                }
                failed => return failed.described(),
            }
        }
        if let Some(error) = unknown {
            return Err(failure::failure(error));
        }
        Err(match refused {
            None => Failure::new(format!("there is no vault in {shown}: it is no repository, or an empty one"))
                .kind(Kind::NotFound)
                .advice("Is it the right folder, and is it mounted? `amita backup repository init` makes a vault in an empty one."),
            Some(_) if all.len() > 1 => {
                let what = format!(
                    "the key file {} opens none of the {} vaults in {shown}",
                    self.place.key_file.display(),
                    all.len()
                );
                match costly {
                    0 => Failure::new(what)
                        .advice("Name the key file that the vault was made with: --key-file FILE. Nothing else opens it."),
                    _ => Failure::new(format!("{what}; {costly} of them have keys that cost too much to be tried"))
                        .advice(failure::COSTLY),
                }
                .kind(Kind::Unreadable)
            }
            Some(error) => failure::failure(error),
        })
    }
}

/// Is it about a vault's key, so that it is not known whose that vault is?
pub fn is_of_key(error: &Error) -> bool {
    match error {
        Error::Store { object, .. } | Error::Damaged { object, .. } => object.starts_with("keys/"),
        Error::Untried { .. } => true,
        _ => false,
    }
}

/// Puts a checkpoint where many entries are read behind the last one. Nothing is lost where it cannot be put: that is told.
pub fn checkpoint(vault: &mut Vault) {
    match vault.checkpoint_behind(MOST_ENTRIES) {
        Ok(false) => {}
        Ok(true) => {
            log::info!("the repository: there is a checkpoint, so that its journal is not read from far behind")
        }
        Err(why) => log::warn!("the repository: {why}; so its journal is read from far behind whenever it is opened"),
    }
}

#[cfg(test)]
mod tests;
