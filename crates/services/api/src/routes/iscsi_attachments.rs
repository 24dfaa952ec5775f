//! What an initiator needs to know to use a volume by iSCSI.

use super::input::{Named, Names, Parameters};
use super::targets::InitiatorAccess;
use crate::problem::{Code, Problem};
use crate::session::{Api, Asker};
use amita_control::admin::{self, AdminError, LunStatus};
use amita_control::guide::iscsi::{Chap, Guide, Portal, Steps};
use amita_metadata::Transact;
use amita_types::map::{self, IscsiTarget};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Where an initiator can log in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IscsiPortal {
    /// The node's name.
    pub node: String,
    /// Its address.
    #[schema(example = "192.0.2.7")]
    pub address: String,
    /// Its port.
    #[schema(example = 3260)]
    pub port: u16,
    /// The tag of the node's portal group, which is the number of its target port group as well.
    pub tag: u16,
    /// Does it own the volume? Its path is the shortest one.
    pub owner: bool,
    /// Does it live?
    pub alive: bool,
}

impl From<&Portal> for IscsiPortal {
    fn from(found: &Portal) -> IscsiPortal {
        IscsiPortal {
            node: found.node.clone(),
            address: found.address.clone(),
            port: found.port,
            tag: found.tag,
            owner: found.owner,
            alive: found.alive,
        }
    }
}

/// By what initiators have a volume, or a snapshot of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IscsiAttachment {
    /// The volume's name, or VOLUME@SNAPSHOT.
    pub volume: String,
    /// The name of the target that it is a LUN of.
    pub target: String,
    /// The target's iSCSI name.
    pub iqn: String,
    /// The LUN's number.
    pub lun: u16,
    /// The name by which initiators know the disk, for ever.
    pub naa: String,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Every initiator may log in.
    pub any_initiator: bool,
    /// The initiators that may log in and see this LUN.
    pub initiators: Vec<InitiatorAccess>,
    /// The portals of the gateways that serve it: the owner's first, then those of nodes that live.
    pub portals: Vec<IscsiPortal>,
    /// What the initiator that was asked for does to have it; where none was, the first of `initiators`. Null: there is none, or no portal.
    pub commands: Option<InitiatorCommands>,
}

/// What is done to have a volume by iSCSI: as `amita volume attach --iscsi` prints it. No secret stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InitiatorCommands {
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// With open-iscsi and multipath-tools, as root.
    pub linux: IscsiSteps,
    /// In ESXi's shell.
    pub esxi: IscsiSteps,
    /// In PowerShell as administrator.
    pub windows: IscsiSteps,
}

/// What is done on a host of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct IscsiSteps {
    /// What is run once before.
    pub prepare: Vec<String>,
    /// What connects, so that it is connected after each start as well.
    pub connect: Vec<String>,
    /// The name of a file of settings that belongs to it; null: there is none.
    pub file: Option<String>,
    /// Its lines.
    pub lines: Vec<String>,
    /// The disk, on that host.
    pub disk: String,
}

impl From<Steps> for IscsiSteps {
    fn from(steps: Steps) -> IscsiSteps {
        let (file, lines) = steps.file.map(|file| (file.name, file.lines)).unzip();
        IscsiSteps {
            prepare: steps.prepare,
            connect: steps.connect,
            file,
            lines: lines.unwrap_or_default(),
            disk: steps.disk,
        }
    }
}

/// Whose commands.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct For {
    /// The iSCSI name of the initiator that the commands are for; it has to be one that may log in and see the LUN.
    initiator: Option<String>,
}

/// What the initiator of this name does; where none is said, the first that sees the LUN.
fn commands(
    meta: &dyn Transact,
    found: &IscsiTarget,
    initiator: Option<String>,
    sees: &[InitiatorAccess],
    portals: &[Portal],
    naa: &str,
) -> Result<Option<InitiatorCommands>, AdminError> {
    let asked = initiator
        .map(|name| admin::check_iscsi_name("initiator", &name))
        .transpose()?;
    if let Some(name) = &asked {
        let may = match found.access(name) {
            Some(_) => sees.iter().any(|access| access.initiator == *name),
            None => found.any_initiator,
        };
        if !may {
            return Err(AdminError::InitiatorNotAllowed {
                initiator: name.clone(),
                target: found.name.clone(),
                allowed: sees.iter().map(|access| access.initiator.clone()).collect(),
                // One that is named and does not see this LUN is none of those who see all.
                any_initiator: false,
            });
        }
    }
    let initiator = asked.or_else(|| sees.first().map(|access| access.initiator.clone()));
    let Some(initiator) = initiator.filter(|_| !portals.is_empty()) else {
        return Ok(None);
    };
    // One that nobody knows has nothing to prove.
    let chap = match admin::initiator(meta, &initiator) {
        Ok(known) => Chap::of(&known),
        Err(AdminError::NoSuch { .. }) => Chap::default(),
        Err(why) => return Err(why),
    };
    let guide = Guide::new(&found.iqn, &initiator, portals, &chap, naa);
    Ok(Some(InitiatorCommands {
        initiator,
        linux: guide.linux.into(),
        esxi: guide.esxi.into(),
        windows: guide.windows.into(),
    }))
}

fn find(meta: &dyn Transact, name: &str, initiator: Option<String>) -> Result<IscsiAttachment, Problem> {
    let (volume, used) = admin::lun_of(meta, name)?;
    let Some(LunStatus { target, lun, .. }) = used else {
        let why = format!(
            "{name} is no LUN of any target, so no initiator has it by iSCSI; POST /targets/NAME/luns makes it one"
        );
        return Err(Problem::new(Code::NotFound, why));
    };
    let found = admin::target(meta, &target)?;
    let portals = admin::target_portals(meta, &found, volume.owner)?;
    let sees = found.initiators.iter().filter(|access| access.sees(lun.number));
    let sees: Vec<InitiatorAccess> = sees
        .map(|access| InitiatorAccess {
            initiator: access.initiator.clone(),
            luns: access.luns.clone(),
        })
        .collect();
    let naa = map::naa_text(&lun.uuid);
    let commands = commands(meta, &found, initiator, &sees, &portals, &naa)?;
    Ok(IscsiAttachment {
        volume: name.to_owned(),
        target,
        iqn: found.iqn,
        lun: lun.number,
        naa,
        block_bytes: lun.block_bytes,
        any_initiator: found.any_initiator,
        initiators: sees,
        portals: portals.iter().map(IscsiPortal::from).collect(),
        commands,
    })
}

/// What an initiator needs to know to use a volume, or VOLUME@SNAPSHOT, by iSCSI: where to log in, and by which commands.
#[utoipa::path(get, path = "/volumes/{name}/iscsi-attachment", operation_id = "showIscsiAttachment", tag = "volumes",
    params(Named, For),
    responses((status = 200, body = IscsiAttachment),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(
    State(api): State<Api>,
    asker: Asker,
    Names(name): Names<String>,
    Parameters(For { initiator }): Parameters<For>,
) -> Result<Json<IscsiAttachment>, Problem> {
    let found = api.run(asker, move |session| find(&session.reader(), &name, initiator));
    found.await.map(Json)
}
