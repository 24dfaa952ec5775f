//! `amita store inspect`.

use super::{InspectArguments, open, show};
use amita_store::format::PAGE_BYTES;
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::offline::{ChunkLook, Offline, PartLook, ReadAt};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::Table;
use amita_types::{ChunkId, StoreId};
use serde_json::{Value, json};

pub(super) fn run(arguments: &InspectArguments) -> Result<()> {
    let common = &arguments.common;
    let file = open::file(&common.path)?;
    let offline = open::mounted(&file, common)?;
    let path = common.path.display().to_string();
    match arguments.chunk {
        Some(id) => {
            let chunk = offline.chunk(id).ok_or_else(|| no_chunk(&path, id))?;
            if common.json {
                show::print_pretty(&chunk_value(&chunk))
            } else {
                show::print_text(&chunk_text(&chunk))
            }
        }
        None if common.json => show::print_pretty(&value(&path, &offline)),
        None => show::print_text(&text(&path, &offline)),
    }
}

/// There is no such chunk.
pub(super) fn no_chunk(path: &str, id: ChunkId) -> Failure {
    Failure::new(format!("{path} has no chunk {id}"))
        .kind(Kind::NotFound)
        .advice("`amita store dump --checkpoint` lists those that the checkpoint has.")
}

/// The regions: name, offset, bytes.
fn regions(superblock: &Superblock) -> Vec<(&'static str, u64, u64)> {
    let g = &superblock.geometry;
    let page = PAGE_BYTES as u64;
    let checkpoint = g.checkpoint_pages * page;
    vec![
        ("superblock A", OFFSETS[0], page),
        ("superblock B", OFFSETS[1], page),
        ("log", g.log_offset, g.log_pages * page),
        ("checkpoint 0", g.checkpoint_offsets[0], checkpoint),
        ("checkpoint 1", g.checkpoint_offsets[1], checkpoint),
        ("slots", g.slots_offset, g.capacity_bytes()),
    ]
}

fn text<R: ReadAt>(path: &str, offline: &Offline<R>) -> String {
    let superblock = offline.superblock();
    let mut out = format!("{path}\n\n");
    out.push_str(&format!("store    {}\n", superblock.store));
    out.push_str(&format!("cluster  {}\n", show::cluster(&superblock)));
    out.push_str(&format!("bytes    {}\n\n", show::bytes(superblock.geometry.size_bytes)));

    let mut table = Table::new(&["region", "offset", "bytes", "GiB"]);
    for (name, offset, bytes) in regions(&superblock) {
        table.row([name.to_owned(), offset.to_string(), bytes.to_string(), show::gib(bytes)]);
    }
    out.push_str(&table.text());
    out.push('\n');

    for (name, found) in ["A", "B"].iter().zip(offline.superblocks()) {
        out.push_str(&format!("superblock {name}  {}\n", show::superblock_line(found)));
    }
    let (checkpoint, log, mount) = (superblock.checkpoint, offline.log(), offline.status().mount);
    out.push_str(&format!(
        "checkpoint    number {} in area {}: {} pages\n",
        checkpoint.id, checkpoint.area, checkpoint.pages
    ));
    out.push_str(&format!(
        "log           pages {} to {} of at most {}, verified by a mount below {}\n",
        log.tail, log.end, log.pages, log.mount_start
    ));
    out.push_str(&format!(
        "mount         {} records replayed, {} of them verified, {} bytes read; {}; {} leaves lost\n\n",
        mount.records_replayed,
        mount.records_verified,
        mount.bytes_read,
        match (mount.ended_short, mount.batches_dropped) {
            (false, _) => "the log is whole".to_owned(),
            (true, dropped) => format!("the log ended short, {dropped} batches dropped"),
        },
        mount.leaves_lost
    ));

    let mut volumes = Table::new(&["volume", "generation", "owner"]);
    for volume in offline.volumes() {
        volumes.row([
            volume.volume.to_string(),
            volume.generation.to_string(),
            volume.owner.to_string(),
        ]);
    }
    for (first, last) in offline.deleted() {
        let volumes_of = if first == last {
            first.to_string()
        } else {
            format!("{first} to {last}")
        };
        volumes.row([volumes_of, "deleted".to_owned(), String::new()]);
    }
    out.push_str(&volumes.text());
    out.push('\n');
    let mut groups = Table::new(&["group", "epoch", "blocks per chunk", "in sync", "syncing"]);
    for group in offline.groups() {
        let list = |stores: &[StoreId]| stores.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        groups.row([
            group.group.to_string(),
            group.epoch.to_string(),
            group.blocks_per_chunk.to_string(),
            list(&group.in_sync),
            list(&group.syncing),
        ]);
    }
    out.push_str(&groups.text());
    out.push('\n');

    let counts = offline.counts();
    for (name, count) in [
        ("chunks", counts.chunks),
        ("clones", counts.clones),
        ("incomplete chunks", counts.incomplete),
        ("states for snapshots", counts.states),
        ("leaves on the disk", counts.leaf_pages),
        ("blocks of data", counts.blocks),
        ("of them shared", counts.shared),
        ("free slots", counts.free),
    ] {
        out.push_str(&format!("{name:<21} {count:>12}\n"));
    }
    out
}

