//! Features.

use super::subject::{ended, ended_by, refused};
use super::{Case, check, need};
use crate::controller::property;
use crate::wire::{Command, admin, feature, status};
use crate::{Host, Request, Transfer, commands};

const RULE: &str = "NVMe Base 2.1, 5.1.11 Get Features and 5.1.25 Set Features";

/// A feature that every I/O controller has (Base 2.1, 3.1.3.6): it reads, and so do its default and its capabilities.
fn there(name: &'static str, id: u8) -> Case {
    Case::new(
        format!("feature.{name}"),
        RULE,
        "reads the feature: its current value, and its capabilities and default, where they can be asked for",
        "success",
        move |subject| {
            let mut controller = subject.controller()?;
            controller.call(&commands::get_feature(id, 0))?.good("Get Features")?;
            let selects = controller.identify()?.optional() >> 4 & 1 == 1;
            for select in [1, 3] {
                let answer = controller.call(&commands::get_feature(id, select))?;
                if selects {
                    answer.good("Get Features with a selection")?;
                } else {
                    ended_by(&answer, &[status::SUCCESS, status::INVALID_FIELD])?;
                }
            }
            Ok(())
        },
    )
}

pub fn cases() -> Vec<Case> {
    vec![
        there("arbitration", feature::ARBITRATION),
        there("power", feature::POWER),
        there("temperature", feature::TEMPERATURE),
        there("queues", feature::QUEUES),
        there("events", feature::ASYNC_EVENTS),
        there("keep-alive", feature::KEEP_ALIVE),
        Case::new(
            "feature.set-queues",
            "NVMe Base 2.1, 5.1.25.2.1 Number of Queues",
            "asks for eight queues",
            "success with at least one of each kind",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::queues(8))?.good("Set Features")?;
                let (submission, completion) = (answer.dword() & 0xffff, answer.dword() >> 16);
                check!(
                    submission < 0xffff && completion < 0xffff,
                    "it gave {:#x}",
                    answer.dword()
                );
                Ok(())
            },
        ),
        Case::new(
            "feature.set-too-many-queues",
            "NVMe Base 2.1, 5.1.25.2.1: FFFFh is not valid",
            "asks for 65,536 queues of both kinds, and of either",
            "Invalid Field in Command; the number stays",
            |subject| {
                let mut controller = subject.controller()?;
                let before = controller.call(&commands::get_feature(feature::QUEUES, 0))?;
                let before = before.good("Get Features")?.dword();
                for value in [u32::MAX, 0xffff, 0xffff << 16] {
                    let answer = controller.call(&commands::set_feature(feature::QUEUES, value))?;
                    ended(&answer, status::INVALID_FIELD)?;
                }
                let answer = controller.call(&commands::get_feature(feature::QUEUES, 0))?;
                let after = answer.good("Get Features")?.dword();
                check!(after == before, "it went from {before:#x} to {after:#x}");
                Ok(())
            },
        ),
        Case::new(
            "feature.set-fewer-queues",
            "NVMe Base 2.1, 5.1.25.2.1 Number of Queues, and 6.3 Connect: QID",
            "asks for two queues, and connects queue 3, then queue 2",
            "two are granted, and read; queue 3 is refused with Connect Invalid Parameters, pointing at QID; queue 2 works",
            |subject| {
                let mut controller = subject.controller()?;
                let given = controller.call(&commands::queues(2))?.good("Set Features")?.dword();
                check!(given == 0x1_0001, "it gave {given:#x}");
                let now = controller.call(&commands::get_feature(feature::QUEUES, 0))?;
                let now = now.good("Get Features")?.dword();
                check!(now == given, "it reads {now:#x}");
                let mut beyond = subject.initialized()?;
                let answer = beyond.call(&controller.io_connect(3, 32).request())?;
                ended(&answer, status::INVALID_PARAMETERS)?;
                check!(answer.dword() == 42, "it points at {:#x}", answer.dword());
                let mut queue = controller.io_queue(2, 32)?;
                let nsid = subject.nsid(&mut controller)?;
                let bytes = controller.namespace(nsid)?.block_bytes();
                queue.call(&commands::read(nsid, 0, 1, bytes))?.good("Read")?;
                Ok(())
            },
        ),
        Case::new(
            "feature.set-queues-twice",
            "NVMe Base 2.1, 5.1.25.2.1: before the first I/O queue",
            "asks for two queues, then for four, and connects queue 4",
            "four are granted, and queue 4 works",
            |subject| {
                let mut controller = subject.controller()?;
                controller.call(&commands::queues(2))?.good("Set Features")?;
                let given = controller.call(&commands::queues(4))?.good("Set Features")?.dword();
                need!(given & 0xffff >= 3, "it gave {given:#x}");
                controller.io_queue(4, 32)?;
                Ok(())
            },
        ),
        Case::new(
            "feature.set-queues-after-queue",
            "NVMe Base 2.1, 5.1.25.2.1: not after an I/O queue was created",
            "asks for other numbers of queues after an I/O queue was connected",
            "Command Sequence Error; the number stays, and the queue works on",
            |subject| {
                let mut disk = subject.disk()?;
                let before = disk.controller.call(&commands::get_feature(feature::QUEUES, 0))?;
                let before = before.good("Get Features")?.dword();
                for count in [1, 2, 8] {
                    ended(&disk.controller.call(&commands::queues(count))?, status::SEQUENCE_ERROR)?;
                }
                let after = disk.controller.call(&commands::get_feature(feature::QUEUES, 0))?;
                let after = after.good("Get Features")?.dword();
                check!(after == before, "it went from {before:#x} to {after:#x}");
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "feature.set-queues-after-reset",
            "NVMe Base 2.1, 5.1.25.2.1 and 3.7.2: a reset deletes all I/O queues",
            "asks for two queues, connects one, resets the controller and asks for four",
            "four are granted, and queue 4 works",
            |subject| {
                let mut controller = subject.controller()?;
                controller.call(&commands::queues(2))?.good("Set Features")?;
                controller.io_queue(1, 32)?;
                controller.set_property(property::CC, 0)?;
                controller.enable()?;
                let given = controller.call(&commands::queues(4))?.good("Set Features")?.dword();
                need!(given & 0xffff >= 3, "it gave {given:#x}");
                controller.io_queue(4, 32)?;
                Ok(())
            },
        ),
        Case::new(
            "feature.set-keep-alive",
            "NVMe Base 2.1, 5.1.25.1.8 Keep Alive Timer",
            "sets the timer to 90 s",
            "it reads at least 90 s: rounded up to KAS",
            |subject| {
                let mut controller = subject.controller()?;
                controller
                    .call(&commands::set_feature(feature::KEEP_ALIVE, 90_000))?
                    .good("Set Features")?;
                let now = controller
                    .call(&commands::get_feature(feature::KEEP_ALIVE, 0))?
                    .good("Get Features")?;
                check!((90_000..200_000).contains(&now.dword()), "it reads {}", now.dword());
                Ok(())
            },
        ),
        Case::new(
            "feature.connects-keep-alive",
            "NVMe Base 2.1, 6.3 Connect, KATO",
            "reads the timer after Connect",
            "what Connect said, rounded up to KAS",
            |subject| {
                let mut controller = subject.controller()?;
                let now = controller
                    .call(&commands::get_feature(feature::KEEP_ALIVE, 0))?
                    .good("Get Features")?;
                check!(
                    (120_000..240_000).contains(&now.dword()),
                    "it reads {}, Connect said 120000",
                    now.dword()
                );
                Ok(())
            },
        ),
        Case::new(
            "feature.set-events",
            "NVMe Base 2.1, 5.1.25.1.5 Asynchronous Event Configuration",
            "enables the events of OAES",
            "they read as they were set",
            |subject| {
                let mut controller = subject.controller()?;
                // Namespace attributes, ANA: those that can be.
                let wanted = controller.identify()?.dword(92) & (1 << 8 | 1 << 11);
                controller
                    .call(&commands::set_feature(feature::ASYNC_EVENTS, wanted))?
                    .good("Set Features")?;
                let now = controller
                    .call(&commands::get_feature(feature::ASYNC_EVENTS, 0))?
                    .good("Get Features")?;
                check!(
                    now.dword() == wanted,
                    "it reads {:#x}, set was {wanted:#x}",
                    now.dword()
                );
                Ok(())
            },
        ),
        Case::new(
            "feature.events-not-there",
            "NVMe Base 2.1, 5.1.25.1.5: only events of OAES",
            "enables an event whose bit of OAES is clear",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                let there = controller.identify()?.dword(92);
                // Bit 30 is reserved in both.
                let bit = 1u32 << 30;
                need!(there & bit == 0, "OAES has all bits");
                let answer = controller.call(&commands::set_feature(feature::ASYNC_EVENTS, bit))?;
                ended(&answer, status::INVALID_FIELD)
            },
        ),
        Case::new(
            "feature.host-identifier",
            "NVMe Base 2.1, 5.1.25.1.28 Host Identifier",
            "reads the host identifier of 128 bits",
            "the one of Connect",
            |subject| {
                let mut controller = subject.controller()?;
                let request = commands::get_feature(feature::HOST_IDENTIFIER, 0)
                    .map(|command| command.dword(11, 1))
                    .with(Transfer::Read(16));
                let answer = controller.call(&request)?.good("Get Features")?;
                check!(answer.data == subject.host().id, "it is {:x?}", answer.data);
                Ok(())
            },
        ),
        Case::new(
            "feature.host-identifier-of-64-bits",
            "NVMe Base 2.1, 5.1.25.1.28: over fabrics EXHID is 1",
            "reads the host identifier with EXHID 0",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                let request = commands::get_feature(feature::HOST_IDENTIFIER, 0).with(Transfer::Read(8));
                ended(&controller.call(&request)?, status::INVALID_FIELD)
            },
        ),
        Case::new(
            "feature.set-host-identifier",
            "NVMe Base 2.1, 5.1.25.1.28: over fabrics it is Connect's",
            "sets another host identifier",
            "Command Sequence Error; it stays",
            |subject| {
                let mut controller = subject.controller()?;
                let other = Host::named("nqn.2014-08.org.example:other").id;
                let request = commands::set_feature(feature::HOST_IDENTIFIER, 1).with(Transfer::Write(other.to_vec()));
                ended_by(
                    &controller.call(&request)?,
                    &[status::SEQUENCE_ERROR, status::NOT_CHANGEABLE, status::INVALID_FIELD],
                )
            },
        ),
        Case::new(
            "feature.get-unknown",
            RULE,
            "reads feature BFh",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                ended(
                    &controller.call(&commands::get_feature(0xbf, 0))?,
                    status::INVALID_FIELD,
                )
            },
        ),
        Case::new(
            "feature.set-unknown",
            RULE,
            "sets feature BFh",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                ended(
                    &controller.call(&commands::set_feature(0xbf, 0))?,
                    status::INVALID_FIELD,
                )
            },
        ),
        Case::new(
            "feature.get-reserved-zero",
            RULE,
            "reads feature 0",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                ended(&controller.call(&commands::get_feature(0, 0))?, status::INVALID_FIELD)
            },
        ),
        Case::new(
            "feature.save-what-cannot-be-saved",
            RULE,
            "sets the number of queues with SV",
            "Feature Identifier Not Saveable, or Invalid Field in Command",
            |subject| {
                let mut controller = subject.controller()?;
                let request = commands::queues(2).map(|command| command.dword(10, 1 << 31 | 7));
                refused(
                    &mut controller.admin,
                    &request,
                    &[status::NOT_SAVEABLE, status::INVALID_FIELD],
                )
            },
        ),
        Case::new(
            "feature.namespace-of-controllers-feature",
            RULE,
            "sets the keep alive timer of a namespace",
            "Feature Not Namespace Specific, or Invalid Field; or success, where the number is not looked at",
            |subject| {
                let mut controller = subject.controller()?;
                let nsid = subject.nsid(&mut controller)?;
                let request = commands::set_feature(feature::KEEP_ALIVE, 120_000).map(|set| set.namespace(nsid));
                refused(
                    &mut controller.admin,
                    &request,
                    &[status::NOT_NAMESPACE_SPECIFIC, status::INVALID_FIELD, status::SUCCESS],
                )
            },
        ),
        Case::new(
            "feature.write-cache",
            "NVMe Base 2.1, 5.1.25.1.4 Volatile Write Cache: if VWC has one",
            "reads the write cache's feature",
            "success where VWC says that there is one, else success or Invalid Field",
            |subject| {
                let mut controller = subject.controller()?;
                let cache = controller.identify()?.byte(525) & 1;
                let answer = controller.call(&commands::get_feature(feature::WRITE_CACHE, 0))?;
                if cache == 1 {
                    ended(&answer, status::SUCCESS)
                } else {
                    ended_by(&answer, &[status::SUCCESS, status::INVALID_FIELD])
                }
            },
        ),
        Case::new(
            "feature.reservation-persistence",
            "NVMe Base 2.1, 5.1.25.1.30 Reservation Persistence",
            "reads it for the namespace, and for one that is not there",
            "success, and Invalid Namespace or Format",
            |subject| {
                let mut disk = subject.disk()?;
                disk.needs_optional(5, "reservations")?;
                let get = |nsid| {
                    Request::new(
                        Command::new(admin::GET_FEATURES)
                            .namespace(nsid)
                            .dword(10, u32::from(feature::RESERVATION_PERSISTENCE)),
                    )
                };
                disk.controller.call(&get(disk.nsid))?.good("Get Features")?;
                let absent = subject.absent_nsid(&mut disk.controller)?;
                ended_by(
                    &disk.controller.call(&get(absent))?,
                    &[status::INVALID_NAMESPACE, status::INVALID_FIELD],
                )
            },
        ),
    ]
}
