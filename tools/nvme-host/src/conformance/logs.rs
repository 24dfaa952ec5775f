//! Log pages.

use super::subject::{ended_by, refused};
use super::{Case, check, need};
use crate::wire::{log, status, u32_at, u64_at};
use crate::{Transfer, commands};

const RULE: &str = "NVMe Base 2.1, 5.1.12 Get Log Page";

/// A log request that is refused; the queue works on.
fn bad(
    name: &str,
    does: &'static str,
    expected: &'static [u16],
    change: impl Fn(crate::wire::Command) -> crate::wire::Command + Send + Sync + 'static,
) -> Case {
    let names: Vec<String> = expected.iter().map(|&number| status::name(number)).collect();
    Case::new(format!("log.{name}"), RULE, does, names.join(" or "), move |subject| {
        let mut controller = subject.controller()?;
        let request = commands::log_page(log::HEALTH, u32::MAX, 0, 512).map(&change);
        refused(&mut controller.admin, &request, expected)?;
        controller.identify()?;
        Ok(())
    })
}

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "log.supported",
            "NVMe Base 2.1, 5.1.12.1.1 Supported Log Pages",
            "reads the list of pages, and each page on it",
            "each page that is listed can be read; of those not listed none",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::log_page(log::SUPPORTED, 0, 0, 1024))?;
                need!(answer.status.is_success(), "there is no list of pages");
                let pages: Vec<u8> = (0..=255u8)
                    .filter(|&n| u32_at(&answer.data, 4 * usize::from(n)) & 1 == 1)
                    .collect();
                for page in [log::ERROR, log::HEALTH, log::FIRMWARE] {
                    check!(
                        pages.contains(&page),
                        "page {page:#x}, which is mandatory, is not listed: {pages:x?}"
                    );
                }
                for &page in pages.iter().filter(|&&page| page <= 0x0c) {
                    controller
                        .call(&commands::log_page(page, u32::MAX, 0, 16))?
                        .good("Get Log Page of a listed page")?;
                }
                Ok(())
            },
        ),
        Case::new(
            "log.error",
            "NVMe Base 2.1, 5.1.12.1.2 Error Information",
            "reads the first entry",
            "success, and ELPE entries at most",
            |subject| {
                subject.controller()?.log(log::ERROR, 0, 64)?;
                Ok(())
            },
        ),
        Case::new(
            "log.error-tells",
            "NVMe Base 2.1, 5.1.12.1.2 Error Information",
            "makes an error whose status has the bit \"more\"",
            "the newest entry has the command's identifier and status; else skipped",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::identify(0xfe, 0))?;
                need!(answer.status.more, "the status does not say that there is more");
                let entry = controller.log(log::ERROR, 0, 64)?;
                let (id, field) = (crate::wire::u16_at(&entry, 10), crate::wire::u16_at(&entry, 12));
                check!(u64_at(&entry, 0) > 0, "the error count is 0");
                check!(id == answer.id, "the entry is of command {id:#x}, not {:#x}", answer.id);
                let said = crate::wire::Status::of_field(field);
                check!(said.number() == answer.status.number(), "the entry says {said}");
                Ok(())
            },
        ),
        Case::new(
            "log.health",
            "NVMe Base 2.1, 5.1.12.1.3 SMART / Health",
            "reads it before and after writing 1 MiB and reading it",
            "no critical warning, counters that do not fall, spare within 100 %",
            |subject| {
                let mut disk = subject.disk()?;
                let before = disk.controller.log(log::HEALTH, u32::MAX, 512)?;
                check!(before[0] & 0x3f == 0, "the critical warning is {:#x}", before[0]);
                check!(before[3] <= 100, "the spare is {} %", before[3]);
                let blocks = disk.blocks_of(65536);
                let data = disk.pattern(1, blocks);
                for _ in 0..16 {
                    disk.write(0, &data)?;
                    disk.read(0, blocks)?;
                }
                let after = disk.controller.log(log::HEALTH, u32::MAX, 512)?;
                for (name, at) in [
                    ("data units read", 32),
                    ("data units written", 48),
                    ("reads", 64),
                    ("writes", 80),
                ] {
                    let (old, new) = (u64_at(&before, at), u64_at(&after, at));
                    check!(new >= old, "{name} fell from {old} to {new}");
                }
                Ok(())
            },
        ),
        Case::new(
            "log.health-of-namespace",
            "NVMe Base 2.1, 5.1.12.1.3: LPA bit 0",
            "reads it of the namespace",
            "success where LPA has bit 0; else Invalid Field in Command or the controller's page",
            |subject| {
                let mut controller = subject.controller()?;
                let nsid = subject.nsid(&mut controller)?;
                let each = controller.identify()?.byte(261) & 1 == 1;
                let answer = controller.call(&commands::log_page(log::HEALTH, nsid, 0, 512))?;
                let expected: &[u16] = if each {
                    &[status::SUCCESS]
                } else {
                    &[status::SUCCESS, status::INVALID_FIELD, status::INVALID_NAMESPACE]
                };
                ended_by(&answer, expected)
            },
        ),
        Case::new(
            "log.firmware",
            "NVMe Base 2.1, 5.1.12.1.4 Firmware Slot",
            "reads it",
            "an active slot of 1 to 7, whose revision is FR",
            |subject| {
                let mut controller = subject.controller()?;
                let page = controller.log(log::FIRMWARE, 0, 512)?;
                let slot = usize::from(page[0] & 7);
                check!((1..=7).contains(&slot), "the active slot is {slot}");
                let revision = crate::structures::text(&page[8 * slot..8 * slot + 8]);
                let said = controller.identify()?.text(64, 8);
                check!(revision == said, "the slot has {revision:?}, FR is {said:?}");
                Ok(())
            },
        ),
        Case::new(
            "log.effects",
            "NVMe Base 2.1, 5.1.12.1.6 Commands Supported and Effects",
            "reads it",
            "the mandatory commands, Write and what ONCS says; else skipped",
            |subject| {
                let mut controller = subject.controller()?;
                let identity = controller.identify()?;
                need!(identity.byte(261) >> 1 & 1 == 1, "LPA has no effects page");
                let page = controller.log(log::EFFECTS, 0, 4096)?;
                let admin = |opcode: u8| u32_at(&page, 4 * usize::from(opcode)) & 1 == 1;
                let io = |opcode: u8| u32_at(&page, 1024 + 4 * usize::from(opcode)) & 1 == 1;
                for opcode in [0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18] {
                    check!(
                        admin(opcode),
                        "admin opcode {opcode:#x}, which is mandatory, is not there"
                    );
                }
                for opcode in [0x00, 0x01, 0x02] {
                    check!(io(opcode), "I/O opcode {opcode:#x}, which is mandatory, is not there");
                }
                for (bit, opcode) in [(0, 5u8), (1, 4), (2, 9), (3, 8), (5, 0x0d), (7, 0x0c), (8, 0x19)] {
                    let said = identity.optional() >> bit & 1 == 1;
                    check!(
                        io(opcode) == said,
                        "I/O opcode {opcode:#x}: the page says {}, ONCS {said}",
                        io(opcode)
                    );
                }
                check!(
                    u32_at(&page, 1024 + 4) >> 1 & 1 == 1,
                    "Write does not change data (LBCC)"
                );
                Ok(())
            },
        ),
        Case::new(
            "log.changed-namespaces",
            "NVMe Base 2.1, 5.1.12.1.5 Changed Attached Namespace List",
            "reads it twice",
            "numbers that rise, or FFFFFFFFh; the second time it is empty",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::log_page(log::CHANGED_NAMESPACES, u32::MAX, 0, 4096))?;
                need!(answer.status.is_success(), "there is no such page");
                let again = controller.log(log::CHANGED_NAMESPACES, u32::MAX, 4096)?;
                check!(again.iter().all(|&byte| byte == 0), "the second time it is not empty");
                Ok(())
            },
        ),
        Case::new(
            "log.offset",
            "NVMe Base 2.1, 5.1.12: LPOL, where LPA has bit 2",
            "reads a page in two parts",
            "the same bytes as in one",
            |subject| {
                let mut controller = subject.controller()?;
                need!(controller.identify()?.byte(261) >> 2 & 1 == 1, "LPA has no offsets");
                let whole = controller.log(log::FIRMWARE, 0, 512)?;
                let part = controller
                    .call(&commands::log_page(log::FIRMWARE, 0, 256, 256))?
                    .good("Get Log Page")?;
                check!(part.data == whole[256..], "the second half is another by offset");
                Ok(())
            },
        ),
        Case::new(
            "log.part-of-page",
            "NVMe Base 2.1, 5.1.12: NUMD",
            "reads four bytes of a page",
            "the first four",
            |subject| {
                let mut controller = subject.controller()?;
                let whole = controller.log(log::FIRMWARE, 0, 512)?;
                let part = controller.log(log::FIRMWARE, 0, 4)?;
                check!(part == whole[..4], "they are {part:x?}");
                Ok(())
            },
        ),
        bad(
            "unknown",
            "reads page BFh",
            &[status::INVALID_LOG, status::INVALID_FIELD],
            |command| command.dword(10, 0xbf | 127 << 16),
        ),
        bad(
            "offset-not-aligned",
            "reads from byte 2 on",
            &[status::INVALID_FIELD],
            |command| command.qword(12, 2),
        ),
        bad(
            "offset-beyond",
            "reads from 1 MiB on, beyond the page",
            &[status::INVALID_FIELD],
            |command| command.qword(12, 1 << 20),
        ),
        Case::new(
            "log.of-absent-namespace",
            "NVMe Base 2.1, 5.1.12; 3.2.1",
            "reads the health of a namespace that is not there",
            "Invalid Namespace or Format, or Invalid Field",
            |subject| {
                let mut controller = subject.controller()?;
                let absent = subject.absent_nsid(&mut controller)?;
                refused(
                    &mut controller.admin,
                    &commands::log_page(log::HEALTH, absent, 0, 512),
                    &[status::INVALID_NAMESPACE, status::INVALID_FIELD],
                )
            },
        ),
        Case::new(
            "log.length-not-of-descriptor",
            "NVMe Base 2.1, 4.3.2: the descriptor's length is that of the data",
            "reads 512 bytes by a descriptor of 256",
            "Data SGL Length Invalid, or Invalid Field",
            |subject| {
                let mut controller = subject.controller()?;
                let request = commands::log_page(log::HEALTH, u32::MAX, 0, 512).with(Transfer::Read(256));
                refused(
                    &mut controller.admin,
                    &request,
                    &[status::SGL_LENGTH, status::INVALID_FIELD],
                )?;
                controller.identify()?;
                Ok(())
            },
        ),
    ]
}
