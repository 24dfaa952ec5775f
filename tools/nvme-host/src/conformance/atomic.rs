//! Atomic writes: the fields, and what they promise.

use super::subject::Disk;
use super::{Case, Outcome, check, need};
use crate::{Queue, Request, commands};

const RULE: &str = "NVM Command Set 1.1, 2.1.4 Atomic Operations";

/// The blocks of the largest atomic write that begins at a boundary, and the first block that is at one.
fn unit(disk: &Disk) -> (u32, u64) {
    let own = disk.namespace.byte(24) >> 1 & 1 == 1;
    if !own {
        return (u32::from(disk.identity.word(526)) + 1, 0);
    }
    let (unit, boundary) = (u32::from(disk.namespace.word(34)) + 1, disk.namespace.word(40));
    let unit = match boundary {
        0 => unit,
        _ => unit.min(u32::from(boundary) + 1),
    };
    let unit = unit.min(disk.blocks_of(disk.max_transfer().min(131_072)));
    (unit, u64::from(disk.namespace.word(42)))
}

/// Two queues write a range at once, each one byte all over, and the first reads; `seen` is what of the read is the range.
fn race(
    disk: &mut Disk,
    second: &mut Queue,
    (start, blocks): (u64, u32),
    read: &Request,
    round: u32,
    seen: impl Fn(&[u8], usize) -> &[u8],
) -> Outcome {
    let bytes = blocks as usize * disk.block_bytes;
    let value = |which: u32| ((round * 2 + which) % 251 + 1) as u8;
    let write = |which| commands::write(disk.nsid, start, blocks, vec![value(which); bytes]);
    let (first, other) = (write(0), write(1));
    let first = disk.queue.submit(&first)?;
    let other = second.submit(&other)?;
    let answer = disk.queue.submit(read)?;
    let data = disk.queue.wait(answer)?.good("Read")?.data;
    disk.queue.wait(first)?.good("Write")?;
    second.wait(other)?.good("Write")?;
    let range = seen(&data, disk.block_bytes);
    check!(
        range.iter().all(|byte| *byte == range[0]),
        "round {round}: a read saw two writes"
    );
    let after = disk.read(start, blocks)?;
    check!(
        after.iter().all(|byte| *byte == after[0]) && [value(0), value(1)].contains(&after[0]),
        "round {round}: two writes are mixed"
    );
    Ok(())
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "atomic.fields",
            RULE,
            "reads AWUN, AWUPF, NAWUN, NAWUPF, NABSN, NABSPF and NABO",
            "normal at least as large as power fail, of the namespace at least those of the controller, boundaries fit",
            |subject| {
                let disk = subject.disk()?;
                let (normal, power_fail) = (disk.identity.word(526), disk.identity.word(528));
                check!(normal >= power_fail, "AWUN {normal} < AWUPF {power_fail}");
                if disk.namespace.byte(24) >> 1 & 1 == 1 {
                    let (own, own_power_fail) = (disk.namespace.word(34), disk.namespace.word(36));
                    check!(own >= normal, "NAWUN {own} < AWUN {normal}");
                    check!(
                        own_power_fail >= power_fail,
                        "NAWUPF {own_power_fail} < AWUPF {power_fail}"
                    );
                    check!(own >= own_power_fail, "NAWUN {own} < NAWUPF {own_power_fail}");
                }
                let (boundary, offset, power_fail) = (
                    disk.namespace.word(40),
                    disk.namespace.word(42),
                    disk.namespace.word(44),
                );
                if boundary > 0 {
                    check!(
                        boundary >= disk.namespace.word(34),
                        "NABSN {boundary} < NAWUN {}",
                        disk.namespace.word(34)
                    );
                    check!(offset <= boundary, "NABO {offset} > NABSN {boundary}");
                    check!(power_fail > 0, "NABSPF is 0 where NABSN is {boundary}");
                }
                Ok(())
            },
        ),
        Case::new(
            "atomic.writes-do-not-mix",
            RULE,
            "two queues write the largest atomic unit over each other, while it is read, 200 times",
            "each read is one write whole",
            |subject| {
                let mut disk = subject.disk()?;
                let own = disk.namespace.byte(24) >> 1 & 1 == 1;
                let unit = u32::from(if own {
                    disk.namespace.word(34)
                } else {
                    disk.identity.word(526)
                }) + 1;
                // A boundary cuts the unit: the first block of a boundary is at NABO.
                let boundary = u32::from(disk.namespace.word(40)) + 1;
                let blocks = if disk.namespace.word(40) > 0 {
                    unit.min(boundary)
                } else {
                    unit
                };
                let blocks = blocks.min(disk.blocks_of(disk.max_transfer().min(131_072)));
                need!(u64::from(blocks) * 4 < disk.blocks, "the namespace is too small");
                let start = u64::from(disk.namespace.word(42));
                let mut second = disk.controller.io_queue(2, 32)?;
                let bytes = blocks as usize * disk.block_bytes;
                disk.write(start, &vec![0; bytes])?;
                for round in 0..200u32 {
                    let value = |which: u32| ((round * 2 + which) % 251 + 1) as u8;
                    let one = commands::write(disk.nsid, start, blocks, vec![value(0); bytes]);
                    let two = commands::write(disk.nsid, start, blocks, vec![value(1); bytes]);
                    let one = disk.queue.submit(&one)?;
                    let two = second.submit(&two)?;
                    let read = disk
                        .queue
                        .submit(&commands::read(disk.nsid, start, blocks, disk.block_bytes))?;
                    let read = disk.queue.wait(read)?.good("Read")?.data;
                    disk.queue.wait(one)?.good("Write")?;
                    second.wait(two)?.good("Write")?;
                    check!(
                        read.iter().all(|&byte| byte == read[0]),
                        "round {round}: a read saw two writes"
                    );
                    let after = disk.read(start, blocks)?;
                    check!(
                        after.iter().all(|&byte| byte == after[0]),
                        "round {round}: two writes are mixed"
                    );
                    check!(
                        after[0] == value(0) || after[0] == value(1),
                        "round {round}: {:#x} was not written",
                        after[0]
                    );
                }
                Ok(())
            },
        ),
        Case::new(
            "atomic.from-within",
            "NVM Command Set 1.1, 2.1.4: NAWUN holds for any range that crosses no boundary",
            "two queues write the atomic unit less three blocks, from the fourth on, over each other while it is read, 200 times",
            "each read is one write whole, and the blocks before are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                let (unit, start) = unit(&disk);
                need!(unit > 3, "the atomic unit is {unit} blocks");
                let (start, blocks) = (start + 3, unit - 3);
                let mut second = disk.controller.io_queue(2, 32)?;
                let before = disk.pattern(5, 3);
                disk.write(start - 3, &before)?;
                disk.write(start, &vec![0; blocks as usize * disk.block_bytes])?;
                for round in 0..200u32 {
                    let read = commands::read(disk.nsid, start, blocks, disk.block_bytes);
                    race(&mut disk, &mut second, (start, blocks), &read, round, |data, _| data)?;
                }
                disk.holds(start - 3, &before)
            },
        ),
        Case::new(
            "atomic.long-reads",
            "NVM Command Set 1.1, 2.1.4: atomic with respect to other commands, of whatever size",
            "two queues write one atomic unit over each other, while as much as MDTS allows is read from half a unit before, 200 times",
            "what each read has of the unit is one write whole",
            |subject| {
                let mut disk = subject.disk()?;
                let (unit, start) = unit(&disk);
                let most = disk.blocks_of(disk.max_transfer());
                let half = unit / 2;
                need!(
                    half > 0 && most >= unit + half,
                    "the atomic unit is {unit} blocks of {most}"
                );
                need!(start + 4 * u64::from(most) < disk.blocks, "the namespace is too small");
                // The second unit of the namespace.
                let start = start + u64::from(unit);
                let mut second = disk.controller.io_queue(2, 32)?;
                disk.write(start, &vec![0; unit as usize * disk.block_bytes])?;
                for round in 0..200u32 {
                    let read = commands::read(disk.nsid, start - u64::from(half), most, disk.block_bytes);
                    race(
                        &mut disk,
                        &mut second,
                        (start, unit),
                        &read,
                        round,
                        |data, block_bytes| {
                            let from = half as usize * block_bytes;
                            &data[from..from + unit as usize * block_bytes]
                        },
                    )?;
                }
                Ok(())
            },
        ),
        Case::new(
            "atomic.neighbours",
            "NVM Command Set 1.1, 2.1.4: writes of other blocks do not matter",
            "two queues write neighbouring blocks at once, 200 times",
            "no write is lost, also where several blocks share a larger one below",
            |subject| {
                let mut disk = subject.disk()?;
                let mut second = disk.controller.io_queue(2, 32)?;
                for round in 0..200u32 {
                    let (one, two) = (disk.pattern(round, 1), disk.pattern(round + 1000, 1));
                    let first = disk.queue.submit(&commands::write(disk.nsid, 8, 1, one.clone()))?;
                    let other = second.submit(&commands::write(disk.nsid, 9, 1, two.clone()))?;
                    disk.queue.wait(first)?.good("Write")?;
                    second.wait(other)?.good("Write")?;
                    disk.holds(8, &[one, two].concat())?;
                }
                Ok(())
            },
        ),
    ]
}
