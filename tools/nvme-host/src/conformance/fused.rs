//! Fused Compare and Write.

use super::subject::{Disk, ended, ended_by};
use super::{Case, Outcome, Subject, Verdict, check, need};
use crate::wire::{Command, status};
use crate::{Completion, Request, commands};

const RULE: &str = "NVMe Base 2.1, 3.4.2 fused operations; NVM Command Set 1.1, 3.2";

/// A disk that has fused Compare and Write.
fn disk(subject: &Subject) -> Result<Disk, Verdict> {
    let disk = subject.disk()?;
    if disk.identity.word(522) & 1 == 0 {
        return Err(Verdict::Skipped("FUSES has no Compare and Write".into()));
    }
    Ok(disk)
}

/// How the two commands of a pair ended.
type Pair = (Completion, Completion);

/// Runs two commands that were sent together.
fn both(disk: &mut Disk, first: &Request, second: &Request) -> Result<Pair, Verdict> {
    let ids = disk.queue.submit_all(&[first.clone(), second.clone()])?;
    Ok((disk.queue.wait(ids[0])?, disk.queue.wait(ids[1])?))
}

fn compare(disk: &Disk, block: u64, data: &[u8]) -> Request {
    commands::compare(disk.nsid, block, disk.blocks_of(data.len()), data.to_vec()).map(|command| command.fused(1))
}

fn write(disk: &Disk, block: u64, data: &[u8]) -> Request {
    commands::write(disk.nsid, block, disk.blocks_of(data.len()), data.to_vec()).map(|command| command.fused(2))
}

/// Makes a pair out of the old and the new data.
type Make = fn(&Disk, &[u8], &[u8]) -> (Request, Request);

/// A broken pair: the statuses that each of its commands may end with.
fn broken(name: &str, does: &'static str, first_ends: &'static [u16], second_ends: &'static [u16], make: Make) -> Case {
    Case::new(
        format!("fused.{name}"),
        RULE,
        does,
        "the pair is refused as a whole; nothing is written; the queue works on",
        move |subject| -> Outcome {
            let mut disk = disk(subject)?;
            let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
            disk.write(0, &old)?;
            let (first, second) = make(&disk, &old, &new);
            let (one, two) = both(&mut disk, &first, &second)?;
            ended_by(&one, first_ends)?;
            ended_by(&two, second_ends)?;
            disk.holds(0, &old)
        },
    )
}

