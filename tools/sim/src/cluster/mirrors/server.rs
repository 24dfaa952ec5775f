//! What an end answers to the other one: the steps of the API's `mirror-links` (`amita_api`), by the same functions of `amita_control::admin`. What a
//! point has is read by a gateway of the simulation, in pieces, each of which is asked for by itself.

use super::wire::{Content, Did, FarAnswer, FarAsk, FarWhy, Link, Taken};
use super::{BLOCK, Wall, value_of};
use crate::cluster::moves::line::{Ask, Brought, End, Line, Opened, Piece};
use amita_control::admin::{self, AdminError, Cutting};
use amita_types::map::{Mirror, MirrorRole, PointName, Snapshot, Standing};

/// Chunks of one piece.
const CHUNKS: u64 = 2;

impl From<AdminError> for FarWhy {
    fn from(why: AdminError) -> FarWhy {
        match why {
            AdminError::Mirror { .. } => FarWhy::Conflict(why.to_string()),
            _ => FarWhy::Other(why.to_string()),
        }
    }
}

/// Answers one request.
pub(super) fn serve(line: &Line, name: &str, wall: &Wall, ask: FarAsk) {
    let answer = match ask {
        FarAsk::Look => link(line, name, wall),
        FarAsk::Cut(epoch) => cut(line, name, wall, epoch),
        FarAsk::Decline(epoch, said) => decline(line, name, wall, (epoch, &said)),
        FarAsk::Take {
            point,
            volume,
            base,
            after,
        } => take(line, name, (point, base), &volume, after).map(FarAnswer::Taken),
    };
    line.say(Ask::Did(Box::new(Did::Served(answer))));
    line.say(Ask::Ended(None));
}

fn link(line: &Line, name: &str, wall: &Wall) -> Result<FarAnswer, FarWhy> {
    let mirror = admin::mirror(line, name)?;
    let mut sizes = Vec::new();
    for volume in &mirror.volumes {
        let found = admin::mirrored_volume(line, &mirror, volume.id)?;
        sizes.push((volume.name.clone(), found.size_bytes));
    }
    let mut standing = mirror.standing;
    for point in &mut standing.points {
        point.arrived_at = None;
    }
    Ok(FarAnswer::Link(Link {
        standing,
        clock: wall.at(line).as_secs(),
        sizes,
    }))
}

fn cut(line: &Line, name: &str, wall: &Wall, epoch: amita_types::MirrorEpoch) -> Result<FarAnswer, FarWhy> {
    Ok(FarAnswer::Cut(
        match admin::cut_point(line, name, epoch, wall.at(line))? {
            Cutting::Cut(point) => Some(point),
            Cutting::Waiting => None,
        },
    ))
}

fn decline(
    line: &Line,
    name: &str,
    wall: &Wall,
    (epoch, said): (amita_types::MirrorEpoch, &Standing),
) -> Result<FarAnswer, FarWhy> {
    let is_handed = |other: &Standing| other.role == MirrorRole::Secondary && other.handed && other.epoch == epoch;
    if !is_handed(said) {
        return Err(FarWhy::Other("there is nothing to be declined".to_owned()));
    }
    let mirror = admin::mirror(line, name)?;
    if mirror.standing.declined.is_none_or(|declined| declined < epoch) {
        let has_seen = mirror.seen.as_ref().is_some_and(|seen| is_handed(&seen.standing));
        if mirror.standing.role == MirrorRole::Secondary && !has_seen {
            return Err(FarWhy::Conflict("it has not seen that demotion yet".to_owned()));
        }
        admin::decline_demotion(line, name)?;
        line.say(Ask::Hit("mirror.declined"));
    }
    link(line, name, wall)
}

