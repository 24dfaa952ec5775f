//! `amita tenant key`: volume keys of tenants.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::volume::key::{FileArgument, TenantStatus, bound_to, not_wrapped, tenant_statuses};
use amita_control::access::Action;
use amita_control::admin::{self, Rewrapped};
use amita_terminal::error::{Failure, Result};
use amita_terminal::table::{Table, print};
use serde::Serialize;

/// What to do with the volume key of a tenant.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Have the data keys of a tenant's volumes wrapped by a key of the tenant's, and by no other
    ///
    /// Its line in the file of volume keys has `tenant=TENANT ` before it, of any kind, and wraps for nobody else. Give that file to all nodes first: one
    /// without the line opens no encrypted volume of the tenant's. The data keys that there are are wrapped by it at once, those of new volumes, clones and
    /// copies from then on; no block is written. Given again it goes on where it was interrupted, and with another line it goes over to that. Exit code 1:
    /// some are not wrapped by it, and it is said of each why (`failed`).
    Set(SetArguments),
    /// Say which volume keys tenants have, and whether a file of volume keys has them
    Show(ShowArguments),
    /// Have the data keys of a tenant's volumes wrapped by the cluster's key again
    ///
    /// The tenant's line is needed for that, and may go when it says that all are wrapped.
    Clear(ClearArguments),
}

/// `amita tenant key set`.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The tenant's name
    pub tenant: String,
    /// Which of the tenant's keys, where the file has several: the identifier of a key or passphrase, Vault's MOUNT/NAME, or a KMIP server's identifier
    #[arg(long, value_name = "IDENTIFIER")]
    pub key: Option<String>,
    #[command(flatten)]
    pub keys: FileArgument,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita tenant key show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// The tenant's name; all that have a key, if none is given
    pub tenant: Option<String>,
    #[command(flatten)]
    pub keys: FileArgument,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita tenant key clear`.
#[derive(Debug, clap::Args)]
pub struct ClearArguments {
    /// The tenant's name
    pub tenant: String,
    #[command(flatten)]
    pub keys: FileArgument,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// What was done, for a tenant.
#[derive(Serialize)]
struct Done<'a> {
    tenant: &'a str,
    /// What wraps for the tenant; none: the cluster's key.
    wrapped_by: Option<String>,
    #[serde(flatten)]
    rewrapped: Rewrapped,
}

pub(super) fn run(command: &Command, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    match command {
        Command::Set(SetArguments {
            tenant,
            key,
            keys,
            json,
        }) => {
            let file = keys.needed(endpoints)?;
            let done = metadata.act(Action::TenantKey, tenant, |meta| {
                admin::set_tenant_key(meta, &file, tenant, key.as_deref())
            });
            told(tenant, done.described()?, *json, metadata)
        }
        Command::Show(arguments) => show(arguments, endpoints, metadata),
        Command::Clear(ClearArguments { tenant, keys, json }) => {
            let file = keys.needed(endpoints)?;
            let done = metadata.act(Action::TenantKey, tenant, |meta| {
                admin::clear_tenant_key(meta, &file, tenant)
            });
            told(tenant, done.described()?, *json, metadata)
        }
    }
}

fn told(tenant: &str, rewrapped: Rewrapped, json: bool, metadata: &Admin) -> Result<()> {
    let (by, _) = admin::tenant_key(&metadata.reader(), tenant).described()?;
    let done = Done {
        tenant,
        wrapped_by: by.map(|by| by.to_string()),
        rewrapped,
    };
    let Rewrapped {
        wrapped, same, failed, ..
    } = &done.rewrapped;
    print(json, &done, || match (&failed[..], &done.wrapped_by) {
        ([], Some(by)) => format!(
            "The data keys of tenant {tenant}'s volumes are wrapped by {by}: {wrapped} now, {same} were before. All nodes need that line of the file. Copies of \
             the metadata from before have data keys that what wrapped them until now opens.\n"
        ),
        ([], None) => format!(
            "The data keys of tenant {tenant}'s volumes are wrapped by the cluster's key: {wrapped} now, {same} were before. Copies of the metadata from before \
             are read by the tenant's line alone.\n"
        ),
        (failed, _) => not_wrapped(failed),
    })?;
    match failed.len() {
        0 => Ok(()),
        count => {
            let what = format!(
                "{wrapped} data keys of tenant {tenant}'s are wrapped now, {same} were before, and {count} are not"
            );
            Err(Failure::new(what).advice(
                "Keep the line that wraps these: they are to be opened by one that is not in the file, or by a key that is not there any more. Put that \
                 there, and give the command again.",
            ))
        }
    }
}

fn show(arguments: &ShowArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let file = arguments.keys.given(endpoints);
    let reader = metadata.reader();
    let all = tenant_statuses(&reader, file.as_ref(), arguments.tenant.as_deref())?;
    let mut still_wrapped = 0;
    if let (Some(tenant), true) = (&arguments.tenant, all.is_empty()) {
        // Is it a name at all?
        admin::tenant_key(&reader, tenant).described()?;
        still_wrapped = bound_to(&admin::misplaced_keys(&reader).described()?, tenant);
    }
    print(arguments.json, &all, || match (all.is_empty(), &arguments.tenant) {
        (true, Some(tenant)) if still_wrapped > 0 => format!(
            "Tenant {tenant} has no volume key of its own, and {still_wrapped} data keys are wrapped by what was: keep the tenant's line in the file, and give `amita \
             tenant key clear {tenant}` again.\n"
        ),
        (true, Some(tenant)) => {
            format!(
                "Tenant {tenant} has no volume key of its own: what is encrypted of its volumes is wrapped by the cluster's.\n"
            )
        }
        (true, None) => "No tenant has a volume key of its own.\n".to_owned(),
        (false, _) => table(&all).text(),
    })
}

fn table(all: &[TenantStatus]) -> Table {
    let mut table = Table::new(&["tenant", "wrapped by", "in the file"]);
    for found in all {
        let is_there = match (found.is_in_file, &found.ails) {
            (Some(true), None) => "yes".to_owned(),
            (Some(true), Some(why)) => format!("yes, but: {why}"),
            (_, Some(why)) => format!("NO: {why}"),
            _ => String::new(),
        };
        table.row([found.tenant.clone(), found.wrapped_by.clone(), is_there]);
    }
    table
}
