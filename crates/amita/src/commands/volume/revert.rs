//! `amita volume revert`: the volume is made what a snapshot of it is, by writing back what was changed since.
//!
//! What was changed is found by versions, as `volume diff` finds it: the head's answer says where, and what is to stand there the snapshot
//! says, which is read. The volume's record of what is known of it ([`map::About`](amita_types::map::About)) has a mark before the first
//! block is written and until the last one is, so that one that was cut short is seen. Given again, the command looks anew: what was
//! written back counts as changed once more, and is written with the same bytes, or is zero in both and left alone.

use super::data::{Access, BLOCK_BYTES, DEPTH, Data, PIECE_BYTES, is_alone, not_alone, runs};
use super::snapshot;
use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_client::Extent;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::table::print;
use amita_terminal::{interrupt, size};
use amita_types::map::{About, PoolKind, Revert, Snapshot, Volume};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The label of the snapshot that is taken before: the name of the one that the volume is made again.
const LABEL: &str = "amita:revert";
/// For how long that snapshot is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
const BLOCK: u64 = BLOCK_BYTES as u64;

/// `amita volume revert`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The volume, and the snapshot that it is to be again
    #[arg(value_name = "VOLUME@SNAPSHOT", value_parser = parse)]
    pub snapshot: (String, String),
    /// Say what would be written, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take no snapshot of what the volume is now: what was written since is lost
    #[arg(long)]
    pub no_snapshot: bool,
    #[command(flatten)]
    pub access: Access,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('@') {
        Some((volume, snapshot)) if !volume.is_empty() && !snapshot.is_empty() && !snapshot.contains('@') => {
            Ok((volume.to_owned(), snapshot.to_owned()))
        }
        _ => Err(
            "name the snapshot as VOLUME@SNAPSHOT; neither name has an @ (`amita volume snapshot list VOLUME`)"
                .to_owned(),
        ),
    }
}

#[derive(Debug, Serialize)]
struct Summary {
    volume: String,
    id: u64,
    snapshot: String,
    /// The snapshot of what the volume was before; null: none was taken.
    kept: Option<String>,
    size_bytes: u64,
    snapshot_size_bytes: u64,
    /// What was written or unmapped since, up to the snapshot's size.
    changed_bytes: u64,
    #[serde(flatten)]
    done: Done,
    dry_run: bool,
    /// An earlier one was not at its end.
    resumed: bool,
    seconds: f64,
}

/// What is written back.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Done {
    /// With what the snapshot has.
    written_bytes: u64,
    /// The snapshot has zeros there: it takes no space any more.
    zeroed_bytes: u64,
    /// The same behind the snapshot's end.
    behind_bytes: u64,
}

/// What is reverted, and to what.
struct Target {
    volume: Volume,
    to: Snapshot,
    about: About,
}

pub(super) fn run(arguments: &Arguments, endpoints: &Endpoints, admin: &Admin) -> Result<()> {
    let start = Instant::now();
    if !arguments.dry_run {
        admin.permit(Action::VolumeRevert)?;
    }
    let way = arguments.access.way_of_gateway(
        endpoints,
        admin,
        "a volume is reverted",
        "it owns the volume meanwhile, and asks what was changed",
    )?;
    let before = target(arguments, admin)?;
    interrupt::catch();
    let mut data = way.open_since_and(&before.volume.name, &before.to.name)?;
    let mut revert = Reverting {
        admin,
        dry_run: arguments.dry_run,
        volume: before.volume.clone(),
        kept: still_kept(&before, admin)?,
        to: before.to,
        resumed: before.about.revert.is_some(),
        changed: Changed::default(),
        is_marked: false,
        done: Done::default(),
        bar: ProgressBar::hidden(),
    };
    let result = revert.run(&mut data, arguments.no_snapshot);
    data.close();
    revert.bar.finish_and_clear();
    if let Err(failure) = result {
        return Err(revert.left(failure));
    }
    let summary = Summary {
        volume: revert.volume.name.clone(),
        id: revert.volume.id.0,
        snapshot: revert.to.name.clone(),
        kept: revert.kept.clone(),
        size_bytes: revert.volume.size_bytes,
        snapshot_size_bytes: revert.to.size_bytes,
        changed_bytes: revert.changed.inside,
        done: revert.done,
        dry_run: arguments.dry_run,
        resumed: revert.resumed,
        seconds: start.elapsed().as_secs_f64(),
    };
    print(arguments.json, &summary, || text(&summary))
}

