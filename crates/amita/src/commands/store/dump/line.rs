//! Each structure as a line for people and a value for scripts.

use super::show;
use amita_store::format::checkpoint::{Item, LeafPlace, Leaves, SLOTS_PER_ITEM, flag};
use amita_store::format::record::{Record, RollEntry};
use amita_store::format::{PAGE_BYTES, Slot};
use amita_store::offline::{AnyPage, LogPlace};
use amita_types::Version;
use serde_json::{Value, json};

pub(super) struct Line {
    pub text: String,
    pub value: Value,
}

impl Line {
    pub fn new(text: String, value: Value) -> Line {
        Line { text, value }
    }
}

pub(super) fn log_page(place: &LogPlace<'_>) -> Line {
    let (header, sum) = (place.page.header, place.page.sum);
    let text = format!(
        "page {} at byte {}: mount {}, mark {}, {} of {} in its batch, {} records, checksum {sum:08x} after {:08x}",
        header.sequence,
        place.offset,
        header.mount,
        header.mark,
        header.index + 1,
        header.pages,
        header.records,
        header.previous_sum,
    );
    let value = json!({
        "page": header.sequence,
        "offset": place.offset,
        "mount": header.mount,
        "mark": header.mark,
        "index": header.index,
        "pages": header.pages,
        "records": header.records,
        "sum": sum,
        "previous_sum": header.previous_sum,
    });
    Line::new(text, value)
}

fn entries(entries: &[RollEntry]) -> (String, Value) {
    let text: Vec<String> = entries
        .iter()
        .map(|entry| match entry.slot {
            Slot::NONE => format!("{}={}:cleared", entry.block.0, entry.version),
            slot => format!("{}={}@{slot}", entry.block.0, entry.version),
        })
        .collect();
    let value = entries
        .iter()
        .map(|entry| {
            json!({
                "block": entry.block.0,
                "version": entry.version.to_string(),
                "slot": (entry.slot != Slot::NONE).then_some(entry.slot.0),
                "sum": entry.sum,
            })
        })
        .collect();
    (text.join(" "), value)
}

