//! `amita store dump`: each line is printed when it is read, so that a log of gigabytes needs no memory.

mod line;

use super::{Common, DumpArguments, inspect, open, show};
use amita_store::format::PAGE_BYTES;
use amita_store::format::record::RecordReader;
use amita_store::format::superblock::{OFFSETS, Superblock};
use amita_store::offline::{self, AnyPage};
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::{BlockIndex, ChunkId, SnapshotId};
use line::Line;
use serde_json::json;
use std::fs::File;

pub(super) fn run(arguments: &DumpArguments) -> Result<()> {
    let common = &arguments.common;
    let file = open::file(&common.path)?;
    let mut out = Out {
        json: common.json,
        failed: None,
    };
    let what = &arguments.what;
    if what.superblocks {
        superblocks(&file, &mut out);
    } else if let Some(offset) = what.page {
        page(&file, common, offset, &mut out)?;
    } else if let Some(id) = what.chunk {
        let snapshot = SnapshotId(arguments.snapshot.unwrap_or(0));
        chunk(&file, common, id, snapshot, &mut out)?;
    } else {
        let superblock = offline::newest(&offline::superblocks(&file)).ok_or_else(|| {
            open::cannot(&common.path, "neither superblock is whole")
                .advice("`amita store dump --superblocks` says what is wrong with them.")
        })?;
        if what.log_pages {
            log(&file, common, &superblock, &mut out)?;
        } else {
            checkpoint(&file, &superblock, &mut out);
        }
    }
    out.failed.map_or(Ok(()), Err)
}

/// Where lines go.
struct Out {
    json: bool,
    failed: Option<Failure>,
}

impl Out {
    fn line(&mut self, line: &Line) {
        if self.failed.is_none() {
            let text = if self.json {
                format!("{}\n", line.value)
            } else {
                format!("{}\n", line.text)
            };
            self.failed = show::print_text(&text).err();
        }
    }
}

fn superblocks(file: &File, out: &mut Out) {
    for (offset, found) in OFFSETS.iter().zip(&offline::superblocks(&file)) {
        let mut value = show::superblock(found);
        value["offset"] = json!(offset);
        let mut text = format!("superblock at byte {offset}: {}", show::superblock_line(found));
        if let Ok(superblock) = found {
            let g = &superblock.geometry;
            let c = &superblock.checkpoint;
            text.push_str(&format!(
                "\n  store {}, cluster {}\n  {} bytes: log at {}, {} pages; checkpoints at {} and {}, {} pages each; \
                 slots at {}, {}\n  checkpoint {} in area {}, {} pages, the last with checksum {:08x}; the log's page before \
                 {} has checksum {:08x}",
                superblock.store,
                show::cluster(superblock),
                g.size_bytes,
                g.log_offset,
                g.log_pages,
                g.checkpoint_offsets[0],
                g.checkpoint_offsets[1],
                g.checkpoint_pages,
                g.slots_offset,
                g.slots,
                c.id,
                c.area,
                c.pages,
                c.last_sum,
                c.tail,
                c.tail_sum,
            ));
        }
        out.line(&Line { text, value });
    }
}

fn log(file: &File, common: &Common, superblock: &Superblock, out: &mut Out) -> Result<()> {
    let end = offline::log_pages(&file, superblock, &mut |place| {
        out.line(&line::log_page(&place));
        for record in RecordReader::new(place.page.records) {
            match record {
                Ok(record) => out.line(&line::record(place.page.header.sequence, &record)),
                Err(what) => {
                    let text = format!("  {what}");
                    out.line(&Line::new(
                        text,
                        json!({ "page": place.page.header.sequence, "error": what }),
                    ));
                    break;
                }
            }
        }
    })
    .map_err(|(offset, error)| open::cannot(&common.path, &format!("at byte {offset}: {error}")))?;
    let text = format!(
        "the chain ends before page {end} (byte {})",
        superblock.geometry.log_page_offset(end)
    );
    out.line(&Line::new(text, json!({ "end": end })));
    Ok(())
}

fn checkpoint(file: &File, superblock: &Superblock, out: &mut Out) {
    let mut page = None;
    offline::checkpoint_items(&file, superblock, &mut |place, item| {
        if page.replace(place.page) != Some(place.page) {
            let text = format!("page {} at byte {}", place.page, place.offset);
            out.line(&Line::new(text, json!({ "page": place.page, "offset": place.offset })));
        }
        match item {
            Ok(item) => line::item(&item).iter().for_each(|line| out.line(line)),
            Err(what) => out.line(&Line::new(
                format!("  {what}"),
                json!({ "page": place.page, "error": what }),
            )),
        }
    });
}

fn chunk(file: &File, common: &Common, id: ChunkId, snapshot: SnapshotId, out: &mut Out) -> Result<()> {
    let offline = open::mounted(file, common)?;
    let path = common.path.display().to_string();
    if offline.chunk(id).is_none() {
        return Err(inspect::no_chunk(&path, id));
    }
    let parts = offline.entries(id, snapshot).ok_or_else(|| {
        Failure::new(format!("chunk {id} does not keep snapshot {snapshot}"))
            .kind(Kind::NotFound)
            .advice("`amita store inspect --chunk` lists those that it keeps.")
    })?;
    for (part, entries) in parts.into_iter().enumerate() {
        match entries {
            Ok(entries) => {
                for (BlockIndex(block), entry) in entries {
                    let offset = entry.has_data().then(|| offline.offset_of(entry.slot));
                    let place = (entry.slot.0, offset);
                    out.line(&line::entry(block, entry.version, place, entry.sum));
                }
            }
            Err(fault) => {
                let text = format!("blocks {} to {}: {fault}", part * 128, part * 128 + 127);
                out.line(&Line::new(text, json!({ "part": part, "error": fault.to_string() })));
            }
        }
    }
    Ok(())
}

fn page(file: &File, common: &Common, offset: u64, out: &mut Out) -> Result<()> {
    if !offset.is_multiple_of(PAGE_BYTES as u64) {
        let down = offset / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        return Err(
            Failure::new(format!("no page begins at byte {offset}: {down} is the one before it")).kind(Kind::Usage),
        );
    }
    let (found, bytes) = offline::page_at(&file, offset)
        .map_err(|error| open::cannot(&common.path, &format!("at byte {offset}: {error}")))?;
    line::page(offset, &found, &bytes)
        .iter()
        .for_each(|line| out.line(line));
    if let AnyPage::Log(header) = found {
        let records = &bytes[amita_store::format::page::Header::BYTES..];
        let records = records.get(..usize::from(header.used)).unwrap_or_default();
        for record in RecordReader::new(records) {
            match record {
                Ok(record) => out.line(&line::record(header.sequence, &record)),
                Err(what) => {
                    out.line(&Line::new(format!("  {what}"), json!({ "error": what })));
                    break;
                }
            }
        }
    }
    Ok(())
}
