//! `amita volume key`: the file that wraps the data keys of encrypted volumes, and these.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_control::access::Action;
use amita_control::admin::{self, KeyStatus, KeyTrouble, Misplaced, Rewrap, Rewrapped, TenantKey};
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Keys that could not be wrapped, of which people are told why.
const FAILED_TOLD: usize = 10;

/// What to do with the keys of encrypted volumes.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a file with a new key that wraps the data keys of volumes
    ///
    /// Give it to all nodes that serve encrypted volumes (`amita serve --volume-keys`), to those who make such volumes, and keep a copy of it
    /// apart from the cluster: without it nobody can read them again.
    Init(InitArguments),
    /// List the data keys by which a volume is read, and what has wrapped each
    List(ListArguments),
    /// Say which key wraps the data keys of the cluster, and whether a file of volume keys has it
    ///
    /// The file is the one that is given; of a node, which carries the command out (--by-api), its own. Where Vault or a KMIP server has the key it
    /// is asked to open one of the data keys. Tenants' keys are told of, too, and data keys that are wrapped by another key than is to wrap them. Exit
    /// code 1: the file is not the cluster's, or the key there is another one of the same name, so that nothing is made with it; or it lacks a
    /// tenant's, which does not answer, or is another one; or it has a line of a tenant who has no volume key by the metadata; or there are such data keys.
    Status(StatusArguments),
    /// Wrap all data keys of the cluster again, by the first line of the file; those of a tenant who has a volume key by that
    ///
    /// The first line is the first one that is no tenant's (`tenant=NAME ...`). What was given to another tenant is wrapped by what wraps for that one.
    /// For a new wrapping key: put its line behind the others of the file, give that to all nodes, put it in front, and give this command. The old
    /// line may go when it says that all are wrapped by the new one. Data keys stay as they are, and no block is written. Copies of the metadata
    /// from before (of etcd, of stores) need the old line, or the old version of Vault's key: without it nobody reads an encrypted volume by them.
    /// Exit code 1: some are not wrapped by it, and it is said of each why (`failed`).
    Rewrap(RewrapArguments),
}

/// The file that wraps data keys.
#[derive(Debug, clap::Args)]
pub struct FileArgument {
    /// The file with the cluster's volume keys (`amita volume key init`), of its owner alone (mode 0600), for what is encrypted; a node that
    /// carries the command out for you uses its own
    #[arg(long, env = "AMITA_VOLUME_KEYS", value_name = "FILE")]
    pub volume_keys: Option<PathBuf>,
}

impl FileArgument {
    /// What wraps, if anything was given: nobody has looked at it yet.
    #[must_use]
    pub fn given(&self, endpoints: &Endpoints) -> Option<KeyFile> {
        endpoints.volume_keys(self.volume_keys.as_deref())
    }

    /// The same, where nothing can be done without.
    ///
    /// # Errors
    /// Nothing was given, or there is nothing in the file that wraps.
    pub fn needed(&self, endpoints: &Endpoints) -> Result<KeyFile> {
        let lent = endpoints.lent();
        let file = self.given(endpoints).ok_or_else(|| match lent {
            Some(_) => Failure::new("data keys are kept wrapped, and this node has no volume keys")
                .advice("Ask one that has (`amita serve --volume-keys`): name it first (--by-api)."),
            None => Failure::new("data keys are kept wrapped, and no volume keys were given")
                .kind(Kind::Usage)
                .advice(
                    "Pass --volume-keys FILE, or set AMITA_VOLUME_KEYS: the file that the nodes have. `amita volume key init FILE` makes one \
                     for a new cluster.",
                ),
        })?;
        let shown = file.path().display();
        file.check().map_err(|why| match lent {
            // Where it is on the node is for its log.
            Some(_) => {
                log::warn!("data keys cannot be wrapped for who asks by the API: --volume-keys {shown}: {why}");
                Failure::new("this node cannot read its volume keys: its log says why")
            }
            None => Failure::new(format!("--volume-keys {shown}: {why}")).kind(Kind::Unreadable),
        })?;
        Ok(file)
    }
}

