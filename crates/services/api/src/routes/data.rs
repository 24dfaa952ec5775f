//! The data of volumes: revert, diff, export, import. What is done with it is [`crate::data`]'s.

mod export;
mod import;

use super::input::{Body, KnownWell, Named, Names, Parameters};
use super::volumes;
use crate::condition::IfMatch;
use crate::data::{self, DataPath};
use crate::guard::own_site_only;
use crate::problem::{Code, Problem};
use crate::repeat::IDEMPOTENCY_KEY;
use crate::session::{Api, Asker, Asking};
use amita_control::access::Action;
use axum::Json;
use axum::extract::State;
use axum::middleware::from_fn;
use http::HeaderMap;
use http::header::IF_MATCH;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;

/// Who copies may be silent, or at one piece, for so long.
const IDLE: Duration = Duration::from_secs(60);
/// A piece: who needs longer than [`IDLE`] for it is too slow.
const PIECE_BYTES: u64 = 1 << 20;
/// The most extents of one answer, and as many as are given where nobody says.
const MOST_EXTENTS: usize = 10_000;
const USUAL_EXTENTS: usize = 1000;

pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(revert))
        .routes(routes!(diff).layer(from_fn(own_site_only)))
        .routes(routes!(export::export).layer(from_fn(own_site_only)))
        .routes(routes!(import::import))
}

/// A snapshot in the path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "for the specification: handlers read the path by `Names`")]
struct Which {
    /// The volume's name.
    name: String,
    /// The snapshot's name.
    snapshot: String,
}

/// An image: byte for byte what a host would read (raw).
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "for the specification: bytes are streamed")]
struct RawImage(Vec<u8>);

fn yes() -> bool {
    true
}

/// How a volume is to be reverted.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HowToRevert {
    /// A snapshot of what the volume is now is kept; without it what was written since is lost.
    #[serde(default = "yes")]
    #[schema(default = true)]
    pub keep_snapshot: bool,
    /// Say whether it can be, and change nothing.
    #[serde(default)]
    #[schema(default = false)]
    pub dry_run: bool,
}

/// What has become of a volume that was to be what a snapshot of it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VolumeReverted {
    /// The volume's name.
    pub volume: String,
    /// The number that stays.
    pub id: u64,
    /// The number of its records: another one than before.
    pub record_id: u64,
    /// The snapshot that it is again.
    pub snapshot: String,
    /// The snapshot of what it was before; null: none is kept.
    pub kept: Option<String>,
    /// Its size, which stays.
    pub size_bytes: u64,
    /// The snapshot's size: what is behind is zeros.
    pub snapshot_size_bytes: u64,
    /// So many levels of clones and reverts it comes from.
    pub levels: u64,
    /// They are many: it is flattened in the background.
    pub flattening: bool,
    /// Nothing was changed: it was only asked whether it could be.
    pub dry_run: bool,
}

/// Makes a volume what it was at a snapshot, at once: no data is copied.
///
/// Nobody may use it meanwhile. A snapshot of what it is now is taken before, and kept unless the request says otherwise; all snapshots stay.
/// `If-Match` is the volume's ETag: what was written since the snapshot goes from it.
#[utoipa::path(post, path = "/volumes/{name}/snapshots/{snapshot}/revert", operation_id = "revertVolume", tag = "snapshots",
    request_body = HowToRevert, params(Which, KnownWell),
    responses((status = 200, body = VolumeReverted),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn revert(
    State(api): State<Api>,
    asker: Asker,
    Names((volume, snapshot)): Names<(String, String)>,
    known: IfMatch,
    headers: HeaderMap,
    Body(how): Body<HowToRevert>,
) -> Result<Json<VolumeReverted>, Problem> {
    may_be_sent_again(&headers, &how)?;
    let (object, name) = (format!("{volume}@{snapshot}"), volume.clone());
    let condition = known.clone();
    // Who may not, or means something else, takes nobody's place.
    let looked = api.run(asker.clone(), move |session| {
        session.permit(Action::VolumeRevert, &object)?;
        condition.demand(session, |meta| volumes::look(meta, &name)).map(drop)
    });
    looked.await?;
    let reverted = api.run_on_data(asker, move |session, path| {
        let done = path.revert(
            session,
            &data::Revert {
                volume: &volume,
                snapshot: &snapshot,
                keep: how.keep_snapshot,
                dry_run: how.dry_run,
                check: &|| known.demand(session, |meta| volumes::look(meta, &volume)).map(drop),
            },
        )?;
        Ok(VolumeReverted {
            volume,
            id: done.id,
            record_id: done.record_id,
            snapshot,
            kept: done.kept,
            size_bytes: done.size_bytes,
            snapshot_size_bytes: done.snapshot_size_bytes,
            levels: done.levels as u64,
            flattening: done.flattening,
            dry_run: how.dry_run,
        })
    });
    reverted.await.map(Json)
}

/// A request with a key is done anew where its node has died: with `*`, also where a host has written since.
fn may_be_sent_again(headers: &HeaderMap, how: &HowToRevert) -> Result<(), Problem> {
    let is_any = headers.get(IF_MATCH).is_some_and(|value| value.as_bytes() == b"*");
    if how.keep_snapshot || how.dry_run || !is_any || !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(());
    }
    let why = "with an Idempotency-Key and no snapshot kept, If-Match is the volume's ETag: done anew after its node has died, `*` would \
               lose what was written in between";
    Err(Problem::new(Code::BadRequest, why))
}

