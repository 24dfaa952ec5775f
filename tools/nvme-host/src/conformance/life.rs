//! How controllers end: keep alive, loss of connections, and what stays of it.

use super::subject::ended;
use super::{Case, Verdict, check, need};
use crate::wire::{feature, status};
use crate::{Error, Transfer, commands};
use std::time::{Duration, Instant};

/// A keep alive time-out that is short enough to wait for.
const SHORT: u32 = 1000;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "life.keep-alive-loss",
            "NVMe Base 2.1, 3.9 Keep Alive; TCP Transport 1.1, 3.6.1",
            "connects with KATO of 1 s and says nothing",
            "both connections end within a few time-outs; another controller lives",
            |subject| {
                let mut bystander = subject.controller()?;
                let mut settings = subject.settings();
                settings.keep_alive_ms = SHORT;
                let mut disk = subject.disk_with(&settings, &subject.host())?;
                let granted = disk
                    .controller
                    .call(&commands::get_feature(feature::KEEP_ALIVE, 0))?
                    .good("Get Features")?;
                need!(
                    u64::from(granted.dword()) * 4 < 40_000,
                    "the timer is {} ms: not waited for",
                    granted.dword()
                );
                let end =
                    Instant::now() + Duration::from_millis(u64::from(granted.dword()) * 5) + subject.options().timeout;
                for queue in [&mut disk.controller.admin, &mut disk.queue] {
                    match queue.connection.next_until(end) {
                        Err(Error::Closed | Error::Terminated { .. } | Error::Io(_)) => {}
                        Err(other) => return Err(other.into()),
                        Ok(pdu) => return Err(Verdict::Failed(format!("it sent {pdu:?} instead of closing"))),
                    }
                }
                bystander.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "life.keep-alive-kept",
            "NVMe Base 2.1, 3.9.3 command based keep alive",
            "connects with KATO of 1 s and sends Keep Alive for 3 s",
            "the controller lives",
            |subject| {
                let mut settings = subject.settings();
                settings.keep_alive_ms = SHORT;
                let mut disk = subject.disk_with(&settings, &subject.host())?;
                for _ in 0..12 {
                    std::thread::sleep(Duration::from_millis(250));
                    disk.controller.call(&commands::keep_alive())?.good("Keep Alive")?;
                }
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "life.keep-alive-by-traffic",
            "NVMe Base 2.1, 3.9.4 traffic based keep alive; CTRATT bit 6",
            "connects with KATO of 1 s, reads for 4 s and sends no Keep Alive, where CTRATT has TBKAS",
            "the controller lives",
            |subject| {
                let mut settings = subject.settings();
                settings.keep_alive_ms = SHORT;
                let mut disk = subject.disk_with(&settings, &subject.host())?;
                need!(disk.identity.dword(96) >> 6 & 1 == 1, "CTRATT has no TBKAS");
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(200));
                    disk.read(0, 1)?;
                }
                disk.controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "life.admin-lost",
            "NVMe Base 2.1, 3.3.2.4; TCP Transport 1.1, 3.5: an admin queue's end is the controller's",
            "closes the admin queue's connection",
            "the I/O queue's connection ends as well",
            |subject| {
                let disk = subject.disk()?;
                let mut queue = disk.queue;
                drop(disk.controller);
                match queue.connection.next() {
                    Err(Error::Closed | Error::Terminated { .. } | Error::Io(_)) => Ok(()),
                    Err(Error::Timeout(_)) => Err(Verdict::Failed("the I/O queue stays".into())),
                    Err(other) => Err(other.into()),
                    Ok(pdu) => Err(Verdict::Failed(format!("it sent {pdu:?} instead of closing"))),
                }
            },
        ),
        Case::new(
            "life.io-lost-in-the-middle",
            "TCP Transport 1.1, 3.5",
            "closes I/O queues with reads and writes in flight, twenty times",
            "the controller lives, and takes a new queue each time",
            |subject| {
                let mut disk = subject.disk()?;
                let blocks = disk.blocks_of(65536);
                for round in 0..20u32 {
                    let data = disk.pattern(round, blocks);
                    let requests: Vec<_> = (0..16)
                        .map(|n| match n % 2 {
                            0 => commands::read(disk.nsid, 0, blocks, disk.block_bytes),
                            _ => commands::write(disk.nsid, 1024, blocks, Vec::new())
                                .with(Transfer::WriteByR2t(data.clone())),
                        })
                        .collect();
                    let end = Instant::now() + subject.options().timeout;
                    let mut queue = loop {
                        match disk.controller.io_queue(2, 32) {
                            Ok(queue) => break queue,
                            Err(error) if Instant::now() > end => return Err(error.into()),
                            Err(_) => std::thread::sleep(Duration::from_millis(20)),
                        }
                    };
                    queue.submit_all(&requests)?;
                    queue.poll()?;
                }
                disk.controller.identify()?;
                disk.read(0, 1)?;
                Ok(())
            },
        ),
        Case::new(
            "life.written-stays",
            "NVMe Base 2.1, 3.7: what was completed survives a controller",
            "writes, loses the controller, connects again and reads",
            "the bytes that were written",
            |subject| {
                let data = {
                    let mut disk = subject.disk()?;
                    let data = disk.pattern(91, 8);
                    disk.write(0, &data)?;
                    data
                };
                subject.disk()?.holds(0, &data)
            },
        ),
        Case::new(
            "life.identifiers-used-again",
            "NVMe Base 2.1, 3.3.3.1: an identifier is free once its command ended",
            "runs 500 commands under one identifier",
            "each ends",
            |subject| {
                let mut disk = subject.disk()?;
                for _ in 0..500 {
                    disk.queue
                        .submit_as(&commands::read(disk.nsid, 0, 1, disk.block_bytes), 0xfffe)?;
                    disk.queue.wait(0xfffe)?.good("Read")?;
                }
                Ok(())
            },
        ),
        Case::new(
            "life.keep-alive-timer-off-and-on",
            "NVMe Base 2.1, 5.1.25.1.8 Keep Alive Timer",
            "sets the timer to a time beyond what a controller can keep, where that is refused",
            "success, or Keep Alive Timeout Invalid; the controller lives",
            |subject| {
                let mut controller = subject.controller()?;
                let answer = controller.call(&commands::set_feature(feature::KEEP_ALIVE, u32::MAX))?;
                if !answer.status.is_success() {
                    ended(&answer, status::KEEP_ALIVE_INVALID)?;
                }
                controller.identify()?;
                Ok(())
            },
        ),
        Case::new(
            "life.many-controllers",
            "NVMe Base 2.1, 3.1.1",
            "holds 24 controllers of one host at once",
            "each has a number of its own and works",
            |subject| {
                let mut all = Vec::new();
                for _ in 0..24 {
                    all.push(subject.controller()?);
                }
                let mut ids: Vec<u16> = all.iter().map(|controller| controller.id).collect();
                ids.sort_unstable();
                ids.dedup();
                check!(
                    ids.len() == all.len(),
                    "{} numbers for {} controllers",
                    ids.len(),
                    all.len()
                );
                for controller in &mut all {
                    controller.identify()?;
                }
                Ok(())
            },
        ),
    ]
}
