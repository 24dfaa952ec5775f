//! Discovery controllers.

use super::subject::{ended, ended_by, refused, silent};
use super::{Case, check, need};
use crate::controller::{DISCOVERY_NQN, discovery_log};
use crate::structures::DiscoveryLog;
use crate::wire::{feature, log, status};
use crate::{Transfer, commands};

const RULE: &str = "NVMe Base 2.1, 3.1.3.3 discovery controllers; 5.1.12.3.1 Discovery log";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "discovery.log",
            RULE,
            "reads the discovery log as hosts do",
            "the subsystem under test is there, by TCP, at an address and a port in ASCII, with any controller",
            |subject| {
                let log = discovery_log(&subject.settings(), &subject.host())?;
                check!(log.format == 0, "RECFMT is {}", log.format);
                let ours: Vec<_> = log
                    .entries
                    .iter()
                    .filter(|entry| entry.nqn == subject.options().nqn)
                    .collect();
                check!(
                    !ours.is_empty(),
                    "{} is not among {} records",
                    subject.options().nqn,
                    log.records
                );
                for entry in &log.entries {
                    check!(matches!(entry.kind, 1..=3), "SUBTYPE is {}", entry.kind);
                    check!(
                        entry.transport != 3 || matches!(entry.family, 1 | 2),
                        "ADRFAM is {}",
                        entry.family
                    );
                    check!(entry.admin_entries >= 32, "ASQSZ is {}", entry.admin_entries);
                    check!(entry.requirements & 3 != 3, "TREQ is {:#x}", entry.requirements);
                }
                for entry in ours {
                    check!(entry.transport == 3, "TRTYPE is {}", entry.transport);
                    check!(entry.kind == 2, "SUBTYPE is {}", entry.kind);
                    check!(entry.controller >= 0xfffe, "CNTLID is {:#x}", entry.controller);
                    check!(entry.service.parse::<u16>().is_ok(), "TRSVCID is {:?}", entry.service);
                    check!(
                        entry.address.parse::<std::net::IpAddr>().is_ok(),
                        "TRADDR is {:?}",
                        entry.address
                    );
                    check!(matches!(entry.security, 0 | 2), "SECTYPE is {}", entry.security);
                }
                Ok(())
            },
        ),
        Case::new(
            "discovery.header-only",
            RULE,
            "reads the first 16 bytes, and the header of 1,024",
            "the same generation and number of records",
            |subject| {
                let mut controller = subject.discovery()?;
                let header = DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, 1024)?)?;
                let short = controller.log(log::DISCOVERY, 0, 16)?;
                check!(crate::wire::u64_at(&short, 0) == header.generation, "GENCTR changed");
                check!(crate::wire::u64_at(&short, 8) == header.records, "NUMREC changed");
                Ok(())
            },
        ),
        Case::new(
            "discovery.by-offset",
            RULE,
            "reads the log record by record",
            "the same records as at once",
            |subject| {
                let mut controller = subject.discovery()?;
                let header = DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, 1024)?)?;
                need!(header.records > 0, "there are no records");
                let records = usize::try_from(header.records).unwrap_or(0).min(64);
                let whole = controller.log(log::DISCOVERY, 0, 1024 + 1024 * records)?;
                for n in 1..=records {
                    let request = commands::log_page(log::DISCOVERY, 0, 1024 * n as u64, 1024);
                    let part = controller.call(&request)?.good("Get Log Page")?.data;
                    check!(
                        part == whole[1024 * n..1024 * (n + 1)],
                        "record {n} is another by offset"
                    );
                }
                Ok(())
            },
        ),
        Case::new(
            "discovery.generation-stands",
            RULE,
            "reads the header twice",
            "GENCTR stands while nothing changes",
            |subject| {
                let first = discovery_log(&subject.settings(), &subject.host())?;
                let second = discovery_log(&subject.settings(), &subject.host())?;
                check!(
                    first.generation == second.generation,
                    "{} became {}",
                    first.generation,
                    second.generation
                );
                Ok(())
            },
        ),
        Case::new(
            "discovery.identify",
            "NVMe Base 2.1, 5.1.13.2.1 Identify Controller of discovery",
            "identifies the discovery controller",
            "CNTRLTYPE 2, its NQN the well-known or a unique one, LPA with offsets",
            |subject| {
                let mut controller = subject.discovery()?;
                let identity = controller.identify()?;
                check!(identity.byte(111) == 2, "CNTRLTYPE is {}", identity.byte(111));
                let nqn = identity.text(768, 256);
                check!(nqn.starts_with("nqn."), "SUBNQN is {nqn:?}");
                check!(
                    identity.byte(261) >> 2 & 1 == 1,
                    "LPA is {:#x}: no offsets",
                    identity.byte(261)
                );
                Ok(())
            },
        ),
        Case::new(
            "discovery.unique-name",
            "NVMe Base 2.1, 3.1.3.3.1: a unique discovery NQN",
            "connects by the name that Identify gives",
            "a discovery controller; skipped where the name is the well-known one",
            |subject| {
                let nqn = subject.discovery()?.identify()?.text(768, 256);
                need!(nqn != DISCOVERY_NQN, "the name is the well-known one");
                let mut settings = subject.settings();
                settings.nqn = nqn;
                let mut controller = subject.controller_with(&settings, &subject.host())?;
                check!(controller.identify()?.byte(111) == 2, "it is no discovery controller");
                controller.log(log::DISCOVERY, 0, 1024)?;
                Ok(())
            },
        ),
        Case::new(
            "discovery.persistent",
            "NVMe Base 2.1, 3.1.3.3.2: KATO above 0; OAES bit 31",
            "connects with a keep alive timer, enables notices of changes and asks for one",
            "all succeed, and no event comes while nothing changes",
            |subject| {
                let mut controller = subject.discovery()?;
                need!(
                    controller.identify()?.dword(92) >> 31 == 1,
                    "OAES has no notices of changes"
                );
                controller
                    .call(&commands::set_feature(feature::ASYNC_EVENTS, 1 << 31))?
                    .good("Set Features")?;
                controller.log(log::DISCOVERY, 0, 1024)?;
                controller.ask_for_event()?;
                silent(&mut controller.admin.connection, subject.options().silence)?;
                controller.call(&commands::keep_alive())?.good("Keep Alive")?;
                Ok(())
            },
        ),
        Case::new(
            "discovery.no-io-queue",
            "NVMe Base 2.1, 3.1.3.3: a discovery controller has no I/O queues",
            "connects an I/O queue",
            "Connect Invalid Parameters, or Command Sequence Error",
            |subject| {
                let controller = subject.discovery()?;
                let connect = controller.io_connect(1, 32);
                refused(
                    &mut subject.initialized()?,
                    &connect.request(),
                    &[
                        status::INVALID_PARAMETERS,
                        status::SEQUENCE_ERROR,
                        status::INVALID_QUEUE_TYPE,
                    ],
                )
            },
        ),
        Case::new(
            "discovery.no-namespaces",
            "NVMe Base 2.1, 3.1.3.3: commands of discovery controllers",
            "identifies namespaces on a discovery controller",
            "Invalid Field in Command or Invalid Namespace",
            |subject| {
                let mut controller = subject.discovery()?;
                let expected = &[status::INVALID_FIELD, status::INVALID_NAMESPACE, status::INVALID_OPCODE];
                refused(&mut controller.admin, &commands::identify(0, 1), expected)?;
                refused(&mut controller.admin, &commands::identify(2, 0), expected)
            },
        ),
        Case::new(
            "discovery.no-health",
            "NVMe Base 2.1, 3.1.3.3: log pages of discovery controllers",
            "reads the health page of a discovery controller",
            "Invalid Log Page or Invalid Field",
            |subject| {
                let mut controller = subject.discovery()?;
                let answer = controller.call(&commands::log_page(log::HEALTH, u32::MAX, 0, 512))?;
                ended_by(&answer, &[status::INVALID_LOG, status::INVALID_FIELD])
            },
        ),
        Case::new(
            "discovery.no-discovery-in-io-controller",
            RULE,
            "reads the discovery log of an I/O controller",
            "Invalid Log Page or Invalid Field",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::log_page(log::DISCOVERY, 0, 0, 1024))?;
                ended_by(&answer, &[status::INVALID_LOG, status::INVALID_FIELD])
            },
        ),
        Case::new(
            "discovery.offset-not-aligned",
            "NVMe Base 2.1, 5.1.12: LPOL is of dwords",
            "reads the discovery log from byte 2 on",
            "Invalid Field in Command",
            |subject| {
                let mut controller = subject.discovery()?;
                let request = commands::log_page(log::DISCOVERY, 0, 2, 1024).with(Transfer::Read(1024));
                ended(&controller.call(&request)?, status::INVALID_FIELD)
            },
        ),
    ]
}
