//! The Error Information log page, and what of it is in the health page.

use super::subject::{Disk, ended};
use super::{Case, Outcome, Verdict, check, need};
use crate::wire::{Status, log, status, u16_at, u32_at, u64_at};
use crate::{Completion, Controller, Error, Request, commands};
use std::time::Duration;

const RULE: &str = "NVMe Base 2.1, 5.1.12.1.2 Error Information";
const ENTRY_BYTES: usize = 64;

/// An entry of the page.
struct Entry {
    count: u64,
    queue: u16,
    command: u16,
    status: Status,
    location: u16,
    lba: u64,
    nsid: u32,
}

/// All entries, as they lie in the page.
fn entries(controller: &mut Controller) -> Result<Vec<Entry>, Error> {
    // ELPE counts from 0.
    let count = usize::from(controller.identify()?.byte(262)) + 1;
    let page = controller.log(log::ERROR, 0, ENTRY_BYTES * count)?;
    let used = page.chunks_exact(ENTRY_BYTES).take_while(|entry| u64_at(entry, 0) > 0);
    Ok(used
        .map(|entry| Entry {
            count: u64_at(entry, 0),
            queue: u16_at(entry, 8),
            command: u16_at(entry, 10),
            status: Status::of_field(u16_at(entry, 12)),
            location: u16_at(entry, 14),
            lba: u64_at(entry, 16),
            nsid: u32_at(entry, 24),
        })
        .collect())
}

