//! A volume's bytes, to whoever reads them.
//!
//! They are read on a thread that may wait, some pieces ahead, and go out as fast as they are taken. Who has gone, or takes nothing for a
//! minute, ends it.

use super::{IDLE, RawImage};
use crate::going::Watched;
use crate::lasting::{Hold, Lasting};
use crate::outgoing::{Out, QUEUE};
use crate::panics::carry;
use crate::problem::{Code, Problem};
use crate::routes::input::{Named, Names, Parameters};
use crate::session::{Api, Asker, panicked};
use crate::who::Standing;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_metadata::Transact;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, Method};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;

/// What of a volume is wanted.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The snapshot; the volume as it is, where it is not said.
    snapshot: Option<String>,
}

/// The volume, or the snapshot of it, and its size.
fn find(meta: &dyn Transact, volume: &str, snapshot: Option<&str>) -> Result<u64, AdminError> {
    Ok(match snapshot {
        None => admin::volume(meta, volume)?.size_bytes,
        Some(snapshot) => admin::snapshot(meta, volume, snapshot)?.size_bytes,
    })
}

/// Copies a volume, or a snapshot of it, out: an image, byte for byte what a host would read (raw).
///
/// Nobody may have the volume open meanwhile; a snapshot can be had at any time. A node copies two images at once. Where fewer bytes come
/// than `Content-Length` says, it was cut short.
#[utoipa::path(get, path = "/volumes/{name}/export", operation_id = "exportVolumeData", tag = "volumes", params(Named, Wanted),
    responses((status = 200, content_type = "application/octet-stream", body = RawImage),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn export(
    State(api): State<Api>,
    asker: Asker,
    lasting: Option<Extension<Lasting>>,
    standing: Option<Extension<Standing>>,
    method: Method,
    Names(volume): Names<String>,
    Parameters(Wanted { snapshot }): Parameters<Wanted>,
) -> Result<Response, Problem> {
    let object = match &snapshot {
        None => volume.clone(),
        Some(snapshot) => format!("{volume}@{snapshot}"),
    };
    let named = object.clone();
    let looked = api.run(asker.clone(), move |session| {
        session.permit(Action::VolumeExportData, &named)?;
        Ok(find(&session.reader(), &volume, snapshot.as_deref())?)
    });
    let size_bytes = looked.await?;
    if method == Method::HEAD {
        return Ok(head(&object, size_bytes).into_response());
    }
    let data = api.data()?;
    let place = api.copying()?;
    let watched = Watched::begin(&api, standing.map(|Extension(standing)| standing));
    let going = watched.going().clone();
    let (begin, begun) = oneshot::channel();
    let (out, pieces) = mpsc::channel(QUEUE);
    let (of, session) = (object.clone(), api.clone());
    let job = carry(move || {
        let _place = place;
        let session = session.session(asker.0)?;
        let mut sink = Out::new((begin, out), going.clone(), IDLE);
        let copied = session.act(Action::VolumeExportData, &of, |_| {
            data.export(&session, &of, &mut sink, &going)
        });
        if let Err(why) = &copied {
            sink.cut(why);
        }
        copied
    });
    let Ok(size_bytes) = begun.await else {
        let ended = job.await.unwrap_or_else(|why| Err(panicked(&why)));
        let why = ended.err();
        return Err(why.unwrap_or_else(|| Problem::new(Code::Internal, "the copy ended before it began")));
    };
    let hold: Option<Hold> = lasting.map(|Extension(lasting)| lasting.hold());
    let pieces = ReceiverStream::new(pieces).map(move |piece| {
        // For as long as it goes on, the connection stays; and where that goes, it ends.
        let _ = (&hold, &watched);
        piece
    });
    Ok((head(&object, size_bytes), Body::from_stream(pieces)).into_response())
}

fn head(object: &str, size_bytes: u64) -> [(HeaderName, String); 4] {
    [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, size_bytes.to_string()),
        (ACCEPT_RANGES, "none".to_owned()),
        // Names have nothing that would have to be escaped.
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{object}.raw\"")),
    ]
}