fn text(summary: &Summary) -> String {
    let Summary { volume, snapshot, .. } = summary;
    let Done {
        written_bytes,
        zeroed_bytes,
        behind_bytes,
    } = summary.done;
    let (written, cleared) = (size::show(written_bytes), size::show(zeroed_bytes + behind_bytes));
    if summary.dry_run {
        return format!(
            "Nothing is changed. To make volume {volume} what it was at {snapshot}, {written} would be written, and {cleared} cleared.\n"
        );
    }
    let mut text = format!(
        "Volume {volume} is what it was at {snapshot}: {written} were written, {cleared} cleared, in {:.1} s.\n",
        summary.seconds
    );
    if summary.size_bytes > summary.snapshot_size_bytes {
        text += &format!(
            "It had {} then, and keeps its {}: what is behind is zeros.\n",
            size::show(summary.snapshot_size_bytes),
            size::show(summary.size_bytes)
        );
    }
    if let Some(kept) = &summary.kept {
        text += &format!("What it was before is in {volume}@{kept}.\n");
    }
    text
}

/// The volume and the snapshot as the metadata has them, if the one may become the other.
fn target(arguments: &Arguments, admin: &Admin) -> Result<Target> {
    let meta = admin.reader();
    let (name, snapshot) = &arguments.snapshot;
    let volume = match admin::volume(&meta, name) {
        Err(why @ AdminError::NoSuch { .. }) => {
            let mut deleted = admin::trash(&meta).described()?.into_iter();
            return match deleted.any(|found| found.trashed.name == *name) {
                false => Err(why).described(),
                true => Err(
                    Failure::new(format!("volume {name} is deleted, and in the recycle bin"))
                        .kind(Kind::Conflict)
                        .advice(format!(
                            "`amita volume undelete {name}` has it back, with its snapshots."
                        )),
                ),
            };
        }
        found => found.described()?,
    };
    let to = admin::snapshot(&meta, name, snapshot).described()?;
    let about = admin::about(&meta, volume.id).described()?;
    admin::may_revert(&meta, &volume, snapshot, to.number).described()?;
    if volume.size_bytes < to.size_bytes {
        return Err(Failure::new(format!(
            "volume {name} has {}, and had {} at snapshot {snapshot}",
            size::show(volume.size_bytes),
            size::show(to.size_bytes)
        ))
        .kind(Kind::Conflict)
        .advice("Make it as large first: `amita volume resize`."));
    }
    if about.protected && arguments.no_snapshot && !arguments.dry_run {
        return Err(Failure::new(format!(
            "volume {name} is protected, and without a snapshot before what was written since would be lost"
        ))
        .kind(Kind::Conflict)
        .advice(format!(
            "Leave --no-snapshot out, or `amita volume protect {name} --off` first."
        )));
    }
    Ok(Target { volume, to, about })
}

/// The snapshot that an earlier revert has taken, if that was cut short, nobody has had the volume since, and it is there still: no
/// other one is taken then, which would have a volume that is partly reverted.
fn still_kept(before: &Target, admin: &Admin) -> Result<Option<String>> {
    let Some(mark) = &before.about.revert else {
        return Ok(None);
    };
    let Some(kept) = mark
        .kept
        .as_ref()
        .filter(|_| mark.generation == before.volume.generation)
    else {
        return Ok(None);
    };
    let all = admin::snapshots(&admin.reader(), &before.volume.name).described()?;
    Ok(all
        .into_iter()
        .find(|found| found.name == *kept)
        .map(|found| found.name))
}

/// What was written or unmapped since, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// Up to the snapshot's size.
    inside: u64,
    /// Behind it, without what is zeros.
    behind: u64,
}

struct Reverting<'a> {
    admin: &'a Admin,
    dry_run: bool,
    volume: Volume,
    to: Snapshot,
    kept: Option<String>,
    resumed: bool,
    changed: Changed,
    /// The mark is there: blocks may have been written.
    is_marked: bool,
    done: Done,
    bar: ProgressBar,
}

