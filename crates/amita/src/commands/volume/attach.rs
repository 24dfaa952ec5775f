//! `amita volume attach` and `detach`: by NVMe/TCP here, by iSCSI in `iscsi`.

mod iscsi;

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, HostKeys, NodeStatus, SubsystemSpec};
use amita_control::guide::{Gateway, Guide, Proofs};
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_types::map::{Namespace, Subsystem};
use serde::Serialize;
use std::net::SocketAddr;

/// `amita volume attach`.
#[derive(Debug, clap::Args)]
pub struct AttachArguments {
    /// The volume's name, or VOLUME@SNAPSHOT: what the volume was then, to be read only
    pub name: String,
    /// The host's NVMe qualified name: on Linux, what /etc/nvme/hostnqn says
    #[arg(
        long,
        value_name = "NQN",
        required_unless_present = "iscsi",
        conflicts_with = "iscsi"
    )]
    pub host: Option<String>,
    /// By iSCSI instead, to the initiator of this name: on Linux, what /etc/iscsi/initiatorname.iscsi says
    #[arg(long, value_name = "IQN")]
    pub iscsi: Option<String>,
    /// By iSCSI, the target that it shall be a LUN of [default: where it is one, else one of the volume's name; of a snapshot
    /// VOLUME.SNAPSHOT]
    #[arg(long, value_name = "NAME", requires = "iscsi")]
    pub target: Option<String>,
    /// By iSCSI, of which kind the host is, for the commands that are printed [default: what the initiator's name says, else all]
    #[arg(long = "for", value_name = "SYSTEM", requires = "iscsi")]
    pub system: Option<iscsi::System>,
    /// The subsystem that it shall be a namespace of [default: where it is one, else one of the volume's name; of a snapshot
    /// VOLUME.SNAPSHOT]
    #[arg(long, value_name = "NAME", conflicts_with = "iscsi")]
    pub subsystem: Option<String>,
    /// Bytes of a logical block, where the namespace or the LUN is made now: 4096, or 512 for hosts that know nothing else [default: 4096;
    /// by iSCSI 512, but for an encrypted volume]
    #[arg(long, value_name = "BYTES")]
    pub block_size: Option<u32>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita volume detach`.
#[derive(Debug, clap::Args)]
pub struct DetachArguments {
    /// The volume's name, or VOLUME@SNAPSHOT
    pub name: String,
    /// Only this host: it may connect to the volume's subsystem no more
    #[arg(long, value_name = "NQN", conflicts_with = "iscsi")]
    pub host: Option<String>,
    /// By iSCSI: from its target
    #[arg(long)]
    pub iscsi: bool,
    /// Only from this initiator: it sees the LUN no more
    #[arg(long, value_name = "IQN", requires = "iscsi")]
    pub initiator: Option<String>,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `attach` answers.
#[derive(Debug, Serialize)]
struct Attached {
    volume: String,
    subsystem: String,
    nqn: String,
    nsid: u32,
    uuid: String,
    host: String,
    /// What was missing and was made now.
    made: Vec<String>,
    #[serde(flatten)]
    guide: Guide,
}

/// Makes what is missing, and says what the host has to do.
pub(super) fn attach(arguments: &AttachArguments, metadata: &Admin) -> Result<()> {
    if let Some(initiator) = &arguments.iscsi {
        return iscsi::attach(arguments, initiator, metadata);
    }
    let name = &arguments.name;
    // The command line wants the one or the other.
    let nqn = arguments.host.as_deref().unwrap_or_default();
    admin::check_nqn("host", nqn).described()?;
    let (_, used) = admin::namespace_of(&metadata.reader(), name).described()?;
    let subsystem = match (&arguments.subsystem, &used) {
        (Some(wanted), Some(used)) if *wanted != used.subsystem => {
            return Err(AdminError::Attached {
                volume: name.clone(),
                subsystem: used.subsystem.clone(),
                nsid: used.namespace.nsid,
            })
            .described();
        }
        (None, Some(used)) if name.contains('@') => {
            let found = admin::subsystem(&metadata.reader(), &used.subsystem).described()?;
            if lets_into_more(&found, nqn) {
                return Err(Failure::new(format!(
                    "snapshot {name} is namespace {} of subsystem {}, which has others: host {nqn} might use them all",
                    used.namespace.nsid, used.subsystem
                ))
                .kind(Kind::Conflict)
                .advice(format!(
                    "If that is meant, say so: --subsystem {}. Else take the snapshot out of it (`amita volume detach {name}`), and give \
                     this command again.",
                    used.subsystem
                )));
            }
            used.subsystem.clone()
        }
        (_, Some(used)) => used.subsystem.clone(),
        (Some(wanted), None) => wanted.clone(),
        (None, None) => own_subsystem(metadata, name, nqn)?,
    };
    let present = used.map(|used| used.namespace);
    let Made { namespace, found, made } = metadata
        .act(Action::VolumeAttach, &format!("{name} to {nqn}"), |meta| {
            make(meta, (arguments, nqn), &subsystem, present)
        })
        .described()?;
    let host = admin::host(&metadata.reader(), nqn).described()?;
    let volume = admin::split(name).described()?.0;
    let gateways = gateways(metadata, &found, volume)?;
    let attached = Attached {
        volume: name.clone(),
        subsystem,
        nqn: found.nqn.clone(),
        nsid: namespace.nsid,
        uuid: namespace.uuid.to_string(),
        host: nqn.to_owned(),
        made,
        guide: Guide::new(&found.nqn, nqn, &gateways, Proofs::of(&host)),
    };
    print(arguments.json, &attached, || text(&attached))
}

/// The name of a subsystem for this volume, or for this snapshot alone: a host that may connect to it is to have no volume by that
/// which it has no right to.
fn own_subsystem(metadata: &Admin, name: &str, host: &str) -> Result<String> {
    let (volume, snapshot) = admin::split(name).described()?;
    let own = match snapshot {
        None => volume.to_owned(),
        // Names of snapshots may have what those of subsystems have not.
        Some(snapshot) => format!("{volume}.{}", snapshot.replace([':', '+'], "-")),
    };
    if own.len() > admin::MAX_SUBSYSTEM_NAME_BYTES {
        let most = admin::MAX_SUBSYSTEM_NAME_BYTES;
        let why = format!("a subsystem that is called as {name} would have a name of more than {most} bytes");
        return Err(Failure::new(why)
            .kind(Kind::Usage)
            .advice("Say which subsystem it shall be, or what it is to be called: --subsystem NAME."));
    }
    let there = match admin::subsystem(&metadata.reader(), &own) {
        Err(AdminError::NoSuch { .. }) => None,
        found => Some(found.described()?),
    };
    match there.and_then(|found| foreign(&found, snapshot.is_some(), host)) {
        None => Ok(own),
        Some(why) => Err(Failure::new(format!("subsystem {own} {why}"))
            .kind(Kind::Conflict)
            .advice("Say which subsystem it shall be: --subsystem NAME.")),
    }
}

/// Why a subsystem that has the right name, and of which this is no namespace yet, may be one for something else. A volume may be called
/// as the subsystem of another one's snapshot is: `db.monday` and `db@monday`.
fn foreign(there: &Subsystem, is_snapshot: bool, host: &str) -> Option<&'static str> {
    let has_snapshots = there.namespaces.iter().any(|namespace| namespace.snapshot.is_some());
    let lets_others_in = there.any_host || there.hosts.iter().any(|known| known != host);
    if is_snapshot && !there.namespaces.is_empty() {
        return Some("has other namespaces, and a host that may connect to it may use them all");
    }
    if has_snapshots {
        return Some("has snapshots as namespaces, and hosts that were to read those might write to the volume");
    }
    // Without a namespace nothing tells what its hosts were let in for.
    if there.namespaces.is_empty() && there.name.contains('.') && lets_others_in {
        return Some("has no namespace, and lets hosts in that may have been meant for something else");
    }
    None
}

/// Might a host that is to read a snapshot use other namespaces of its subsystem, which it may not use yet? One may be the volume, to be
/// written.
fn lets_into_more(there: &Subsystem, host: &str) -> bool {
    let is_in = there.any_host || there.hosts.iter().any(|known| known == host);
    !is_in && there.namespaces.len() > 1
}

/// What a host needs, and what of it was missing.
struct Made {
    namespace: Namespace,
    found: Subsystem,
    made: Vec<String>,
}

/// Makes what is missing. `present`: the namespace, where the volume is one.
fn make(
    meta: &dyn Transact,
    (arguments, nqn): (&AttachArguments, &str),
    subsystem: &str,
    present: Option<Namespace>,
) -> std::result::Result<Made, AdminError> {
    let name = &arguments.name;
    let mut made = Vec::new();
    let spec = SubsystemSpec {
        name: subsystem.to_owned(),
        ..SubsystemSpec::default()
    };
    made.extend(new(admin::create_subsystem(meta, &spec), || {
        format!("subsystem {subsystem}")
    })?);
    let namespace = match present {
        Some(namespace) => namespace,
        None => {
            let added = admin::add_namespace(meta, subsystem, name, None, arguments.block_size.unwrap_or(4096));
            let namespace = added.inspect_err(|_| {
                // Nothing is left half done; where somebody uses it by now, or the metadata is away, it stays.
                if !made.is_empty() {
                    let _ = admin::delete_subsystem(meta, subsystem, false);
                }
            })?;
            made.push(format!("namespace {} of it, {} {name}", namespace.nsid, kind_of(name)));
            namespace
        }
    };
    made.extend(new(admin::add_host(meta, nqn, &HostKeys::default()), || {
        format!("host {nqn}, which has nothing to prove (see `amita host key`)")
    })?);
    let before = admin::subsystem(meta, subsystem)?;
    let found = admin::allow_host(meta, subsystem, nqn)?;
    if before.hosts != found.hosts {
        made.push(format!("the right of the host to connect to subsystem {subsystem}"));
    }
    Ok(Made { namespace, found, made })
}

/// What was made now; nothing, where it was there.
fn new<T>(
    result: std::result::Result<T, AdminError>,
    what: impl FnOnce() -> String,
) -> std::result::Result<Option<String>, AdminError> {
    match result {
        Ok(_) => Ok(Some(what())),
        Err(AdminError::Exists { .. }) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The gateways that serve the subsystem: the volume's owner first, those that live next.
fn gateways(metadata: &Admin, subsystem: &Subsystem, volume: &str) -> Result<Vec<Gateway>> {
    let status = metadata.status()?;
    let owner = status.volumes.iter().find(|found| found.volume.name == volume);
    let owner = owner.and_then(|found| found.volume.owner);
    let serves = |found: &&NodeStatus| subsystem.gateways.is_empty() || subsystem.gateways.contains(&found.node.name);
    let mut gateways = Vec::new();
    for found in status.nodes.iter().filter(serves) {
        let Some(portal) = &found.node.nvme else { continue };
        let portal: SocketAddr = portal.parse().map_err(|_| {
            Failure::new(format!(
                "node {} says that it serves NVMe at {portal:?}, which is no address",
                found.node.name
            ))
        })?;
        gateways.push(Gateway {
            node: found.node.name.clone(),
            traddr: portal.ip().to_string(),
            trsvcid: portal.port(),
            owner: owner == Some(found.node.id),
            alive: found.alive,
        });
    }
    if gateways.is_empty() {
        let whose = match &subsystem.gateways[..] {
            [] => "no node".to_owned(),
            named => format!("none of {}", named.join(", ")),
        };
        return Err(Failure::new(format!(
            "everything is made, but {whose} serves NVMe, so the host cannot connect yet"
        ))
        .advice("Start gateways with `amita serve --nvme ADDRESS:PORT`, and give this command again."));
    }
    gateways.sort_by_key(|gateway| (!gateway.owner, !gateway.alive));
    Ok(gateways)
}

/// What it is a name of.
fn kind_of(name: &str) -> &'static str {
    match name.contains('@') {
        true => "snapshot",
        false => "volume",
    }
}

fn text(attached: &Attached) -> String {
    let what = match kind_of(&attached.volume) {
        "snapshot" => "Snapshot",
        _ => "Volume",
    };
    let mut text = format!(
        "{what} {} is namespace {} of {}; host {} may connect.\n",
        attached.volume, attached.nsid, attached.nqn, attached.host
    );
    for made in &attached.made {
        text += &format!("  made: {made}\n");
    }
    text + &attached.guide.text(&attached.uuid)
}

/// Takes the namespace out, or denies one host.
pub(super) fn detach(arguments: &DetachArguments, metadata: &Admin) -> Result<()> {
    if arguments.iscsi {
        return iscsi::detach(arguments, metadata);
    }
    let name = &arguments.name;
    let (_, used) = admin::namespace_of(&metadata.reader(), name).described()?;
    let Some(used) = used else {
        return Err(
            Failure::new(format!("{} {name} is no namespace of any subsystem", kind_of(name)))
                .kind(Kind::NotFound)
                .advice("`amita namespace list` shows which volumes are; from a target of iSCSI: --iscsi."),
        );
    };
    let subsystem = &used.subsystem;
    if let Some(nqn) = &arguments.host {
        let object = format!("{name} from {nqn}");
        let denied = metadata.act(Action::VolumeDetach, &object, |meta| {
            admin::deny_host(meta, subsystem, nqn)
        });
        let found = denied.described()?;
        let told = serde_json::json!({ "name": name, "subsystem": subsystem, "host": nqn, "detached": true });
        return print(arguments.json, &told, || {
            format!("Host {nqn} may not connect to {} any more.\n", found.nqn)
        });
    }
    metadata
        .act(Action::VolumeDetach, name, |meta| {
            admin::remove_namespace(meta, subsystem, used.namespace.nsid)
        })
        .described()?;
    let left = admin::subsystem(&metadata.reader(), subsystem)
        .described()?
        .namespaces
        .len();
    let told = serde_json::json!({
        "name": name, "subsystem": subsystem, "nsid": used.namespace.nsid, "detached": true, "namespaces_left": left
    });
    print(arguments.json, &told, || {
        let mut text = format!("{name} is no namespace of subsystem {subsystem} any more; its data stays.\n");
        if left == 0 {
            text += &format!("The subsystem has none left; `amita subsystem delete {subsystem}` removes it.\n");
        }
        text
    })
}

#[cfg(test)]
mod tests;
