//! The data that hosts send, right and wrong.

use super::super::subject::{Disk, ended, pattern, terminated};
use super::super::{Case, Outcome, Subject, check, need};
use super::{HEADER_FIELD, LIMIT, OUT_OF_RANGE, SEQUENCE, plain};
use crate::wire::{Pdu, flag, kind};
use crate::{Error, Transfer, commands};

/// A write by R2T whose data are wrong.
fn data(
    name: &str,
    does: &'static str,
    expected: &'static [u16],
    bytes: impl Fn(&Disk, u16, u16, u32, u32) -> Vec<u8> + Send + Sync + 'static,
) -> Case {
    Case::new(
        format!("frame.data-{name}"),
        "TCP Transport 1.1, 3.6.2.8 H2CData",
        does,
        format!("a C2HTermReq with FES {expected:?}, then the end of the connection; the block is as it was"),
        move |subject| {
            let mut disk = subject.disk()?;
            let blocks = disk.blocks_of(65536);
            let old = disk.pattern(77, blocks);
            disk.write(0, &old)?;
            let new = disk.pattern(78, blocks);
            disk.queue
                .submit(&commands::write(disk.nsid, 0, blocks, Vec::new()).with(Transfer::WriteByR2t(new)))?;
            let (id, tag, offset, length) = disk.queue.take_r2t()?;
            let bytes = bytes(&disk, id, tag, offset, length);
            disk.queue.connection.send(&bytes)?;
            terminated(&mut disk.queue.connection, expected)?;
            subject.disk()?.holds(0, &old)
        },
    )
}

