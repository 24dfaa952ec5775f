//! What comes to a queue from within: ends of I/O, words of the register, new settings, time, and the end of the connection.

use super::role::Role;
use super::{End, Queue, Work, access, admin, fabrics};
use crate::Cx;
use crate::admin::{Counters, Life};
use crate::catalog::{Catalog, Subsystem};
use crate::hub::{Call, Reply};
use crate::io::reserve;
use crate::wire::status;
use amita_frontend::Source;
use amita_frontend::engine::{Protocol as _, Request};
use amita_frontend::front::CloseReason;
use amita_frontend::service::Event;
use std::sync::Arc;

impl Queue {
    /// What came back from the service.
    pub fn event(&mut self, event: Event, cx: &mut Cx<'_>) -> Result<(), End> {
        match event {
            Event::Done { tag, result, payload } => self.done(tag, result, payload, cx),
            Event::Register { tag, reply } => match reply.downcast::<Reply>() {
                Ok(word) => self.word(tag, *word, cx),
                Err(_) => unreachable!("the register of NVMe controllers speaks its own words"),
            },
            Event::Reserved { tag, result } => reserve::ended(self, tag, result, cx),
            Event::Computed { tag, result } => access::computed(self, tag, result, cx),
            Event::Settings => self.settings(cx),
            _ => Ok(()),
        }
    }

    /// The register speaks.
    fn word(&mut self, tag: u64, word: Reply, cx: &mut Cx<'_>) -> Result<(), End> {
        match word {
            Reply::Gone => Err(End::Now(CloseReason::Refused("the controller is gone".into()))),
            Reply::Noted => {
                self.role.failures_noted(&self.engine, cx);
                Ok(())
            }
            Reply::Answer(answer) => {
                admin::answer(self, tag, answer, cx);
                Ok(())
            }
            Reply::Enabled | Reply::Disabled => {
                if let Some(slot) = self.engine.find(tag) {
                    self.engine.request(slot).issued = true;
                    self.finish_if_complete(slot, cx)?;
                }
                Ok(())
            }
            Reply::Offered { .. } | Reply::Created { .. } | Reply::Joined { .. } | Reply::Refused { .. } => {
                fabrics::connected(self, word, cx)
            }
        }
    }

    /// The settings have changed: who may not connect any more, or not by what it has shown, is not served any more.
    fn settings(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        let catalog: Arc<Catalog> = self.port.catalog();
        if let Some(party) = self.role.party()
            && let Err(why) = self.access.holds(&catalog, &party)
        {
            return Err(End::Now(CloseReason::Refused(why.into())));
        }
        match &mut self.role {
            Role::Admin(role) => role.admin.settings(&catalog),
            Role::Io(role) => {
                let subsystem = catalog.subsystem(&role.connect.party.subsystem).cloned();
                let before = std::mem::replace(&mut role.subsystem, subsystem);
                self.withdraw(before.as_deref(), cx)?;
            }
            Role::New | Role::Connecting { .. } | Role::Proving(_) => {}
        }
        self.access.settings(&self.port, &self.role, &catalog);
        admin::events(self, cx);
        Ok(())
    }

    /// Namespaces that are not there any more take their commands with them. Their volumes may be somebody else's soon, and a host can
    /// leave data that it was asked for, or that it has asked for, lying for as long as it likes.
    fn withdraw(&mut self, before: Option<&Subsystem>, cx: &mut Cx<'_>) -> Result<(), End> {
        // A volume that moves to another pool has another number, and is the same disk to its hosts: what is under way goes on there.
        let disks = |subsystem: Option<&Subsystem>| -> Vec<(u32, [u8; 16], Source)> {
            let namespaces = subsystem.into_iter().flat_map(Subsystem::sound);
            namespaces
                .map(|namespace| (namespace.nsid, namespace.uuid, namespace.source()))
                .collect()
        };
        let now = disks(self.role.subsystem().map(Arc::as_ref));
        let is_there = |(nsid, uuid, source): &(u32, [u8; 16], Source)| {
            now.iter()
                .any(|(of, by, found)| found == source || (of, by, found.snapshot) == (nsid, uuid, source.snapshot))
        };
        let gone: Vec<Source> = disks(before)
            .into_iter()
            .filter(|disk| !is_there(disk))
            .map(|(_, _, source)| source)
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        // What only waits for what is under way ends with that.
        let is_meant =
            |request: &Request<Queue>| gone.contains(&request.source) && !matches!(request.own.work, Work::Wait);
        for slot in self.engine.withdraw(is_meant, status::INVALID_NAMESPACE) {
            self.finish_if_complete(slot, cx)?;
        }
        Ok(())
    }

    /// Adds what was counted to the controller's counters. Once a pass.
    pub(super) fn tell_counters(&mut self) {
        let Role::Io(role) = &self.role else { return };
        if self.counts != Counters::default() {
            role.shared.controller.count(std::mem::take(&mut self.counts));
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, cx: &mut Cx<'_>) -> Result<(), End> {
        self.retry(cx);
        self.look(cx.now)?;
        let Role::Admin(role) = &mut self.role else {
            return Ok(());
        };
        match role.admin.tick(cx.now) {
            Life::Alive => {
                admin::events(self, cx);
                Ok(())
            }
            Life::KeepAliveLost => Err(End::Now(CloseReason::Timeout)),
            Life::Idle => Err(End::After(CloseReason::Timeout)),
        }
    }

    /// The connection is gone.
    pub fn closed(&mut self, service: &mut dyn amita_frontend::service::StorageService) {
        match &mut self.role {
            // The register does not know it.
            Role::New | Role::Proving(_) => return,
            Role::Admin(role) => {
                if let Some(gate) = role.gate.take() {
                    gate.shut();
                }
                role.shared.kill();
            }
            Role::Io(role) => {
                // Nobody waits for this one's answer.
                let failures = std::mem::take(&mut role.failures);
                if !failures.is_empty() {
                    service.register(self.engine.front(), 0, Box::new(Call::Failed(failures)));
                }
                self.tell_counters();
            }
            Role::Connecting { .. } => {}
        }
        service.register(self.engine.front(), 0, Box::new(Call::Leave));
    }
}
