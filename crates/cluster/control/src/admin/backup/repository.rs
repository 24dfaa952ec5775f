//! Repositories, as the cluster knows them: a place, and the paths of files at the nodes. What opens them is in these files alone.

use super::super::subsystem::{put, unchanged};
use super::super::volume::believable;
use super::super::{AdminError, Result, check_name, get, list, names_under, parse, tries};
use amita_metadata::{Call, Op, Transact};
use amita_types::map::{self, BackupPolicy, BackupRepository, MAX_BACKUP_REPOSITORIES, Node};

/// The longest address or path, in bytes.
const MAX_TEXT: usize = 1024;
/// The most nodes that may be named.
const MAX_NODES: usize = 256;
/// S3's own limit: a hundred years.
const MAX_LOCK_DAYS: u64 = 36_500;

/// What an operator wants of a repository; none: as it is. An empty text, no nodes and 0 take away what was said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryChange {
    /// A folder of the nodes, or `s3://BUCKET/PREFIX`.
    pub address: Option<String>,
    /// The vault, in 32 hexadecimal digits.
    pub vault: Option<String>,
    /// The path of the key file at the nodes.
    pub key_file: Option<String>,
    /// Where the bucket is served.
    pub s3_endpoint: Option<String>,
    /// The bucket's region.
    pub s3_region: Option<String>,
    /// The path of the file with the access key at the nodes.
    pub s3_credentials: Option<String>,
    /// The path of a file with further authorities at the nodes.
    pub s3_ca: Option<String>,
    /// The names of the nodes that may work with it.
    pub nodes: Option<Vec<String>>,
    /// Bytes a second, for each run.
    pub limit_bytes_per_s: Option<u64>,
    /// For how many days what is put is locked.
    pub lock_days: Option<u64>,
}

fn bad(name: &str, why: String) -> AdminError {
    AdminError::BadSetting {
        what: "backup repository",
        name: name.to_owned(),
        why,
    }
}

fn find(meta: &dyn Transact, name: &str) -> Result<(BackupRepository, u64)> {
    match get::<BackupRepository>(meta, &map::backup_repository_key(name))? {
        Some(found) => Ok(found),
        None => Err(AdminError::NoSuch {
            what: "backup repository",
            name: name.to_owned(),
            there: names_under(meta, &map::backup_repositories_prefix())?,
        }),
    }
}

fn apply(meta: &dyn Transact, repository: &mut BackupRepository, change: &RepositoryChange) -> Result<()> {
    let said = |field: &mut Option<String>, value: &Option<String>| {
        if let Some(value) = value {
            *field = Some(value.clone()).filter(|value| !value.is_empty());
        }
    };
    if let Some(address) = &change.address {
        repository.address.clone_from(address);
    }
    if let Some(key_file) = &change.key_file {
        repository.key_file.clone_from(key_file);
    }
    said(&mut repository.vault, &change.vault);
    said(&mut repository.s3_endpoint, &change.s3_endpoint);
    said(&mut repository.s3_region, &change.s3_region);
    said(&mut repository.s3_credentials, &change.s3_credentials);
    said(&mut repository.s3_ca, &change.s3_ca);
    let number = |field: &mut Option<u64>, value: Option<u64>| {
        if let Some(value) = value {
            *field = Some(value).filter(|value| *value > 0);
        }
    };
    number(&mut repository.limit_bytes_per_s, change.limit_bytes_per_s);
    number(&mut repository.lock_days, change.lock_days);
    check(repository).map_err(|why| bad(&repository.name, why))?;
    if let Some(nodes) = &change.nodes {
        repository.nodes = known(meta, &repository.name, nodes)?;
    }
    Ok(())
}

