//! `amita cluster`.

use crate::cli::Folder;
use crate::commands::join::{CaArguments, Described};
use amita_identity::{Authority, Clock, Identity, IdentityError, Name, Role};
use amita_terminal::error::Result;
use amita_terminal::table::print;
use amita_types::ClusterId;
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
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, identity: &Folder) -> Result<()> {
    match command {
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
