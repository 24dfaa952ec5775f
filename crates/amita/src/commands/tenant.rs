//! `amita tenant`.

mod key;

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::volume::limit;
use amita_control::access::Action;
use amita_control::admin;
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use serde::Serialize;
use std::collections::BTreeMap;

/// What to do with tenants.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Limits: how much the hosts of all its volumes together may do
    #[command(subcommand, visible_alias = "limits")]
    Limit(limit::JointCommand),
    /// Volume keys: what wraps the data keys of the tenant's encrypted volumes, and of no others
    #[command(subcommand)]
    Key(key::Command),
    /// Say that a volume is a tenant's; it is no other's any more
    ///
    /// By that it is under the tenant's limits. An encrypted one stays wrapped as it is until `amita volume key rewrap`, where the tenant has a volume key, or
    /// another one had. Who may use it is said by what exports it (`amita nbd export --tenant`).
    Add {
        /// The tenant's name
        tenant: String,
        /// The volume's name
        volume: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Say that a volume is no tenant's
    Remove {
        /// The volume's name
        volume: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the volumes that are tenants'
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// A volume, and whose it is.
#[derive(Serialize)]
struct Shown {
    volume: String,
    tenant: Option<String>,
    /// Its data keys are wrapped by another one's volume key still; none: nobody knows.
    #[serde(skip_serializing_if = "is_settled")]
    to_be_wrapped: Option<bool>,
}

fn is_settled(to_be_wrapped: &Option<bool>) -> bool {
    *to_be_wrapped == Some(false)
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let endpoints = metadata;
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Key(command) => key::run(command, endpoints, &metadata),
        Command::Limit(command) => limit::run_jointly(limit::Whose::Tenant, command, &metadata),
        Command::Add { tenant, volume, json } => assign(volume, Some(tenant), *json, &metadata),
        Command::Remove { volume, json } => assign(volume, None, *json, &metadata),
        Command::List { json } => list(*json, &metadata),
    }
}

fn assign(volume: &str, tenant: Option<&str>, json: bool, metadata: &Admin) -> Result<()> {
    let object = format!("{volume} to {}", tenant.unwrap_or("nobody"));
    let set = metadata.act(Action::TenantVolume, &object, |meta| {
        admin::set_tenant(meta, volume, tenant)
    });
    set.described()?;
    // It is done: where the metadata do not say more, that is said.
    let keys = admin::volume_keys(&metadata.reader(), volume).described();
    let to_be_wrapped = keys.as_ref().ok().map(|keys| {
        let mut keys = keys.iter();
        keys.any(|key| key.to_be_wrapped_by.is_some())
    });
    let shown = Shown {
        volume: volume.to_owned(),
        tenant: tenant.map(str::to_owned),
        to_be_wrapped,
    };
    let rewrap = match to_be_wrapped {
        Some(true) => {
            " Its data keys are wrapped as before still: `amita volume key rewrap` wraps them by what is to wrap them."
        }
        Some(false) => "",
        None => " What wraps its data keys is not known: see `amita volume key list`.",
    };
    print(json, &shown, || match tenant {
        Some(tenant) => format!("Volume {volume} is tenant {tenant}'s.{rewrap}\n"),
        None => format!("Volume {volume} is no tenant's.{rewrap}\n"),
    })
}

fn list(json: bool, metadata: &Admin) -> Result<()> {
    let reader = metadata.reader();
    let volumes = admin::volumes(&reader).described()?;
    let names: BTreeMap<_, _> = volumes.into_iter().map(|volume| (volume.id, volume.name)).collect();
    let mut all = Vec::new();
    for found in admin::tenancies(&reader).described()? {
        // What was deleted is nobody's to see.
        let Some(name) = names.get(&found.volume) else { continue };
        all.push(Shown {
            volume: name.clone(),
            tenant: Some(found.tenant),
            to_be_wrapped: Some(false),
        });
    }
    all.sort_by(|one, other| (&one.tenant, &one.volume).cmp(&(&other.tenant, &other.volume)));
    print(json, &all, || {
        let mut table = Table::new(&["tenant", "volume"]);
        for found in &all {
            table.row([found.tenant.clone().unwrap_or_default(), found.volume.clone()]);
        }
        table.text()
    })
}