fn take(
    line: &Line,
    name: &str,
    (point, base): (PointName, Option<PointName>),
    volume: &str,
    after: u64,
) -> Result<Taken, FarWhy> {
    let mirror = admin::mirror(line, name)?;
    let named = |wanted: PointName| match mirror.standing.find(wanted) {
        Some(found) => Ok(found.snapshots.clone()),
        None => Err(FarWhy::Conflict(format!("this end has no point {wanted}"))),
    };
    let (snapshot, older) = (named(point)?, base.map(named).transpose()?);
    let volume = name_of(line, &mirror, volume)?;
    let all = admin::snapshots(line, &volume)?;
    let find = |name: &str| all.iter().find(|found| found.name == name);
    let to = find(&snapshot).ok_or_else(|| FarWhy::Conflict(format!("{volume}@{snapshot} is not there")))?;
    // Behind a revert versions say nothing of what was before (decision 056), nor of what was cut off.
    let is_base = |older: &Snapshot| older.volume == to.volume && older.size_bytes <= to.size_bytes;
    let compared = older.as_deref().filter(|older| find(older).is_none_or(is_base));
    let whole = older.is_some() && compared.is_none();
    let open = line.open(End::Source, &format!("{volume}@{snapshot}"), compared);
    let open = open.map_err(FarWhy::Other)?;
    let taken = pieces(line, open, to, after, whole);
    line.say(Ask::Close(End::Source));
    taken.map_err(FarWhy::Other)
}

fn name_of(line: &Line, mirror: &Mirror, named: &str) -> Result<String, FarWhy> {
    let volume = mirror.volumes.iter().find(|volume| volume.name == named);
    let volume = volume.ok_or_else(|| FarWhy::Other(format!("volume {named} is not in this mirror")))?;
    Ok(admin::mirrored_volume(line, mirror, volume.id)?.name)
}

fn pieces(line: &Line, open: Opened, to: &Snapshot, after: u64, whole: bool) -> Result<Taken, String> {
    let size_bytes = to.size_bytes;
    if open.size_bytes < size_bytes {
        return Err("it was changed meanwhile".to_owned());
    }
    let mut taken = Taken {
        size_bytes,
        whole,
        pieces: Vec::new(),
        reached: after.min(size_bytes),
    };
    let known = open.since.map(|since| line.changed(open, since));
    for _ in 0..CHUNKS {
        let at = taken.reached;
        if at >= size_bytes {
            break;
        }
        let until = (at - at % open.chunk_bytes + open.chunk_bytes).min(size_bytes);
        if known
            .as_ref()
            .is_some_and(|known| !known.may_be_changed(at / open.chunk_bytes))
        {
            line.say(Ask::Hit("mirror.spared"));
            taken.reached = until;
            continue;
        }
        for (from, to, is_zero) in line.extents(open, at, until)? {
            if is_zero {
                taken.pieces.push((from, None, to - from));
                continue;
            }
            let piece = Piece::Read {
                offset: from,
                length: (to - from) as u32,
            };
            let brought = line.io(End::Source, vec![piece])?;
            let Some(Brought::Bytes(bytes)) = brought.into_iter().next() else {
                return Err("a read brings no bytes".to_owned());
            };
            for (index, block) in bytes.chunks(BLOCK as usize).enumerate() {
                let offset = from + index as u64 * BLOCK;
                let data = block.iter().any(|byte| *byte != 0).then(|| block.to_vec());
                taken.pieces.push((offset, data, BLOCK));
            }
        }
        taken.reached = until;
    }
    Ok(taken)
}

/// What the snapshots of a point hold, for who judges that.
pub(super) fn look_into(line: &Line, volumes: &[String], name: PointName, snapshots: &str) {
    let read = || -> Result<Content, String> {
        let mut content = Content::new();
        for volume in volumes {
            let open = line.open(End::Source, &format!("{volume}@{snapshots}"), None)?;
            let (mut held, blocks) = (Vec::new(), open.size_bytes / BLOCK);
            for first in (0..blocks).step_by(super::CHUNK_BLOCKS as usize) {
                let count = super::CHUNK_BLOCKS.min(blocks - first);
                let piece = Piece::Read {
                    offset: first * BLOCK,
                    length: (count * BLOCK) as u32,
                };
                let brought = line.io(End::Source, vec![piece])?;
                let Some(Brought::Bytes(bytes)) = brought.into_iter().next() else {
                    return Err("a read brings no bytes".to_owned());
                };
                held.extend(bytes.chunks(BLOCK as usize).map(value_of));
            }
            line.say(Ask::Close(End::Source));
            content.push(held);
        }
        Ok(content)
    };
    match read() {
        Ok(content) => {
            let snapshots = snapshots.to_owned();
            line.say(Ask::Did(Box::new(Did::Point {
                name,
                snapshots,
                content,
            })));
            line.say(Ask::Ended(None));
        }
        Err(why) => line.say(Ask::Ended(Some(why))),
    }
}
