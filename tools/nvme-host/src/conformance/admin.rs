//! Identify, Keep Alive, Abort, and what an admin queue refuses.

use super::subject::{ended, ended_by, refused};
use super::{Case, Outcome, Subject, Verdict, check, need};
use crate::structures::{namespaces_of, text};
use crate::wire::{Command, Descriptor, admin, status, u32_at};
use crate::{Completion, Request, Transfer, commands};

const RULE: &str = "NVMe Base 2.1, 5.1.13 Identify";

/// An admin command that is refused; the queue works on.
fn bad(
    name: &str,
    rule: &'static str,
    does: &'static str,
    expected: &'static [u16],
    request: impl Fn(&Subject, &mut crate::Controller) -> Result<Request, Verdict> + Send + Sync + 'static,
) -> Case {
    let names: Vec<String> = expected.iter().map(|&number| status::name(number)).collect();
    Case::new(
        format!("admin.{name}"),
        rule,
        does,
        names.join(" or "),
        move |subject| {
            let mut controller = subject.controller()?;
            let request = request(subject, &mut controller)?;
            refused(&mut controller.admin, &request, expected)?;
            controller.identify()?;
            Ok(())
        },
    )
}

fn printable(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// The answer is an identify structure, or says that there is none of this kind.
pub(super) fn optional(answer: Completion) -> Result<Vec<u8>, Verdict> {
    if answer.status.is_success() {
        return Ok(answer.data);
    }
    ended_by(&answer, &[status::INVALID_FIELD, status::SET_NOT_SUPPORTED])?;
    Err(Verdict::Skipped("the controller has not this structure".into()))
}

fn identities() -> Vec<Case> {
    vec![
        Case::new(
            "admin.identify-controller",
            "NVMe Base 2.1, 5.1.13.2.1 Identify Controller",
            "identifies the controller",
            "names in ASCII, entry sizes of the NVM command set, the subsystem's NQN, SGLs, fabrics' fields",
            |subject| {
                let identity = subject.controller()?.identify()?;
                check!(printable(&identity.text(4, 20)), "SN is {:?}", identity.text(4, 20));
                check!(printable(&identity.text(24, 40)), "MN is {:?}", identity.text(24, 40));
                check!(printable(&identity.text(64, 8)), "FR is {:?}", identity.text(64, 8));
                check!(identity.byte(512) & 15 == 6, "SQES is {:#x}", identity.byte(512));
                check!(identity.byte(513) & 15 == 4, "CQES is {:#x}", identity.byte(513));
                check!(identity.dword(516) >= 1, "NN is 0");
                let nqn = text(&identity.0[768..1024]);
                check!(nqn == subject.options().nqn, "SUBNQN is {nqn:?}");
                check!(identity.dword(536) & 3 != 0, "SGLS says that there are no SGLs");
                check!(identity.dword(536) >> 20 & 1 == 1, "SGLS has no offsets in capsules");
                check!(identity.dword(1792) >= 4, "IOCCSZ is {}", identity.dword(1792));
                check!(identity.dword(1796) >= 1, "IORCSZ is {}", identity.dword(1796));
                check!(identity.byte(1803) >= 1, "MSDBD is {}", identity.byte(1803));
                check!(
                    matches!(identity.byte(111), 0 | 1),
                    "CNTRLTYPE is {}",
                    identity.byte(111)
                );
                check!(identity.word(514) >= 1 || identity.dword(80) < 0x1_0201, "MAXCMD is 0");
                check!(
                    identity.word(320) >= 1,
                    "KAS is 0: Keep Alive is mandatory over fabrics"
                );
                Ok(())
            },
        ),
        Case::new(
            "admin.identify-namespace",
            "NVM Command Set 1.1, 4.1.5.1 Identify Namespace",
            "identifies the namespace",
            "a size, NUSE <= NCAP <= NSZE, a format that is there, no metadata",
            |subject| {
                let disk = subject.disk()?;
                let namespace = &disk.namespace;
                let (size, capacity, used) = (
                    namespace.blocks(),
                    crate::wire::u64_at(&namespace.0, 8),
                    crate::wire::u64_at(&namespace.0, 16),
                );
                check!(
                    used <= capacity && capacity <= size,
                    "NSZE {size}, NCAP {capacity}, NUSE {used}"
                );
                let format = namespace.byte(26) & 15;
                check!(
                    format <= namespace.byte(25),
                    "FLBAS is {format}, NLBAF {}",
                    namespace.byte(25)
                );
                check!(matches!(disk.block_bytes, 512 | 4096), "blocks of {}", disk.block_bytes);
                check!(
                    namespace.dword(128 + 4 * usize::from(format)) & 0xffff == 0,
                    "the format has metadata"
                );
                Ok(())
            },
        ),
        Case::new(
            "admin.active-namespaces",
            RULE,
            "lists the namespaces, from each number on",
            "numbers that rise, within NN; what is listed has a size",
            |subject| {
                let mut controller = subject.controller()?;
                let all = controller.namespaces()?;
                let highest = controller.identify()?.dword(516);
                check!(!all.is_empty(), "the list is empty");
                check!(
                    all.windows(2).all(|pair| pair[0] < pair[1]),
                    "the list does not rise: {all:?}"
                );
                check!(
                    all.iter().all(|&nsid| nsid <= highest),
                    "a number is beyond NN ({highest}): {all:?}"
                );
                for &nsid in all.iter().take(8) {
                    check!(
                        controller.namespace(nsid)?.blocks() > 0,
                        "namespace {nsid} has no blocks"
                    );
                    let after = namespaces_of(&controller.call(&commands::identify(2, nsid))?.good("Identify")?.data);
                    let due: Vec<u32> = all.iter().copied().filter(|&other| other > nsid).collect();
                    check!(after == due, "after {nsid} there are {after:?}, not {due:?}");
                }
                Ok(())
            },
        ),
        Case::new(
            "admin.identify-absent-namespace",
            "NVMe Base 2.1, 5.1.13.2: an inactive namespace is all zeroes",
            "identifies a number within NN that no namespace has",
            "a structure of zeroes",
            |subject| {
                let mut controller = subject.controller()?;
                let absent = subject.absent_nsid(&mut controller)?;
                let data = controller
                    .call(&commands::identify(0, absent))?
                    .good("Identify Namespace")?
                    .data;
                check!(data.iter().all(|&byte| byte == 0), "the structure is not of zeroes");
                Ok(())
            },
        ),
        Case::new(
            "admin.namespace-descriptors",
            "NVMe Base 2.1, 5.1.13.2.3 Namespace Identification Descriptor list",
            "reads the list of identifiers",
            "at least one of EUI64, NGUID and UUID with its length, the same as in Identify Namespace",
            |subject| {
                let mut disk = subject.disk()?;
                let data = disk
                    .controller
                    .call(&commands::identify(3, disk.nsid))?
                    .good("Identify")?
                    .data;
                let (mut at, mut found) = (0, 0);
                while at + 4 <= data.len() && data[at] != 0 {
                    let (kind, length) = (data[at], usize::from(data[at + 1]));
                    let due = match kind {
                        1 => 8,
                        2 | 3 => 16,
                        4 => 1,
                        other => return Err(Verdict::Failed(format!("a descriptor of type {other}"))),
                    };
                    check!(length == due, "the descriptor of type {kind} has {length} bytes");
                    let value = &data[at + 4..at + 4 + length];
                    check!(kind == 4 || value.iter().any(|&byte| byte != 0), "type {kind} is zero");
                    if kind == 2 {
                        check!(
                            value == &disk.namespace.0[104..120],
                            "NGUID is another in Identify Namespace"
                        );
                    }
                    found += u32::from(kind != 4);
                    at += 4 + length;
                }
                check!(found > 0, "there is no identifier");
                Ok(())
            },
        ),
        Case::new(
            "admin.independent-namespace",
            "NVMe Base 2.1, 5.1.13.2.8: CNS 08h",
            "reads the I/O command set independent structure",
            "it agrees with Identify Namespace, and says that the namespace is ready",
            |subject| {
                let mut disk = subject.disk()?;
                let data = optional(disk.controller.call(&commands::identify(8, disk.nsid))?)?;
                check!(data[1] == disk.namespace.byte(30), "NMIC is {:#x}", data[1]);
                check!(data[2] == disk.namespace.byte(31), "RESCAP is {:#x}", data[2]);
                check!(
                    u32_at(&data, 4) == disk.namespace.dword(92),
                    "ANAGRPID is {}",
                    u32_at(&data, 4)
                );
                check!(data[14] & 1 == 1, "NSTAT says that it is not ready");
                Ok(())
            },
        ),
        Case::new(
            "admin.set-specific-namespace",
            "NVM Command Set 1.1, 4.1.5.2: CNS 05h",
            "reads the NVM command set's own structure of the namespace",
            "the structure, or Invalid Field",
            |subject| {
                let mut disk = subject.disk()?;
                optional(disk.controller.call(&commands::identify(5, disk.nsid))?)?;
                Ok(())
            },
        ),
        Case::new(
            "admin.set-specific-controller",
            "NVM Command Set 1.1, 4.1.5.4: CNS 06h",
            "reads the NVM command set's own structure of the controller",
            "the structure, or Invalid Field",
            |subject| {
                optional(subject.controller()?.call(&commands::identify(6, 0))?)?;
                Ok(())
            },
        ),
    ]
}

fn keep_alive_and_abort() -> Vec<Case> {
    vec![
        Case::new(
            "admin.keep-alive",
            "NVMe Base 2.1, 5.1.14 Keep Alive",
            "sends Keep Alive five times",
            "success",
            |subject| {
                let mut controller = subject.controller()?;
                for _ in 0..5 {
                    controller.call(&commands::keep_alive())?.good("Keep Alive")?;
                }
                Ok(())
            },
        ),
        Case::new(
            "admin.abort-unknown",
            "NVMe Base 2.1, 5.1.1 Abort",
            "aborts a command that is not there",
            "success with bit 0 set: it was not aborted",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::abort(0, 0x4321))?.good("Abort")?;
                check!(answer.dword() & 1 == 1, "dword 0 is {:#x}", answer.dword());
                Ok(())
            },
        ),
        Case::new(
            "admin.abort-event-request",
            "NVMe Base 2.1, 5.1.1 Abort",
            "aborts an Asynchronous Event Request that is outstanding",
            "bit 0 clear and the request ends with Command Abort Requested; or bit 0 set and it stays",
            |subject| {
                let mut controller = subject.controller()?;
                let event = controller.ask_for_event()?;
                let answer = controller.call(&commands::abort(0, event))?.good("Abort")?;
                if answer.dword() & 1 == 0 {
                    ended(&controller.admin.wait(event)?, status::ABORTED)?;
                }
                controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "admin.abort-unknown-queue",
            "NVMe Base 2.1, 5.1.1 Abort",
            "aborts a command of a queue that is not there",
            "success with bit 0 set, or Invalid Field",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::abort(999, 1))?;
                ended_by(&answer, &[status::SUCCESS, status::INVALID_FIELD])?;
                check!(
                    !answer.status.is_success() || answer.dword() & 1 == 1,
                    "it says that it aborted"
                );
                Ok(())
            },
        ),
    ]
}