/// A record of the log.
pub(super) fn record(page: u64, record: &Record) -> Line {
    let (text, mut value) = match record {
        Record::Write {
            chunk,
            version,
            previous,
            snapshot,
            range,
            runs,
            sums,
        } => {
            let slots: Vec<String> = runs.iter().map(|run| format!("{}+{}", run.slot, run.count)).collect();
            let plain: Vec<[u32; 2]> = runs.iter().map(|run| [run.slot.0, run.count]).collect();
            (
                format!(
                    "write {chunk} blocks {}+{} version {version} after {previous} snapshot {snapshot} slots {}",
                    range.first.0,
                    range.count,
                    slots.join(" ")
                ),
                json!({
                    "record": "write", "chunk": chunk.to_string(), "version": version.to_string(),
                    "previous": previous.to_string(), "snapshot": snapshot.0, "first": range.first.0,
                    "count": range.count, "runs": plain, "sums": sums.as_slice(),
                }),
            )
        }
        Record::Clear {
            chunk,
            version,
            previous,
            snapshot,
            range,
        } => (
            format!(
                "clear {chunk} blocks {}+{} version {version} after {previous} snapshot {snapshot}",
                range.first.0, range.count
            ),
            json!({
                "record": "clear", "chunk": chunk.to_string(), "version": version.to_string(),
                "previous": previous.to_string(), "snapshot": snapshot.0, "first": range.first.0, "count": range.count,
            }),
        ),
        Record::Roll {
            chunk,
            version,
            previous,
            snapshot,
            entries: list,
            last,
        } => {
            let (text, list) = entries(list);
            (
                format!(
                    "roll {chunk} version {version} after {previous} snapshot {snapshot}{}: {text}",
                    part(*last)
                ),
                json!({
                    "record": "roll", "chunk": chunk.to_string(), "version": version.to_string(),
                    "previous": previous.to_string(), "snapshot": snapshot.0, "last": last, "entries": list,
                }),
            )
        }
        Record::Clone {
            chunk,
            origin,
            version,
            entries: list,
            last,
        } => {
            let (text, list) = entries(list);
            (
                format!("clone {chunk} of {origin} version {version}{}: {text}", part(*last)),
                json!({
                    "record": "clone", "chunk": chunk.to_string(), "origin": origin.to_string(),
                    "version": version.to_string(), "last": last, "entries": list,
                }),
            )
        }
        Record::Drop {
            chunk,
            snapshot,
            kept_for,
        } => (
            match snapshot.0 {
                0 => format!("drop {chunk} itself, kept for snapshots up to {kept_for}"),
                snapshot => format!("drop {chunk} as it was for snapshots up to {snapshot}"),
            },
            json!({ "record": "drop", "chunk": chunk.to_string(), "snapshot": snapshot.0, "kept_for": kept_for.0 }),
        ),
        Record::Join {
            chunk,
            version,
            previous,
            base,
            snapshot,
        } => (
            format!("join {chunk} version {version} after {previous} snapshot {snapshot}, incomplete since {base}"),
            json!({
                "record": "join", "chunk": chunk.to_string(), "version": version.to_string(),
                "previous": previous.to_string(), "base": base.to_string(), "snapshot": snapshot.0,
            }),
        ),
        Record::Mend {
            chunk,
            version,
            entries: list,
        } => {
            let (text, list) = entries(list);
            (
                format!("mend {chunk} at version {version}: {text}"),
                json!({
                    "record": "mend", "chunk": chunk.to_string(), "version": version.to_string(), "entries": list,
                }),
            )
        }
        Record::Whole { chunk, version, born } => (
            match born {
                Some(born) => format!("whole {chunk} at version {version}, made after snapshot {born}"),
                None => format!("whole {chunk} at version {version}"),
            },
            json!({
                "record": "whole", "chunk": chunk.to_string(), "version": version.to_string(),
                "born": born.map(|born| born.0),
            }),
        ),
        Record::Frame {
            chunk,
            version,
            above,
            to,
            state,
        } => (
            format!("frame {chunk} at version {version}: above {above} to {to} version {state}"),
            json!({
                "record": "frame", "chunk": chunk.to_string(), "version": version.to_string(), "above": above.0,
                "to": to.0, "state": state.to_string(),
            }),
        ),
        Record::Put {
            chunk,
            version,
            to,
            entries: list,
            own,
        } => {
            let (text, list) = entries(list);
            let shared = own.iter().filter(|own| !**own).count();
            (
                format!("put {chunk} at version {version} to {to}, {shared} shared: {text}"),
                json!({
                    "record": "put", "chunk": chunk.to_string(), "version": version.to_string(), "to": to.0,
                    "entries": list, "own": own,
                }),
            )
        }
        Record::Close { chunk, version, to } => (
            format!("close {chunk} at version {version}: to {to}"),
            json!({
                "record": "close", "chunk": chunk.to_string(), "version": version.to_string(), "to": to.0,
            }),
        ),
        Record::Mark { chunk, mark } => (
            format!(
                "mark {chunk}: above {} to {} at version {}",
                mark.above, mark.to, mark.version
            ),
            json!({
                "record": "mark", "chunk": chunk.to_string(), "version": mark.version.to_string(),
                "above": mark.above.0, "to": mark.to.0,
            }),
        ),
        Record::Fence(fence) => (
            format!(
                "fence volume {} generation {} owner {} group {} epoch {}, {} in sync, {} syncing",
                fence.volume,
                fence.generation,
                fence.owner,
                fence.group,
                fence.epoch,
                fence.in_sync.len(),
                fence.syncing.len()
            ),
            json!({
                "record": "fence", "volume": fence.volume.0, "generation": fence.generation.0, "owner": fence.owner.0,
                "group": fence.group.to_string(), "epoch": fence.epoch.0, "blocks_per_chunk": fence.blocks_per_chunk,
                "in_sync": fence.in_sync.as_slice(), "syncing": fence.syncing.as_slice(),
            }),
        ),
    };
    value["page"] = json!(page);
    Line::new(format!("  {text}"), value)
}

fn part(last: bool) -> &'static str {
    if last { "" } else { " (more follows)" }
}