impl Reverting<'_> {
    fn run(&mut self, data: &mut Data, no_snapshot: bool) -> Result<()> {
        let now = admin::volume(&self.admin.reader(), &self.volume.name).described()?;
        if !is_alone(data, &self.volume, &now) || data.size_bytes() < self.to.size_bytes {
            return Err(not_alone(&self.volume.name, "is written back"));
        }
        self.volume = now;
        self.each(data, Self::count)?;
        if self.dry_run {
            return self.restore(data, "reading");
        }
        let is_same = self.changed.inside + self.changed.behind == 0;
        if !is_same {
            if !no_snapshot && self.kept.is_none() {
                self.check_room(data)?;
                self.kept = Some(self.keep()?);
            }
            self.mark()?;
            self.restore(data, "reverting")?;
        } else if !self.resumed {
            return Ok(());
        }
        let ended = self.admin.act(Action::VolumeRevert, &self.object(), |meta| {
            admin::end_revert(meta, &self.volume)
        });
        ended.described().map(drop)
    }

    fn object(&self) -> String {
        format!("{}@{}", self.volume.name, self.to.name)
    }

    /// Takes a snapshot of the volume as it is.
    fn keep(&self) -> Result<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("before-revert-{}", timestamp(now.as_secs(), now.subsec_millis()));
        let labels = BTreeMap::from([(LABEL.to_owned(), self.to.name.clone())]);
        let volume = &self.volume.name;
        let state = self.admin.act(Action::VolumeRevert, &self.object(), |meta| {
            let wish = admin::ask_own_snapshot(meta, volume, &name, labels, now)?;
            snapshot::await_taken(meta, &wish, Instant::now() + PATIENCE)
        });
        let taken = state
            .described()
            .and_then(|state| snapshot::taken(&format!("{volume}@{name}"), state, PATIENCE));
        taken.map(|taken| taken.name).map_err(|failure| {
            let advice = format!(
                "{} Nothing is changed. --no-snapshot takes none before.",
                failure.advice
            );
            failure.advice(advice.trim_start().to_owned())
        })
    }

    fn mark(&mut self) -> Result<()> {
        let mark = Revert {
            snapshot: self.to.name.clone(),
            number: self.to.number,
            kept: self.kept.clone(),
            generation: self.volume.generation,
        };
        let noted = self.admin.act(Action::VolumeRevert, &self.object(), |meta| {
            admin::begin_revert(meta, &self.volume, &mark)
        });
        noted.described()?;
        self.is_marked = true;
        Ok(())
    }

    /// What is written back takes space of its own beside what the snapshot before it keeps. Where stores do not tell how full they are,
    /// nobody knows beforehand.
    fn check_room(&mut self, data: &mut Data) -> Result<()> {
        let status = self.admin.status()?;
        let pool = status.pools.iter().find(|found| found.pool.name == self.volume.pool);
        let Some(pool) = pool.filter(|pool| pool.raw_bytes > 0) else {
            return Ok(());
        };
        let PoolKind::Replicated { copies, .. } = pool.pool.kind else {
            return Ok(());
        };
        let free = pool.raw_bytes.saturating_sub(pool.used_bytes) / u64::from(copies.max(1));
        if self.changed.inside <= free {
            return Ok(());
        }
        // Perhaps most of it are zeros in the snapshot.
        self.dry_run = true;
        let looked = self.restore(data, "reading");
        self.dry_run = false;
        let needed = std::mem::take(&mut self.done).written_bytes;
        looked?;
        if needed <= free {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} are to be written back, and pool {} has room for {}",
            size::show(needed),
            self.volume.pool,
            size::show(free)
        ))
        .kind(Kind::Conflict)
        .advice(
            "Nothing is changed. Add stores, or delete what is not needed; or, with --no-snapshot, what was written since makes room as it \
             goes.",
        ))
    }

    /// What was changed since, a part of the volume at a time.
    fn each(
        &mut self,
        data: &mut Data,
        mut take: impl FnMut(&mut Self, &mut Data, Vec<Extent>) -> Result<()>,
    ) -> Result<()> {
        let (end, chunk) = (data.size_bytes(), data.chunk_bytes());
        let mut next = 0;
        while next < end {
            interrupt::check()?;
            while next < end && data.has_room() {
                data.changed(next)?;
                next += chunk;
            }
            let mut extents = Vec::new();
            while let Some((offset, answer)) = data.next()? {
                extents.extend(data.extents(offset, &answer));
            }
            take(self, data, extents)?;
        }
        Ok(())
    }

    fn count(&mut self, _: &mut Data, extents: Vec<Extent>) -> Result<()> {
        for extent in extents {
            let (inside, behind) = split(extent, self.to.size_bytes);
            self.changed.inside += inside.length;
            if !behind.is_zero {
                self.changed.behind += behind.length;
            }
        }
        Ok(())
    }

    /// Writes everything back; or only says what that would be.
    fn restore(&mut self, data: &mut Data, what: &str) -> Result<()> {
        self.done = Done::default();
        self.bar = progress::bar(what, self.changed.inside + self.changed.behind);
        let restored = self.each(data, Self::restore_some);
        self.bar.finish_and_clear();
        restored
    }

    fn restore_some(&mut self, data: &mut Data, extents: Vec<Extent>) -> Result<()> {
        let mut pieces = Vec::new();
        for extent in extents {
            let (inside, behind) = split(extent, self.to.size_bytes);
            let parts = (0..inside.length).step_by(PIECE_BYTES as usize);
            pieces.extend(parts.map(|at| Extent {
                offset: inside.offset + at,
                length: PIECE_BYTES.min(inside.length - at),
                is_zero: inside.is_zero,
            }));
            if behind.length > 0 && !behind.is_zero {
                self.clear(data, behind.offset, behind.length)?;
                self.done.behind_bytes += behind.length;
                self.bar.inc(behind.length);
            }
        }
        for some in pieces.chunks(DEPTH) {
            data.finish()?;
            for piece in some {
                data.read_snapshot(piece.offset, piece.length)?;
            }
            let mut read = Vec::with_capacity(some.len());
            while let Some((_, answer)) = data.next()? {
                read.push(answer.payload.to_vec());
            }
            for (piece, bytes) in some.iter().zip(&read) {
                self.restore_piece(data, piece, bytes)?;
                self.bar.inc(piece.length);
            }
        }
        data.finish()
    }

    /// `bytes`: what the snapshot has there; where the volume has zeros is known.
    fn restore_piece(&mut self, data: &mut Data, piece: &Extent, bytes: &[u8]) -> Result<()> {
        let mut at = 0;
        let end = (bytes.len(), bytes.len());
        for (start, stop) in runs(bytes, BLOCK_BYTES).into_iter().chain([end]) {
            if start > at && !piece.is_zero {
                self.clear(data, piece.offset + at as u64, (start - at) as u64)?;
                self.done.zeroed_bytes += (start - at) as u64;
            }
            if stop > start {
                if !self.dry_run {
                    data.write(piece.offset + start as u64, &bytes[start..stop])?;
                }
                self.done.written_bytes += (stop - start) as u64;
            }
            at = stop;
        }
        Ok(())
    }

    fn clear(&self, data: &mut Data, offset: u64, bytes: u64) -> Result<()> {
        match self.dry_run {
            true => Ok(()),
            false => data.write_zeroes(offset, bytes),
        }
    }

    /// What a failure leaves, and what to do.
    fn left(&self, mut failure: Failure) -> Failure {
        let (name, object) = (&self.volume.name, self.object());
        if !self.is_marked {
            if let Some(kept) = self.kept.as_ref().filter(|_| !self.resumed) {
                let advice = format!("{} Nothing is changed; snapshot {name}@{kept} stays.", failure.advice);
                failure.advice = advice.trim_start().to_owned();
            }
            if self.resumed && !self.dry_run {
                failure.what += &format!(": volume {name} is still partly what an earlier revert left");
            }
            return failure;
        }
        failure.what = format!(
            "{}: volume {name} is partly what it was before, and partly what it was at {}",
            failure.what, self.to.name
        );
        let kept = match &self.kept {
            Some(kept) => format!(" What it was before is in {name}@{kept}."),
            None => String::new(),
        };
        let advice = format!(
            "{} `amita volume revert {object}`, given again, ends it; let nobody use the volume until then.{kept}",
            failure.advice
        );
        failure.advice = advice.trim_start().to_owned();
        failure
    }
}

