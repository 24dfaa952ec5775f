//! What commands on blocks refuse.

use super::super::subject::{Disk, ended, ended_by, refused};
use super::super::{Case, Outcome, Verdict, need};
use crate::wire::{Descriptor, io, status};
use crate::{Request, Transfer, commands};

/// Commands on blocks: the name, its opcode, the bit of ONCS that says it is there, the section.
const ON_BLOCKS: [(&str, u8, Option<u16>, &str); 6] = [
    ("read", io::READ, None, "NVM Command Set 1.1, 3.3.4 Read"),
    ("write", io::WRITE, None, "NVM Command Set 1.1, 3.3.6 Write"),
    ("compare", io::COMPARE, Some(0), "NVM Command Set 1.1, 3.3.1 Compare"),
    (
        "write-zeroes",
        io::WRITE_ZEROES,
        Some(3),
        "NVM Command Set 1.1, 3.3.8 Write Zeroes",
    ),
    ("verify", io::VERIFY, Some(7), "NVM Command Set 1.1, 3.3.5 Verify"),
    (
        "dataset",
        io::DATASET_MANAGEMENT,
        Some(2),
        "NVM Command Set 1.1, 3.3.3 Dataset Management",
    ),
];

/// The command on those blocks, with the data it wants.
pub fn on_blocks(disk: &Disk, opcode: u8, nsid: u32, block: u64, blocks: u32) -> Request {
    let bytes = blocks as usize * disk.block_bytes;
    match opcode {
        io::READ => commands::read(nsid, block, blocks, disk.block_bytes),
        io::WRITE => commands::write(nsid, block, blocks, vec![0x5a; bytes]),
        io::COMPARE => commands::compare(nsid, block, blocks, vec![0x5a; bytes]),
        io::WRITE_ZEROES => commands::write_zeroes(nsid, block, blocks, false),
        io::DATASET_MANAGEMENT => commands::deallocate(nsid, &[(block, blocks)]),
        _ => commands::verify(nsid, block, blocks),
    }
}

fn needed(disk: &Disk, bit: Option<u16>, name: &str) -> Outcome {
    bit.map_or(Ok(()), |bit| disk.needs_optional(bit, name))
}