/// `amita volume key init`.
#[derive(Debug, clap::Args)]
pub struct InitArguments {
    /// The file, which must not be there
    pub file: PathBuf,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume key list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    /// The volume's name
    pub name: String,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume key status`.
#[derive(Debug, clap::Args)]
pub struct StatusArguments {
    #[command(flatten)]
    pub keys: FileArgument,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume key rewrap`.
#[derive(Debug, clap::Args)]
pub struct RewrapArguments {
    #[command(flatten)]
    pub keys: FileArgument,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// Makes the file: no cluster is needed.
///
/// # Errors
/// It is there, or cannot be written.
pub(super) fn init(arguments: &InitArguments) -> Result<()> {
    let InitArguments { file, json } = arguments;
    if file.exists() {
        return Err(Failure::new(format!("{} exists already", file.display()))
            .kind(Kind::Conflict)
            .advice("Volumes whose keys it wraps could not be read any more: choose another file."));
    }
    SealKey::generate()
        .save(file)
        .context(|| "cannot make the file of volume keys".to_owned())?;
    let told = serde_json::json!({ "file": file });
    print(*json, &told, || {
        format!(
            "A volume key is in {}. Give the file to all nodes that serve encrypted volumes (`amita serve --volume-keys`), and keep a copy \
             apart from the cluster: without it nobody can read them again.\n",
            file.display()
        )
    })
}

pub(super) fn run(command: &Command, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    match command {
        Command::Init(arguments) => init(arguments),
        Command::List(arguments) => list(arguments, metadata),
        Command::Status(arguments) => status(arguments, endpoints, metadata),
        Command::Rewrap(arguments) => rewrap(arguments, endpoints, metadata),
    }
}

fn list(arguments: &ListArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let keys = admin::volume_keys(&metadata.reader(), name).described()?;
    print(arguments.json, &keys, || match keys.is_empty() {
        true => format!("Volume {name} is not encrypted.\n"),
        false => table(&keys).text(),
    })
}

/// What has wrapped the data key that a volume is written with, and whose that is, for people; nothing, where the volume is not encrypted or that is not known.
pub(crate) fn told_of_newest(metadata: &Admin, name: &str) -> String {
    let keys = admin::volume_keys(&metadata.reader(), name).unwrap_or_default();
    let newest = keys.into_iter().find(|key| key.newest);
    let Some((by, tenant)) = newest.and_then(|key| Some((key.wrapped_by?, key.tenant))) else {
        return String::new();
    };
    match tenant {
        Some(tenant) => format!("Its data key is wrapped by {by}, tenant {tenant}'s.\n"),
        None => format!("Its data key is wrapped by {by}, the cluster's.\n"),
    }
}

fn table(keys: &[KeyStatus]) -> Table {
    let columns = [
        "image",
        "key",
        "from",
        "writes",
        "algorithm",
        "check",
        "wrapped by",
        "tenant",
        "to be wrapped by",
    ];
    let mut table = Table::new(&columns);
    for key in keys {
        let missing = key.ails.as_ref().map(|why| format!("MISSING: {why}"));
        let unknown = key.ails.as_ref().map(|why| format!("UNKNOWN: {why}"));
        table.row([
            key.image.to_string(),
            key.number.0.to_string(),
            key.from.to_string(),
            if key.newest { "yes" } else { "" }.to_owned(),
            key.algorithm.unwrap_or_default().to_owned(),
            key.check.clone().unwrap_or_default(),
            key.wrapped_by.clone().or(missing).unwrap_or_default(),
            key.tenant.clone().unwrap_or_default(),
            key.to_be_wrapped_by
                .clone()
                .or(unknown.filter(|_| key.wrapped_by.is_some()))
                .unwrap_or_default(),
        ]);
    }
    table
}

#[derive(Serialize)]
struct Status {
    /// What data keys are wrapped with; none: nothing was wrapped yet.
    wrapped_by: Option<String>,
    /// The file has it: data keys are opened and made with it.
    is_of_cluster: bool,
    /// It is the file's first line: there is nothing to wrap again.
    is_first: bool,
    /// What is wrong with the file, or with who keeps a key that it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    ails: Option<String>,
    /// The volume keys of tenants, of those that have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tenants: Vec<TenantStatus>,
    /// Tenants of whom the file has lines, and who have no volume key by the metadata (`amita tenant key set`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unset: Vec<UnsetStatus>,
    /// Data keys that are wrapped by another one than is to wrap them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misplaced: Vec<Misplaced>,
}

/// The volume key of a tenant.
#[derive(Serialize)]
pub(crate) struct TenantStatus {
    pub tenant: String,
    /// What the data keys of its volumes are wrapped with.
    pub wrapped_by: String,
    /// The file has it, as a line of the tenant's; none: no file was given.
    pub is_in_file: Option<bool>,
    /// Why not, or what is wrong with who keeps it, or with what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ails: Option<String>,
}

/// A tenant's lines, where the metadata have no volume key of the tenant's.
#[derive(Serialize)]
struct UnsetStatus {
    tenant: String,
    /// So many data keys are bound to the tenant still: the lines open them, and nothing else does.
    still_wrapped: usize,
    /// What is wrong with who keeps a key that the lines name.
    #[serde(skip_serializing_if = "Option::is_none")]
    ails: Option<String>,
}

/// Which volume keys tenants have (all, or this one), whether a file has them, and whether they open what they are said to have wrapped.
///
/// # Errors
/// The metadata is away.
pub(crate) fn tenant_statuses(
    meta: &dyn Transact,
    file: Option<&KeyFile>,
    one: Option<&str>,
) -> Result<Vec<TenantStatus>> {
    let status = |TenantKey { tenant, by }| {
        let found = file.map(|file| file.is_of_tenant(&tenant, &by));
        let is_in_file = found.as_ref().map(std::result::Result::is_ok);
        let ails = match (file, found) {
            (_, Some(Err(why))) => Some(why),
            // By its name alone it is not known to be the tenant's.
            (Some(file), _) => match file.has(Some(&tenant), &by) {
                Err(why) => Some(why.to_string()),
                Ok(()) => admin::opens_by(meta, file, &by)
                    .described()?
                    .err()
                    .map(|why| why.to_string()),
            },
            (None, _) => None,
        };
        Ok(TenantStatus {
            tenant,
            wrapped_by: by.to_string(),
            is_in_file,
            ails,
        })
    };
    let all = admin::tenant_keys(meta).described()?.into_iter();
    all.filter(|found| one.is_none_or(|one| found.tenant == one))
        .map(status)
        .collect()
}

/// Tenants of whom the file has lines, and who have no volume key by the metadata.
fn unset(file: &KeyFile, tenants: &[TenantStatus], misplaced: &[Misplaced]) -> Vec<UnsetStatus> {
    let mut lines = file.tenants().unwrap_or_default();
    lines.retain(|tenant| tenants.iter().all(|found| found.tenant != *tenant));
    let status = |tenant: String| UnsetStatus {
        still_wrapped: bound_to(misplaced, &tenant),
        ails: file.answers_for(Some(&tenant)).err(),
        tenant,
    };
    lines.into_iter().map(status).collect()
}

/// So many of them are bound to this tenant.
pub(crate) fn bound_to(misplaced: &[Misplaced], tenant: &str) -> usize {
    let bound = misplaced.iter().filter(|key| key.tenant.as_deref() == Some(tenant));
    bound.count()
}

/// What of tenants and of misplaced data keys is said, for people.
fn of_tenants(status: &Status) -> String {
    let mut lines = String::new();
    for TenantStatus {
        tenant,
        wrapped_by,
        ails,
        ..
    } in &status.tenants
    {
        let _ = match ails {
            None => writeln!(lines, "Those of tenant {tenant} are wrapped by {wrapped_by}."),
            Some(why) => writeln!(lines, "Those of tenant {tenant} are wrapped by {wrapped_by}: {why}."),
        };
    }
    for UnsetStatus {
        tenant,
        still_wrapped,
        ails,
    } in &status.unset
    {
        let ails = ails.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        let _ = writeln!(
            lines,
            "The file has a line of tenant {tenant}'s, who has no volume key: data keys that it has wrapped still: {still_wrapped}{ails}."
        );
    }
    for Misplaced {
        key,
        wrapped_by,
        to_be_wrapped_by,
        ails,
        ..
    } in status.misplaced.iter().take(FAILED_TOLD)
    {
        let _ = match (to_be_wrapped_by, ails) {
            (Some(wanted), _) => writeln!(
                lines,
                "Data key {key} is wrapped by {wrapped_by}, and is to be by {wanted}."
            ),
            (None, why) => writeln!(lines, "Data key {key}: {}", why.as_deref().unwrap_or_default()),
        };
    }
    if let Some(more) = status.misplaced.len().checked_sub(FAILED_TOLD).filter(|more| *more > 0) {
        let _ = writeln!(lines, "And {more} more (--json has all).");
    }
    if status.misplaced.iter().any(|key| key.to_be_wrapped_by.is_some()) {
        lines.push_str("`amita volume key rewrap` wraps by what is to wrap them those of which that is known.\n");
    }
    lines
}

fn status(arguments: &StatusArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let file = arguments.keys.needed(endpoints)?;
    let reader = metadata.reader();
    let (by, _) = admin::wrapping_key(&reader).described()?;
    let mut is_of = by.as_ref().map_or(Ok(true), |by| file.is_of(by));
    // Of a file that is another cluster's nobody is asked.
    let mut answers = if is_of.is_ok() { file.answers() } else { Ok(()) };
    if let (Some(by), Ok(_), Ok(())) = (&by, &is_of, &answers) {
        // By its name alone a key that somebody else keeps is not known to be the cluster's.
        match admin::opens_by(&reader, &file, by).described()? {
            Ok(()) => {}
            Err(KeyTrouble::Key(why)) => is_of = Err(why),
            Err(KeyTrouble::Away(why)) => answers = Err(why),
        }
    }
    let tenants = tenant_statuses(&reader, Some(&file), None)?;
    let misplaced = admin::misplaced_keys(&reader).described()?;
    let status = Status {
        wrapped_by: by.map(|by| by.to_string()),
        is_of_cluster: is_of.is_ok(),
        is_first: is_of.as_ref().is_ok_and(|is_first| *is_first),
        ails: is_of.as_ref().err().or(answers.as_ref().err()).cloned(),
        unset: unset(&file, &tenants, &misplaced),
        tenants,
        misplaced,
    };
    let clusters = || match (&status.wrapped_by, &is_of) {
        (None, _) => {
            "Nothing is wrapped in this cluster yet: the first encrypted volume is, by the file's first line.\n"
                .to_owned()
        }
        (Some(by), Ok(true)) => format!("Data keys are wrapped by {by}, the file's first line.\n"),
        (Some(by), Ok(false)) => format!(
            "Data keys are wrapped by {by}, which is in the file, and not its first line: `amita volume key rewrap` wraps them by that.\n"
        ),
        (Some(by), Err(_)) => format!("Data keys are wrapped by {by}.\n"),
    };
    print(arguments.json, &status, || clusters() + &of_tenants(&status))?;
    is_of.map(drop).map_err(|why| {
        Failure::new(why).advice("Nothing is made with it, and what it does not open stays closed. Is it another cluster's, or one of before?")
    })?;
    answers.map_err(|why| {
        Failure::new(why)
            .advice("What is open stays open; what it is to open waits for it, and nothing is made with its key, unless another server of its line answers.")
    })?;
    of_tenants_keys(&status)
}

/// Fails where tenants' keys lack, data keys are wrapped by others than are to wrap them, or tenants' lines wrap for nobody: with all of that at once.
fn of_tenants_keys(status: &Status) -> Result<()> {
    let (mut faults, mut advice): (Vec<String>, Vec<String>) = Default::default();
    let mut fault = |what: String, to_do: String| {
        faults.push(what);
        advice.push(to_do);
    };
    let ailing = |is_in_file: bool| {
        let tenants = status.tenants.iter();
        let found = tenants.filter(|found| found.ails.is_some() && (found.is_in_file == Some(true)) == is_in_file);
        found.map(|found| &*found.tenant).collect::<Vec<_>>()
    };
    let lacking = ailing(false);
    if !lacking.is_empty() {
        let lacking = lacking.join(", ");
        fault(
            format!("the file lacks the volume keys of these tenants: {lacking}"),
            format!("Encrypted volumes of {lacking} stay closed by it, and none are made. All others are opened."),
        );
    }
    let failing = ailing(true);
    if !failing.is_empty() {
        let failing = failing.join(", ");
        fault(
            format!("the volume keys of these tenants do not answer, or do not open what they have wrapped: {failing}"),
            format!(
                "Encrypted volumes of {failing} that are closed wait for that, and none are made. All others are opened."
            ),
        );
    }
    let (known, unknown): (Vec<_>, Vec<_>) = status.misplaced.iter().partition(|key| key.to_be_wrapped_by.is_some());
    if !known.is_empty() {
        fault(
            format!("{} data keys are wrapped by another key than is to wrap them", known.len()),
            "Keep all lines, and give `amita volume key rewrap`, with a file that opens them, and has what is to wrap them.".to_owned(),
        );
    }
    if !unknown.is_empty() {
        fault(
            format!("of {} data keys nobody knows what is to wrap them", unknown.len()),
            "Keep all lines; what is said of each (`ails`) says what to do.".to_owned(),
        );
    }
    let (needed, unset): (Vec<_>, Vec<_>) = status.unset.iter().partition(|unset| unset.still_wrapped > 0);
    let names = |all: &[&UnsetStatus]| all.iter().map(|unset| &*unset.tenant).collect::<Vec<_>>().join(", ");
    if !needed.is_empty() {
        fault(
            format!(
                "of these tenants lines of the file have wrapped data keys still, and none is the tenant's volume key by the metadata: {}",
                names(&needed)
            ),
            "Keep their lines, and give `amita tenant key clear TENANT` again, or `set`.".to_owned(),
        );
    }
    if !unset.is_empty() {
        fault(
            format!(
                "the file has lines of tenants who have no volume key by the metadata: {}",
                names(&unset)
            ),
            "No data key is made for them: give `amita tenant key set TENANT` for each once all nodes have that file, or take the line away.".to_owned(),
        );
    }
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(faults.join("; ")).advice(advice.join(" "))),
    }
}

