//! Atomic writes: the fields, and what they promise.

use super::{Case, check, need};
use crate::commands;

const RULE: &str = "NVM Command Set 1.1, 2.1.4 Atomic Operations";

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
