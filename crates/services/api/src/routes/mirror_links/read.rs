//! What a point has of a volume, or what differs from another point, to the other end.
//!
//! Frames, in their order, from a gateway of this node's own; each request has a place among those of its kind, and whoever has gone, or takes
//! nothing for two minutes, ends it. So does the end of the token.

use super::number;
use crate::data::MirrorRead;
use crate::going::Watched;
use crate::lasting::{Hold, Lasting};
use crate::outgoing::{Out, QUEUE};
use crate::panics::carry;
use crate::problem::{Code, Problem};
use crate::routes::input::{Names, Parameters};
use crate::session::{Api, Asker, panicked};
use crate::who::Standing;
use amita_control::access::Action;
use amita_control::admin;
use amita_metadata::Transact;
use amita_types::map::{Mirror, PointName};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_RANGES, CONTENT_TYPE};
use http::{HeaderName, Method};
use serde::Deserialize;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::{IntoParams, ToSchema};

/// The other end may write what it has for so long before it takes more: a volume of it that does not answer is given up in that time.
const IDLE: Duration = Duration::from_secs(150);

/// What a point has of a volume, in frames: decision 081 has them.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "for the specification: bytes are streamed")]
struct MirrorFrames(Vec<u8>);

/// A volume of a point, in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// The mirror's number, the same at both ends.
    id: String,
    /// The point: EPOCH-NUMBER.
    point: String,
    /// What both ends call the volume.
    name: String,
}

/// Which part of it.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The point that the other end has, as EPOCH-NUMBER: only what differs from it is sent. All of the volume, where it is not said.
    base: Option<String>,
    /// Only what lies behind so many bytes.
    after: Option<u64>,
}

/// What is sent, as it is called here.
struct Asked {
    volume: String,
    snapshot: String,
    base: Option<String>,
    after: u64,
    limit_bytes_per_s: Option<u64>,
}

impl Asked {
    /// Nothing but volumes of the mirror, as points of it have them.
    fn find(
        meta: &dyn Transact,
        mirror: &Mirror,
        (point, base): (PointName, Option<PointName>),
        name: &str,
        after: u64,
    ) -> Result<Asked, Problem> {
        let Some(volume) = mirror.volumes.iter().find(|volume| volume.name == name) else {
            let why = format!("volume {name} is not in this mirror");
            return Err(Problem::new(Code::NotFound, why));
        };
        let snapshots = |wanted: PointName| match mirror.standing.find(wanted) {
            Some(found) => Ok(found.snapshots.clone()),
            None => {
                let why = format!("this end has no point {wanted}; look again at those that it has");
                Err(Problem::new(Code::WrongState, why))
            }
        };
        let asked = Asked {
            snapshot: snapshots(point)?,
            base: base.map(snapshots).transpose()?,
            volume: admin::mirrored_volume(meta, mirror, volume.id)?.name,
            after,
            limit_bytes_per_s: mirror.limit_bytes_per_s,
        };
        let size_bytes = admin::snapshot(meta, &asked.volume, &asked.snapshot)?.size_bytes;
        if after > size_bytes {
            let why = format!("after is {after}, and the volume has {size_bytes} bytes at that point");
            return Err(Problem::new(Code::BadRequest, why));
        }
        Ok(asked)
    }

    fn object(&self) -> String {
        format!("{}@{}", self.volume, self.snapshot)
    }

    fn read(&self) -> MirrorRead<'_> {
        MirrorRead {
            volume: &self.volume,
            snapshot: &self.snapshot,
            base: self.base.as_deref(),
            after: self.after,
            limit_bytes_per_s: self.limit_bytes_per_s,
        }
    }
}

fn point(text: &str) -> Result<PointName, Problem> {
    text.parse::<PointName>()
        .map_err(|why| Problem::new(Code::BadRequest, why))
}

/// Sends what a point has of a volume, or what differs from another point. Without the last frame it was cut short.
#[utoipa::path(get, path = "/mirror-links/{id}/points/{point}/volumes/{name}/data", operation_id = "readMirrorPoint", tag = "mirrors",
    params(Which, Wanted),
    responses((status = 200, content_type = "application/octet-stream", body = MirrorFrames),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn read(
    State(api): State<Api>,
    asker: Asker,
    lasting: Option<Extension<Lasting>>,
    standing: Option<Extension<Standing>>,
    method: Method,
    Names((id, of, name)): Names<(String, String, String)>,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Response, Problem> {
    let (id, of) = (number(&id)?, point(&of)?);
    let base = wanted.base.as_deref().map(point).transpose()?;
    let after = wanted.after.unwrap_or_default();
    let looked = api.run_end(asker.clone(), id, move |session, mirror| {
        session.permit(Action::MirrorRead, &mirror.name)?;
        Asked::find(&session.reader(), &mirror, (of, base), &name, after)
    });
    let asked = looked.await?;
    if method == Method::HEAD {
        return Ok(head().into_response());
    }
    // Another node may have a way, and is asked by whoever is told so.
    let data = api.data().map_err(|why| Problem::new(Code::Misdirected, why.detail))?;
    let place = api.sending()?;
    let watched = Watched::begin(&api, standing.map(|Extension(standing)| standing));
    let going = watched.going().clone();
    let (begin, begun) = oneshot::channel();
    let (out, pieces) = mpsc::channel(QUEUE);
    let session = api.clone();
    let job = carry(move || {
        let _place = place;
        let (session, _) = session.end_session(asker.0, id)?;
        let mut sink = Out::new((begin, out), going.clone(), IDLE);
        let sent = session.act(Action::MirrorRead, &asked.object(), |_| {
            data.mirror(&session, &asked.read(), &mut sink, &going)
        });
        if let Err(why) = &sent {
            sink.cut(why);
        }
        sent
    });
    if begun.await.is_err() {
        let ended = job.await.unwrap_or_else(|why| Err(panicked(&why)));
        let why = ended.err();
        return Err(why.unwrap_or_else(|| Problem::new(Code::Internal, "it ended before it began")));
    }
    let hold: Option<Hold> = lasting.map(|Extension(lasting)| lasting.hold());
    let pieces = ReceiverStream::new(pieces).map(move |piece| {
        // For as long as it goes on, the connection stays; and where that goes, it ends.
        let _ = (&hold, &watched);
        piece
    });
    Ok((head(), Body::from_stream(pieces)).into_response())
}

fn head() -> [(HeaderName, &'static str); 2] {
    [(CONTENT_TYPE, "application/octet-stream"), (ACCEPT_RANGES, "none")]
}
