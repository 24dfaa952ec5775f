//! The transport's frames: initialization, lengths, sequences, and the data that hosts send.

use super::subject::{Disk, ended, pattern, silent, terminated};
use super::{Case, Outcome, Subject, Verdict, check, need};
use crate::wire::{Digests, Header, Pdu, flag, icreq, kind};
use crate::{Connection, Error, Initialize, Transfer, commands};

const FATAL: &str = "TCP Transport 1.1, 3.5 error handling, and 3.6.2.5 C2HTermReq";
/// Fatal error statuses.
const HEADER_FIELD: u16 = 1;
const SEQUENCE: u16 = 2;
const OUT_OF_RANGE: u16 = 4;
const LIMIT: u16 = 5;
const UNSUPPORTED: u16 = 6;

/// The connection ends by a C2HTermReq, or is closed: before initialization a target may do either.
fn terminated_or_closed(connection: &mut Connection, expected: &[u16]) -> Outcome {
    match terminated(connection, expected) {
        Err(Verdict::Failed(why)) if why.contains("without a C2HTermReq") => Ok(()),
        other => other,
    }
}

/// Bytes that are sent first on a connection, and end it.
fn first(
    name: &str,
    does: &'static str,
    expected: &'static [u16],
    bytes: impl Fn() -> Vec<u8> + Send + Sync + 'static,
) -> Case {
    Case::new(
        format!("frame.{name}"),
        "TCP Transport 1.1, 3.4 initialization, 3.6.2.2 ICReq",
        does,
        format!("a C2HTermReq with FES {expected:?}, or the end of the connection; others go on"),
        move |subject| {
            let mut bystander = subject.controller()?;
            let mut connection = subject.tcp()?;
            connection.send(&bytes())?;
            terminated_or_closed(&mut connection, expected)?;
            bystander.identify()?;
            Ok(())
        },
    )
}

/// Bytes that are sent on an I/O queue, and end it with a C2HTermReq.
fn later(
    name: &str,
    does: &'static str,
    expected: &'static [u16],
    bytes: impl Fn(&Disk) -> Vec<u8> + Send + Sync + 'static,
) -> Case {
    Case::new(
        format!("frame.{name}"),
        FATAL,
        does,
        format!("a C2HTermReq with FES {expected:?}, then the end of the connection; others go on"),
        move |subject| {
            let mut bystander = subject.controller()?;
            let mut disk = subject.disk()?;
            let bytes = bytes(&disk);
            disk.queue.connection.send(&bytes)?;
            terminated(&mut disk.queue.connection, expected)?;
            bystander.identify()?;
            Ok(())
        },
    )
}

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

/// A header as it stands.
fn header(kind: u8, flags: u8, header_bytes: u8, data_offset: u8, bytes: u32) -> Vec<u8> {
    let mut header = vec![kind, flags, header_bytes, data_offset];
    header.extend_from_slice(&bytes.to_le_bytes());
    debug_assert!(Header::decode(&header).is_some());
    header
}

/// A header, with so many zeroes behind.
fn padded(mut header: Vec<u8>, bytes: usize) -> Vec<u8> {
    header.resize(bytes, 0);
    header
}

fn plain(pdu: &Pdu) -> Vec<u8> {
    pdu.encode(Digests::NONE, 4)
}

fn flush_pdu(disk: &Disk) -> Pdu {
    Pdu::command(&commands::flush(disk.nsid).command.id(900))
}

pub fn cases() -> Vec<Case> {
    let mut cases = initialization();
    cases.extend(frames());
    cases.extend(host_data());
    cases
}

