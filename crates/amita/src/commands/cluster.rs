//! `amita cluster`.

use crate::admin::{Admin, Described as _};
use crate::cli::{Endpoints, Folder};
use crate::commands::join::{CaArguments, Described};
use amita_control::access::Action;
use amita_control::admin;
use amita_identity::{Authority, Clock, Identity, IdentityError, Name, Role};
use amita_terminal::error::Result;
use amita_terminal::table::{Table, print};
use amita_types::ClusterId;
use amita_types::map::METADATA_VERSION;
use serde_json::json;
use uuid::Uuid;

/// The first operator's name.
const ADMIN: &str = "admin";

/// What to do with the cluster.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make the cluster's certificate authority and its first operator, `admin`
    ///
    /// The authority's folder holds the key that everything rests on: keep it on a machine of its own, and a copy of it
    /// elsewhere. Nothing is overwritten.
    Init {
        #[command(flatten)]
        ca: CaArguments,
        /// The cluster's id, where it has one already (`amita status`) [default: a new one]
        #[arg(long, value_name = "UUID")]
        cluster: Option<ClusterId>,
        /// Say what was made as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the cluster's version, and what the programs of its nodes know
    Version {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Raise the cluster's version to what this program knows, when all nodes run programs that know it
    ///
    /// What a newer version allows (2: snapshots) is refused until then. It is never lowered, and older programs do not start in the
    /// cluster any more.
    Finalize {
        /// Also while nodes do not run, so that nobody can say what they know
        #[arg(long)]
        force: bool,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder, metadata: &Endpoints) -> Result<()> {
    match command {
        Command::Version { json } => versions(*json, &Admin::connect(metadata)?),
        Command::Finalize { force, json } => finalize(*force, *json, &Admin::connect(metadata)?),
        Command::Init { ca, cluster, json } => init(ca, *cluster, *json, identity),
    }
}

fn init(ca: &CaArguments, cluster: Option<ClusterId>, as_json: bool, identity: &Folder) -> Result<()> {
    let folder = identity.wanted()?;
    // Before the authority is made: a second attempt would find it.
    Identity::check_absent(folder).described()?;
    let cluster = cluster.unwrap_or_else(|| ClusterId(Uuid::new_v4().as_u128()));
    let authority = Authority::create(&ca.ca, cluster, Clock::system()).described()?;
    let name = Name::new(cluster, Role::Operator, ADMIN)
        .map_err(IdentityError::from)
        .described()?;
    let made = authority.make_identity(folder, &name).described()?;
    let hash = authority.hash().described()?;
    let shown = json!({
        "cluster": cluster, "ca": ca.ca.display().to_string(), "authority": hash.to_string(),
        "identity": folder.display().to_string(), "name": made.name().to_string(), "not_after": made.not_after().0,
    });
    print(as_json, &shown, || {
        format!(
            "Cluster {cluster} has an authority in {}; its key is known by\n  {hash}\n{} has an identity in {}, valid until \
             {}.\nNext: `amita ca serve --ca {} --listen ADDRESS:PORT`, and for each node `amita node token NAME --ca {}`.\n",
            ca.ca.display(),
            made.name(),
            folder.display(),
            made.not_after(),
            ca.ca.display(),
            ca.ca.display(),
        )
    })
}

fn versions(as_json: bool, metadata: &Admin) -> Result<()> {
    let versions = admin::versions(&metadata.reader()).described()?;
    print(as_json, &versions, || {
        let mut text = format!(
            "The cluster's version is {}; this program knows {}.\n",
            versions.cluster, versions.known
        );
        let mut table = Table::new(&["node", "knows"]);
        for (node, version) in &versions.nodes {
            table.row([node.clone(), version.to_string()]);
        }
        for node in &versions.away {
            table.row([node.clone(), "does not run".to_owned()]);
        }
        text.push_str(&table.text());
        text
    })
}

fn finalize(force: bool, as_json: bool, metadata: &Admin) -> Result<()> {
    let raised = metadata.act(Action::ClusterFinalize, "cluster", |meta| admin::finalize(meta, force));
    let raised = raised.described()?;
    let found = json!({ "version": METADATA_VERSION, "raised": raised });
    print(as_json, &found, || match raised {
        true => format!("The cluster's version is {METADATA_VERSION}.\n"),
        false => format!("The cluster's version is {METADATA_VERSION} already.\n"),
    })
}
