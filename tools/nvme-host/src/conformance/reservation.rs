//! Reservations, of two hosts.

use super::subject::{Disk, ended, ended_by};
use super::{Case, Outcome, Subject, Verdict, check};
use crate::commands;
use crate::wire::{status, u16_at, u32_at, u64_at};

const RULE: &str = "NVMe Base 2.1, 8.1.22 Reservations; 7.5 to 7.8";
const ONE: u64 = 0x1111;
const TWO: u64 = 0x2222;

/// Both hosts with a queue each; no registration, no reservation.
fn both(subject: &Subject) -> Result<(Disk, Disk), Verdict> {
    let mut one = subject.disk()?;
    let mut two = subject.disk_with(&subject.settings(), &subject.second_host())?;
    if one.identity.optional() >> 5 & 1 == 0 || one.namespace.byte(31) & 0x7f == 0 {
        return Err(Verdict::Skipped("there are no reservations (ONCS, RESCAP)".into()));
    }
    // What an earlier case left: register over it, clear it.
    let nsid = one.nsid;
    one.queue
        .call(&commands::reservation_register(nsid, 0, true, 0, 0, ONE))?;
    one.queue
        .call(&commands::reservation_register(nsid, 2, true, 0, 0, ONE))?
        .good("Reservation Register")?;
    one.queue
        .call(&commands::reservation_release(nsid, 1, 0, ONE))?
        .good("Reservation Release, clear")?;
    two.read(0, 1)?;
    Ok((one, two))
}

fn register(disk: &mut Disk, key: u64) -> Outcome {
    let request = commands::reservation_register(disk.nsid, 0, false, 0, 0, key);
    disk.queue.call(&request)?.good("Reservation Register")?;
    Ok(())
}

fn acquire(disk: &mut Disk, kind: u8, key: u64) -> Outcome {
    let request = commands::reservation_acquire(disk.nsid, 0, kind, key, 0);
    disk.queue.call(&request)?.good("Reservation Acquire")?;
    Ok(())
}

/// A registrant of the report.
struct Registrant {
    holds: bool,
    host: Vec<u8>,
    key: u64,
}

fn report(disk: &mut Disk) -> Result<(u32, u8, u8, Vec<Registrant>), Verdict> {
    let request = commands::reservation_report(disk.nsid, 4096);
    let data = disk.queue.call(&request)?.good("Reservation Report")?.data;
    let count = usize::from(u16_at(&data, 5));
    let registrants = data[64..]
        .chunks_exact(64)
        .take(count)
        .map(|entry| Registrant {
            holds: entry[2] & 1 == 1,
            key: u64_at(entry, 8),
            host: entry[16..32].to_vec(),
        })
        .collect();
    Ok((u32_at(&data, 0), data[4], data[9], registrants))
}

/// May this host write, and read?
fn may(disk: &mut Disk, write: bool, read: bool) -> Outcome {
    let data = disk.pattern(70, 1);
    let answer = disk.queue.call(&commands::write(disk.nsid, 0, 1, data))?;
    ended(
        &answer,
        if write {
            status::SUCCESS
        } else {
            status::RESERVATION_CONFLICT
        },
    )?;
    let answer = disk.queue.call(&commands::read(disk.nsid, 0, 1, disk.block_bytes))?;
    ended(
        &answer,
        if read {
            status::SUCCESS
        } else {
            status::RESERVATION_CONFLICT
        },
    )
}

/// What each kind allows: (kind, name, registered others write, read, unregistered others write, read).
const KINDS: [(u8, &str, bool, bool, bool, bool); 6] = [
    (1, "write-exclusive", false, true, false, true),
    (2, "exclusive-access", false, false, false, false),
    (3, "write-exclusive-registrants", true, true, false, true),
    (4, "exclusive-access-registrants", true, true, false, false),
    (5, "write-exclusive-all", true, true, false, true),
    (6, "exclusive-access-all", true, true, false, false),
];

fn kinds() -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, name, registered_write, registered_read, other_write, other_read) in KINDS {
        cases.push(Case::new(
            format!("reservation.{name}"),
            "NVMe Base 2.1, 8.1.22, table of what each type allows",
            "one host reserves; another writes and reads, first not registered, then registered",
            "what the table says; the holder may both; after the release all may",
            move |subject| {
                let (mut one, mut two) = both(subject)?;
                if one.namespace.byte(31) >> kind & 1 == 0 {
                    return Err(Verdict::Skipped(format!("RESCAP has no type {kind}")));
                }
                register(&mut one, ONE)?;
                acquire(&mut one, kind, ONE)?;
                may(&mut one, true, true)?;
                may(&mut two, other_write, other_read)?;
                register(&mut two, TWO)?;
                may(&mut two, registered_write, registered_read)?;
                let (_, said, _, registrants) = report(&mut two)?;
                check!(said == kind, "RTYPE is {said}, not {kind}");
                check!(registrants.len() == 2, "{} registrants", registrants.len());
                for registrant in &registrants {
                    let key = if registrant.host == subject.host().id { ONE } else { TWO };
                    check!(registrant.key == key, "a registrant has key {:#x}", registrant.key);
                    let holds = kind >= 5 || key == ONE;
                    check!(
                        registrant.holds == holds,
                        "RCSTS of {:#x} is {}",
                        registrant.key,
                        registrant.holds
                    );
                }
                let release = commands::reservation_release(one.nsid, 0, kind, ONE);
                one.queue.call(&release)?.good("Reservation Release")?;
                may(&mut two, true, true)
            },
        ));
    }
    cases
}