/// Asks until there is an answer, or it is said that none comes: what an I/O queue has to tell may reach the admin queue,
/// which can be on another processor, a moment after the host has its completion.
fn soon<T>(mut ask: impl FnMut() -> Result<Option<T>, Error>) -> Result<Option<T>, Error> {
    const TRIES: usize = 50;
    for _ in 0..TRIES {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

/// The health page has counted as many, and no more.
fn has_counted(controller: &mut Controller, due: u64) -> Outcome {
    let mut last = 0;
    let reached = soon(|| {
        last = counted(controller)?;
        Ok((last >= due).then_some(()))
    })?;
    check!(
        reached.is_some() && last == due,
        "the health page has counted {last}, not {due}"
    );
    Ok(())
}

/// "Number of Error Information Log Entries" of the health page.
fn counted(controller: &mut Controller) -> Result<u64, Error> {
    Ok(u64_at(&controller.log(log::HEALTH, u32::MAX, 512)?, 176))
}

/// Makes a command fail on the I/O queue.
fn fail(disk: &mut Disk, request: &Request, expected: u16) -> Result<Completion, Verdict> {
    let answer = disk.queue.call(request)?;
    ended(&answer, expected)?;
    Ok(answer)
}

/// The entry of a command of I/O queue 1. A controller need not have one whose status did not promise it ("more").
fn entry_of(disk: &mut Disk, answer: &Completion) -> Result<Entry, Verdict> {
    let found = soon(|| {
        let mut all = entries(&mut disk.controller)?.into_iter();
        Ok(all.find(|entry| (entry.queue, entry.command) == (1, answer.id)))
    })?;
    if let Some(entry) = found {
        check!(
            entry.status.number() == answer.status.number(),
            "the entry says {}, the completion {}",
            entry.status,
            answer.status
        );
        return Ok(entry);
    }
    check!(
        !answer.status.more,
        "the status says that there is more, and there is not"
    );
    Err(Verdict::Skipped("errors of I/O queues are not in the log".into()))
}

/// The entry names the block and the namespace.
fn is_at(entry: &Entry, disk: &Disk, block: u64) -> Outcome {
    check!(entry.nsid == disk.nsid, "the namespace is {}", entry.nsid);
    check!(entry.lba == block, "the block is {}, not {block}", entry.lba);
    Ok(())
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "log.error-of-io-queue",
            RULE,
            "reads a block beyond the end on an I/O queue, then the page",
            "an entry with the queue, the command, its status, its namespace and the block; SLBA, or no place, is the location",
            |subject| {
                let mut disk = subject.disk()?;
                let beyond = disk.blocks;
                let request = commands::read(disk.nsid, beyond, 1, disk.block_bytes);
                let answer = fail(&mut disk, &request, status::LBA_OUT_OF_RANGE)?;
                let entry = entry_of(&mut disk, &answer)?;
                is_at(&entry, &disk, beyond)?;
                check!(
                    entry.location == 40 || entry.location == 0xffff,
                    "the location is {:#x}",
                    entry.location
                );
                Ok(())
            },
        ),
        Case::new(
            "log.error-of-compare",
            RULE,
            "compares 64 KiB that differ in one block, on an I/O queue",
            "an entry with the block at which they differ, or with the first one of the command",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(0, "Compare")?;
                let blocks = disk.blocks_of(65536);
                let mut data = disk.pattern(7, blocks);
                disk.write(8, &data)?;
                let last = data.len() - 1;
                data[last] ^= 0xff;
                let request = commands::compare(disk.nsid, 8, blocks, data);
                let answer = fail(&mut disk, &request, status::COMPARE_FAILURE)?;
                let entry = entry_of(&mut disk, &answer)?;
                let block = if entry.lba == 8 { 8 } else { 7 + u64::from(blocks) };
                is_at(&entry, &disk, block)
            },
        ),
        Case::new(
            "log.error-count",
            "NVMe Base 2.1, 5.1.12.1.2 Error Count, and 5.1.12.1.3 Number of Error Information Log Entries",
            "makes three errors on an I/O queue",
            "the newest entry is first, each has a count of its own, and the health page has counted as many",
            |subject| {
                let mut disk = subject.disk()?;
                let before = counted(&mut disk.controller)?;
                let request = commands::read(disk.nsid, disk.blocks, 1, disk.block_bytes);
                let mut last = fail(&mut disk, &request, status::LBA_OUT_OF_RANGE)?;
                for _ in 0..2 {
                    last = fail(&mut disk, &request, status::LBA_OUT_OF_RANGE)?;
                }
                let newest = entry_of(&mut disk, &last)?;
                let all = entries(&mut disk.controller)?;
                check!(
                    all.windows(2).all(|pair| pair[0].count > pair[1].count),
                    "the counts do not fall from the newest to the oldest"
                );
                check!(all[0].count == newest.count, "the newest is not the first");
                has_counted(&mut disk.controller, before + 3)
            },
        ),
        Case::new(
            "log.error-not-of-what-ends-well",
            RULE,
            "writes and reads on an I/O queue",
            "the health page counts no error",
            |subject| {
                let mut disk = subject.disk()?;
                let before = counted(&mut disk.controller)?;
                let data = disk.pattern(1, 8);
                for _ in 0..8 {
                    disk.write(0, &data)?;
                    disk.read(0, 8)?;
                }
                let after = counted(&mut disk.controller)?;
                check!(after == before, "it went from {before} to {after}");
                Ok(())
            },
        ),
        Case::new(
            "log.error-flood",
            RULE,
            "makes 200 errors on each of two I/O queues at once",
            "the page holds as many as ELPE says at the most, all different, and the queues work on",
            |subject| {
                let mut disk = subject.disk()?;
                let mut second = disk.controller.io_queue(2, 128)?;
                let before = counted(&mut disk.controller)?;
                let request = commands::read(disk.nsid, disk.blocks, 1, disk.block_bytes);
                for _ in 0..4 {
                    let mut under_way = Vec::new();
                    for _ in 0..50 {
                        under_way.push((disk.queue.submit(&request)?, second.submit(&request)?));
                    }
                    for (one, two) in under_way {
                        ended(&disk.queue.wait(one)?, status::LBA_OUT_OF_RANGE)?;
                        ended(&second.wait(two)?, status::LBA_OUT_OF_RANGE)?;
                    }
                }
                let all = entries(&mut disk.controller)?;
                need!(
                    all.iter().any(|entry| entry.queue > 0),
                    "errors of I/O queues are not in the log"
                );
                check!(
                    all.windows(2).all(|pair| pair[0].count > pair[1].count),
                    "two entries have one count"
                );
                has_counted(&mut disk.controller, before + 400)?;
                disk.read(0, 1)?;
                second
                    .call(&commands::read(disk.nsid, 0, 1, disk.block_bytes))?
                    .good("Read")?;
                Ok(())
            },
        ),
    ]
}
