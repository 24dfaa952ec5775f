//! `amita volume diff`: what was changed between two snapshots, or since one.
//!
//! Extents are said as they come, so that a volume of any size and any number of changes takes no more memory than a small one.

mod by_api;

pub(super) use by_api::run as run_by_api;

use super::data::{Access, BLOCK_BYTES, Data, PIECE_BYTES, Way};
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use amita_client::Extent;
use amita_control::admin;
use amita_metadata::Transact;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::{interrupt, say, say_line, size};
use amita_types::map::Snapshot;
use serde::Serialize;

/// `amita volume diff`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The older snapshot, or what is left of it: its mark
    #[arg(value_name = "VOLUME@OLDER")]
    pub from: String,
    /// The newer one, as SNAPSHOT or VOLUME@SNAPSHOT; without it, or with the volume's name: the volume as it is now
    #[arg(value_name = "NEWER")]
    pub to: Option<String>,
    #[command(flatten)]
    pub access: Access,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What is compared.
pub(crate) struct Sides {
    volume: String,
    pub from: Snapshot,
    /// `None`: the volume as it is.
    to: Option<Snapshot>,
    pub size_bytes: u64,
}

/// An extent, as JSON says it.
#[derive(Serialize)]
struct Shown {
    offset: u64,
    length: u64,
    kind: &'static str,
}

#[derive(Default)]
struct Totals {
    extents: u64,
    data_bytes: u64,
    zero_bytes: u64,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    let way = arguments.access.way(endpoints, admin)?;
    if way.client().is_some() {
        let what = "what was changed is told to a gateway's identity, and not to a client's";
        return Err(Failure::new(what).kind(Kind::Usage).advice(
            "Name a gateway's: --client-identity DIR. A client asks by NBD: nbdinfo --map=qemu:dirty-bitmap:SNAPSHOT, of the export \
             VOLUME or VOLUME@LATER.",
        ));
    }
    let (volume, from, to) = named(arguments)?;
    let sides = sides(&admin.reader(), volume, from, to)?;
    interrupt::catch();
    let mut data = sides.open(&way)?;
    let told = tell(arguments.json, &sides, &mut data);
    data.close();
    told
}

impl Sides {
    /// Opens the newer one.
    pub(crate) fn open(&self, way: &Way) -> Result<Data> {
        let export = match &self.to {
            Some(to) => format!("{}@{}", self.volume, to.name),
            None => self.volume.clone(),
        };
        way.open_since(&export, &self.from.name)
            .map_err(|failure| match self.to {
                None => {
                    failure.advice("What hosts use is compared by a snapshot: take one, and name it as the newer one.")
                }
                Some(_) => failure,
            })
    }
}

fn usage(what: String, advice: &str) -> Failure {
    Failure::new(what).kind(Kind::Usage).advice(advice)
}

/// The volume, the older snapshot and the newer one, as they are named.
fn named(arguments: &Arguments) -> Result<(&str, &str, Option<&str>)> {
    let Some((volume, from)) = arguments.from.split_once('@') else {
        return Err(usage(
            format!("{} names no snapshot", arguments.from),
            "Name the older one as VOLUME@SNAPSHOT; `amita volume snapshot list VOLUME` lists them.",
        ));
    };
    let to = match arguments.to.as_deref().map(|to| to.split_once('@').unwrap_or(("", to))) {
        Some((other, to)) if !other.is_empty() && other != volume => {
            return Err(usage(
                format!("{other}@{to} is of another volume than {volume}@{from}"),
                "Only snapshots of one volume are compared.",
            ));
        }
        Some(("", to)) if to == volume => None,
        Some((_, to)) => Some(to),
        None => None,
    };
    Ok((volume, from, to))
}