fn rewrap(arguments: &RewrapArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let file = arguments.keys.needed(endpoints)?;
    let done = metadata.act(Action::KeysRewrap, "all", |meta| admin::rewrap_keys(meta, &file));
    let done = done.described()?;
    print(arguments.json, &done, || told(&done) + &unseen(&done))?;
    match done.failed.len() {
        0 => Ok(()),
        count => {
            let what = format!(
                "{} data keys are wrapped by what is to wrap them now, {} were before, and {count} are not",
                done.wrapped, done.same
            );
            Err(Failure::new(what).advice(
                "Keep the old line in the file. Those are to be opened by a line that is not in it, or by a key of Vault's or of a KMIP server that is not there any \
                 more: put that there, and give the command again.",
            ))
        }
    }
}

/// For people. Of many that have failed one says as much as all.
fn told(done: &Rewrapped) -> String {
    match done.failed.len() {
        0 => {
            let (by, trim) = match done.version {
                Some(version) => (
                    format!(", by version {version} of Vault's key"),
                    format!(
                        " That is so of older versions of Vault's key, too: do not trim versions below {version} while any older copy of the \
                         metadata may be put back."
                    ),
                ),
                None => Default::default(),
            };
            format!(
                "All data keys are wrapped by the file's first line{by}, tenants' by theirs: {} now, {} were before. What wrapped them before opens none of them any \
                 more, and wraps none. But copies of the metadata from before (of etcd, of a store) are read by it alone: as long as one of them may \
                 have to be put back, keep the old line apart from the cluster; once it is destroyed everywhere, nobody reads an encrypted volume by \
                 them.{trim}\n",
                done.wrapped, done.same
            )
        }
        _ => not_wrapped(&done.failed),
    }
}

/// Which, and why, for people.
pub(crate) fn not_wrapped(failed: &[String]) -> String {
    let more = format!("and {} more (--json has all)", failed.len().saturating_sub(FAILED_TOLD));
    let mut lines: Vec<&str> = failed.iter().take(FAILED_TOLD).map(String::as_str).collect();
    if failed.len() > FAILED_TOLD {
        lines.push(&more);
    }
    format!("Not wrapped:\n  {}\n", lines.join("\n  "))
}

/// Of tenants whose keys were not to be had, for people.
fn unseen(done: &Rewrapped) -> String {
    match &done.unseen[..] {
        [] => String::new(),
        all => format!(
            "Not asked, as they are not here or do not answer; what they have wrapped already stays so:\n  {}\n",
            all.join("\n  ")
        ),
    }
}

#[cfg(test)]
mod tests;
