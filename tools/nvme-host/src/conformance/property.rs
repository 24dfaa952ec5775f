//! Properties, enabling and shutdown.

use super::subject::{ended, refused};
use super::{Case, check, need};
use crate::Request;
use crate::commands;
use crate::controller::{CC_ENABLED, property};
use crate::wire::{Command, fabrics, status};

const RULE: &str = "NVMe Base 2.1, 6.5 Property Get and 6.6 Property Set";

/// A property command that is refused.
fn bad(name: &str, does: &'static str, expected: &'static [u16], request: fn() -> Request) -> Case {
    Case::new(
        format!("property.{name}"),
        RULE,
        does,
        "an error; the queue works on",
        move |subject| {
            let mut controller = subject.controller()?;
            refused(&mut controller.admin, &request(), expected)?;
            controller.property(property::VS, false)?;
            Ok(())
        },
    )
}

pub fn cases() -> Vec<Case> {
    /// What the specification gives for properties that are not there: this, by Property Get's text.
    const INVALID: &[u16] = &[status::INVALID_FIELD];
    vec![
        Case::new(
            "property.capabilities",
            "NVMe Base 2.1, 3.1.4.1 CAP",
            "reads CAP",
            "CQR set, a smallest page of 4 KiB, the NVM command set, at least two entries",
            |subject| {
                let cap = subject.connected()?.property(property::CAP, true)?;
                check!(cap & 0xffff >= 1, "MQES is {}", cap & 0xffff);
                check!(cap >> 16 & 1 == 1, "CQR is 0: over fabrics it is 1");
                check!(cap >> 37 & 1 == 1, "CSS says that the NVM command set is not there");
                check!(cap >> 48 & 15 == 0, "MPSMIN is {}", cap >> 48 & 15);
                Ok(())
            },
        ),
        Case::new(
            "property.version",
            "NVMe Base 2.1, 3.1.4.2 VS",
            "reads VS",
            "at least 1.3, the same in Identify",
            |subject| {
                let mut controller = subject.controller()?;
                let version = controller.property(property::VS, false)? as u32;
                check!(version >= 0x1_0300, "VS is {version:#x}");
                let said = controller.identify()?.dword(80);
                check!(said == version, "VER of Identify is {said:#x}, VS is {version:#x}");
                Ok(())
            },
        ),
        Case::new(
            "property.ready-follows-enable",
            "NVMe Base 2.1, 3.5.1 initialization",
            "enables, disables and enables a controller",
            "CSTS.RDY follows CC.EN, and CC reads as it was written",
            |subject| {
                let mut controller = subject.connected()?;
                check!(
                    controller.property(property::CSTS, false)? & 1 == 0,
                    "it is ready before it is enabled"
                );
                controller.enable()?;
                let said = controller.property(property::CC, false)?;
                check!(said == CC_ENABLED, "CC is {said:#x}, written was {CC_ENABLED:#x}");
                controller.set_property(property::CC, CC_ENABLED & !1)?;
                let end = std::time::Instant::now() + subject.options().timeout;
                while controller.property(property::CSTS, false)? & 1 == 1 {
                    check!(std::time::Instant::now() < end, "it stays ready after it was disabled");
                }
                controller.enable()?;
                controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "property.shutdown",
            "NVMe Base 2.1, 3.6 Shutdown",
            "shuts a controller down in an orderly way",
            "CSTS.SHST becomes 10b",
            |subject| Ok(subject.controller()?.shut_down()?),
        ),
        Case::new(
            "property.abrupt-shutdown",
            "NVMe Base 2.1, 3.6 Shutdown",
            "asks for an abrupt shutdown",
            "CSTS.SHST becomes 10b",
            |subject| {
                let mut controller = subject.controller()?;
                controller.set_property(property::CC, CC_ENABLED | 2 << 14)?;
                let end = std::time::Instant::now() + subject.options().timeout;
                while controller.property(property::CSTS, false)? & 0xc != 8 {
                    check!(std::time::Instant::now() < end, "it does not end");
                }
                Ok(())
            },
        ),
        Case::new(
            "property.enable-without-entry-sizes",
            "NVMe Base 2.1, 3.1.4.5 CC",
            "enables with IOSQES and IOCQES 0",
            "an error, or a controller that is not ready",
            |subject| {
                let mut controller = subject.connected()?;
                let answer = controller.call(&commands::property_set(property::CC, 1))?;
                if answer.status.is_success() {
                    let status = controller.property(property::CSTS, false)?;
                    check!(status & 3 != 1, "CSTS is {status:#x}: it is ready");
                }
                Ok(())
            },
        ),
        Case::new(
            "property.enable-other-command-set",
            "NVMe Base 2.1, 3.1.4.5 CC",
            "enables with a command set (CSS 010b) that is reserved",
            "an error, or a controller that is not ready",
            |subject| {
                let mut controller = subject.connected()?;
                let answer = controller.call(&commands::property_set(property::CC, CC_ENABLED | 2 << 4))?;
                if answer.status.is_success() {
                    let status = controller.property(property::CSTS, false)?;
                    check!(status & 3 != 1, "CSTS is {status:#x}: it is ready");
                }
                Ok(())
            },
        ),
        Case::new(
            "property.admin-before-enable",
            "NVMe Base 2.1, 3.5.1 initialization",
            "identifies a controller that is not enabled",
            "Command Sequence Error",
            |subject| {
                ended(
                    &subject.connected()?.call(&commands::identify(1, 0))?,
                    status::SEQUENCE_ERROR,
                )
            },
        ),
        Case::new(
            "property.io-after-disable",
            "NVMe Base 2.1, 3.7.2 Controller level reset",
            "disables a controller that has an I/O queue, and reads on that queue",
            "an error, or the end of the queue's connection",
            |subject| {
                let mut disk = subject.disk()?;
                disk.controller.set_property(property::CC, CC_ENABLED & !1)?;
                match disk.queue.call(&commands::read(disk.nsid, 0, 1, disk.block_bytes)) {
                    Ok(answer) => {
                        check!(!answer.status.is_success(), "the read succeeded");
                        Ok(())
                    }
                    Err(crate::Error::Closed | crate::Error::Terminated { .. }) => Ok(()),
                    Err(other) => Err(other.into()),
                }
            },
        ),
        Case::new(
            "property.subsystem-reset",
            "NVMe Base 2.1, 3.1.4.6 NSSR",
            "writes NSSR of a controller whose CAP has no NSSRS",
            "an error; the controller works on",
            |subject| {
                let mut controller = subject.controller()?;
                need!(
                    controller.property(property::CAP, true)? >> 36 & 1 == 0,
                    "CAP has NSSRS: not tried"
                );
                refused(
                    &mut controller.admin,
                    &commands::property_set(0x20, 0x4e56_4d65),
                    INVALID,
                )?;
                controller.identify()?;
                Ok(())
            },
        ),
        bad("get-unknown-offset", "reads the property at 1000h", INVALID, || {
            commands::property_get(0x1000, false)
        }),
        bad("get-odd-offset", "reads the property at 2", INVALID, || {
            commands::property_get(2, false)
        }),
        bad("get-narrow-capabilities", "reads CAP with four bytes", INVALID, || {
            commands::property_get(property::CAP, false)
        }),
        bad("get-wide-version", "reads VS with eight bytes", INVALID, || {
            commands::property_get(property::VS, true)
        }),
        bad(
            "get-reserved-size",
            "reads VS with size 2 of the attributes",
            INVALID,
            || commands::property_get(property::VS, false).map(|command| command.byte(40, 2)),
        ),
        bad("set-read-only", "writes VS", INVALID, || {
            commands::property_set(property::VS, 0)
        }),
        bad("set-capabilities", "writes CAP with eight bytes", INVALID, || {
            commands::property_set(property::CAP, 0).map(|command| command.byte(40, 1))
        }),
        bad("set-unknown-offset", "writes the property at 1000h", INVALID, || {
            commands::property_set(0x1000, 0)
        }),
        bad("set-wide-configuration", "writes CC with eight bytes", INVALID, || {
            commands::property_set(property::CC, CC_ENABLED).map(|command| command.byte(40, 1))
        }),
        Case::new(
            "property.get-on-io-queue",
            "NVMe Base 2.1, 6: properties are of the admin queue",
            "sends Property Get on an I/O queue",
            "an error; the queue works on",
            |subject| {
                let mut disk = subject.disk()?;
                let request = Request::new(Command::fabrics(fabrics::PROPERTY_GET).byte(40, 1));
                let answer = disk.queue.call(&request)?;
                check!(!answer.status.is_success(), "it succeeded");
                disk.read(0, 1)?;
                Ok(())
            },
        ),
    ]
}