/// The snapshots, if they can be compared.
pub(crate) fn sides(meta: &dyn Transact, volume: &str, from: &str, to: Option<&str>) -> Result<Sides> {
    let now = admin::volume(meta, volume).described()?;
    admin::none_copies(meta, &now).described()?;
    let size_bytes = now.size_bytes;
    let all = admin::snapshots(meta, volume).described()?;
    let find = |name: &str| {
        let found = all.iter().find(|snapshot| snapshot.name == name).cloned();
        found.ok_or_else(|| {
            let there: Vec<&str> = all.iter().map(|snapshot| snapshot.name.as_str()).collect();
            let there = match there.is_empty() {
                true => "it has none".to_owned(),
                false => format!("there are {}", there.join(", ")),
            };
            Failure::new(format!("volume {volume} has no snapshot {name}: {there}")).kind(Kind::NotFound)
        })
    };
    let from = find(from)?;
    let to = to.map(find).transpose()?;
    if let Some(to) = to.as_ref().filter(|to| to.mark) {
        return Err(Failure::new(format!(
            "snapshot {volume}@{} is deleted, and only its mark is kept: it tells what was changed since, and not what it had",
            to.name
        ))
        .kind(Kind::Conflict)
        .advice("Compare with a later snapshot, or with the volume as it is now."));
    }
    if let Some(to) = to.as_ref().filter(|to| to.number <= from.number) {
        let what = match to.number == from.number {
            true => format!("{volume}@{} is compared with itself", from.name),
            false => format!("{volume}@{} is newer than {volume}@{}", from.name, to.name),
        };
        return Err(usage(what, "Name the older one first."));
    }
    if to.as_ref().map_or(now.id, |to| to.volume) != from.volume {
        let to = to.as_ref().map_or("now", |to| to.name.as_str());
        let what = format!(
            "volume {volume} was reverted between {} and {to}: what differs is not known",
            from.name
        );
        return Err(Failure::new(what).kind(Kind::Conflict).advice(
            "Copy the newer one whole; what is changed since a snapshot that was taken after the revert is known.",
        ));
    }
    let size_bytes = to.as_ref().map_or(size_bytes, |to| to.size_bytes);
    if size_bytes < from.size_bytes {
        return Err(Failure::new(format!(
            "volume {volume} was {} at snapshot {}, and is {} in the newer one: what was cut off is no change that could be listed",
            size::show(from.size_bytes),
            from.name,
            size::show(size_bytes)
        ))
        .kind(Kind::Conflict)
        .advice("Copy the newer one whole."));
    }
    let volume = volume.to_owned();
    Ok(Sides {
        volume,
        from,
        to,
        size_bytes,
    })
}

/// What is compared, as it is told.
struct Compared<'a> {
    volume: &'a str,
    from: &'a str,
    to: Option<&'a str>,
    from_size_bytes: u64,
    size_bytes: u64,
}

fn tell(as_json: bool, sides: &Sides, data: &mut Data) -> Result<()> {
    let compared = Compared {
        volume: &sides.volume,
        from: &sides.from.name,
        to: sides.to.as_ref().map(|to| to.name.as_str()),
        from_size_bytes: sides.from.size_bytes,
        size_bytes: sides.size_bytes,
    };
    let mut teller = Teller::begin(as_json, &compared)?;
    each(0, sides.size_bytes, u64::MAX, data, |extent| {
        teller.extent(extent)?;
        Ok(true)
    })?;
    teller.end()
}

/// Tells extents as they come.
struct Teller {
    as_json: bool,
    totals: Totals,
}

impl Teller {
    fn begin(as_json: bool, compared: &Compared<'_>) -> Result<Teller> {
        let text = |value: Option<&str>| serde_json::to_string(&value).unwrap_or_default();
        if as_json {
            say!(
                "{{\"volume\":{},\"from\":{},\"to\":{},\"from_size_bytes\":{},\"size_bytes\":{},\"extents\":[",
                text(Some(compared.volume)),
                text(Some(compared.from)),
                text(compared.to),
                compared.from_size_bytes,
                compared.size_bytes
            );
        } else {
            say_line!("{:>16}  {:>12}  kind", "offset", "length");
        }
        let totals = Totals::default();
        Ok(Teller { as_json, totals })
    }

