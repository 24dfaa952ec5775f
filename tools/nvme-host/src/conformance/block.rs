//! The commands of the NVM command set, their results read back, and their wrong fields.

mod refused;

use super::subject::{ended, ended_by, refused};
use super::{Case, check, need};
use crate::wire::{Command, io, status};
use crate::{Request, commands};
use refused::{descriptors, on_blocks, refusals};

fn commands_of_the_set() -> Vec<Case> {
    vec![
        Case::new(
            "block.write-read",
            "NVM Command Set 1.1, 3.3.4 Read and 3.3.6 Write",
            "writes 1 to 9 blocks at the start, in the middle and at the end, and reads them",
            "the same bytes; the blocks around are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                let starts = [0, 7, disk.blocks / 2 + 1, disk.blocks - 9];
                for (n, start) in starts.into_iter().enumerate() {
                    let seed = u32::try_from(n).unwrap_or(0) * 100;
                    let ground = disk.pattern(seed, 9);
                    disk.write(start, &ground)?;
                    for blocks in 1..8 {
                        let data = disk.pattern(seed + blocks, blocks);
                        disk.write(start, &ground)?;
                        disk.write(start + 1, &data)?;
                        let mut due = ground.clone();
                        due[disk.block_bytes..disk.block_bytes + data.len()].copy_from_slice(&data);
                        disk.holds(start, &due)?;
                    }
                }
                Ok(())
            },
        ),
        Case::new(
            "block.force-unit-access",
            "NVM Command Set 1.1, 3.3.6 Write: FUA; 3.3.4 Read: LR and FUA",
            "writes and reads with FUA and with LR",
            "success, the same bytes",
            |subject| {
                let mut disk = subject.disk()?;
                let data = disk.pattern(30, 2);
                let write = commands::write(disk.nsid, 0, 2, data.clone()).map(|write| write.dword(12, 1 | 1 << 30));
                disk.queue.call(&write)?.good("Write with FUA")?;
                for bits in [1u32 << 30, 1 << 31, 3 << 30] {
                    let read = commands::read(disk.nsid, 0, 2, disk.block_bytes);
                    let read = disk
                        .queue
                        .call(&read.map(|read| read.dword(12, 1 | bits)))?
                        .good("Read")?;
                    check!(read.data == data, "the data read with {bits:#x} are others");
                }
                Ok(())
            },
        ),
        Case::new(
            "block.flush",
            "NVMe Base 2.1, 7.2 Flush",
            "writes and flushes the namespace",
            "success",
            |subject| {
                let mut disk = subject.disk()?;
                let data = disk.pattern(31, 1);
                disk.write(0, &data)?;
                disk.queue.call(&commands::flush(disk.nsid))?.good("Flush")?;
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "block.flush-all",
            "NVMe Base 2.1, 7.2 Flush: VWC bits 2:1",
            "flushes namespace FFFFFFFFh",
            "success where VWC says 11b, Invalid Namespace where it says 10b",
            |subject| {
                let mut disk = subject.disk()?;
                let answer = disk.queue.call(&commands::flush(u32::MAX))?;
                match disk.identity.byte(525) >> 1 & 3 {
                    3 => ended(&answer, status::SUCCESS),
                    2 => ended(&answer, status::INVALID_NAMESPACE),
                    _ => ended_by(&answer, &[status::SUCCESS, status::INVALID_NAMESPACE]),
                }
            },
        ),
        Case::new(
            "block.flush-absent",
            "NVMe Base 2.1, 7.2 Flush; 3.2.1.2",
            "flushes a namespace that is not there",
            "Invalid Namespace or Format, or Invalid Field",
            |subject| {
                let mut disk = subject.disk()?;
                let absent = subject.absent_nsid(&mut disk.controller)?;
                refused(
                    &mut disk.queue,
                    &commands::flush(absent),
                    &[status::INVALID_NAMESPACE, status::INVALID_FIELD],
                )
            },
        ),
        Case::new(
            "block.compare",
            "NVM Command Set 1.1, 3.3.1 Compare",
            "compares what is there, and what differs in the last byte",
            "success, and Compare Failure",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(0, "Compare")?;
                for bytes in [disk.block_bytes, 32768] {
                    let blocks = disk.blocks_of(bytes);
                    let mut data = disk.pattern(40, blocks);
                    disk.write(3, &data)?;
                    let compare = commands::compare(disk.nsid, 3, blocks, data.clone());
                    disk.queue.call(&compare)?.good("Compare")?;
                    *data.last_mut().expect("at least a block") ^= 1;
                    let compare = commands::compare(disk.nsid, 3, blocks, data);
                    ended(&disk.queue.call(&compare)?, status::COMPARE_FAILURE)?;
                }
                Ok(())
            },
        ),
        Case::new(
            "block.write-zeroes",
            "NVM Command Set 1.1, 3.3.8 Write Zeroes",
            "writes zeroes over the middle of what was written, with and without deallocating",
            "zeroes there, the blocks around are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(3, "Write Zeroes")?;
                for deallocate in [false, true] {
                    let mut data = disk.pattern(41, 64);
                    disk.write(0, &data)?;
                    let zeroes = commands::write_zeroes(disk.nsid, 5, 40, deallocate);
                    disk.queue.call(&zeroes)?.good("Write Zeroes")?;
                    data[5 * disk.block_bytes..45 * disk.block_bytes].fill(0);
                    disk.holds(0, &data)?;
                }
                Ok(())
            },
        ),
        Case::new(
            "block.write-zeroes-large",
            "NVM Command Set 1.1, 3.3.8 Write Zeroes: not limited by MDTS (WZSL apart)",
            "writes zeroes over 65,536 blocks, or all that there are",
            "success where no limit is told; zeroes at both ends",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(3, "Write Zeroes")?;
                let blocks = u32::try_from(disk.blocks.min(65536)).unwrap_or(65536);
                let data = disk.pattern(42, 1);
                disk.write(0, &data)?;
                disk.write(u64::from(blocks) - 1, &data)?;
                let answer = disk.queue.call(&commands::write_zeroes(disk.nsid, 0, blocks, true))?;
                if !answer.status.is_success() {
                    ended(&answer, status::INVALID_FIELD)?;
                    need!(false, "it has a limit below {blocks} blocks");
                }
                let zero = vec![0; disk.block_bytes];
                disk.holds(0, &zero)?;
                disk.holds(u64::from(blocks) - 1, &zero)
            },
        ),
        Case::new(
            "block.deallocate",
            "NVM Command Set 1.1, 3.3.3 Dataset Management; 4.1.5.1 DLFEAT",
            "deallocates three ranges",
            "they read as DLFEAT says or as they were; the blocks around are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(2, "Dataset Management")?;
                let data = disk.pattern(43, 128);
                disk.write(0, &data)?;
                let ranges = [(8u64, 8u32), (32, 16), (100, 1)];
                disk.queue
                    .call(&commands::deallocate(disk.nsid, &ranges))?
                    .good("Dataset Management")?;
                let read = disk.read(0, 128)?;
                let size = disk.block_bytes;
                let zeroes_due = disk.namespace.byte(33) & 7 == 1;
                for block in 0..128usize {
                    let (now, old) = (
                        &read[block * size..(block + 1) * size],
                        &data[block * size..(block + 1) * size],
                    );
                    let inside = ranges
                        .iter()
                        .any(|&(start, count)| (start..start + u64::from(count)).contains(&(block as u64)));
                    let zero = now.iter().all(|&byte| byte == 0);
                    check!(
                        now == old || inside && (zero || !zeroes_due),
                        "block {block} is neither old nor deallocated"
                    );
                }
                Ok(())
            },
        ),
        Case::new(
            "block.deallocate-most-ranges",
            "NVM Command Set 1.1, 3.3.3 Dataset Management",
            "deallocates 256 ranges",
            "success",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(2, "Dataset Management")?;
                let ranges: Vec<(u64, u32)> = (0..256).map(|n| (n * 3, 2)).collect();
                disk.queue
                    .call(&commands::deallocate(disk.nsid, &ranges))?
                    .good("Dataset Management")?;
                Ok(())
            },
        ),
        Case::new(
            "block.dataset-hints",
            "NVM Command Set 1.1, 3.3.3 Dataset Management: IDR and IDW",
            "names ranges without AD: a hint",
            "success; the blocks are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(2, "Dataset Management")?;
                let data = disk.pattern(44, 4);
                disk.write(0, &data)?;
                let hint = commands::deallocate(disk.nsid, &[(0, 4)]).map(|command| command.dword(11, 3));
                disk.queue.call(&hint)?.good("Dataset Management")?;
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "block.dataset-short",
            "NVMe Base 2.1, 4.3.2: the descriptor's length is that of the data",
            "names four ranges with the data of one",
            "Data SGL Length Invalid or Invalid Field; the blocks are as they were",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(2, "Dataset Management")?;
                let data = disk.pattern(45, 4);
                disk.write(0, &data)?;
                let request = commands::deallocate(disk.nsid, &[(0, 4)]).map(|command| command.dword(10, 3));
                refused(&mut disk.queue, &request, &[status::SGL_LENGTH, status::INVALID_FIELD])?;
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "block.verify",
            "NVM Command Set 1.1, 3.3.5 Verify",
            "verifies what was written",
            "success",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(7, "Verify")?;
                let data = disk.pattern(46, 64);
                disk.write(0, &data)?;
                disk.queue.call(&commands::verify(disk.nsid, 0, 64))?.good("Verify")?;
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "block.write-uncorrectable",
            "NVM Command Set 1.1, 3.3.7 Write Uncorrectable: ONCS bit 1",
            "writes uncorrectable, where ONCS says that it cannot",
            "Invalid Command Opcode; the block is as it was",
            |subject| {
                let mut disk = subject.disk()?;
                need!(
                    disk.identity.optional() >> 1 & 1 == 0,
                    "ONCS has Write Uncorrectable: not tried"
                );
                let data = disk.pattern(47, 1);
                disk.write(0, &data)?;
                let request = Request::new(commands::blocks_of(io::WRITE_UNCORRECTABLE, disk.nsid, 0, 1));
                ended(&disk.queue.call(&request)?, status::INVALID_OPCODE)?;
                disk.holds(0, &data)
            },
        ),
        Case::new(
            "block.unknown-opcodes",
            "NVMe Base 2.1, 4.2.3.1",
            "sends I/O opcodes 7Ch, 3Eh and C0h",
            "Invalid Command Opcode; the queue works on",
            |subject| {
                let mut disk = subject.disk()?;
                for opcode in [0x7c, 0x3e, 0xc0] {
                    let request = Request::new(Command::new(opcode).namespace(disk.nsid));
                    ended(&disk.queue.call(&request)?, status::INVALID_OPCODE)?;
                }
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "block.optional-not-there",
            "NVMe Base 2.1, 5.1.13.2.1 ONCS",
            "sends each optional command that ONCS says is not there",
            "Invalid Command Opcode",
            |subject| {
                let mut disk = subject.disk()?;
                let all = [
                    (0, io::COMPARE),
                    (3, io::WRITE_ZEROES),
                    (7, io::VERIFY),
                    (2, io::DATASET_MANAGEMENT),
                ];
                let missing: Vec<u8> = all
                    .into_iter()
                    .filter(|(bit, _)| disk.identity.optional() >> bit & 1 == 0)
                    .map(|(_, op)| op)
                    .collect();
                need!(!missing.is_empty(), "all are there");
                for opcode in missing {
                    let request = on_blocks(&disk, opcode, disk.nsid, 0, 1);
                    ended(&disk.queue.call(&request)?, status::INVALID_OPCODE)?;
                }
                Ok(())
            },
        ),
    ]
}