/// What every command on blocks refuses.
pub fn refusals() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, opcode, bit, rule) in ON_BLOCKS {
        cases.push(Case::new(
            format!("block.{name}-absent-namespace"),
            "NVMe Base 2.1, 3.2.1.2: invalid and inactive numbers",
            "names a namespace that is not there, 0, and one beyond NN",
            "Invalid Namespace or Format each time (of an inactive one also Invalid Field)",
            move |subject| {
                let mut disk = subject.disk()?;
                needed(&disk, bit, name)?;
                let highest = disk.identity.dword(516);
                let mut numbers = vec![0];
                numbers.extend(subject.absent_nsid(&mut disk.controller).ok());
                numbers.extend(highest.checked_add(1).filter(|&beyond| beyond < u32::MAX));
                for nsid in numbers {
                    let request = on_blocks(&disk, opcode, nsid, 0, 1);
                    let answer = disk.queue.call(&request)?;
                    ended_by(&answer, &[status::INVALID_NAMESPACE, status::INVALID_FIELD])?;
                }
                disk.read(0, 1)?;
                Ok(())
            },
        ));
        cases.push(Case::new(
            format!("block.{name}-all-namespaces"),
            "NVMe Base 2.1, 3.2.1.2: FFFFFFFFh is not for this command",
            "names namespace FFFFFFFFh",
            "Invalid Namespace or Format, or Invalid Field",
            move |subject| {
                let mut disk = subject.disk()?;
                needed(&disk, bit, name)?;
                let request = on_blocks(&disk, opcode, u32::MAX, 0, 1);
                refused(
                    &mut disk.queue,
                    &request,
                    &[status::INVALID_NAMESPACE, status::INVALID_FIELD],
                )?;
                disk.read(0, 1)?;
                Ok(())
            },
        ));
        cases.push(Case::new(
            format!("block.{name}-out-of-range"),
            rule,
            "names the block behind the last, the last and one more, the highest number, and a range that wraps",
            "LBA Out of Range each time; nothing changes",
            move |subject| {
                let mut disk = subject.disk()?;
                needed(&disk, bit, name)?;
                let last = disk.blocks - 1;
                let old = disk.pattern(9, 1);
                disk.write(last, &old)?;
                for (block, blocks) in [(last + 1, 1), (last, 2), (u64::MAX, 1), (u64::MAX - 1, 8), (1 << 63, 1)] {
                    let request = on_blocks(&disk, opcode, disk.nsid, block, blocks);
                    let answer = disk.queue.call(&request)?;
                    // Of a dataset a controller may ignore what it is told.
                    if opcode == io::DATASET_MANAGEMENT {
                        ended_by(&answer, &[status::LBA_OUT_OF_RANGE, status::SUCCESS])?;
                    } else if let Err(Verdict::Failed(why)) = ended(&answer, status::LBA_OUT_OF_RANGE) {
                        return Err(Verdict::Failed(format!("{blocks} blocks at {block:#x}: {why}")));
                    }
                }
                disk.holds(last, &old)
            },
        ));
        if matches!(opcode, io::READ | io::WRITE | io::COMPARE) {
            cases.push(Case::new(
                format!("block.{name}-length-not-of-descriptor"),
                "NVMe Base 2.1, 4.3.2: the descriptor's length is that of the data",
                "names two blocks with a descriptor of one, and one with a descriptor of two",
                "Data SGL Length Invalid, or Invalid Field; the queue works on",
                move |subject| {
                    for (blocks, described) in [(2u32, 1u32), (1, 2)] {
                        let mut disk = subject.disk()?;
                        needed(&disk, bit, name)?;
                        let request = on_blocks(&disk, opcode, disk.nsid, 0, described);
                        let request = request.map(|command| command.dword(12, blocks - 1));
                        refused(&mut disk.queue, &request, &[status::SGL_LENGTH, status::INVALID_FIELD])?;
                        disk.read(0, 1)?;
                    }
                    Ok(())
                },
            ));
            cases.push(Case::new(
                format!("block.{name}-beyond-mdts"),
                "NVMe Base 2.1, 5.1.13.2.1 MDTS",
                "transfers one block more than MDTS allows",
                "Invalid Field in Command; the queue works on",
                move |subject| {
                    let mut disk = subject.disk()?;
                    needed(&disk, bit, name)?;
                    let Some(most) = disk.identity.max_transfer_bytes() else {
                        return Err(Verdict::Skipped("MDTS has no limit".into()));
                    };
                    let blocks = most / disk.block_bytes as u64 + 1;
                    need!(
                        blocks <= 65536 && blocks < disk.blocks,
                        "the limit is beyond a command's range"
                    );
                    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
                    let request = on_blocks(&disk, opcode, disk.nsid, 0, blocks);
                    let answer = disk.queue.call(&request)?;
                    ended_by(&answer, &[status::INVALID_FIELD, status::SGL_LENGTH])?;
                    disk.read(0, 1)?;
                    Ok(())
                },
            ));
            cases.push(Case::new(
                format!("block.{name}-protection"),
                rule,
                "asks for a check of protection information (PRINFO) of a format that has none",
                "Invalid Protection Information or Invalid Field; or success: the field is ignored",
                move |subject| {
                    let mut disk = subject.disk()?;
                    needed(&disk, bit, name)?;
                    if opcode == io::COMPARE {
                        let data = vec![0x5a; disk.block_bytes];
                        disk.write(0, &data)?;
                    }
                    let request = on_blocks(&disk, opcode, disk.nsid, 0, 1);
                    let request = request.map(|command| command.dword(12, 0xf << 26));
                    refused(
                        &mut disk.queue,
                        &request,
                        &[status::CONTROLLER_BUSY, status::INVALID_FIELD, status::SUCCESS],
                    )
                },
            ));
        }
        // Of a command without data the descriptor says nothing.
        if matches!(opcode, io::WRITE_ZEROES | io::VERIFY) {
            continue;
        }
        cases.push(Case::new(
            format!("block.{name}-psdt"),
            "NVMe Base 2.1, 3.3.3.1: over fabrics PSDT is 01b or 10b",
            "sends the command with PSDT 00b (PRPs) and 11b",
            "Invalid Field in Command; the queue works on",
            move |subject| {
                let mut disk = subject.disk()?;
                needed(&disk, bit, name)?;
                for flags in [0x00, 0xc0] {
                    // Nothing is sent or expected: the field is wrong before the data matter.
                    let request = on_blocks(&disk, opcode, disk.nsid, 0, 1);
                    let request = Request {
                        transfer: Transfer::None,
                        ..request
                    }
                    .map(|command| command.byte(1, flags))
                    .descriptor(Descriptor::transport(u32::try_from(disk.block_bytes).unwrap_or(0)));
                    refused(&mut disk.queue, &request, &[status::INVALID_FIELD, status::SGL_TYPE])?;
                }
                disk.read(0, 1)?;
                Ok(())
            },
        ));
    }
    cases
}

