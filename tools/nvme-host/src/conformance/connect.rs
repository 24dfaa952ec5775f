//! Connect and Disconnect.

use super::subject::{ended, ended_by, refused};
use super::{Case, Outcome, Subject, Verdict, check, need};
use crate::commands::{self, Connect};
use crate::wire::{Command, Descriptor, fabrics, status};
use crate::{Completion, Controller, Request, Transfer};

const RULE: &str = "NVMe Base 2.1, 6.3 Connect";

/// What Invalid Parameters points at: in the data or in the command, and the byte.
const IN_DATA: u32 = 1 << 16;

fn points_at(answer: &Completion, expected: u32) -> Outcome {
    ended(answer, status::INVALID_PARAMETERS)?;
    let said = answer.dword() & 0x1_ffff;
    check!(said == expected, "IATTR and IPO say {said:#x}, not {expected:#x}");
    Ok(())
}

/// A Connect of the admin queue that is refused, with the place of the fault.
fn admin(name: &str, expected: u32, change: impl Fn(&mut Connect) + Send + Sync + 'static) -> Case {
    let place = if expected & IN_DATA != 0 { "data" } else { "command" };
    Case::new(
        format!("connect.{name}"),
        RULE,
        "sends an admin Connect with one parameter that is not valid",
        format!(
            "Connect Invalid Parameters, pointing at byte {} of the {place}",
            expected & 0xffff
        ),
        move |subject| {
            let mut connect = subject.admin_connect();
            change(&mut connect);
            points_at(&subject.initialized()?.call(&connect.request())?, expected)
        },
    )
}

