//! How data travel: in capsules, by R2T, in any depth and size, and in any order.

use super::subject::{Disk, pattern};
use super::{Case, Outcome, check, need};
use crate::{Transfer, commands};
use std::collections::HashMap;

const R2T: &str = "TCP Transport 1.1, 3.3.2 data transfers, 3.6.2.10 R2T";

/// Writes so many bytes and reads them.
fn of_size(bytes: usize) -> impl Fn(&mut Disk) -> Outcome {
    move |disk| {
        need!(
            bytes <= disk.max_transfer(),
            "MDTS allows {} bytes",
            disk.max_transfer()
        );
        let blocks = disk.blocks_of(bytes);
        let data = disk.pattern(u32::try_from(bytes).unwrap_or(1), blocks);
        disk.write(0, &data)?;
        disk.holds(0, &data)
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, bytes) in [
        ("4k", 4096),
        ("8k", 8192),
        ("12k", 12288),
        ("16k", 16384),
        ("20k", 20480),
        ("64k", 65536),
        ("128k", 131_072),
        ("132k", 135_168),
        ("512k", 524_288),
        ("1m", 1 << 20),
    ] {
        cases.push(Case::new(
            format!("transfer.{name}"),
            R2T,
            format!("writes {bytes} bytes and reads them"),
            "the same bytes",
            move |subject| of_size(bytes)(&mut subject.disk()?),
        ));
    }
    cases.extend(shapes());
    cases.extend(depths());
    cases
}

