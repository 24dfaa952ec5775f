//! Lists of controllers (Identify, CNS 12h and 13h).

use super::admin::optional;
use super::subject::ended_by;
use super::{Case, Verdict, check};
use crate::wire::{status, u16_at};
use crate::{Completion, commands};
use std::time::Duration;

/// How often it is looked whether a controller is gone: every 10 ms.
const GONE_TRIES: usize = 200;

/// The numbers in a list; skipped where there is none.
fn list(answer: Completion) -> Result<Vec<u16>, Verdict> {
    let data = optional(answer)?;
    let count = usize::from(u16_at(&data, 0));
    check!(count <= 2047, "the list has {count} numbers");
    let numbers: Vec<u16> = (1..=count).map(|n| u16_at(&data, 2 * n)).collect();
    check!(
        numbers.windows(2).all(|pair| pair[0] < pair[1]),
        "they do not rise: {numbers:x?}"
    );
    Ok(numbers)
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "admin.controllers-of-namespace",
            "NVMe Base 2.1, 5.1.13.2: CNS 12h",
            "lists the controllers of the namespace",
            "this one is among them, if the list is there",
            |subject| {
                let mut disk = subject.disk()?;
                let all = list(disk.controller.call(&commands::identify(0x12, disk.nsid))?)?;
                check!(
                    all.contains(&disk.controller.id),
                    "{:#x} is not among {all:x?}",
                    disk.controller.id
                );
                Ok(())
            },
        ),
        Case::new(
            "admin.controllers",
            "NVMe Base 2.1, 5.1.13.2: CNS 13h",
            "lists the controllers",
            "this one is among them, in rising order, if the list is there",
            |subject| {
                let mut controller = subject.controller()?;
                let all = list(controller.call(&commands::identify(0x13, 0))?)?;
                check!(
                    all.contains(&controller.id),
                    "{:#x} is not among {all:x?}",
                    controller.id
                );
                Ok(())
            },
        ),
        Case::new(
            "admin.controllers-from",
            "NVMe Base 2.1, 5.1.13.2: CNS 12h and 13h, CNTID",
            "lists the controllers from this one's number on, and from the next",
            "this one is the first of the one, and not in the other",
            |subject| {
                let mut disk = subject.disk()?;
                let own = disk.controller.id;
                for (cns, nsid) in [(0x12, disk.nsid), (0x13, 0)] {
                    let mut from = |first: u16| {
                        let request = commands::identify(cns, nsid)
                            .map(|command| command.dword(10, u32::from(cns) | u32::from(first) << 16));
                        list(disk.controller.call(&request)?)
                    };
                    let (with, behind) = (from(own)?, from(own + 1)?);
                    check!(with.first() == Some(&own), "CNS {cns:#x} begins with {with:x?}");
                    check!(!behind.contains(&own), "CNS {cns:#x}: {own:#x} is among {behind:x?}");
                }
                Ok(())
            },
        ),
        Case::new(
            "admin.controllers-of-all-hosts",
            "NVMe Base 2.1, 5.1.13.2: CNS 13h is of the subsystem",
            "connects a second host, lists the controllers, and again when it is gone",
            "both hosts' controllers are among them, then one",
            |subject| {
                let mut one = subject.controller()?;
                let two = subject.controller_with(&subject.settings(), &subject.second_host())?;
                let other = two.id;
                let mut all = || list(one.call(&commands::identify(0x13, 0))?);
                let both = all()?;
                check!(both.contains(&other), "{other:#x} is not among {both:x?}");
                drop(two);
                // The target learns in its own time that the connection has ended.
                for _ in 0..GONE_TRIES {
                    if !all()?.contains(&other) {
                        return Ok(());
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(Verdict::Failed(format!("{other:#x} is listed and gone")))
            },
        ),
        Case::new(
            "admin.controllers-of-no-namespace",
            "NVMe Base 2.1, 5.1.13.2: CNS 12h, NSID",
            "lists the controllers of all namespaces at once, and of a number that no namespace has",
            "Invalid Field, or Invalid Namespace; and an empty list, or Invalid Namespace",
            |subject| {
                let mut disk = subject.disk()?;
                list(disk.controller.call(&commands::identify(0x12, disk.nsid))?)?;
                let all = disk.controller.call(&commands::identify(0x12, u32::MAX))?;
                ended_by(&all, &[status::INVALID_FIELD, status::INVALID_NAMESPACE])?;
                let absent = subject.absent_nsid(&mut disk.controller)?;
                let none = disk.controller.call(&commands::identify(0x12, absent))?;
                ended_by(&none, &[status::SUCCESS, status::INVALID_NAMESPACE])?;
                check!(
                    none.data.iter().all(|byte| *byte == 0),
                    "namespace {absent} has controllers"
                );
                Ok(())
            },
        ),
    ]
}
