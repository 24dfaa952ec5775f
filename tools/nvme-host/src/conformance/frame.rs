//! The transport's frames: initialization, lengths, sequences, and the data that hosts send.

mod data;

use super::subject::{Disk, silent, terminated};
use super::{Case, Outcome, Subject, Verdict, check};
use crate::wire::{Digests, Header, Pdu, flag, icreq, kind};
use crate::{Connection, Error, Initialize, commands};

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
    cases.extend(data::host_data());
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
