//! `amita volume revert` by the API.

use super::{Arguments, Summary, text};
use crate::by_api::rest::{Rest, encode};
use crate::by_api::transport::Question;
use amita_terminal::error::Result;
use amita_terminal::interrupt;
use amita_terminal::table::print;
use http::Method;
use http::header::IF_MATCH;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::time::Instant;
use uuid::Uuid;

/// What the API answers.
#[derive(Deserialize)]
struct Reverted {
    volume: String,
    id: u64,
    record_id: u64,
    snapshot: String,
    kept: Option<String>,
    size_bytes: u64,
    snapshot_size_bytes: u64,
    levels: usize,
    flattening: bool,
    dry_run: bool,
}

/// Reverts what is looked at now: where others change the volume meanwhile, nothing is done.
///
/// # Errors
/// It is refused, no node answers, or it is not known whether it was done.
pub(in crate::commands::volume) fn run(arguments: &Arguments, rest: &Rest) -> Result<()> {
    let start = Instant::now();
    let (volume, snapshot) = &arguments.snapshot;
    interrupt::catch();
    let at = format!("/api/v1/volumes/{}", encode(volume));
    let (_, tag) = rest.get_tagged::<IgnoredAny>(&at)?;
    let body = json!({ "keep_snapshot": !arguments.no_snapshot, "dry_run": arguments.dry_run });
    let path = format!("{at}/snapshots/{}/revert", encode(snapshot));
    let key = Some(Uuid::new_v4().to_string());
    let question = Question::with_body(Method::POST, &path, body.to_string(), key).header(IF_MATCH, tag);
    let done: Reverted = rest.change(&question)?;
    let summary = Summary {
        volume: done.volume,
        id: done.record_id,
        stable_id: done.id,
        snapshot: done.snapshot,
        kept: done.kept,
        size_bytes: done.size_bytes,
        snapshot_size_bytes: done.snapshot_size_bytes,
        levels: done.levels,
        flattening: done.flattening,
        dry_run: done.dry_run,
        seconds: start.elapsed().as_secs_f64(),
    };
    print(arguments.json, &summary, || text(&summary))
}