fn initialization() -> Vec<Case> {
    const RULE: &str = "TCP Transport 1.1, 3.4 initialization, 3.6.2.2 ICReq and 3.6.2.3 ICResp";
    vec![
        Case::new(
            "frame.initialize",
            RULE,
            "sends an ICReq",
            "an ICResp of format 0, no digests, MAXH2CDATA of at least 4,096",
            |subject| {
                let agreed = subject.tcp()?.initialize(Initialize::default())?;
                check!(agreed.digests == Digests::NONE, "digests were not asked for");
                Ok(())
            },
        ),
        Case::new(
            "frame.initialize-in-pieces",
            RULE,
            "sends an ICReq byte by byte",
            "an ICResp after the last byte, nothing before",
            |subject| {
                let mut connection = subject.tcp()?;
                let bytes = plain(&icreq(0, 0, 0, 0));
                for byte in &bytes[..127] {
                    connection.send(&[*byte])?;
                }
                silent(&mut connection, subject.options().silence)?;
                connection.send(&bytes[127..])?;
                let answer = connection.next()?;
                connection.initialized(&answer, Initialize::default())?;
                Ok(())
            },
        ),
        Case::new(
            "frame.host-alignment",
            RULE,
            "asks for data aligned to 64 bytes (HPDA 15) and reads",
            "data that begin at a multiple of 64, or a C2HTermReq of an unsupported parameter",
            |subject| aligned(subject, 15),
        ),
        Case::new(
            "frame.host-alignment-largest",
            RULE,
            "asks for data aligned to 128 bytes (HPDA 31) and reads",
            "data that begin at a multiple of 128, or a C2HTermReq of an unsupported parameter",
            |subject| aligned(subject, 31),
        ),
        first(
            "initialize-format",
            "sends an ICReq of format 1",
            &[UNSUPPORTED, HEADER_FIELD],
            || plain(&icreq(1, 0, 0, 0)),
        ),
        first(
            "initialize-alignment",
            "sends an ICReq with HPDA 32",
            &[UNSUPPORTED, HEADER_FIELD],
            || plain(&icreq(0, 32, 0, 0)),
        ),
        first(
            "initialize-short",
            "sends an ICReq of 64 bytes",
            &[HEADER_FIELD],
            || padded(header(kind::IC_REQ, 0, 64, 0, 64), 64),
        ),
        first(
            "initialize-header-length",
            "sends an ICReq with HLEN 72",
            &[HEADER_FIELD],
            || padded(header(kind::IC_REQ, 0, 72, 0, 128), 128),
        ),
        first(
            "initialize-length",
            "sends an ICReq with PLEN 132",
            &[HEADER_FIELD],
            || padded(header(kind::IC_REQ, 0, 128, 0, 132), 132),
        ),
        first(
            "initialize-endless",
            "sends an ICReq with PLEN FFFFFFFFh",
            &[HEADER_FIELD],
            || padded(header(kind::IC_REQ, 0, 128, 0, u32::MAX), 256),
        ),
        first(
            "command-first",
            "sends a command capsule before an ICReq",
            &[SEQUENCE, HEADER_FIELD],
            || padded(header(kind::CAPSULE_CMD, 0, 72, 0, 72), 128),
        ),
        first(
            "data-first",
            "sends an H2CData before an ICReq",
            &[SEQUENCE, HEADER_FIELD],
            || padded(header(kind::H2C_DATA, 0, 24, 24, 128), 128),
        ),
        first(
            "unknown-first",
            "sends a PDU of type 55h before an ICReq",
            &[SEQUENCE, HEADER_FIELD],
            || padded(header(0x55, 0, 128, 0, 128), 128),
        ),
        first("no-nvme", "sends an HTTP request", &[SEQUENCE, HEADER_FIELD], || {
            let mut text = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec();
            text.resize(256, b' ');
            text
        }),
        Case::new(
            "frame.initialize-twice",
            "TCP Transport 1.1, 3.4 initialization",
            "sends a second ICReq",
            "a C2HTermReq of a sequence error, then the end",
            |subject| {
                let mut queue = subject.initialized()?;
                queue.connection.send(&plain(&icreq(0, 0, 0, 0)))?;
                terminated(&mut queue.connection, &[SEQUENCE])
            },
        ),
        Case::new(
            "frame.closed-before-anything",
            RULE,
            "opens a connection and closes it, half-closes another, twenty times",
            "others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                for _ in 0..20 {
                    drop(subject.tcp()?);
                    let mut half = subject.tcp()?;
                    half.send(&plain(&icreq(0, 0, 0, 0))[..50])?;
                    half.finish()?;
                }
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "frame.half-closed",
            RULE,
            "initializes, and says that nothing more will come",
            "the target closes",
            |subject| {
                let mut queue = subject.initialized()?;
                queue.connection.finish()?;
                Ok(queue.connection.wait_closed()?)
            },
        ),
    ]
}

/// Reads a few blocks with data aligned as HPDA says.
fn aligned(subject: &Subject, alignment: u8) -> Outcome {
    let mut settings = subject.settings();
    settings.initialize.alignment = alignment;
    let mut probe = subject.tcp()?;
    match probe.initialize(settings.initialize) {
        Err(Error::Terminated { fatal: UNSUPPORTED, .. }) => return Ok(()),
        Err(other) => return Err(other.into()),
        Ok(_) => {}
    }
    let mut disk = subject.disk_with(&settings, &subject.host())?;
    let data = disk.pattern(5, 8);
    disk.write(0, &data)?;
    disk.holds(0, &data)
}

