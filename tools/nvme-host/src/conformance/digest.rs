//! Header and data digests.

use super::subject::{Disk, ended_by, terminated};
use super::{Case, Outcome, check, need};
use crate::wire::{Digests, Pdu, Spoil, flag, status};
use crate::{Error, Initialize, Transfer, commands};

const RULE: &str = "TCP Transport 1.1, 3.3.1.1 digests";
const HEADER_DIGEST: u16 = 3;
const HEADER_ONLY: Digests = Digests {
    header: true,
    data: false,
};
const DATA_ONLY: Digests = Digests {
    header: false,
    data: true,
};

/// Writes and reads in the capsule and by R2T.
fn works(mut disk: Disk) -> Outcome {
    for bytes in [4096, 65536, disk.max_transfer().min(1 << 20)] {
        let blocks = disk.blocks_of(bytes);
        let data = disk.pattern(u32::try_from(bytes).unwrap_or(1), blocks);
        disk.write(0, &data)?;
        disk.holds(0, &data)?;
    }
    disk.controller.identify()?;
    Ok(())
}

/// A spoilt data digest: a transient transport error, or the end of the connection; nothing is written.
fn survived(answer: Result<crate::Completion, Error>) -> Outcome {
    match answer {
        Ok(answer) => ended_by(&answer, &[status::TRANSIENT_TRANSPORT, status::TRANSFER_ERROR]),
        Err(Error::Terminated { .. } | Error::Closed) => Ok(()),
        Err(other) => Err(other.into()),
    }
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "digest.both",
            RULE,
            "writes and reads with both digests",
            "right digests, right data",
            |subject| works(subject.disk_digested(Digests::BOTH)?),
        ),
        Case::new(
            "digest.header-only",
            RULE,
            "writes and reads with header digests",
            "right digests, right data",
            |subject| works(subject.disk_digested(HEADER_ONLY)?),
        ),
        Case::new(
            "digest.data-only",
            RULE,
            "writes and reads with data digests",
            "right digests, right data",
            |subject| works(subject.disk_digested(DATA_ONLY)?),
        ),
        Case::new(
            "digest.both-with-alignment",
            RULE,
            "writes and reads with both digests and HPDA 15",
            "right digests, right data at multiples of 64",
            |subject| {
                let mut settings = subject.settings();
                settings.initialize = Initialize {
                    digests: Digests::BOTH,
                    alignment: 15,
                    max_r2t: 0,
                };
                match subject.tcp()?.initialize(settings.initialize) {
                    Err(Error::Terminated { .. }) => need!(false, "the target declines this alignment"),
                    Err(other) => return Err(other.into()),
                    Ok(agreed) => need!(agreed.digests == Digests::BOTH, "the target declines digests"),
                }
                works(subject.disk_with(&settings, &subject.host())?)
            },
        ),
        Case::new(
            "digest.wrong-header",
            RULE,
            "sends a capsule with a wrong header digest",
            "a C2HTermReq of a header digest error, then the end; others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut disk = subject.disk_digested(Digests::BOTH)?;
                let pdu = Pdu::command(&commands::flush(disk.nsid).command.id(9));
                disk.queue.connection.send_spoilt(
                    &pdu,
                    Spoil {
                        header_digest: true,
                        data_digest: false,
                    },
                )?;
                terminated(&mut disk.queue.connection, &[HEADER_DIGEST])?;
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "digest.missing-header",
            RULE,
            "sends a capsule without the header digest that was agreed on",
            "a C2HTermReq, then the end; others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut disk = subject.disk_digested(HEADER_ONLY)?;
                let pdu = Pdu::command(&commands::flush(disk.nsid).command.id(9));
                disk.queue.connection.send(&pdu.encode(Digests::NONE, 4))?;
                // What follows, so that a target that waits for the digest gets its bytes.
                disk.queue.connection.send(&[0; 8])?;
                terminated(&mut disk.queue.connection, &[1, HEADER_DIGEST])?;
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "digest.wrong-data-in-capsule",
            RULE,
            "writes in the capsule with a wrong data digest",
            "Transient Transport Error, or the end of the connection; the block is as it was",
            |subject| {
                let mut disk = subject.disk_digested(Digests::BOTH)?;
                let old = disk.pattern(1, 1);
                disk.write(0, &old)?;
                need!(disk.queue.in_capsule() >= disk.block_bytes, "no data in capsules");
                let command = commands::blocks_of(1, disk.nsid, 0, 1)
                    .described(crate::wire::Descriptor::in_capsule(0, disk.block_bytes as u32));
                // The queue must know the command: it is started with a flush's place in its table.
                let pdu = Pdu::command(&command.id(0x700)).with_data(&disk.pattern(2, 1));
                disk.queue.connection.send_spoilt(
                    &pdu,
                    Spoil {
                        header_digest: false,
                        data_digest: true,
                    },
                )?;
                disk.queue.expect(0x700);
                survived(disk.queue.wait(0x700))?;
                subject.disk()?.holds(0, &old)
            },
        ),
        Case::new(
            "digest.wrong-data-by-r2t",
            RULE,
            "answers an R2T with a wrong data digest",
            "Transient Transport Error, or the end of the connection; the block is as it was",
            |subject| {
                let mut disk = subject.disk_digested(Digests::BOTH)?;
                let blocks = disk.blocks_of(65536);
                let old = disk.pattern(1, blocks);
                disk.write(0, &old)?;
                let new = disk.pattern(2, blocks);
                let write = commands::write(disk.nsid, 0, blocks, Vec::new()).with(Transfer::WriteByR2t(new.clone()));
                disk.queue.submit(&write)?;
                let (id, tag, offset, length) = disk.queue.take_r2t()?;
                check!(
                    offset == 0 && length as usize == new.len(),
                    "the R2T asks for {length} bytes at {offset}"
                );
                let pdu = Pdu::host_data(id, tag, 0, &new).with_flags(flag::LAST);
                disk.queue.connection.send_spoilt(
                    &pdu,
                    Spoil {
                        header_digest: false,
                        data_digest: true,
                    },
                )?;
                disk.queue.expect_asked(id);
                survived(disk.queue.wait(id))?;
                subject.disk()?.holds(0, &old)
            },
        ),
    ]
}