pub fn cases() -> Vec<Case> {
    let mut cases = kinds();
    cases.extend(vec![
        Case::new(
            "reservation.register-twice",
            RULE,
            "registers again with the same key, and with another",
            "success, and Reservation Conflict",
            |subject| {
                let (mut one, _) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut one, ONE)?;
                let request = commands::reservation_register(one.nsid, 0, false, 0, 0, TWO);
                ended(&one.queue.call(&request)?, status::RESERVATION_CONFLICT)
            },
        ),
        Case::new(
            "reservation.replace",
            RULE,
            "replaces the key, with the right and a wrong old one",
            "success, and Reservation Conflict",
            |subject| {
                let (mut one, _) = both(subject)?;
                register(&mut one, ONE)?;
                let wrong = commands::reservation_register(one.nsid, 2, false, 0, TWO, 5);
                ended(&one.queue.call(&wrong)?, status::RESERVATION_CONFLICT)?;
                let right = commands::reservation_register(one.nsid, 2, false, 0, ONE, 5);
                one.queue.call(&right)?.good("Reservation Register, replace")?;
                let (_, _, _, registrants) = report(&mut one)?;
                check!(
                    registrants.len() == 1 && registrants[0].key == 5,
                    "the report has another key"
                );
                Ok(())
            },
        ),
        Case::new(
            "reservation.unregister-releases",
            RULE,
            "the holder unregisters",
            "the reservation is gone",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                acquire(&mut one, 1, ONE)?;
                may(&mut two, false, true)?;
                let request = commands::reservation_register(one.nsid, 1, false, 0, ONE, 0);
                one.queue.call(&request)?.good("Reservation Register, unregister")?;
                may(&mut two, true, true)?;
                let (_, kind, _, registrants) = report(&mut two)?;
                check!(
                    kind == 0 && registrants.is_empty(),
                    "type {kind}, {} registrants",
                    registrants.len()
                );
                Ok(())
            },
        ),
        Case::new(
            "reservation.acquire-unregistered",
            RULE,
            "a host that is not registered reserves",
            "Reservation Conflict",
            |subject| {
                let (_, mut two) = both(subject)?;
                let request = commands::reservation_acquire(two.nsid, 0, 1, TWO, 0);
                ended(&two.queue.call(&request)?, status::RESERVATION_CONFLICT)
            },
        ),
        Case::new(
            "reservation.acquire-held",
            RULE,
            "a second registrant reserves what is held",
            "Reservation Conflict; the holder may repeat itself",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut two, TWO)?;
                acquire(&mut one, 1, ONE)?;
                acquire(&mut one, 1, ONE)?;
                let request = commands::reservation_acquire(two.nsid, 0, 1, TWO, 0);
                ended(&two.queue.call(&request)?, status::RESERVATION_CONFLICT)?;
                let other_kind = commands::reservation_acquire(one.nsid, 0, 2, ONE, 0);
                ended(&one.queue.call(&other_kind)?, status::RESERVATION_CONFLICT)
            },
        ),
        Case::new(
            "reservation.wrong-key",
            RULE,
            "acquires and releases with another key than was registered",
            "Reservation Conflict",
            |subject| {
                let (mut one, _) = both(subject)?;
                register(&mut one, ONE)?;
                let acquired = commands::reservation_acquire(one.nsid, 0, 1, TWO, 0);
                ended(&one.queue.call(&acquired)?, status::RESERVATION_CONFLICT)?;
                acquire(&mut one, 1, ONE)?;
                let release = commands::reservation_release(one.nsid, 0, 1, TWO);
                ended(&one.queue.call(&release)?, status::RESERVATION_CONFLICT)
            },
        ),
        Case::new(
            "reservation.release-other-kind",
            RULE,
            "the holder releases a type that it does not hold",
            "Invalid Field in Command; the reservation stays",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                acquire(&mut one, 1, ONE)?;
                let release = commands::reservation_release(one.nsid, 0, 2, ONE);
                ended(&one.queue.call(&release)?, status::INVALID_FIELD)?;
                may(&mut two, false, true)
            },
        ),
        Case::new(
            "reservation.release-not-held",
            RULE,
            "a registrant that does not hold the reservation releases it",
            "success without effect",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut two, TWO)?;
                acquire(&mut one, 1, ONE)?;
                let release = commands::reservation_release(two.nsid, 0, 1, TWO);
                two.queue.call(&release)?.good("Reservation Release")?;
                may(&mut two, false, true)
            },
        ),
        Case::new(
            "reservation.preempt",
            RULE,
            "the second registrant preempts the first",
            "it holds the reservation; the first is registered no more",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut two, TWO)?;
                acquire(&mut one, 1, ONE)?;
                let (before, ..) = report(&mut two)?;
                let preempt = commands::reservation_acquire(two.nsid, 1, 2, TWO, ONE);
                two.queue.call(&preempt)?.good("Reservation Acquire, preempt")?;
                let (after, kind, _, registrants) = report(&mut two)?;
                check!(after != before, "GEN is still {after}");
                check!(kind == 2, "RTYPE is {kind}");
                check!(
                    registrants.len() == 1 && registrants[0].key == TWO && registrants[0].holds,
                    "others are registered"
                );
                may(&mut two, true, true)?;
                may(&mut one, false, false)
            },
        ),
        Case::new(
            "reservation.preempt-and-abort",
            RULE,
            "preempts with abort",
            "as preempt",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut two, TWO)?;
                acquire(&mut one, 1, ONE)?;
                let preempt = commands::reservation_acquire(two.nsid, 2, 1, TWO, ONE);
                two.queue
                    .call(&preempt)?
                    .good("Reservation Acquire, preempt and abort")?;
                may(&mut two, true, true)?;
                may(&mut one, false, true)
            },
        ),
        Case::new(
            "reservation.clear",
            RULE,
            "a registrant that does not hold the reservation clears",
            "no reservation and no registrants",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                register(&mut two, TWO)?;
                acquire(&mut one, 1, ONE)?;
                let clear = commands::reservation_release(two.nsid, 1, 0, TWO);
                two.queue.call(&clear)?.good("Reservation Release, clear")?;
                let (_, kind, _, registrants) = report(&mut two)?;
                check!(
                    kind == 0 && registrants.is_empty(),
                    "type {kind}, {} registrants",
                    registrants.len()
                );
                may(&mut two, true, true)
            },
        ),
        Case::new(
            "reservation.generation",
            "NVMe Base 2.1, 7.8 Reservation Report: GEN",
            "registers and reserves",
            "GEN grows with the registration, not with the reservation",
            |subject| {
                let (mut one, _) = both(subject)?;
                let (start, ..) = report(&mut one)?;
                register(&mut one, ONE)?;
                let (registered, ..) = report(&mut one)?;
                acquire(&mut one, 1, ONE)?;
                let (reserved, ..) = report(&mut one)?;
                check!(
                    registered == start.wrapping_add(1),
                    "GEN went from {start} to {registered}"
                );
                check!(
                    reserved == registered,
                    "GEN went from {registered} to {reserved} by the reservation"
                );
                Ok(())
            },
        ),
        Case::new(
            "reservation.outlives-the-connection",
            RULE,
            "the holder disconnects and connects again",
            "it still holds the reservation, and is registered",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                acquire(&mut one, 1, ONE)?;
                drop(one);
                may(&mut two, false, true)?;
                let mut again = subject.disk()?;
                may(&mut again, true, true)?;
                let release = commands::reservation_release(again.nsid, 0, 1, ONE);
                again.queue.call(&release)?.good("Reservation Release")?;
                may(&mut two, true, true)
            },
        ),
        Case::new(
            "reservation.conflicts",
            "NVMe Base 2.1, 8.1.22, table of commands in conflict",
            "a host that is not registered sends every command of writing, and of reading, against Exclusive Access",
            "Reservation Conflict, for those that are there",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                acquire(&mut one, 2, ONE)?;
                let (nsid, size) = (two.nsid, two.block_bytes);
                let block = vec![1; size];
                let mut requests = vec![
                    ("Read", commands::read(nsid, 0, 1, size)),
                    ("Write", commands::write(nsid, 0, 1, block.clone())),
                ];
                let optional = two.identity.optional();
                if optional & 1 == 1 {
                    requests.push(("Compare", commands::compare(nsid, 0, 1, block)));
                }
                if optional >> 2 & 1 == 1 {
                    requests.push(("Dataset Management", commands::deallocate(nsid, &[(0, 1)])));
                }
                if optional >> 3 & 1 == 1 {
                    requests.push(("Write Zeroes", commands::write_zeroes(nsid, 0, 1, false)));
                }
                if optional >> 7 & 1 == 1 {
                    requests.push(("Verify", commands::verify(nsid, 0, 1)));
                }
                if optional >> 8 & 1 == 1 {
                    requests.push(("Copy", commands::copy(nsid, 100, &[(0, 1)])));
                }
                for (name, request) in requests {
                    let answer = two.queue.call(&request)?;
                    if let Err(Verdict::Failed(why)) = ended(&answer, status::RESERVATION_CONFLICT) {
                        return Err(Verdict::Failed(format!("{name}: {why}")));
                    }
                }
                Ok(())
            },
        ),
        Case::new(
            "reservation.flush-conflicts",
            "NVMe Base 2.1, 8.1.22: Flush is of the commands that write",
            "a host that is not registered flushes against Exclusive Access",
            "Reservation Conflict",
            |subject| {
                let (mut one, mut two) = both(subject)?;
                register(&mut one, ONE)?;
                acquire(&mut one, 2, ONE)?;
                ended(
                    &two.queue.call(&commands::flush(two.nsid))?,
                    status::RESERVATION_CONFLICT,
                )
            },
        ),
        Case::new(
            "reservation.flush-of-who-may-write",
            "NVMe Base 2.1, 8.1.22: Flush is of the commands that write",
            "the holder, and a registrant, flush under each type of reservation; then a host that is not registered",
            "who may write may flush; the stranger gets Reservation Conflict under each",
            |subject| {
                for kind in 1..=6 {
                    let (mut one, mut two) = both(subject)?;
                    register(&mut one, ONE)?;
                    acquire(&mut one, kind, ONE)?;
                    one.queue
                        .call(&commands::flush(one.nsid))?
                        .good("Flush of the holder")?;
                    ended(
                        &two.queue.call(&commands::flush(two.nsid))?,
                        status::RESERVATION_CONFLICT,
                    )?;
                    register(&mut two, TWO)?;
                    let answer = two.queue.call(&commands::flush(two.nsid))?;
                    match kind {
                        1 | 2 => ended(&answer, status::RESERVATION_CONFLICT)?,
                        _ => ended(&answer, status::SUCCESS)?,
                    }
                }
                Ok(())
            },
        ),
        Case::new(
            "reservation.reserved-fields",
            RULE,
            "sends actions and types that are reserved",
            "Invalid Field in Command",
            |subject| {
                let (mut one, _) = both(subject)?;
                register(&mut one, ONE)?;
                let nsid = one.nsid;
                for request in [
                    commands::reservation_register(nsid, 5, false, 0, ONE, ONE),
                    commands::reservation_register(nsid, 2, false, 1, ONE, ONE),
                    commands::reservation_acquire(nsid, 5, 1, ONE, 0),
                    commands::reservation_acquire(nsid, 0, 9, ONE, 0),
                    commands::reservation_release(nsid, 5, 1, ONE),
                ] {
                    ended(&one.queue.call(&request)?, status::INVALID_FIELD)?;
                }
                Ok(())
            },
        ),
        Case::new(
            "reservation.report-needs-extended",
            "NVMe Base 2.1, 7.8: hosts of 128 bits need EDS",
            "asks for a report without extended structures",
            "Host Identifier Inconsistent Format",
            |subject| {
                let (mut one, _) = both(subject)?;
                let request = commands::reservation_report(one.nsid, 4096).map(|command| command.dword(11, 0));
                ended(&one.queue.call(&request)?, status::HOST_ID_INCONSISTENT)
            },
        ),
        Case::new(
            "reservation.report-short",
            "NVMe Base 2.1, 7.8 Reservation Report",
            "asks for 16 bytes of the report",
            "the header's first bytes",
            |subject| {
                let (mut one, _) = both(subject)?;
                register(&mut one, ONE)?;
                let request = commands::reservation_report(one.nsid, 16);
                let data = one.queue.call(&request)?.good("Reservation Report")?.data;
                check!(u16_at(&data, 5) == 1, "REGSTRNT is {}", u16_at(&data, 5));
                Ok(())
            },
        ),
        Case::new(
            "reservation.persist",
            "NVMe Base 2.1, 7.6: CPTPL",
            "switches persistence through power loss on and off",
            "the report's PTPLS follows; or Invalid Field, where RESCAP has none",
            |subject| {
                let (mut one, _) = both(subject)?;
                let there = one.namespace.byte(31) & 1 == 1;
                for (change, due) in [(3u8, 1u8), (2, 0)] {
                    let request = commands::reservation_register(one.nsid, 0, true, change, 0, ONE);
                    let answer = one.queue.call(&request)?;
                    if !there {
                        ended_by(&answer, &[status::INVALID_FIELD, status::SUCCESS])?;
                        continue;
                    }
                    answer.good("Reservation Register")?;
                    let (_, _, persists, _) = report(&mut one)?;
                    check!(persists == due, "PTPLS is {persists} after CPTPL {change}");
                }
                Ok(())
            },
        ),
    ]);
    cases
}