pub fn cases() -> Vec<Case> {
    const REFUSED: &[u16] = &[
        status::INVALID_FIELD,
        status::FAILED_FUSED,
        status::MISSING_FUSED,
        status::LBA_OUT_OF_RANGE,
    ];
    vec![
        Case::new(
            "fused.equal",
            RULE,
            "compares what is there, and writes",
            "both succeed; the new bytes",
            |subject| {
                let mut disk = disk(subject)?;
                let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
                disk.write(0, &old)?;
                let (first, second) = (compare(&disk, 0, &old), write(&disk, 0, &new));
                let (one, two) = both(&mut disk, &first, &second)?;
                one.good("the fused Compare")?;
                two.good("the fused Write")?;
                disk.holds(0, &new)
            },
        ),
        Case::new(
            "fused.different",
            RULE,
            "compares what is not there, and writes",
            "Compare Failure, and Command Aborted due to Failed Fused Command; the old bytes",
            |subject| {
                let mut disk = disk(subject)?;
                let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
                disk.write(0, &old)?;
                let (first, second) = (compare(&disk, 0, &new), write(&disk, 0, &new));
                let (one, two) = both(&mut disk, &first, &second)?;
                ended(&one, status::COMPARE_FAILURE)?;
                ended(&two, status::FAILED_FUSED)?;
                disk.holds(0, &old)
            },
        ),
        Case::new(
            "fused.largest",
            "NVM Command Set 1.1, 2.1.4.2 ACWU and NACWU",
            "compares and writes as many blocks as ACWU and NACWU allow",
            "both succeed; the new bytes",
            |subject| {
                let mut disk = disk(subject)?;
                let own = disk.namespace.byte(24) >> 1 & 1 == 1;
                let limit = if own {
                    disk.namespace.word(38)
                } else {
                    disk.identity.word(532)
                };
                let blocks = (u32::from(limit) + 1).min(disk.blocks_of(disk.max_transfer()));
                let (old, new) = (disk.pattern(3, blocks), disk.pattern(4, blocks));
                disk.write(0, &old)?;
                let (first, second) = (compare(&disk, 0, &old), write(&disk, 0, &new));
                let (one, two) = both(&mut disk, &first, &second)?;
                one.good("the fused Compare")?;
                two.good("the fused Write")?;
                disk.holds(0, &new)
            },
        ),
        Case::new(
            "fused.one-wins",
            "NVM Command Set 1.1, 3.2: the pair is atomic",
            "two queues count up one block with Compare and Write, fifty times each",
            "no step is lost: the sum is the number of successes",
            |subject| {
                let mut disk = disk(subject)?;
                let mut second = disk.controller.io_queue(2, 32)?;
                let size = disk.block_bytes;
                disk.write(0, &vec![0; size])?;
                let with = |value: u64| {
                    let mut data = vec![0; size];
                    data[..8].copy_from_slice(&value.to_le_bytes());
                    data
                };
                let mut wins = 0u64;
                for _ in 0..50 {
                    let now = crate::wire::u64_at(&disk.read(0, 1)?, 0);
                    let pair = [compare(&disk, 0, &with(now)), write(&disk, 0, &with(now + 1))];
                    let one = disk.queue.submit_all(&pair)?;
                    let other = second.submit_all(&pair)?;
                    for won in [
                        (disk.queue.wait(one[0])?, disk.queue.wait(one[1])?),
                        (second.wait(other[0])?, second.wait(other[1])?),
                    ] {
                        let (compare, write) = won;
                        check!(
                            compare.status.is_success() == write.status.is_success(),
                            "half of a pair: {} and {}",
                            compare.status,
                            write.status
                        );
                        wins += u64::from(write.status.is_success());
                    }
                    let after = crate::wire::u64_at(&disk.read(0, 1)?, 0);
                    check!(after == now + 1, "{now} became {after}");
                }
                check!(wins == 50, "{wins} pairs succeeded, the block counted 50");
                Ok(())
            },
        ),
        broken(
            "other-range",
            "compares one block, and writes another",
            REFUSED,
            REFUSED,
            |disk, old, new| (compare(disk, 0, old), write(disk, 1, new)),
        ),
        broken(
            "other-length",
            "compares one block, and writes two",
            REFUSED,
            REFUSED,
            |disk, old, new| {
                let two = [new, new].concat();
                (compare(disk, 0, old), write(disk, 0, &two))
            },
        ),
        broken(
            "write-first",
            "sends Write as the first and Compare as the second",
            REFUSED,
            REFUSED,
            |disk, old, new| {
                let first = write(disk, 0, new).map(|command| command.fused(1));
                let second = compare(disk, 0, old).map(|command| command.fused(2));
                (first, second)
            },
        ),
        broken("two-writes", "fuses two Writes", REFUSED, REFUSED, |disk, _, new| {
            (write(disk, 0, new).map(|command| command.fused(1)), write(disk, 0, new))
        }),
        broken(
            "two-firsts",
            "sends two firsts",
            &[status::MISSING_FUSED, status::INVALID_FIELD],
            &[status::MISSING_FUSED, status::INVALID_FIELD, status::SUCCESS],
            |disk, old, _| {
                // The second of them would wait for its own partner: a flush follows it.
                (
                    compare(disk, 0, old),
                    Request::new(Command::new(0).namespace(disk.nsid)),
                )
            },
        ),
        Case::new(
            "fused.second-alone",
            RULE,
            "sends the second of a pair alone",
            "Command Aborted due to Missing Fused Command; nothing is written",
            |subject| {
                let mut disk = disk(subject)?;
                let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
                disk.write(0, &old)?;
                let second = write(&disk, 0, &new);
                let answer = disk.queue.call(&second)?;
                ended_by(&answer, &[status::MISSING_FUSED, status::INVALID_FIELD])?;
                disk.holds(0, &old)
            },
        ),
        Case::new(
            "fused.reserved",
            "NVMe Base 2.1, 3.3.3.1 FUSE: 11b is reserved",
            "sends a Write with FUSE 11b",
            "Invalid Field in Command; nothing is written",
            |subject| {
                let mut disk = subject.disk()?;
                let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
                disk.write(0, &old)?;
                let request = commands::write(disk.nsid, 0, 1, new).map(|command| command.fused(3));
                ended(&disk.queue.call(&request)?, status::INVALID_FIELD)?;
                disk.holds(0, &old)
            },
        ),
        Case::new(
            "fused.not-there",
            "NVMe Base 2.1, 5.1.13.2.1 FUSES",
            "sends a pair, where FUSES says that there are none",
            "Invalid Field in Command or Missing Fused; nothing is written",
            |subject| {
                let mut disk = subject.disk()?;
                need!(disk.identity.word(522) & 1 == 0, "FUSES has Compare and Write");
                let (old, new) = (disk.pattern(1, 1), disk.pattern(2, 1));
                disk.write(0, &old)?;
                let (first, second) = (compare(&disk, 0, &old), write(&disk, 0, &new));
                let (one, two) = both(&mut disk, &first, &second)?;
                let expected = &[status::INVALID_FIELD, status::MISSING_FUSED, status::INVALID_OPCODE];
                ended_by(&one, expected)?;
                ended_by(&two, expected)?;
                disk.holds(0, &old)
            },
        ),
    ]
}