/// What lies before `end`, and what behind.
fn split(extent: Extent, end: u64) -> (Extent, Extent) {
    debug_assert!(end.is_multiple_of(BLOCK) && extent.offset.is_multiple_of(BLOCK));
    let inside = end.saturating_sub(extent.offset).min(extent.length);
    let before = Extent {
        length: inside,
        ..extent
    };
    let behind = Extent {
        offset: extent.offset + inside,
        length: extent.length - inside,
        ..extent
    };
    (before, behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_named_with_its_volume() {
        let named = ("db".to_owned(), "a:1".to_owned());
        assert_eq!(parse("db@a:1"), Ok(named));
        for bad in ["db", "@s", "db@", "", "db@a@b", "@", "db@@a"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_lies_behind_the_snapshots_end_is_no_part_of_it() {
        let extent = |offset, length| Extent {
            offset,
            length,
            is_zero: false,
        };
        let cases = [
            (extent(0, 8192), (8192, 0)),
            (extent(4096, 8192), (4096, 4096)),
            (extent(8192, 4096), (0, 4096)),
            (extent(12288, 4096), (0, 4096)),
        ];
        for (whole, (inside, behind)) in cases {
            let (first, second) = split(whole, 8192);
            assert_eq!((first.length, second.length), (inside, behind), "{whole:?}");
            assert_eq!(first.offset, whole.offset);
            assert_eq!(second.offset, whole.offset + inside);
        }
    }
}
