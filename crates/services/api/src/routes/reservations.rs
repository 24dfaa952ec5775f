//! Which hosts have reserved a volume.

use super::input::{Named, Names};
use crate::problem::Problem;
use crate::session::{Api, Asker};
use amita_control::admin::{self, AdminError};
use amita_frontend::reservation::{Kind, State as Record};
use amita_metadata::Transact;
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(show))
}

/// How a volume is reserved (NVM Express Base Specification, "Reservations").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationKind {
    /// The holder writes, all read.
    WriteExclusive,
    /// The holder writes and reads.
    ExclusiveAccess,
    /// Registrants write, all read.
    WriteExclusiveRegistrants,
    /// Registrants write and read.
    ExclusiveAccessRegistrants,
    /// Registrants write, all read; all registrants hold it.
    WriteExclusiveAll,
    /// Registrants write and read; all registrants hold it.
    ExclusiveAccessAll,
}

impl From<Kind> for ReservationKind {
    fn from(kind: Kind) -> ReservationKind {
        match kind {
            Kind::WriteExclusive => ReservationKind::WriteExclusive,
            Kind::ExclusiveAccess => ReservationKind::ExclusiveAccess,
            Kind::WriteExclusiveRegistrants => ReservationKind::WriteExclusiveRegistrants,
            Kind::ExclusiveAccessRegistrants => ReservationKind::ExclusiveAccessRegistrants,
            Kind::WriteExclusiveAll => ReservationKind::WriteExclusiveAll,
            Kind::ExclusiveAccessAll => ReservationKind::ExclusiveAccessAll,
        }
    }
}

/// The two ports by which a host of iSCSI is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReservationPort {
    /// The initiator port: the initiator's name and its session's identifier.
    #[schema(example = "iqn.1993-08.org.debian:01:a1b2,i,0x00023d000001")]
    pub initiator: String,
    /// The target port: the tag of the gateway.
    pub tag: u16,
}

/// A host that is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Registrant {
    /// The host's identifier, as a UUID.
    pub host_id: String,
    /// The ports of a host of iSCSI; null: it is one of NVMe.
    pub port: Option<ReservationPort>,
    /// Its key, which is no secret: every host can read it.
    #[schema(example = "0x000000000000abcd")]
    pub key: String,
    /// Does it hold the reservation?
    pub holder: bool,
}

/// Who has reserved a volume, and who is registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reservation {
    /// The volume's name.
    pub volume: String,
    /// How it is reserved; null: it is not.
    pub kind: Option<ReservationKind>,
    /// Counts the changes.
    pub generation: u32,
    /// Hosts have asked that it outlives a loss of power; it does anyhow.
    pub persist: bool,
    /// In the order in which they came.
    pub registrants: Vec<Registrant>,
    /// One initiator has it for itself (RESERVE of SPC-2): nobody else reads or writes it, and nobody is registered.
    pub locked: bool,
}

fn find(meta: &dyn Transact, volume: &str) -> Result<Reservation, AdminError> {
    let record: Record = admin::reservation(meta, volume)?.unwrap_or_default();
    let registrants = record.registrants.iter().map(|found| Registrant {
        host_id: uuid::Uuid::from_bytes(found.host_id).to_string(),
        port: found.port.as_ref().map(|port| ReservationPort {
            initiator: port.initiator.clone(),
            tag: port.tag,
        }),
        key: format!("{:#018x}", found.key),
        holder: record.is_holder(found.host),
    });
    Ok(Reservation {
        volume: volume.to_owned(),
        kind: record.held.map(|held| held.kind.into()),
        generation: record.generation,
        persist: record.persist,
        registrants: registrants.collect(),
        locked: record.locked.is_some(),
    })
}

/// Which hosts have reserved a volume, and which are registered: nobody is the usual answer.
#[utoipa::path(get, path = "/volumes/{name}/reservation", operation_id = "showReservation", tag = "volumes", params(Named),
    responses((status = 200, body = Reservation),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn show(State(api): State<Api>, asker: Asker, Names(name): Names<String>) -> Result<Json<Reservation>, Problem> {
    let found = api.run(asker, move |session| Ok(find(&session.reader(), &name)?));
    found.await.map(Json)
}