fn faults() -> Vec<Case> {
    const SGL: &str = "NVMe Base 2.1, 4.3.2 SGLs; 3.3.3.1 PSDT";
    vec![
        bad(
            "identify-unknown",
            RULE,
            "asks for CNS FEh",
            &[status::INVALID_FIELD],
            |_, _| Ok(commands::identify(0xfe, 0)),
        ),
        bad(
            "identify-namespace-zero",
            "NVMe Base 2.1, 5.1.13, 3.2.1.2",
            "identifies namespace 0",
            &[status::INVALID_NAMESPACE],
            |_, _| Ok(commands::identify(0, 0)),
        ),
        bad(
            "identify-beyond-highest",
            "NVMe Base 2.1, 5.1.13, 3.2.1.2",
            "identifies a namespace beyond NN",
            &[status::INVALID_NAMESPACE],
            |_, controller| {
                let highest = controller.identify()?.dword(516);
                need!(highest < 0xffff_fff0, "NN leaves no number beyond");
                Ok(commands::identify(0, highest + 1))
            },
        ),
        bad(
            "identify-all-namespaces",
            "NVMe Base 2.1, 5.1.13: FFFFFFFFh is for namespace management",
            "identifies namespace FFFFFFFFh",
            &[status::INVALID_NAMESPACE, status::SUCCESS],
            |_, _| Ok(commands::identify(0, u32::MAX)),
        ),
        bad(
            "list-after-reserved",
            "NVMe Base 2.1, 5.1.13.2.2: CNS 02h",
            "lists the namespaces after FFFFFFFEh",
            &[status::INVALID_NAMESPACE],
            |_, _| Ok(commands::identify(2, 0xffff_fffe)),
        ),
        bad(
            "list-after-all",
            "NVMe Base 2.1, 5.1.13.2.2: CNS 02h",
            "lists the namespaces after FFFFFFFFh",
            &[status::INVALID_NAMESPACE],
            |_, _| Ok(commands::identify(2, u32::MAX)),
        ),
        bad(
            "descriptors-of-absent",
            "NVMe Base 2.1, 5.1.13.2.3: CNS 03h",
            "reads the identifiers of a number that no namespace has",
            &[status::INVALID_NAMESPACE],
            |subject, controller| Ok(commands::identify(3, subject.absent_nsid(controller)?)),
        ),
        bad(
            "descriptors-of-all",
            "NVMe Base 2.1, 5.1.13.2.3: CNS 03h",
            "reads the identifiers of namespace FFFFFFFFh",
            &[status::INVALID_NAMESPACE],
            |_, _| Ok(commands::identify(3, u32::MAX)),
        ),
        bad(
            "unknown-opcode",
            "NVMe Base 2.1, 4.2.3.1",
            "sends admin opcode 7Dh",
            &[status::INVALID_OPCODE],
            |_, _| Ok(Request::new(Command::new(0x7d))),
        ),
        bad(
            "vendor-opcode",
            "NVMe Base 2.1, 4.2.3.1",
            "sends admin opcode C5h, a vendor's",
            &[status::INVALID_OPCODE],
            |_, _| Ok(Request::new(Command::new(0xc5))),
        ),
        bad(
            "format",
            "NVMe Base 2.1, 5.1.10 Format NVM: OACS",
            "formats, where OACS says that it cannot",
            &[status::INVALID_OPCODE],
            |_, controller| {
                need!(
                    controller.identify()?.word(256) >> 1 & 1 == 0,
                    "OACS has Format NVM: not tried"
                );
                Ok(Request::new(Command::new(admin::FORMAT_NVM).namespace(u32::MAX)))
            },
        ),
        bad(
            "firmware",
            "NVMe Base 2.1, 5.1.8 Firmware Commit: OACS",
            "commits firmware, where OACS says that it cannot",
            &[status::INVALID_OPCODE],
            |_, controller| {
                need!(
                    controller.identify()?.word(256) >> 2 & 1 == 0,
                    "OACS has firmware: not tried"
                );
                Ok(Request::new(Command::new(admin::FIRMWARE_COMMIT)))
            },
        ),
        bad(
            "prp",
            SGL,
            "identifies with PSDT 00b (PRPs)",
            &[status::INVALID_FIELD, status::SGL_TYPE],
            |_, _| Ok(commands::identify(1, 0).map(|command| command.byte(1, 0))),
        ),
        bad(
            "psdt-reserved",
            SGL,
            "identifies with PSDT 11b",
            &[status::INVALID_FIELD, status::SGL_TYPE],
            |_, _| Ok(commands::identify(1, 0).map(|command| command.byte(1, 0xc0))),
        ),
        bad(
            "fused",
            "NVMe Base 2.1, 3.4.2 fused operations: not of admin commands",
            "identifies as the first of a fused pair",
            &[status::INVALID_FIELD, status::MISSING_FUSED],
            |_, _| Ok(commands::identify(1, 0).map(|command| command.fused(1))),
        ),
        bad(
            "sgl-type",
            SGL,
            "identifies with a keyed descriptor",
            &[status::SGL_TYPE, status::INVALID_FIELD],
            |_, _| {
                Ok(commands::identify(1, 0).descriptor(Descriptor {
                    address: 0,
                    length: 4096,
                    kind: 0x40,
                }))
            },
        ),
        bad(
            "sgl-segment",
            SGL,
            "identifies with a segment descriptor",
            &[
                status::SGL_TYPE,
                status::INVALID_SEGMENT,
                status::INVALID_COUNT,
                status::INVALID_FIELD,
            ],
            |_, _| {
                Ok(commands::identify(1, 0).descriptor(Descriptor {
                    address: 0,
                    length: 16,
                    kind: 0x20,
                }))
            },
        ),
        bad(
            "identify-short",
            "NVMe Base 2.1, 4.3.2: the length is that of the data",
            "identifies with a descriptor of 512 bytes",
            &[status::SGL_LENGTH, status::INVALID_FIELD],
            |_, _| Ok(commands::identify(1, 0).with(Transfer::Read(512))),
        ),
        Case::new(
            "admin.no-io-commands",
            "NVMe Base 2.1, 3.3: admin queues carry admin commands",
            "sends opcode 01h (Write, or Create SQ) with a namespace on the admin queue",
            "Invalid Command Opcode; nothing is written",
            |subject: &Subject| -> Outcome {
                let mut disk = subject.disk()?;
                let old = disk.pattern(1, 1);
                disk.write(0, &old)?;
                let write = commands::write(disk.nsid, 0, 1, disk.pattern(2, 1));
                ended(&disk.controller.call(&write)?, status::INVALID_OPCODE)?;
                disk.holds(0, &old)
            },
        ),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = identities();
    cases.extend(keep_alive_and_abort());
    cases.extend(faults());
    cases
}