/// A Connect of an I/O queue that is refused.
fn io(
    name: &str,
    expects: &'static str,
    expected: &'static [u16],
    place: Option<u32>,
    change: impl Fn(&mut Connect, &mut Controller) + Send + Sync + 'static,
) -> Case {
    Case::new(
        format!("connect.{name}"),
        RULE,
        "sends a Connect of an I/O queue with one parameter that is not valid",
        expects,
        move |subject| {
            let mut controller = subject.controller()?;
            controller
                .call(&commands::queues(4))?
                .good("Set Features, Number of Queues")?;
            let mut connect = controller.io_connect(1, 32);
            change(&mut connect, &mut controller);
            let answer = subject.initialized()?.call(&connect.request())?;
            if let Some(place) = place.filter(|_| answer.status.number() == status::INVALID_PARAMETERS) {
                points_at(&answer, place)?;
            }
            ended_by(&answer, expected)
        },
    )
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "connect.admin",
            RULE,
            "connects an admin queue and identifies",
            "a controller's number below FFF0h, the same in Identify",
            |subject| {
                let mut controller = subject.controller()?;
                check!(
                    controller.id < 0xfff0,
                    "the controller's number is {:#x}",
                    controller.id
                );
                let said = controller.identify()?.word(78);
                check!(
                    said == controller.id,
                    "CNTLID is {said:#x}, Connect gave {:#x}",
                    controller.id
                );
                Ok(())
            },
        ),
        Case::new(
            "connect.two-admins-two-controllers",
            "NVMe Base 2.1, 3.1.1 controller model: dynamic",
            "connects two admin queues",
            "two controllers with different numbers that both work",
            |subject| {
                let mut first = subject.controller()?;
                let mut second = subject.controller()?;
                check!(first.id != second.id, "both have the number {:#x}", first.id);
                first.identify()?;
                second.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "connect.admin-without-keep-alive",
            "NVMe Base 2.1, 3.9 Keep Alive",
            "connects an admin queue with KATO 0",
            "success: the timer is off",
            |subject| {
                let mut settings = subject.settings();
                settings.keep_alive_ms = 0;
                subject.controller_with(&settings, &subject.host())?.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "connect.two-io-queues",
            RULE,
            "connects queues 1 and 2",
            "both work",
            |subject| {
                let mut disk = subject.disk()?;
                let mut second = disk.controller.io_queue(2, 32)?;
                let read = commands::read(disk.nsid, 0, 1, disk.block_bytes);
                disk.queue.call(&read)?.good("Read on queue 1")?;
                second.call(&read)?.good("Read on queue 2")?;
                Ok(())
            },
        ),
        Case::new(
            "connect.io-with-flow-control",
            RULE,
            "connects an I/O queue with flow control and sends more commands than it has entries",
            "SQHD goes around the queue",
            |subject| {
                let mut settings = subject.settings();
                settings.flow_control_off = false;
                let mut disk = subject.disk_with(&settings, &subject.host())?;
                let mut queue = disk.controller.io_queue(2, 4)?;
                let mut heads = Vec::new();
                for _ in 0..9 {
                    heads.push(queue.call(&commands::flush(disk.nsid))?.good("Flush")?.head);
                }
                // Connect itself took the first entry.
                let due: Vec<u16> = (2..11).map(|n| n % 4).collect();
                check!(heads == due, "SQHD went {heads:?}, not {due:?}");
                Ok(())
            },
        ),
        Case::new(
            "connect.smallest-io-queue",
            RULE,
            "connects an I/O queue of two entries",
            "it works",
            |subject| {
                let mut disk = subject.disk()?;
                let mut queue = disk.controller.io_queue(2, 2)?;
                queue
                    .call(&commands::read(disk.nsid, 0, 1, disk.block_bytes))?
                    .good("Read")?;
                Ok(())
            },
        ),
        Case::new(
            "connect.largest-io-queue",
            RULE,
            "connects an I/O queue of CAP.MQES entries and fills it",
            "all commands end",
            |subject| {
                let mut disk = subject.disk()?;
                let entries = subject.entries(&mut disk.controller)?;
                let mut queue = disk.controller.io_queue(2, entries)?;
                let count = usize::from(entries - 1).min(1023);
                let reads = vec![commands::read(disk.nsid, 0, 1, disk.block_bytes); count];
                queue.submit_all(&reads)?;
                for _ in 0..count {
                    queue.poll()?.good("Read")?;
                }
                Ok(())
            },
        ),
        Case::new(
            "connect.queue-reuse",
            RULE,
            "connects an I/O queue whose number is in use",
            "Command Sequence Error or Connect Invalid Parameters; the queue in use works on",
            |subject| {
                let mut disk = subject.disk()?;
                let connect = disk.controller.io_connect(1, 32);
                refused(
                    &mut subject.initialized()?,
                    &connect.request(),
                    &[
                        status::SEQUENCE_ERROR,
                        status::INVALID_PARAMETERS,
                        status::CONTROLLER_BUSY,
                    ],
                )?;
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "connect.queue-again-after-its-end",
            RULE,
            "closes the connection of an I/O queue and connects the same number again",
            "it works, once the controller has seen the end",
            |subject| {
                let mut disk = subject.disk()?;
                let second = disk.controller.io_queue(2, 32)?;
                drop(second);
                let end = std::time::Instant::now() + subject.options().timeout;
                loop {
                    match disk.controller.io_queue(2, 32) {
                        Ok(mut queue) => {
                            queue.call(&commands::flush(disk.nsid))?.good("Flush")?;
                            return Ok(());
                        }
                        Err(error) if std::time::Instant::now() > end => return Err(error.into()),
                        Err(_) => std::thread::sleep(std::time::Duration::from_millis(20)),
                    }
                }
            },
        ),
        Case::new(
            "connect.twice",
            RULE,
            "sends a second Connect on an admin queue",
            "Command Sequence Error; the queue works on",
            |subject| {
                let mut controller = subject.controller()?;
                let again = subject.admin_connect().request();
                ended(&controller.call(&again)?, status::SEQUENCE_ERROR)?;
                controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "connect.twice-on-io-queue",
            RULE,
            "sends a second Connect on an I/O queue",
            "Command Sequence Error; the queue works on",
            |subject| {
                let mut disk = subject.disk()?;
                let again = disk.controller.io_connect(1, 128).request();
                ended(&disk.queue.call(&again)?, status::SEQUENCE_ERROR)?;
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "connect.io-before-enable",
            "NVMe Base 2.1, 3.5.1 initialization",
            "connects an I/O queue of a controller that is not enabled",
            "Command Sequence Error, or Connect Invalid Parameters",
            |subject| {
                let controller = subject.connected()?;
                let connect = controller.io_connect(1, 32);
                refused(
                    &mut subject.initialized()?,
                    &connect.request(),
                    &[status::SEQUENCE_ERROR, status::INVALID_PARAMETERS],
                )
            },
        ),
        Case::new(
            "connect.denied-host",
            RULE,
            "connects as a host that is not allowed",
            "Connect Invalid Host",
            |subject| {
                let Some(host) = &subject.options().denied_host else {
                    return Err(Verdict::Skipped("no denied host was named (--denied-host)".into()));
                };
                let mut connect = subject.admin_connect();
                connect.host.clone_from(host);
                ended(&subject.initialized()?.call(&connect.request())?, status::INVALID_HOST)
            },
        ),
        Case::new(
            "connect.without-authentication",
            "NVMe Base 2.1, 6.3 Connect, AUTHREQ",
            "connects as a host that must authenticate, and identifies at once",
            "Connect says what is needed; Identify ends with Authentication Required",
            |subject| {
                let Some(host) = &subject.options().authenticated_host else {
                    return Err(Verdict::Skipped("no such host was named (--authenticated-host)".into()));
                };
                let mut connect = subject.admin_connect();
                connect.host.clone_from(host);
                let mut queue = subject.initialized()?;
                let answer = queue.call(&connect.request())?.good("Connect")?;
                check!(answer.dword() >> 16 & 3 != 0, "AUTHREQ is {:#x}", answer.dword() >> 16);
                ended(&queue.call(&commands::identify(1, 0))?, status::AUTHENTICATION_REQUIRED)
            },
        ),
        admin("unknown-subsystem", IN_DATA | 256, |connect| {
            connect.subsystem.push_str(":not-there")
        }),
        admin("empty-subsystem", IN_DATA | 256, |connect| connect.subsystem.clear()),
        admin("empty-host", IN_DATA | 512, |connect| connect.host.clear()),
        admin("static-controller", IN_DATA | 16, |connect| connect.controller = 0xfffd),
        admin("admin-size-zero", 44, |connect| connect.size = 0),
        Case::new(
            "connect.zero-host-identifier",
            RULE,
            "connects with a host identifier of zeroes",
            "Connect Invalid Parameters, pointing at the data's first byte; or success where it is tolerated",
            |subject| {
                let mut connect = subject.admin_connect();
                connect.host_id = [0; 16];
                let answer = subject.initialized()?.call(&connect.request())?;
                if answer.status.is_success() {
                    return Ok(());
                }
                points_at(&answer, IN_DATA)
            },
        ),
        Case::new(
            "connect.subsystem-without-end",
            RULE,
            "sends a subsystem NQN that fills its field without a zero at its end",
            "Connect Invalid Parameters, pointing at byte 256 of the data",
            |subject| {
                let mut data = subject.admin_connect().data();
                data[256..512].fill(b'a');
                let request = subject.admin_connect().request().with(Transfer::WriteInCapsule(data));
                points_at(&subject.initialized()?.call(&request)?, IN_DATA | 256)
            },
        ),
        Case::new(
            "connect.record-format",
            RULE,
            "sends a Connect of record format 1",
            "Incompatible Format",
            |subject| {
                let request = subject.admin_connect().request().map(|command| command.word(40, 1));
                ended(&subject.initialized()?.call(&request)?, status::INCOMPATIBLE_FORMAT)
            },
        ),
        Case::new(
            "connect.data-too-short",
            RULE,
            "sends a Connect with 512 bytes of data",
            "a status that is an error, or the end of the connection",
            |subject| {
                let data = subject.admin_connect().data()[..512].to_vec();
                let request = subject.admin_connect().request().with(Transfer::WriteInCapsule(data));
                match subject.initialized()?.call(&request) {
                    Ok(answer) => {
                        check!(!answer.status.is_success(), "it succeeded");
                        Ok(())
                    }
                    Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        Case::new(
            "connect.data-not-in-capsule",
            "TCP Transport 1.1, 3.3.2 data of Connect are in the capsule",
            "sends a Connect whose descriptor asks for a transport transfer",
            "an R2T that leads to a good Connect, an error status, or the end of the connection",
            |subject| {
                let request = subject
                    .admin_connect()
                    .request()
                    .with(Transfer::WriteByR2t(subject.admin_connect().data()));
                match subject.initialized()?.call(&request) {
                    Ok(_) | Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        Case::new(
            "connect.command-before",
            "NVMe Base 2.1, 6.3: Connect is first",
            "sends Identify on a queue that is not connected",
            "Command Sequence Error, or the end of the connection",
            |subject| {
                let mut queue = subject.initialized()?;
                match queue.call(&commands::identify(1, 0)) {
                    Ok(answer) => ended(&answer, status::SEQUENCE_ERROR),
                    Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        Case::new(
            "connect.property-before",
            "NVMe Base 2.1, 6.3: Connect is first",
            "sends Property Get on a queue that is not connected",
            "Command Sequence Error, or the end of the connection",
            |subject| {
                let mut queue = subject.initialized()?;
                match queue.call(&commands::property_get(0, true)) {
                    Ok(answer) => ended(&answer, status::SEQUENCE_ERROR),
                    Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        io(
            "io-unknown-controller",
            "Connect Invalid Parameters, pointing at CNTLID in the data",
            &[status::INVALID_PARAMETERS],
            Some(IN_DATA | 16),
            |connect, _| connect.controller = 0xffef,
        ),
        io(
            "io-any-controller",
            "Connect Invalid Parameters, pointing at CNTLID in the data",
            &[status::INVALID_PARAMETERS],
            Some(IN_DATA | 16),
            |connect, _| connect.controller = 0xffff,
        ),
        io(
            "io-other-host",
            "Connect Invalid Parameters or Invalid Host: the controller is another host's",
            &[status::INVALID_PARAMETERS, status::INVALID_HOST],
            None,
            |connect, _| connect.host.push('9'),
        ),
        io(
            "io-other-host-identifier",
            "Connect Invalid Parameters or Invalid Host: the identifier is another host's",
            &[status::INVALID_PARAMETERS, status::INVALID_HOST],
            Some(IN_DATA),
            |connect, _| connect.host_id[3] ^= 0xff,
        ),
        io(
            "io-other-subsystem",
            "Connect Invalid Parameters, pointing at SUBNQN in the data",
            &[status::INVALID_PARAMETERS],
            Some(IN_DATA | 256),
            |connect, _| connect.subsystem.push_str(":not-there"),
        ),
        io(
            "io-size-zero",
            "Connect Invalid Parameters, pointing at SQSIZE",
            &[status::INVALID_PARAMETERS],
            Some(44),
            |connect, _| connect.size = 0,
        ),
        io(
            "io-size-beyond-limit",
            "Connect Invalid Parameters, pointing at SQSIZE",
            &[status::INVALID_PARAMETERS],
            Some(44),
            |connect, controller| {
                let most = (controller.property(0, true).unwrap_or(0) & 0xffff) as u16;
                connect.size = most.saturating_add(1);
            },
        ),
        io(
            "io-number-beyond-limit",
            "Connect Invalid Parameters, pointing at QID",
            &[status::INVALID_PARAMETERS],
            Some(42),
            |connect, _| connect.queue = 0xfff0,
        ),
        Case::new(
            "connect.not-on-delete",
            "NVMe Base 2.1, 5.2: Create and Delete of queues are not for fabrics",
            "sends Create I/O Submission Queue",
            "Invalid Command Opcode",
            |subject| {
                let mut controller = subject.controller()?;
                ended(
                    &controller.call(&Request::new(Command::new(1).dword(10, 1)))?,
                    status::INVALID_OPCODE,
                )
            },
        ),
        Case::new(
            "connect.unknown-fabrics-type",
            "NVMe Base 2.1, 6 Fabrics command set",
            "sends a fabrics command of type 30h",
            "Invalid Field in Command or Invalid Command Opcode",
            |subject| {
                let mut controller = subject.controller()?;
                refused(
                    &mut controller.admin,
                    &Request::new(Command::fabrics(0x30)),
                    &[status::INVALID_FIELD, status::INVALID_OPCODE],
                )?;
                controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "connect.disconnect-io",
            "NVMe Base 2.1, 6.4 Disconnect",
            "disconnects an I/O queue, if OFCS says it may",
            "success, and the admin queue works on",
            |subject| {
                let mut disk = subject.disk()?;
                need!(disk.identity.word(1804) & 1 == 1, "OFCS has no Disconnect");
                disk.queue.call(&commands::disconnect())?.good("Disconnect")?;
                disk.controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "connect.disconnect-not-supported",
            "NVMe Base 2.1, 6.4 Disconnect",
            "disconnects an I/O queue of a controller whose OFCS has no Disconnect",
            "Invalid Command Opcode or Invalid Field in Command",
            |subject| {
                let mut disk = subject.disk()?;
                need!(disk.identity.word(1804) & 1 == 0, "OFCS has Disconnect");
                refused(
                    &mut disk.queue,
                    &commands::disconnect(),
                    &[status::INVALID_OPCODE, status::INVALID_FIELD],
                )
            },
        ),
        Case::new(
            "connect.disconnect-admin",
            "NVMe Base 2.1, 6.4 Disconnect",
            "disconnects an admin queue",
            "Invalid Queue Type, or Invalid Command Opcode or Field where Disconnect is not there",
            |subject| {
                let mut controller = subject.controller()?;
                refused(
                    &mut controller.admin,
                    &commands::disconnect(),
                    &[
                        status::INVALID_QUEUE_TYPE,
                        status::INVALID_OPCODE,
                        status::INVALID_FIELD,
                    ],
                )
            },
        ),
        Case::new(
            "connect.many-times",
            RULE,
            "connects, enables, shuts down and closes, thirty times",
            "it works each time: nothing is used up",
            |subject| {
                for _ in 0..30 {
                    let mut controller = subject.controller()?;
                    controller.identify()?;
                    controller.shut_down()?;
                }
                Ok(())
            },
        ),
    ];
    cases.push(Case::new(
        "connect.descriptor-kind",
        "NVMe Base 2.1, 4.3.2; TCP Transport 1.1, 3.3.2",
        "sends a Connect whose descriptor is a keyed one",
        "SGL Descriptor Type Invalid, another error, or the end of the connection",
        |subject: &Subject| {
            let data = subject.admin_connect().data();
            let request = subject.admin_connect().request().descriptor(Descriptor {
                address: 0,
                length: u32::try_from(data.len()).unwrap_or(0),
                kind: 0x40,
            });
            debug_assert_eq!(request.command.0[4], fabrics::CONNECT);
            match subject.initialized()?.call(&request) {
                Ok(answer) => {
                    check!(!answer.status.is_success(), "it succeeded");
                    Ok(())
                }
                Err(crate::Error::Terminated { .. } | crate::Error::Closed) => Ok(()),
                Err(other) => Err(other.into()),
            }
        },
    ));
    cases
}