fn leaves(leaves: &Leaves) -> (String, Value) {
    let text: Vec<String> = leaves
        .iter()
        .map(|(part, place)| match place {
            LeafPlace::At(slot, sum) => format!("{part}@{slot}/{sum:08x}"),
            LeafPlace::Never => format!("{part}:never"),
            LeafPlace::Lost => format!("{part}:LOST"),
        })
        .collect();
    let value = leaves
        .iter()
        .map(|(part, place)| match place {
            LeafPlace::At(slot, sum) => json!({ "part": part, "slot": slot.0, "sum": sum }),
            LeafPlace::Never => json!({ "part": part }),
            LeafPlace::Lost => json!({ "part": part, "lost": true }),
        })
        .collect();
    (text.join(" "), value)
}

/// An item of the checkpoint; version 1 had items that are several lines.
pub(super) fn item(item: &Item<'_>) -> Vec<Line> {
    let (text, value) = match item {
        Item::Group(fence) => (
            format!(
                "group {} epoch {}, {} blocks a chunk, {} in sync, {} syncing",
                fence.group,
                fence.epoch,
                fence.blocks_per_chunk,
                fence.in_sync.len(),
                fence.syncing.len()
            ),
            json!({
                "item": "group", "group": fence.group.to_string(), "epoch": fence.epoch.0,
                "blocks_per_chunk": fence.blocks_per_chunk, "in_sync": fence.in_sync.as_slice(),
                "syncing": fence.syncing.as_slice(),
            }),
        ),
        Item::Volume(raw) => (
            format!(
                "volume {} generation {} owner {}",
                raw.volume, raw.generation, raw.owner
            ),
            json!({ "item": "volume", "volume": raw.volume, "generation": raw.generation, "owner": raw.owner }),
        ),
        Item::Chunk(item) if item.flags & flag::GONE != 0 => (
            format!("chunk {} is gone, log below page {}", item.chunk, item.position),
            json!({ "item": "gone", "chunk": item.chunk.to_string(), "position": item.position }),
        ),
        Item::Chunk(item) => {
            let (text, list) = leaves(&item.leaves);
            let deleted = item.flags & flag::DELETED != 0;
            (
                format!(
                    "chunk {} version {} log below page {} born {} snapshot {}{} leaves {text}",
                    item.chunk,
                    item.version,
                    item.position,
                    item.born,
                    item.snapshot,
                    if deleted { " deleted" } else { "" },
                ),
                json!({
                    "item": "chunk", "chunk": item.chunk.to_string(), "version": item.version.to_string(),
                    "position": item.position, "born": item.born.0, "snapshot": item.snapshot.0, "deleted": deleted,
                    "leaves": list,
                }),
            )
        }
        Item::Origin(origin) => (
            format!("  origin {origin}"),
            json!({ "item": "origin", "origin": origin.to_string() }),
        ),
        Item::Past(item) => {
            let incomplete = item.base.map(|base| base.to_string());
            (
                match &incomplete {
                    Some(base) => format!("  incomplete since {base}"),
                    None => "  once incomplete".to_owned(),
                },
                json!({ "item": "past", "incomplete": incomplete }),
            )
        }
        Item::State(item) => {
            let (text, list) = leaves(&item.leaves);
            (
                format!(
                    "  state above {} to {} version {}{} leaves {text}",
                    item.above,
                    item.to,
                    item.version,
                    if item.open { " open" } else { "" }
                ),
                json!({
                    "item": "state", "above": item.above.0, "to": item.to.0, "version": item.version.to_string(),
                    "open": item.open, "leaves": list,
                }),
            )
        }
        Item::Mark(mark) => (
            format!("  mark above {} to {} at version {}", mark.above, mark.to, mark.version),
            json!({
                "item": "mark", "above": mark.above.0, "to": mark.to.0, "version": mark.version.to_string(),
            }),
        ),
        Item::Older(item) => {
            let parts: Vec<u32> = (0..u8::BITS).filter(|part| item.parts >> part & 1 == 1).collect();
            (
                format!(
                    "  {} states above {} to {} in slot {}, checksum {:08x}",
                    item.states, item.above, item.to, item.slot, item.sum
                ),
                json!({
                    "item": "older", "states": item.states, "above": item.above.0, "to": item.to.0,
                    "slot": item.slot.0, "sum": item.sum, "parts": parts,
                }),
            )
        }
        Item::Cleared { first, count, version } => (
            format!("  cleared blocks {first}+{count} version {version}"),
            json!({ "item": "cleared", "first": first, "count": count, "version": version.to_string() }),
        ),
        Item::Slots { position, first, bits } => {
            let used: u32 = bits.words().map(u64::count_ones).sum();
            (
                format!("slots {first}+{SLOTS_PER_ITEM} log below page {position}, {used} in use"),
                json!({ "item": "slots", "first": first, "position": position, "used": used }),
            )
        }
        Item::Shared(counts) => {
            let text: Vec<String> = counts
                .iter()
                .map(|(slot, more)| format!("{slot}*{}", more + 1))
                .collect();
            let list: Vec<[u32; 2]> = counts.iter().map(|(slot, more)| [slot.0, more + 1]).collect();
            (
                format!("  users {}", text.join(" ")),
                json!({ "item": "users", "slots": list }),
            )
        }
    };
    vec![Line::new(format!("  {text}"), value)]
}