/// Can it be? What it leads to is looked at by who backs up: it is a folder, and files, of nodes.
fn check(repository: &BackupRepository) -> std::result::Result<(), String> {
    let BackupRepository {
        address,
        vault,
        key_file,
        s3_endpoint,
        s3_region,
        s3_credentials,
        s3_ca,
        lock_days,
        ..
    } = repository;
    let texts = [s3_endpoint, s3_region, s3_credentials, s3_ca].into_iter().flatten();
    for text in texts.chain([address, key_file]) {
        if text.len() > MAX_TEXT || text.chars().any(char::is_control) {
            return Err(format!(
                "{text:?} is no address and no path: {MAX_TEXT} bytes are the most, none of them control characters"
            ));
        }
    }
    let is_bucket = match address.strip_prefix("s3://") {
        Some(rest) if rest.split('/').next().unwrap_or_default().is_empty() => {
            return Err(format!("{address} names no bucket; s3://BUCKET/PREFIX does"));
        }
        rest => rest.is_some(),
    };
    if !is_bucket && !address.starts_with('/') {
        return Err(format!(
            "{address:?} is neither a folder of the nodes, by its whole path (/backup/amita), nor s3://BUCKET/PREFIX"
        ));
    }
    for (what, path) in [
        ("key", Some(key_file)),
        ("credentials", s3_credentials.as_ref()),
        ("authorities", s3_ca.as_ref()),
    ] {
        if path.is_some_and(|path| !path.starts_with('/')) {
            return Err(format!(
                "the file of its {what} is named by its whole path at the nodes, as /etc/amita/{what}"
            ));
        }
    }
    if let Some(endpoint) = s3_endpoint {
        let rest = endpoint.strip_prefix("https://").or(endpoint.strip_prefix("http://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.contains('@')) {
            return Err(
                "where its bucket is served is said as https://HOST, or https://HOST:PORT, and without a user"
                    .to_owned(),
            );
        }
    }
    if is_bucket && s3_credentials.is_none() {
        return Err(
            "a bucket is used by an access key: name the path of its file at the nodes (--s3-credentials)".to_owned(),
        );
    }
    let is_vault = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if vault.as_deref().is_some_and(|id| !is_vault(id)) {
        return Err("a vault's name has 32 hexadecimal digits".to_owned());
    }
    match lock_days {
        Some(days) if *days > MAX_LOCK_DAYS => {
            Err(format!("it would lock for {days} days; {MAX_LOCK_DAYS} are the most"))
        }
        Some(_) if !is_bucket => Err("only a bucket locks what is put: a folder does not".to_owned()),
        _ => Ok(()),
    }
}

/// The names of nodes, sorted, each once, if there are such nodes.
fn known(meta: &dyn Transact, name: &str, nodes: &[String]) -> Result<Vec<String>> {
    if nodes.len() > MAX_NODES {
        return Err(bad(
            name,
            format!("{} nodes; {MAX_NODES} are the most that may be named", nodes.len()),
        ));
    }
    let reply = meta.txn(&Call::prefix(map::node_key("")))?;
    let there: Vec<String> = reply
        .values(0)
        .iter()
        .filter_map(|found| found.json::<Node>().ok())
        .filter(|node| !node.client)
        .map(|node| node.name)
        .collect();
    let mut named = nodes.to_vec();
    named.sort_unstable();
    named.dedup();
    match named.iter().find(|node| !there.contains(node)) {
        None => Ok(named),
        Some(node) => Err(AdminError::NoSuch {
            what: "node",
            name: node.clone(),
            there,
        }),
    }
}

/// Makes a repository known. Nothing is asked of it.
///
/// # Errors
/// A name, an address or paths that cannot be; a node that is not there; the name is taken; there are too many; the metadata is away or refuses.
pub fn add_backup_repository(meta: &dyn Transact, name: &str, change: &RepositoryChange) -> Result<BackupRepository> {
    check_name("backup repository", name)?;
    let (Some(address), Some(key_file)) = (&change.address, &change.key_file) else {
        return Err(bad(name, "it needs an address and a key file".to_owned()));
    };
    let mut repository = BackupRepository {
        name: name.to_owned(),
        address: address.clone(),
        vault: None,
        key_file: key_file.clone(),
        s3_endpoint: None,
        s3_region: None,
        s3_credentials: None,
        s3_ca: None,
        nodes: Vec::new(),
        limit_bytes_per_s: None,
        lock_days: None,
    };
    apply(meta, &mut repository, change)?;
    believable(meta)?;
    let all = names_under(meta, &map::backup_repositories_prefix())?;
    let exists = || AdminError::Exists {
        what: "backup repository",
        name: name.to_owned(),
    };
    if all.iter().any(|other| other == name) {
        return Err(exists());
    }
    if all.len() >= MAX_BACKUP_REPOSITORIES {
        return Err(bad(
            name,
            format!("there are {} repositories already, and no more can be", all.len()),
        ));
    }
    let key = map::backup_repository_key(name);
    let call = Call {
        compares: vec![unchanged(&key, 0)],
        then: vec![put(key, &repository)],
        otherwise: Vec::new(),
    };
    match meta.txn(&call)?.succeeded {
        true => Ok(repository),
        false => Err(exists()),
    }
}

/// Changes what is said of a repository. A run that is under way ends, and is gone on with by what is said then.
///
/// # Errors
/// There is none of that name; it could not be so; the metadata is away or refuses.
pub fn set_backup_repository(meta: &dyn Transact, name: &str, change: &RepositoryChange) -> Result<BackupRepository> {
    let key = map::backup_repository_key(name);
    for _ in tries(meta) {
        let (mut repository, revision) = find(meta, name)?;
        apply(meta, &mut repository, change)?;
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![put(key.clone(), &repository)],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(repository);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// Forgets a repository. What is in it stays. Whoever has a policy back up into it meanwhile, or makes a task for it, writes its record anew: then it
/// stays known.
///
/// # Errors
/// There is none of that name; policies use it, or tasks that have not ended, or such as cannot be read may; the metadata is away or refuses.
pub fn remove_backup_repository(meta: &dyn Transact, name: &str) -> Result<BackupRepository> {
    let key = map::backup_repository_key(name);
    for _ in tries(meta) {
        let (repository, revision) = find(meta, name)?;
        let mut policies = Vec::new();
        for found in meta.txn(&Call::prefix(map::backup_policies_prefix()))?.values(0) {
            let policy: BackupPolicy = parse(found)?;
            if policy.repository == name {
                policies.push(policy.name);
            }
        }
        let (tasks, unreadable) = super::task::backup_tasks(meta)?;
        if let Some(found) = unreadable.into_iter().find(|found| found.may_be_for(name)) {
            return Err(found.why);
        }
        let tasks = tasks
            .into_iter()
            .filter(|found| found.task.repository == name && !found.has_ended());
        let tasks: Vec<String> = tasks.map(|found| found.task.name).collect();
        if !policies.is_empty() || !tasks.is_empty() {
            return Err(AdminError::RepositoryInUse {
                repository: name.to_owned(),
                policies,
                tasks,
            });
        }
        let call = Call {
            compares: vec![unchanged(&key, revision)],
            then: vec![Op::Delete { key: key.clone() }],
            otherwise: Vec::new(),
        };
        if meta.txn(&call)?.succeeded {
            return Ok(repository);
        }
    }
    Err(AdminError::TooManyRaces { key })
}

/// All repositories that are known, by name.
///
/// # Errors
/// The metadata is away, or a record cannot be read.
pub fn backup_repositories(meta: &dyn Transact) -> Result<Vec<BackupRepository>> {
    list(meta, &map::backup_repositories_prefix())
}

/// A repository.
///
/// # Errors
/// There is none of that name; the metadata is away.
pub fn backup_repository(meta: &dyn Transact, name: &str) -> Result<BackupRepository> {
    find(meta, name).map(|(repository, _)| repository)
}

/// Where a policy backs up into a repository, that is known when the policy is written: who forgets it finds its record written anew.
pub(super) fn hold(meta: &dyn Transact, name: &str, call: &mut Call) -> Result<()> {
    let (repository, revision) = find(meta, name)?;
    let key = map::backup_repository_key(name);
    call.compares.push(unchanged(&key, revision));
    call.then.push(put(key, &repository));
    Ok(())
}
