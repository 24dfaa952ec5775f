//! What comes to a session from within: ends of I/O, words of the register, new settings.

use super::task::Fault;
use super::work::copy;
use super::{Session, functions, logout, resets, work};
use crate::Cx;
use crate::connection::End;
use crate::faults::Fault as Planted;
use crate::hub::{Call, Reply};
use amita_frontend::engine::Protocol as _;
use amita_frontend::front::CloseReason;
use amita_frontend::service::{Event, Source};
use amita_scsi::Target;
use amita_types::io::IoError;
use std::sync::Arc;

impl Session {
    /// What came back from the service.
    pub fn event(&mut self, event: Event, cx: &mut Cx<'_>) -> Result<(), End> {
        match event {
            Event::Done { tag, result, payload } => self.done(tag, result, payload, cx),
            Event::Register { tag, reply } => match reply.downcast::<Reply>() {
                Ok(word) => self.word(tag, &word, cx),
                Err(_) => unreachable!("the register of iSCSI sessions speaks its own words"),
            },
            Event::Reserved { tag, result } => work::reserved(self, tag, result, cx),
            Event::Settings if self.port.config().faults.has(Planted::DeafToSettings) => Ok(()),
            Event::Settings => self.settings(cx),
            _ => Ok(()),
        }
    }

    /// The register speaks.
    fn word(&mut self, tag: u64, word: &Reply, cx: &mut Cx<'_>) -> Result<(), End> {
        match *word {
            Reply::Reinstated => {
                let why = CloseReason::Refused("the initiator has logged in anew".into());
                match self.port.config().faults.has(Planted::ReinstateAtOnce) {
                    true => {
                        cx.service.register(self.engine.front(), 0, Box::new(Call::Leave));
                        Err(End::After(why))
                    }
                    false => logout::end(self, why, cx),
                }
            }
            Reply::Reset {
                ticket,
                scope,
                ref counts,
            } => functions::told(self, ticket, scope, counts, cx),
            Reply::ResetDone => {
                functions::others_done(self, tag, cx.now);
                Ok(())
            }
            Reply::Moving { is_accepted } => work::moving(self, tag, is_accepted, cx),
            Reply::Entered { .. } | Reply::Refused(_) => Ok(()),
        }
    }

    /// The settings have changed: who may not log in any more, or not by what it has shown, is not served any more.
    fn settings(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        let catalog = self.port.catalog();
        if self.leaving.is_deaf() {
            return Ok(());
        }
        let name = self.names.target.as_deref();
        let target = name.and_then(|name| catalog.target_kept(name));
        let held = self.names.still_hold(
            target.as_deref(),
            self.rests_on.as_deref(),
            &catalog,
            self.port.config(),
        );
        if let Err(why) = held {
            return logout::dismiss(self, why, cx);
        }
        let is_leaving = name
            .and_then(|name| catalog.detail(name))
            .is_some_and(|detail| detail.leaving);
        let before = std::mem::replace(&mut self.target, target);
        let common = std::mem::replace(&mut self.common, self.port.common());
        if self.rests_on.is_none() && !Arc::ptr_eq(&self.common.barring, &common.barring) {
            self.nexus.barred = self.common.barring.names(&self.names.initiator);
        }
        self.catalog = catalog;
        if is_leaving {
            logout::ask(self, cx);
        }
        if self.is_guest() {
            return Ok(());
        }
        if !Arc::ptr_eq(&self.common.resets, &common.resets) {
            resets::look(self, cx)?;
        }
        self.withdraw(before.as_ref(), cx)?;
        self.withdraw_copies(cx)
    }

    /// Logical units that are not there any more take their tasks with them. Their volumes may be somebody else's soon, and a host can
    /// leave data that it was asked for, or that it has asked for, lying for as long as it likes.
    fn withdraw(&mut self, before: Option<&Arc<Target>>, cx: &mut Cx<'_>) -> Result<(), End> {
        let now = self.target.as_ref();
        // Most changes of the settings are of others, and a target can have thousands of logical units.
        if before.zip(now).is_some_and(|(before, now)| Arc::ptr_eq(before, now)) {
            return Ok(());
        }
        let initiator = self.names.initiator.as_str();
        let disks = |target: Option<&Arc<Target>>| -> Vec<(u16, [u8; 16], Source)> {
            let units = target.into_iter().flat_map(|target| target.units_of(initiator));
            units.map(|unit| (unit.number, unit.uuid, unit.source())).collect()
        };
        // Both in order of the numbers.
        let now = disks(now);
        let mut gone = disks(before);
        // A volume that moves to another pool has another number, and is the same disk to its hosts: what is under way goes on there.
        gone.retain(|(number, uuid, source)| {
            let found = now.binary_search_by_key(number, |unit| unit.0);
            found.is_err()
                || found.is_ok_and(|at| {
                    let (_, by, is) = &now[at];
                    is != source && (by, is.snapshot) != (uuid, source.snapshot)
                })
        });
        if gone.is_empty() {
            return Ok(());
        }
        let is_gone = |number: u16| gone.binary_search_by_key(&number, |unit| unit.0).is_ok();
        self.end_tasks(|task| task.lun.number().is_some_and(is_gone), Fault::Gone, cx)?;
        Ok(())
    }

    /// The same for copies by way of another logical unit, which is there still. To that the others are copy targets that are not reachable.
    fn withdraw_copies(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        let requests = self.engine.requests().map(|request| &request.own);
        let barred = requests.filter(|task| task.is_copy && !copy::may_go_on(task, &self.catalog.scsi, &self.nexus));
        let barred: Vec<u64> = barred.map(|task| task.serial).collect();
        if !barred.is_empty() {
            let fault = Fault::Volume(IoError::Unavailable);
            self.end_tasks(|task| barred.contains(&task.serial), fault, cx)?;
        }
        Ok(())
    }
}