/// What is to be compared, and which piece of the answer is wanted.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Question {
    /// The older snapshot, or what is left of it: its mark.
    from: String,
    /// The newer one; the volume as it is now, where it is not said.
    to: Option<String>,
    /// The most extents of the answer: 1 to 10000; 1000 where it is not said.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
    /// Only what lies behind: `next` of the answer before.
    after: Option<String>,
}

/// What has become of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeKind {
    /// It was written.
    Data,
    /// It is zeros now, and takes no space.
    Zero,
}

/// Blocks that follow each other and were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChangedExtent {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// What has become of them.
    pub kind: ChangeKind,
}

/// What was changed between two snapshots, or since one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VolumeDiff {
    /// The volume's name.
    pub volume: String,
    /// The older snapshot.
    pub from: String,
    /// The newer one; null: the volume as it is.
    pub to: Option<String>,
    /// The volume's size at the older snapshot.
    pub from_size_bytes: u64,
    /// Its size in the newer one, or now.
    pub size_bytes: u64,
    /// What was changed, ascending. Where one ends at the piece's end, the next piece may go on with it.
    pub items: Vec<ChangedExtent>,
    /// What `after` is to be for the next piece; null: this was the last. There may be one behind a piece without items, too: of a large
    /// volume only a part is looked at for one answer.
    pub next: Option<String>,
}

/// Of the volume as it is, it is told: it keeps others from it. Of all its pieces the first one.
fn compare(session: &Asking, path: &dyn DataPath, diff: &data::Diff<'_>) -> Result<data::Differences, Problem> {
    match diff.to.is_none() && diff.after == 0 {
        true => session.act(Action::VolumeExportData, diff.volume, |_| path.diff(session, diff)),
        false => path.diff(session, diff),
    }
}

/// What was changed between two snapshots of a volume, or since one: the extents that a backup copies.
///
/// Of the volume as it is nobody may have it open meanwhile, and each piece of the answer is of its own moment: name a newer snapshot, and
/// all of them are of one.
#[utoipa::path(get, path = "/volumes/{name}/diff", operation_id = "compareVolume", tag = "snapshots", params(Named, Question),
    responses((status = 200, body = VolumeDiff),
        (status = "default", body = Problem, content_type = "application/problem+json")))]
async fn diff(
    State(api): State<Api>,
    asker: Asker,
    Names(volume): Names<String>,
    Parameters(question): Parameters<Question>,
) -> Result<Json<VolumeDiff>, Problem> {
    let limit = question.limit.unwrap_or(USUAL_EXTENTS);
    if !(1..=MOST_EXTENTS).contains(&limit) {
        let why = format!("limit is {limit}; it can be 1 to {MOST_EXTENTS}");
        return Err(Problem::new(Code::BadRequest, why));
    }
    let after = match question.after.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(after)) => after,
        Some(Err(_)) => {
            return Err(Problem::new(
                Code::BadRequest,
                "after is the `next` of the answer before",
            ));
        }
    };
    let name = volume.clone();
    let looked = api.run(asker.clone(), move |session| {
        session.permit(Action::VolumeExportData, &name)?;
        Ok(volumes::find(&session.reader(), &name)?)
    });
    looked.await?;
    let found = api.run_on_data(asker, move |session, path| {
        let Question { from, to, .. } = question;
        let diff = data::Diff {
            volume: &volume,
            from: &from,
            to: to.as_deref(),
            after,
            limit,
        };
        let data::Differences {
            from_size_bytes,
            size_bytes,
            extents,
            next,
        } = compare(session, path, &diff)?;
        let items = extents.into_iter().map(|found| ChangedExtent {
            offset: found.offset,
            length: found.length,
            kind: if found.is_zero {
                ChangeKind::Zero
            } else {
                ChangeKind::Data
            },
        });
        Ok(VolumeDiff {
            items: items.collect(),
            next: next.map(|next| next.to_string()),
            volume,
            from,
            to,
            from_size_bytes,
            size_bytes,
        })
    });
    found.await.map(Json)
}
