//! Repositories that the cluster knows, for policies: `amita backup repository add` and what comes behind it.
//!
//! The cluster is told where a repository is and what its files are called at the nodes; what is in these files it is never told.

use super::super::target::parse_rate;
use crate::admin::{Admin, Described as _};
use amita_backup::VaultId;
use amita_backup::store::S3Address;
use amita_control::access::Action;
use amita_control::admin::{self, RepositoryChange};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::BackupRepository;
use url::Url;

/// What is said of a repository.
#[derive(Debug, clap::Args)]
pub struct Facts {
    /// The vault, where the repository has several that the key opens
    #[arg(long, value_name = "VAULT")]
    pub vault: Option<String>,
    /// Where the bucket is served, where that is not AWS: https://HOST[:PORT]
    #[arg(long, value_name = "URL")]
    pub s3_endpoint: Option<Url>,
    /// The bucket's region [default: us-east-1]
    #[arg(long, value_name = "NAME")]
    pub s3_region: Option<String>,
    /// The path, at the nodes, of the file with the access key (mode 0600, of the node's user); it is read each time, and goes nowhere else
    #[arg(long, value_name = "ON_NODES")]
    pub s3_credentials: Option<String>,
    /// The path, at the nodes, of a file with further authorities (PEM) that the endpoint's certificate may be of
    #[arg(long, value_name = "ON_NODES")]
    pub s3_ca: Option<String>,
    /// A node that may work with it; once for each [default: every node that has the key file]
    #[arg(long = "node", value_name = "NAME")]
    pub nodes: Vec<String>,
    /// At most so many bytes a second go to it and come from it, as an average, for each run
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub limit_rate: Option<u64>,
    /// What is put into a bucket with object lock is locked for so many days from then on
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..))]
    pub lock_days: Option<u64>,
}

/// `amita backup repository add`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// Its name in this cluster
    pub name: String,
    /// Where it is: a folder of the nodes, by its whole path, the same at all of them; or s3://BUCKET/PREFIX
    #[arg(long, value_name = "FOLDER|s3://BUCKET/PREFIX")]
    pub address: String,
    /// The path of the key file at the nodes (mode 0600, of the node's user). The cluster is told the path, and never what is in it
    #[arg(long, value_name = "ON_NODES")]
    pub key_file: String,
    #[command(flatten)]
    pub facts: Facts,
    /// Say what was noted as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita backup repository set`.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The repository
    pub name: String,
    /// Where it is
    #[arg(long, value_name = "FOLDER|s3://BUCKET/PREFIX")]
    pub address: Option<String>,
    /// The path of the key file at the nodes
    #[arg(long, value_name = "ON_NODES")]
    pub key_file: Option<String>,
    #[command(flatten)]
    pub facts: Facts,
    /// Every node that has the key file may work with it
    #[arg(long, conflicts_with = "nodes")]
    pub any_node: bool,
    /// Nothing is locked any more
    #[arg(long, conflicts_with = "lock_days")]
    pub no_lock: bool,
    /// As many bytes a second as there can be
    #[arg(long, conflicts_with = "limit_rate")]
    pub no_limit: bool,
    /// Say what was noted as JSON
    #[arg(long)]
    pub json: bool,
}

fn usage(what: String) -> Failure {
    Failure::new(what).kind(Kind::Usage)
}

impl Facts {
    fn change(&self, address: Option<&String>, key_file: Option<&String>) -> Result<RepositoryChange> {
        if let Some(Err(why)) = address.and_then(|address| S3Address::parse(address)) {
            return Err(usage(why));
        }
        if let Some(vault) = self.vault.as_ref().filter(|vault| VaultId::parse(vault).is_none()) {
            return Err(usage(format!("{vault}: a vault's name has 32 hexadecimal digits")));
        }
        Ok(RepositoryChange {
            address: address.cloned(),
            vault: self.vault.clone(),
            key_file: key_file.cloned(),
            s3_endpoint: self.s3_endpoint.as_ref().map(ToString::to_string),
            s3_region: self.s3_region.clone(),
            s3_credentials: self.s3_credentials.clone(),
            s3_ca: self.s3_ca.clone(),
            nodes: (!self.nodes.is_empty()).then(|| self.nodes.clone()),
            limit_bytes_per_s: self.limit_rate,
            lock_days: self.lock_days,
        })
    }
}

/// `amita backup repository add`.
pub fn add(arguments: &AddArguments, metadata: &Admin) -> Result<()> {
    let change = arguments
        .facts
        .change(Some(&arguments.address), Some(&arguments.key_file))?;
    let name = &arguments.name;
    let added = metadata.act(Action::BackupRepositoryAdd, name, |meta| {
        admin::add_backup_repository(meta, name, &change)
    });
    say(&added.described()?, arguments.json, "known")
}

/// `amita backup repository set`.
pub fn set(arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let mut change = arguments
        .facts
        .change(arguments.address.as_ref(), arguments.key_file.as_ref())?;
    if arguments.any_node {
        change.nodes = Some(Vec::new());
    }
    if arguments.no_lock {
        change.lock_days = Some(0);
    }
    if arguments.no_limit {
        change.limit_bytes_per_s = Some(0);
    }
    if change == RepositoryChange::default() {
        return Err(usage("nothing is to be changed".to_owned()).advice("See `amita backup repository set --help`."));
    }
    let set = metadata.act(Action::BackupRepositorySet, name, |meta| {
        admin::set_backup_repository(meta, name, &change)
    });
    say(&set.described()?, arguments.json, "changed")
}

fn say(repository: &BackupRepository, as_json: bool, done: &str) -> Result<()> {
    print(as_json, repository, || {
        let BackupRepository {
            name,
            address,
            key_file,
            nodes,
            ..
        } = repository;
        let who = match nodes.is_empty() {
            true => format!("every node that has {key_file} may"),
            false => format!("these nodes may, with {key_file}: {}", nodes.join(", ")),
        };
        format!("Backup repository {name} is {done}: {address}; {who} work with it.\n")
    })
}

/// `amita backup repository list`.
pub fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let all = admin::backup_repositories(&metadata.reader()).described()?;
    print(as_json, &all, || {
        let mut table = Table::new(&["repository", "address", "key file", "nodes", "limit"]);
        for found in &all {
            table.row([
                found.name.clone(),
                found.address.clone(),
                found.key_file.clone(),
                found.nodes.join(","),
                found
                    .limit_bytes_per_s
                    .map_or_else(String::new, |rate| format!("{}/s", size::show(rate))),
            ]);
        }
        table.text()
    })
}

/// `amita backup repository remove`.
pub fn remove(name: &str, as_json: bool, metadata: &Admin) -> Result<()> {
    let removed = metadata.act(Action::BackupRepositoryRemove, name, |meta| {
        admin::remove_backup_repository(meta, name)
    });
    print(as_json, &removed.described()?, || {
        format!("Backup repository {name} is forgotten. What is in it stays.\n")
    })
}