    fn extent(&mut self, extent: Extent) -> Result<()> {
        let kind = if extent.is_zero { "zero" } else { "data" };
        let Extent { offset, length, .. } = extent;
        if self.as_json {
            let comma = if self.totals.extents > 0 { "," } else { "" };
            let shown = serde_json::to_string(&Shown { offset, length, kind }).unwrap_or_default();
            say!("{comma}\n{shown}");
        } else {
            say_line!("{offset:>16}  {length:>12}  {kind}");
        }
        self.totals.extents += 1;
        match extent.is_zero {
            true => self.totals.zero_bytes += length,
            false => self.totals.data_bytes += length,
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        let Totals {
            extents,
            data_bytes,
            zero_bytes,
        } = self.totals;
        let changed_bytes = data_bytes + zero_bytes;
        if self.as_json {
            say_line!(
                "\n],\"changed_bytes\":{changed_bytes},\"data_bytes\":{data_bytes},\"zero_bytes\":{zero_bytes}}}"
            );
        } else {
            let plural = if extents == 1 { "" } else { "s" };
            say_line!(
                "{} changed in {extents} extent{plural}: {} of data, {} that are zeros now.",
                size::show(changed_bytes),
                size::show(data_bytes),
                size::show(zero_bytes)
            );
        }
        Ok(())
    }
}

/// Chunks that are asked for what was changed at one time: between those that are asked and those that are brought nothing is under way, so many
/// keep that seldom; and what they may tell takes some megabytes.
const CHUNKS: u64 = 256;

/// What is to be brought next behind a byte, and where that ends: what differs, where `differs`; else all, of which what has no data is zeros.
pub(crate) fn next(data: &mut Data, (at, size_bytes): (u64, u64), differs: bool) -> Result<(Vec<Extent>, u64)> {
    let mut extents = Vec::new();
    let until = look(differs, (at, size_bytes), CHUNKS, data, |extent| {
        extents.push(extent);
        Ok(true)
    })?;
    let until = until.unwrap_or(size_bytes);
    if !differs {
        extents = with_holes(&extents, at, until);
    }
    Ok((extents, until))
}

/// A hole between data that is no longer than this is read with it: one read costs less than two.
const SHORT_HOLE: u64 = PIECE_BYTES;

/// What lies between the extents is zeros, but for short holes.
fn with_holes(extents: &[Extent], from: u64, until: u64) -> Vec<Extent> {
    let data = |offset, end| Extent {
        offset,
        length: end - offset,
        is_zero: false,
    };
    let mut all: Vec<Extent> = Vec::new();
    let mut at = from;
    for extent in extents {
        let end = extent.offset + extent.length;
        match all.last_mut() {
            Some(before) if extent.offset - at <= SHORT_HOLE => before.length = end - before.offset,
            _ => {
                all.push(hole(at, extent.offset));
                all.push(data(extent.offset, end));
            }
        }
        at = end;
    }
    all.push(hole(at, until));
    all.retain(|extent| extent.length > 0);
    all
}

fn hole(offset: u64, end: u64) -> Extent {
    Extent {
        offset,
        length: end - offset,
        is_zero: true,
    }
}

/// The changed extents behind a byte, ascending; those that touch each other differ in kind. At most so many chunks are asked for, and only while
/// `tell` wants more: where it was looked to, or the first extent that was not wanted; none: the end.
pub(crate) fn each(
    from: u64,
    size_bytes: u64,
    chunks: u64,
    data: &mut Data,
    tell: impl FnMut(Extent) -> Result<bool>,
) -> Result<Option<u64>> {
    look(true, (from, size_bytes), chunks, data, tell)
}

/// The same of what has data, where not `differs`.
fn look(
    differs: bool,
    (from, size_bytes): (u64, u64),
    chunks: u64,
    data: &mut Data,
    mut tell: impl FnMut(Extent) -> Result<bool>,
) -> Result<Option<u64>> {
    let chunk = data.chunk_bytes();
    // The volume may have grown since it was looked at.
    let size_bytes = size_bytes.min(data.size_bytes());
    let mut next = from - from % chunk;
    let mut left = chunks;
    let mut learned = if differs { 0 } else { u64::MAX };
    let mut last: Option<Extent> = None;
    loop {
        if next < size_bytes && left > 0 && next >= learned && data.is_idle() {
            learned = data.learn_changed(next)?;
        }
        while next < size_bytes.min(learned) && left > 0 && data.has_room() {
            if !differs || data.may_be_changed(next) {
                match differs {
                    true => data.changed(next)?,
                    false => data.allocated(next)?,
                }
                left -= 1;
            }
            next += chunk;
        }
        let Some((offset, done)) = data.next()? else {
            if next >= size_bytes || left == 0 {
                break;
            }
            continue;
        };
        for extent in data.extents(offset, &done).filter_map(|extent| behind(extent, from)) {
            match &mut last {
                Some(before) if before.is_zero == extent.is_zero && before.offset + before.length == extent.offset => {
                    before.length += extent.length;
                }
                before => {
                    if let Some(whole) = before.replace(extent)
                        && !tell(whole)?
                    {
                        return Ok(Some(whole.offset));
                    }
                }
            }
        }
    }
    debug_assert!(last.is_none_or(|last| last.offset.is_multiple_of(BLOCK_BYTES as u64)));
    match last {
        Some(last) if !tell(last)? => Ok(Some(last.offset)),
        _ => Ok((next < size_bytes).then_some(next)),
    }
}

/// What of an extent lies behind a byte.
fn behind(extent: Extent, from: u64) -> Option<Extent> {
    let end = extent.offset + extent.length;
    let offset = extent.offset.max(from);
    (offset < end).then(|| Extent {
        offset,
        length: end - offset,
        ..extent
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_data_is_zeros() {
        let extent = |offset, length, is_zero| Extent {
            offset,
            length,
            is_zero,
        };
        let (data, gap) = (
            |offset, length| extent(offset, length, false),
            |offset, length| extent(offset, length, true),
        );
        assert_eq!(with_holes(&[], 4096, 4096), []);
        assert_eq!(with_holes(&[], 4096, 20_480), [gap(4096, 16_384)]);
        assert_eq!(with_holes(&[data(0, 4096)], 0, 4096), [data(0, 4096)]);
        let far = 8192 + SHORT_HOLE + 4096;
        assert_eq!(
            with_holes(&[data(4096, 4096), data(far, 4096)], 0, far + 8192),
            [
                gap(0, 4096),
                data(4096, 4096),
                gap(8192, far - 8192),
                data(far, 4096),
                gap(far + 4096, 4096)
            ]
        );
        // Every other block: one read, and not as many as there are blocks.
        let every_other: Vec<Extent> = (0..64).map(|block| data(8192 * block, 4096)).collect();
        assert_eq!(
            with_holes(&every_other, 0, 64 * 8192),
            [data(0, 63 * 8192 + 4096), gap(63 * 8192 + 4096, 4096)]
        );
    }

    #[test]
    fn what_lies_before_is_left_out() {
        let extent = Extent {
            offset: 8192,
            length: 8192,
            is_zero: true,
        };
        assert_eq!(behind(extent, 0), Some(extent));
        assert_eq!(behind(extent, 8192), Some(extent));
        let half = Extent {
            offset: 12288,
            length: 4096,
            is_zero: true,
        };
        assert_eq!(behind(extent, 12288), Some(half));
        assert_eq!(behind(extent, 16384), None);
    }
}