pub fn host_data() -> Vec<Case> {
    let last = |pdu: Pdu| plain(&pdu.with_flags(flag::LAST));
    vec![
        data(
            "wrong-tag",
            "answers an R2T with another transfer tag",
            &[HEADER_FIELD, SEQUENCE],
            move |_, id, tag, offset, length| {
                last(Pdu::host_data(
                    id,
                    tag.wrapping_add(77),
                    offset,
                    &pattern(1, length as usize),
                ))
            },
        ),
        data(
            "wrong-command",
            "answers an R2T with another command's identifier",
            &[HEADER_FIELD, SEQUENCE],
            move |_, id, tag, offset, length| {
                last(Pdu::host_data(
                    id.wrapping_add(77),
                    tag,
                    offset,
                    &pattern(1, length as usize),
                ))
            },
        ),
        data(
            "wrong-offset",
            "answers an R2T with an offset that it did not ask for",
            &[OUT_OF_RANGE, SEQUENCE, HEADER_FIELD],
            move |_, id, tag, offset, length| {
                last(Pdu::host_data(
                    id,
                    tag,
                    offset + 512,
                    &pattern(1, length as usize - 512),
                ))
            },
        ),
        data(
            "too-much",
            "answers an R2T with more than it asked for",
            &[OUT_OF_RANGE, LIMIT, HEADER_FIELD],
            move |_, id, tag, offset, length| last(Pdu::host_data(id, tag, offset, &pattern(1, length as usize + 512))),
        ),
        data(
            "length-not-of-frame",
            "answers an R2T with a DATAL that is not what the PDU holds",
            &[HEADER_FIELD, OUT_OF_RANGE],
            move |_, id, tag, offset, length| {
                let mut bytes = last(Pdu::host_data(id, tag, offset, &pattern(1, length as usize)));
                bytes[16..20].copy_from_slice(&(length - 512).to_le_bytes());
                bytes
            },
        ),
        data(
            "header-length",
            "answers an R2T with HLEN 20",
            &[HEADER_FIELD],
            move |_, id, tag, offset, length| {
                let mut bytes = last(Pdu::host_data(id, tag, offset, &pattern(1, length as usize)));
                bytes[2] = 20;
                bytes
            },
        ),
        data(
            "offset-twice",
            "answers an R2T with the same half twice",
            &[OUT_OF_RANGE, HEADER_FIELD, SEQUENCE],
            move |_, id, tag, offset, length| {
                let half = Pdu::host_data(id, tag, offset, &pattern(1, length as usize / 2));
                let mut bytes = plain(&half);
                bytes.extend(last(half));
                bytes
            },
        ),
        Case::new(
            "frame.data-in-pieces",
            "TCP Transport 1.1, 3.6.2.8 H2CData",
            "answers an R2T with PDUs of 512 bytes",
            "the write succeeds and is read back",
            |subject| {
                let mut disk = subject.disk()?;
                let blocks = disk.blocks_of(65536);
                let new = disk.pattern(80, blocks);
                let request = commands::write(disk.nsid, 0, blocks, Vec::new()).with(Transfer::WriteByR2t(new.clone()));
                disk.queue.submit(&request)?;
                let (id, tag, offset, length) = disk.queue.take_r2t()?;
                need!(
                    offset == 0 && length as usize == new.len(),
                    "the target asks in pieces itself"
                );
                let mut bytes = Vec::new();
                for (n, piece) in new.chunks(512).enumerate() {
                    let flags = if (n + 1) * 512 == new.len() { flag::LAST } else { 0 };
                    let at = u32::try_from(n * 512).unwrap_or(0);
                    bytes.extend(plain(&Pdu::host_data(id, tag, at, piece).with_flags(flags)));
                }
                disk.queue.connection.send(&bytes)?;
                let answer = disk.queue.connection.next()?;
                check!(answer.kind == kind::CAPSULE_RESP, "it answered {answer:?}");
                check!(answer.u16_at(8 + 14) >> 1 == 0, "the write failed");
                subject.disk()?.holds(0, &new)
            },
        ),
        Case::new(
            "frame.data-slowly",
            "TCP Transport 1.1, 3.6.2.8 H2CData",
            "answers an R2T in two halves with other commands between",
            "the other commands end first, the write succeeds",
            |subject| {
                let mut disk = subject.disk()?;
                let blocks = disk.blocks_of(65536);
                let new = disk.pattern(81, blocks);
                let request = commands::write(disk.nsid, 0, blocks, Vec::new()).with(Transfer::WriteByR2t(new.clone()));
                disk.queue.submit(&request)?;
                let (id, tag, offset, length) = disk.queue.take_r2t()?;
                need!(
                    offset == 0 && length as usize == new.len(),
                    "the target asks in pieces itself"
                );
                let half = new.len() / 2;
                disk.queue
                    .connection
                    .send(&plain(&Pdu::host_data(id, tag, 0, &new[..half])))?;
                let other = disk
                    .queue
                    .submit(&commands::read(disk.nsid, 1000, 1, disk.block_bytes))?;
                let done = disk.queue.poll()?;
                check!(done.id == other, "the write ended with half of its data");
                let rest = Pdu::host_data(id, tag, u32::try_from(half).unwrap_or(0), &new[half..]);
                disk.queue.connection.send(&plain(&rest.with_flags(flag::LAST)))?;
                let answer = disk.queue.connection.next()?;
                check!(answer.kind == kind::CAPSULE_RESP, "it answered {answer:?}");
                disk_holds(subject, &new)
            },
        ),
        Case::new(
            "frame.data-abandoned",
            "TCP Transport 1.1, 3.6.2.10 R2T",
            "closes the connection with R2Ts unanswered, twenty times",
            "the target works on, and the blocks are as they were",
            |subject| {
                let mut first = subject.disk()?;
                let blocks = first.blocks_of(65536);
                let old = first.pattern(82, blocks);
                first.write(0, &old)?;
                for _ in 0..20 {
                    let mut disk = subject.disk()?;
                    let write = commands::write(disk.nsid, 0, blocks, Vec::new());
                    disk.queue
                        .submit(&write.with(Transfer::WriteByR2t(first.pattern(83, blocks))))?;
                    disk.queue.take_r2t()?;
                }
                first.holds(0, &old)
            },
        ),
        Case::new(
            "frame.in-capsule-beyond-limit",
            "TCP Transport 1.1, 3.3.2; NVMe Base 2.1, 4.3.2: IOCCSZ",
            "sends data in a capsule that is larger than IOCCSZ says",
            "SGL Offset or Length Invalid, or a C2HTermReq; others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut disk = subject.disk()?;
                let bytes = disk.queue.in_capsule() + 4096;
                let blocks = disk.blocks_of(bytes);
                let new = disk.pattern(84, blocks);
                let write = commands::write(disk.nsid, 0, blocks, Vec::new());
                match disk.queue.call(&write.with(Transfer::WriteInCapsule(new))) {
                    Ok(answer) => check!(!answer.status.is_success(), "it succeeded"),
                    Err(Error::Terminated { .. } | Error::Closed) => {}
                    Err(other) => return Err(other.into()),
                }
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "frame.in-capsule-not-allowed",
            "NVMe Base 2.1, 4.3.2: the descriptor says where the data are",
            "sends a write whose descriptor promises data in the capsule that are not there",
            "an error or the end of the connection, no R2T",
            |subject| {
                let mut disk = subject.disk()?;
                let bytes = u32::try_from(disk.block_bytes).unwrap_or(0);
                let write = commands::write(disk.nsid, 0, 1, Vec::new())
                    .with(Transfer::None)
                    .descriptor(crate::wire::Descriptor::in_capsule(0, bytes));
                match disk.queue.call(&write) {
                    Ok(answer) => check!(!answer.status.is_success(), "it succeeded"),
                    Err(Error::Terminated { .. } | Error::Closed) => {}
                    Err(other) => return Err(other.into()),
                }
                Ok(())
            },
        ),
        Case::new(
            "frame.same-identifier-twice",
            "NVMe Base 2.1, 3.3.3.1: an identifier is unique among the commands in flight",
            "starts a write by R2T and another command under the same identifier",
            "Command ID Conflict, a C2HTermReq, or both carried out; others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut disk = subject.disk()?;
                let blocks = disk.blocks_of(65536);
                let data = disk.pattern(85, blocks);
                let write = commands::write(disk.nsid, 0, blocks, Vec::new()).with(Transfer::WriteByR2t(data));
                disk.queue.submit_as(&write, 7)?;
                disk.queue.take_r2t()?;
                disk.queue.expect_asked(7);
                disk.queue.submit_as(&commands::flush(disk.nsid), 7)?;
                match disk.queue.poll() {
                    Ok(answer) if answer.status.is_success() => {}
                    Ok(answer) => ended(&answer, crate::wire::status::ID_CONFLICT)?,
                    Err(Error::Terminated { .. } | Error::Closed) => {}
                    Err(other) => return Err(other.into()),
                }
                bystander.identify()?;
                Ok(())
            },
        ),
    ]
}

fn disk_holds(subject: &Subject, data: &[u8]) -> Outcome {
    subject.disk()?.holds(0, data)
}