fn value<R: ReadAt>(path: &str, offline: &Offline<R>) -> Value {
    let superblock = offline.superblock();
    let (checkpoint, log, counts) = (superblock.checkpoint, offline.log(), offline.counts());
    let regions: Vec<Value> = regions(&superblock)
        .into_iter()
        .map(|(name, offset, bytes)| json!({ "region": name, "offset": offset, "bytes": bytes }))
        .collect();
    let volumes: Vec<Value> = offline
        .volumes()
        .iter()
        .map(|v| json!({ "volume": v.volume.0, "generation": v.generation.0, "owner": v.owner.0 }))
        .collect();
    let groups: Vec<Value> = offline
        .groups()
        .iter()
        .map(|g| {
            json!({
                "group": g.group.to_string(),
                "epoch": g.epoch.0,
                "blocks_per_chunk": g.blocks_per_chunk,
                "in_sync": g.in_sync,
                "syncing": g.syncing,
            })
        })
        .collect();
    json!({
        "path": path,
        "store": superblock.store,
        "cluster": (superblock.cluster.0 != 0).then_some(superblock.cluster),
        "size_bytes": superblock.geometry.size_bytes,
        "regions": regions,
        "superblocks": offline.superblocks().iter().map(show::superblock).collect::<Vec<_>>(),
        "checkpoint": { "id": checkpoint.id, "area": checkpoint.area, "pages": checkpoint.pages },
        "log": { "tail": log.tail, "end": log.end, "pages": log.pages, "mount_start": log.mount_start },
        "mount": show::mount(&offline.status().mount),
        "volumes": volumes,
        "groups": groups,
        "chunks": counts.chunks,
        "clones": counts.clones,
        "incomplete": counts.incomplete,
        "states": counts.states,
        "leaf_pages": counts.leaf_pages,
        "blocks": counts.blocks,
        "shared_slots": counts.shared,
        "free_slots": counts.free,
    })
}

fn chunk_text(chunk: &ChunkLook) -> String {
    let mut out = format!(
        "chunk {}, version {}{}\n",
        chunk.chunk,
        chunk.version,
        if chunk.deleted {
            ", deleted: only snapshots are left"
        } else {
            ""
        }
    );
    if chunk.origin != chunk.chunk {
        out.push_str(&format!(
            "a clone: its blocks were first written as chunk {}\n",
            chunk.origin
        ));
    }
    if let Some(base) = chunk.incomplete {
        out.push_str(&format!("incomplete: it was last whole at version {base}\n"));
    }
    out.push_str(&format!(
        "made after snapshot {}, last changed after snapshot {} (0: none)\n\n",
        chunk.born, chunk.snapshot
    ));
    let mut table = Table::new(&[
        "of",
        "version",
        "blocks",
        "leaf in slot",
        "at byte",
        "checksum",
        "state",
    ]);
    let mut add = |of: String, version: String, parts: &[PartLook]| {
        for part in parts {
            table.row([of.clone(), version.clone()].into_iter().chain(part_cells(part)));
        }
        if parts.is_empty() {
            table.row([of, version, "nothing of its own".to_owned()]);
        }
    };
    for state in &chunk.states {
        let open = if state.open { ", being brought" } else { "" };
        let of = format!("snapshots above {} up to {}{open}", state.above, state.to);
        add(of, state.version.to_string(), &state.parts);
    }
    add("the chunk".to_owned(), chunk.version.to_string(), &chunk.parts);
    out.push_str(&table.text());
    out
}

fn part_cells(part: &PartLook) -> [String; 5] {
    let first = u32::from(part.part) * 128;
    let blocks = format!("{first}-{}", first + 127);
    let state = match (part.lost, part.page.is_some(), part.changed) {
        (true, ..) => "LOST",
        (false, true, false) => "as on the disk",
        (false, true, true) => "the log changes it",
        (false, false, true) => "in the log only",
        (false, false, false) => "without a page",
    };
    let (slot, sum) = match part.page {
        Some((slot, sum)) => (slot.to_string(), format!("{sum:08x}")),
        None => (String::new(), String::new()),
    };
    let offset = part.offset.map_or_else(String::new, |offset| offset.to_string());
    [blocks, slot, offset, sum, state.to_owned()]
}

fn chunk_value(chunk: &ChunkLook) -> Value {
    let parts = |parts: &[PartLook]| -> Vec<Value> {
        let of = parts.iter();
        of.map(|part| {
            json!({
                "part": part.part,
                "slot": part.page.map(|(slot, _)| slot.0),
                "sum": part.page.map(|(_, sum)| sum),
                "offset": part.offset,
                "changed": part.changed,
                "lost": part.lost,
            })
        })
        .collect()
    };
    let states = chunk.states.iter();
    let states: Vec<Value> = states
        .map(|state| {
            json!({
                "above": state.above.0,
                "to": state.to.0,
                "version": state.version.to_string(),
                "open": state.open,
                "parts": parts(&state.parts),
            })
        })
        .collect();
    json!({
        "chunk": chunk.chunk.to_string(),
        "version": chunk.version.to_string(),
        "born": chunk.born.0,
        "snapshot": chunk.snapshot.0,
        "deleted": chunk.deleted,
        "incomplete": chunk.incomplete.map(|base| base.to_string()),
        "origin": chunk.origin.to_string(),
        "parts": parts(&chunk.parts),
        "states": states,
    })
}