pub(super) fn entry(block: u16, version: Version, (slot, offset): (u32, Option<u64>), sum: u32) -> Line {
    let has_data = Slot(slot) != Slot::NONE;
    let place = offset.map_or_else(String::new, |offset| format!(" at byte {offset}"));
    let text = if has_data {
        format!("block {block:<4} version {version:<10} slot {slot}{place} checksum {sum:08x}")
    } else if version == Version::NONE {
        format!("block {block:<4} never written")
    } else {
        format!("block {block:<4} version {version:<10} cleared")
    };
    let value = json!({
        "block": block,
        "version": version.to_string(),
        "slot": has_data.then_some(slot),
        "offset": offset,
        "sum": has_data.then_some(sum),
    });
    Line::new(text, value)
}

/// Any page: what it is, and what is in it (of a page of the log: without its records).
pub(super) fn page(offset: u64, found: &AnyPage, bytes: &[u8]) -> Vec<Line> {
    let one = |text: String, mut value: Value| {
        value["offset"] = json!(offset);
        vec![Line::new(format!("byte {offset}: {text}"), value)]
    };
    match found {
        AnyPage::Superblock(found) => one(
            format!("a superblock: {}", show::superblock_line(found)),
            json!({ "what": "superblock", "superblock": show::superblock(found) }),
        ),
        AnyPage::Log(header) => one(
            format!(
                "a page of the log: number {}, mount {}, mark {}, {} of {} in its batch, {} records",
                header.sequence,
                header.mount,
                header.mark,
                header.index + 1,
                header.pages,
                header.records
            ),
            json!({
                "what": "log", "page": header.sequence, "mount": header.mount, "mark": header.mark,
                "index": header.index, "pages": header.pages, "records": header.records,
            }),
        ),
        AnyPage::Checkpoint(header) => one(
            format!(
                "page {} of checkpoint {}, {} bytes of items",
                header.index, header.checkpoint, header.used
            ),
            json!({ "what": "checkpoint", "checkpoint": header.checkpoint, "page": header.index, "used": header.used }),
        ),
        AnyPage::Leaf(header, entries) => {
            let mut lines = one(
                format!(
                    "leaf {} of chunk {}/{}, written for checkpoint {}",
                    header.part, header.volume, header.chunk, header.checkpoint
                ),
                json!({
                    "what": "leaf", "chunk": format!("{}/{}", header.volume, header.chunk), "part": header.part,
                    "checkpoint": header.checkpoint,
                }),
            );
            let first = header.part.saturating_mul(128);
            for (raw, n) in entries.iter().zip(0..) {
                let version = Version(raw.version);
                lines.push(entry(first.saturating_add(n), version, (raw.slot, None), raw.sum));
            }
            lines
        }
        AnyPage::States(header) => one(
            format!("{} states of chunk {}/{}", header.states, header.volume, header.chunk),
            json!({
                "what": "states", "chunk": format!("{}/{}", header.volume, header.chunk), "states": header.states,
            }),
        ),
        AnyPage::Damaged(what) => one(
            format!("{what} whose checksum is wrong"),
            json!({ "what": "damaged", "like": what }),
        ),
        AnyPage::Zeros => one("zeros".to_owned(), json!({ "what": "zeros" })),
        AnyPage::Other(sum) => {
            let shown: String = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
            one(
                format!("data, or anything else: {PAGE_BYTES} bytes with CRC-32C {sum:08x}, {shown}..."),
                json!({ "what": "other", "sum": sum }),
            )
        }
        _ => one("unknown".to_owned(), json!({ "what": "unknown" })),
    }
}