pub fn descriptors() -> Vec<Case> {
    const RULE: &str = "NVMe Base 2.1, 4.3.2 SGLs; TCP Transport 1.1, 3.3.2";
    /// A read whose descriptor is of another kind.
    fn bad(name: &str, does: &'static str, kind: u8, expected: &'static [u16]) -> Case {
        Case::new(
            format!("block.descriptor-{name}"),
            RULE,
            does,
            "an SGL error or Invalid Field; the queue works on",
            move |subject| {
                let mut disk = subject.disk()?;
                let length = u32::try_from(disk.block_bytes).unwrap_or(0);
                let request = commands::read(disk.nsid, 0, 1, disk.block_bytes).descriptor(Descriptor {
                    address: 0,
                    length,
                    kind,
                });
                refused(&mut disk.queue, &request, expected)?;
                disk.read(0, 1)?;
                Ok(())
            },
        )
    }
    const TYPE: &[u16] = &[status::SGL_TYPE, status::INVALID_FIELD];
    vec![
        bad("keyed", "reads by a keyed descriptor (4h)", 0x40, TYPE),
        bad("bit-bucket", "reads by a bit bucket descriptor (1h)", 0x10, TYPE),
        bad("address", "reads by a data block at an address (0h/0h)", 0x00, TYPE),
        bad(
            "segment",
            "reads by a segment descriptor (2h)",
            0x20,
            &[
                status::SGL_TYPE,
                status::INVALID_FIELD,
                status::INVALID_SEGMENT,
                status::INVALID_COUNT,
            ],
        ),
        bad("reserved", "reads by a descriptor of a reserved type (9h)", 0x90, TYPE),
        bad(
            "in-capsule-of-read",
            "reads into the capsule (0h/1h)",
            0x01,
            &[
                status::SGL_TYPE,
                status::INVALID_FIELD,
                status::SGL_OFFSET,
                status::SGL_LENGTH,
            ],
        ),
        Case::new(
            "block.descriptor-offset",
            RULE,
            "writes from an offset of the capsule that is beyond its end",
            "SGL Offset Invalid, Invalid Field, or the end of the connection; the block is as it was",
            |subject| {
                let mut disk = subject.disk()?;
                let old = disk.pattern(21, 1);
                disk.write(0, &old)?;
                let length = u32::try_from(disk.block_bytes).unwrap_or(0);
                let request = commands::write(disk.nsid, 0, 1, disk.pattern(22, 1))
                    .descriptor(Descriptor::in_capsule(1 << 20, length));
                match disk.queue.call(&request) {
                    Ok(answer) => ended_by(
                        &answer,
                        &[status::SGL_OFFSET, status::INVALID_FIELD, status::SGL_LENGTH],
                    )?,
                    Err(crate::Error::Terminated { .. } | crate::Error::Closed) => {}
                    Err(other) => return Err(other.into()),
                }
                subject.disk()?.holds(0, &old)
            },
        ),
    ]
}