fn shapes() -> Vec<Case> {
    vec![
        Case::new(
            "transfer.largest",
            "NVMe Base 2.1, 5.1.13.2.1 MDTS",
            "writes as much as MDTS allows and reads it",
            "the same bytes",
            |subject| {
                let mut disk = subject.disk()?;
                let bytes = disk.max_transfer();
                let most = 65536 * disk.block_bytes;
                of_size(bytes.min(most))(&mut disk)
            },
        ),
        Case::new(
            "transfer.small-by-r2t",
            R2T,
            "writes one block that would fit into the capsule by a transport descriptor",
            "an R2T, and the block is written: the descriptor says where data are, not their length",
            |subject| {
                let mut disk = subject.disk()?;
                let data = disk.pattern(60, 1);
                let write = commands::write(disk.nsid, 0, 1, Vec::new()).with(Transfer::WriteByR2t(data.clone()));
                let done = disk.queue.call(&write)?.good("Write")?;
                check!(done.r2ts >= 1, "there was no R2T");
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "transfer.in-capsule-largest",
            "NVMe Base 2.1, 5.1.13.2.1 IOCCSZ",
            "writes as much in the capsule as IOCCSZ allows",
            "no R2T, and the same bytes",
            |subject| {
                let mut disk = subject.disk()?;
                let blocks = u32::try_from(disk.queue.in_capsule() / disk.block_bytes).unwrap_or(0);
                need!(blocks > 0, "a capsule holds no block");
                let data = disk.pattern(61, blocks);
                let write = commands::write(disk.nsid, 0, blocks, data.clone());
                let done = disk.queue.call(&write)?.good("Write")?;
                check!(done.r2ts == 0, "there was an R2T");
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "transfer.in-capsule-at-offset",
            "NVMe Base 2.1, 4.3.2: the offset of data in a capsule; SGLS bit 20, ICDOFF",
            "writes a block from byte 512 of the capsule's data on",
            "the block has those bytes; or SGL Offset or Length Invalid, where the target wants data at 0",
            |subject| {
                let mut disk = subject.disk()?;
                need!(
                    disk.queue.in_capsule() >= disk.block_bytes + 512,
                    "a capsule holds too little"
                );
                let mut data = vec![0xee; 512];
                data.extend(disk.pattern(62, 1));
                let length = u32::try_from(disk.block_bytes).unwrap_or(0);
                let write = commands::write(disk.nsid, 0, 1, Vec::new())
                    .with(Transfer::WriteInCapsule(data.clone()))
                    .descriptor(crate::wire::Descriptor::in_capsule(512, length));
                match disk.queue.call(&write) {
                    Ok(answer) if answer.status.is_success() => disk.holds(0, &data[512..]),
                    Ok(answer) => super::subject::ended_by(
                        &answer,
                        &[
                            crate::wire::status::SGL_OFFSET,
                            crate::wire::status::SGL_LENGTH,
                            crate::wire::status::INVALID_FIELD,
                        ],
                    ),
                    Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        Case::new(
            "transfer.several-r2ts",
            "TCP Transport 1.1, 3.6.2.2 MAXR2T",
            "allows sixteen R2Ts at a time and writes 1 MiB",
            "the same bytes",
            |subject| {
                let mut settings = subject.settings();
                settings.initialize.max_r2t = 15;
                let mut disk = subject.disk_with(&settings, &subject.host())?;
                let bytes = disk.max_transfer().min(1 << 20);
                of_size(bytes)(&mut disk)
            },
        ),
        Case::new(
            "transfer.success-flag",
            "TCP Transport 1.1, 3.6.2.9 C2HData: SUCCESS",
            "reads with and without flow control",
            "SUCCESS only where flow control is off; the data are the same",
            |subject| {
                for off in [false, true] {
                    let mut settings = subject.settings();
                    settings.flow_control_off = off;
                    let mut disk = subject.disk_with(&settings, &subject.host())?;
                    let read = commands::read(disk.nsid, 0, 1, disk.block_bytes);
                    let done = disk.queue.call(&read)?.good("Read")?;
                    check!(off || !done.by_flag, "SUCCESS with flow control");
                }
                Ok(())
            },
        ),
    ]
}

/// Random reads and writes at that depth, everything checked.
fn mixed(disk: &mut Disk, depth: usize, rounds: usize) -> Outcome {
    /// Places on the disk: each has one command in flight at most.
    const PLACE_BLOCKS: u64 = 64;
    let places = (disk.blocks / PLACE_BLOCKS).min(256);
    need!(places as usize >= depth, "the namespace is too small");
    let mut holds: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut busy: HashMap<u16, (u64, Option<Vec<u8>>)> = HashMap::new();
    let mut state = 0x1234_5678u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        u64::from(state)
    };
    let mut started = 0;
    while started < rounds || !busy.is_empty() {
        while started < rounds && busy.len() < depth {
            let place = next() % places;
            if busy.values().any(|(other, _)| *other == place) {
                continue;
            }
            started += 1;
            let block = place * PLACE_BLOCKS;
            let known = holds.get(&place).map(Vec::len);
            let (request, written) = match known {
                Some(bytes) if next() % 2 == 0 => {
                    let blocks = disk.blocks_of(bytes);
                    (commands::read(disk.nsid, block, blocks, disk.block_bytes), None)
                }
                _ => {
                    let blocks = u32::try_from(next() % PLACE_BLOCKS).unwrap_or(0) + 1;
                    let bytes = (blocks as usize * disk.block_bytes).min(disk.max_transfer());
                    let data = pattern(started as u32, bytes / disk.block_bytes * disk.block_bytes);
                    let transfer = match next() % 2 {
                        0 if data.len() > disk.queue.in_capsule() => Transfer::WriteByR2t(data.clone()),
                        _ => Transfer::Write(data.clone()),
                    };
                    let blocks = disk.blocks_of(data.len());
                    (
                        commands::write(disk.nsid, block, blocks, Vec::new()).with(transfer),
                        Some(data),
                    )
                }
            };
            let id = disk.queue.submit(&request)?;
            busy.insert(id, (place, written));
        }
        let done = disk.queue.poll()?.good("a command of many")?;
        let Some((place, written)) = busy.remove(&done.id) else {
            check!(false, "command {} was not started", done.id);
            continue;
        };
        match written {
            Some(data) => {
                holds.insert(place, data);
            }
            None => check!(
                holds.get(&place) == Some(&done.data),
                "place {place} holds other bytes than were written"
            ),
        }
    }
    for (place, data) in holds {
        disk.holds(place * PLACE_BLOCKS, &data)?;
    }
    Ok(())
}

fn depths() -> Vec<Case> {
    const RULE: &str = "NVMe Base 2.1, 3.3 queues: commands end in any order";
    let mut cases = Vec::new();
    for depth in [8, 64, 127] {
        cases.push(Case::new(
            format!("transfer.depth-{depth}"),
            RULE,
            format!("keeps {depth} reads and writes of 1 to 64 blocks in flight, 600 in all"),
            "what was written last is read",
            move |subject| mixed(&mut subject.disk()?, depth, 600),
        ));
    }
    cases.push(Case::new(
        "transfer.depth-with-digests",
        RULE,
        "the same with both digests at depth 32",
        "what was written last is read",
        |subject| mixed(&mut subject.disk_digested(crate::wire::Digests::BOTH)?, 32, 300),
    ));
    cases.push(Case::new(
        "transfer.depth-with-many-r2ts",
        RULE,
        "the same with four R2Ts at a time",
        "what was written last is read",
        |subject| {
            let mut settings = subject.settings();
            settings.initialize.max_r2t = 3;
            mixed(&mut subject.disk_with(&settings, &subject.host())?, 32, 300)
        },
    ));
    cases.push(Case::new(
        "transfer.reads-not-taken",
        "TCP Transport 1.1, 3.3.2; a slow host hurts itself only",
        "asks for 16 MiB by reads and takes nothing for a while; another queue works meanwhile",
        "the other queue is served; then all data come",
        |subject| {
            let mut disk = subject.disk()?;
            let bytes = disk.max_transfer().min(131_072);
            let blocks = disk.blocks_of(bytes);
            let count = 120;
            let reads = vec![commands::read(disk.nsid, 0, blocks, disk.block_bytes); count];
            disk.queue.submit_all(&reads)?;
            let mut second = disk.controller.io_queue(2, 32)?;
            for _ in 0..20 {
                second
                    .call(&commands::read(disk.nsid, 0, 1, disk.block_bytes))?
                    .good("Read on the other queue")?;
            }
            for _ in 0..count {
                disk.queue.poll()?.good("Read")?;
            }
            Ok(())
        },
    ));
    cases
}