fn frames() -> Vec<Case> {
    vec![
        later("unknown-type", "sends a PDU of type 55h", &[HEADER_FIELD], |_| {
            padded(header(0x55, 0, 72, 0, 72), 72)
        }),
        later(
            "targets-type",
            "sends a CapsuleResp, which is the target's",
            &[HEADER_FIELD, SEQUENCE],
            |_| padded(header(kind::CAPSULE_RESP, 0, 24, 0, 24), 24),
        ),
        later(
            "targets-r2t",
            "sends an R2T, which is the target's",
            &[HEADER_FIELD, SEQUENCE],
            |_| padded(header(kind::R2T, 0, 24, 0, 24), 24),
        ),
        later(
            "command-header-length",
            "sends a capsule with HLEN 64",
            &[HEADER_FIELD],
            |_| padded(header(kind::CAPSULE_CMD, 0, 64, 0, 72), 72),
        ),
        later(
            "command-header-longer",
            "sends a capsule with HLEN 80",
            &[HEADER_FIELD],
            |_| padded(header(kind::CAPSULE_CMD, 0, 80, 0, 80), 80),
        ),
        later(
            "command-too-short",
            "sends a capsule with PLEN 40",
            &[HEADER_FIELD],
            |_| padded(header(kind::CAPSULE_CMD, 0, 72, 0, 40), 72),
        ),
        later(
            "command-length-zero",
            "sends a capsule with PLEN 0",
            &[HEADER_FIELD],
            |_| padded(header(kind::CAPSULE_CMD, 0, 72, 0, 0), 72),
        ),
        later(
            "command-endless",
            "sends a capsule with PLEN FFFFFFFFh",
            &[HEADER_FIELD, OUT_OF_RANGE, LIMIT],
            |_| padded(header(kind::CAPSULE_CMD, 0, 72, 72, u32::MAX), 128),
        ),
        later(
            "command-data-offset-inside",
            "sends a capsule with data whose PDO points into the header",
            &[HEADER_FIELD],
            |disk| {
                let mut bytes = plain(&flush_pdu(disk).with_data(&[0; 512]));
                bytes[3] = 24;
                bytes
            },
        ),
        later(
            "command-data-offset-beyond",
            "sends a capsule with data whose PDO points beyond its end",
            &[HEADER_FIELD],
            |disk| {
                let mut bytes = plain(&flush_pdu(disk).with_data(&[0; 8]));
                bytes[3] = 200;
                bytes
            },
        ),
        later(
            "digest-not-agreed",
            "sends a capsule with a header digest that was not agreed on",
            &[HEADER_FIELD],
            |disk| {
                flush_pdu(disk).encode(
                    Digests {
                        header: true,
                        data: false,
                    },
                    4,
                )
            },
        ),
        later(
            "data-unasked",
            "sends an H2CData that no R2T asked for",
            &[SEQUENCE, HEADER_FIELD, OUT_OF_RANGE],
            |_| plain(&Pdu::host_data(1, 0, 0, &[0; 512]).with_flags(flag::LAST)),
        ),
        Case::new(
            "frame.terminated-by-host",
            "TCP Transport 1.1, 3.6.2.4 H2CTermReq",
            "sends an H2CTermReq",
            "the target closes without another PDU; others go on",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut disk = subject.disk()?;
                let mut specific = vec![0; 16];
                specific[0] = 2;
                let pdu = Pdu::new(kind::H2C_TERM_REQ, specific).with_data(&[0; 24]);
                disk.queue.connection.send(&plain(&pdu))?;
                match disk.queue.connection.next() {
                    Err(Error::Closed) => {}
                    Err(other) => return Err(other.into()),
                    Ok(pdu) => return Err(Verdict::Failed(format!("it answered {pdu:?}"))),
                }
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "frame.many-in-one-segment",
            "TCP Transport 1.1, 3.2: a stream of PDUs",
            "sends sixty commands, some with data, with one send, and again cut into pieces of 37 bytes",
            "all end well",
            |subject| {
                let mut disk = subject.disk()?;
                let data = disk.pattern(3, 1);
                let requests: Vec<_> = (0..60)
                    .map(|n| match n % 3 {
                        0 => commands::write(disk.nsid, n, 1, data.clone()),
                        1 => commands::flush(disk.nsid),
                        _ => commands::read(disk.nsid, 100 + n, 1, disk.block_bytes),
                    })
                    .collect();
                disk.queue.submit_all(&requests)?;
                for _ in 0..60 {
                    disk.queue.poll()?.good("a command of a batch")?;
                }
                let mut bytes = Vec::new();
                for n in 0..10u16 {
                    let command = commands::blocks_of(2, disk.nsid, u64::from(n), 1)
                        .id(n)
                        .described(crate::wire::Descriptor::transport(disk.block_bytes as u32));
                    bytes.extend_from_slice(
                        &disk
                            .queue
                            .connection
                            .encode(&Pdu::command(&command), Default::default()),
                    );
                }
                for piece in bytes.chunks(37) {
                    disk.queue.connection.send(piece)?;
                }
                let mut ended = 0;
                while ended < 10 {
                    let pdu = disk.queue.connection.next()?;
                    let last = pdu.kind == kind::CAPSULE_RESP || pdu.flags & flag::SUCCESS != 0;
                    ended += u32::from(last);
                }
                Ok(())
            },
        ),
    ]
}

fn host_data() -> Vec<Case> {
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