fn copies() -> Vec<Case> {
    const RULE: &str = "NVM Command Set 1.1, 3.3.2 Copy";
    vec![
        Case::new(
            "block.copy",
            RULE,
            "copies one range, and three ranges",
            "their bytes, one after the other",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(8, "Copy")?;
                let data = disk.pattern(50, 64);
                disk.write(0, &data)?;
                let size = disk.block_bytes;
                disk.queue
                    .call(&commands::copy(disk.nsid, 1000, &[(8, 16)]))?
                    .good("Copy")?;
                disk.holds(1000, &data[8 * size..24 * size])?;
                need!(disk.namespace.byte(80) >= 2, "MSRC allows one range");
                disk.queue
                    .call(&commands::copy(disk.nsid, 2000, &[(40, 4), (0, 2), (60, 1)]))?
                    .good("Copy")?;
                let due = [
                    &data[40 * size..44 * size],
                    &data[..2 * size],
                    &data[60 * size..61 * size],
                ]
                .concat();
                disk.holds(2000, &due)
            },
        ),
        Case::new(
            "block.copy-out-of-range",
            RULE,
            "copies from and to blocks that are not there",
            "LBA Out of Range; nothing changes",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(8, "Copy")?;
                let old = disk.pattern(51, 1);
                disk.write(500, &old)?;
                for (target, source) in [(500, disk.blocks), (disk.blocks, 0), (500, u64::MAX)] {
                    let answer = disk.queue.call(&commands::copy(disk.nsid, target, &[(source, 1)]))?;
                    ended(&answer, status::LBA_OUT_OF_RANGE)?;
                }
                disk.holds(500, &old)
            },
        ),
        Case::new(
            "block.copy-limits",
            "NVM Command Set 1.1, 3.3.2 Copy; 4.1.5.1 MSSRL, MCL, MSRC",
            "copies more ranges than MSRC, a longer one than MSSRL, more blocks than MCL",
            "Command Size Limit Exceeded each time",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(8, "Copy")?;
                let most_blocks = u32::from(disk.namespace.word(74));
                let most_ranges = usize::from(disk.namespace.byte(80)) + 1;
                let most_total = disk.namespace.dword(76);
                if most_ranges < 256 {
                    let ranges = vec![(0, 1); most_ranges + 1];
                    let answer = disk.queue.call(&commands::copy(disk.nsid, 1000, &ranges))?;
                    ended(&answer, status::SIZE_LIMIT)?;
                }
                if most_blocks < 65535 && u64::from(most_blocks) + 1 < disk.blocks {
                    let answer = disk
                        .queue
                        .call(&commands::copy(disk.nsid, 0, &[(0, most_blocks + 1)]))?;
                    ended(&answer, status::SIZE_LIMIT)?;
                }
                let ranges = (most_total / most_blocks.max(1) + 1) as usize;
                if ranges <= most_ranges && u64::from(most_total) * 2 < disk.blocks {
                    let all = vec![(0, most_blocks); ranges];
                    let answer = disk.queue.call(&commands::copy(disk.nsid, disk.blocks / 2, &all))?;
                    ended(&answer, status::SIZE_LIMIT)?;
                }
                Ok(())
            },
        ),
        Case::new(
            "block.copy-format",
            RULE,
            "copies by descriptors of format 7",
            "Invalid Field in Command",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(8, "Copy")?;
                let request = commands::copy(disk.nsid, 1000, &[(0, 1)]).map(|copy| copy.dword(12, 7 << 8));
                ended(&disk.queue.call(&request)?, status::INVALID_FIELD)
            },
        ),
        Case::new(
            "block.copy-not-there",
            "NVMe Base 2.1, 5.1.13.2.1 ONCS bit 8",
            "copies, where ONCS says that it cannot",
            "Invalid Command Opcode",
            |subject| {
                let mut disk = subject.disk()?;
                need!(disk.identity.optional() >> 8 & 1 == 0, "ONCS has Copy");
                ended(
                    &disk.queue.call(&commands::copy(disk.nsid, 0, &[(1, 1)]))?,
                    status::INVALID_OPCODE,
                )
            },
        ),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = commands_of_the_set();
    cases.extend(copies());
    cases.extend(refusals());
    cases.extend(descriptors());
    cases
}
