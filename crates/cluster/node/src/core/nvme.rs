//! The NVMe side of a core: the register of controllers and the settings that hosts see.

use super::control_plane::ControlPlane;
use crate::catalog::Cataloguer;
use crate::directory::Directory;
use crate::mail::{Mail, NodeMessage};
use crate::view::View;
use amita_frontend::ConnectionId;
use amita_reactor::Time;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Hosts are told of other hosts' reservations after so long.
const RESERVATIONS_PAUSE: Duration = Duration::from_millis(50);

/// The NVMe side of one core.
pub(super) struct NvmeSide {
    port: Rc<amita_nvme::Port>,
    /// On core 0: the register of controllers.
    hub: amita_nvme::Hub,
    /// On core 0 of a node that NVMe hosts connect to.
    cataloguer: Option<Cataloguer>,
    /// All records of the metadata are known, as they were at the start. Before that NVMe hosts are not let in: a host that is
    /// told that its subsystem does not exist gives the path up for good.
    settled: bool,
    /// What NVMe hosts see has changed: they are told in this pass.
    changed: bool,
    /// What NVMe hosts see may have changed.
    due: bool,
    /// A reservation has: looked at then.
    reservations_due: Option<Time>,
}

impl NvmeSide {
    pub(super) fn new(config: amita_nvme::Config) -> NvmeSide {
        NvmeSide {
            port: Rc::new(amita_nvme::Port::new(config)),
            hub: amita_nvme::Hub::default(),
            cataloguer: None,
            settled: false,
            changed: false,
            due: false,
            reservations_due: None,
        }
    }

    /// The NVMe target's side of this core.
    pub(super) fn port(&self) -> &Rc<amita_nvme::Port> {
        &self.port
    }

    /// This node serves NVMe hosts: the settings that they see are made by it, on core 0.
    pub(super) fn serve(&mut self, cataloguer: Cataloguer) {
        self.cataloguer = Some(cataloguer);
        self.due = true;
    }

    /// A queue asks the register, which is on core 0.
    pub(super) fn ask_register(&mut self, mail: &mut Mail, connection: ConnectionId, tag: u64, call: amita_nvme::Call) {
        let catalog = self.port.catalog();
        self.hub.call(connection, tag, call, &catalog);
        while let Some((connection, tag, word)) = self.hub.next_reply() {
            let front = connection.front;
            mail.send(
                usize::from(connection.core),
                NodeMessage::NvmeReply { front, tag, word },
            );
        }
    }

    /// All records of the metadata are known, as they were at the start.
    pub(super) fn settle(&mut self) {
        self.settled = true;
        self.due = true;
    }

    /// What NVMe hosts see may have changed, if `changed`.
    pub(super) fn note(&mut self, changed: bool) {
        self.due |= changed;
    }

    /// A reservation has changed, as any host may have it do as often as it can: all of a while are told at once.
    pub(super) fn note_reservation(&mut self, now: Time) {
        if self.cataloguer.is_some() {
            self.reservations_due.get_or_insert(now.plus(RESERVATIONS_PAUSE));
        }
    }

    /// Is [`NvmeSide::make_catalog`] to be called?
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        if self.reservations_due.take_if(|at| *at <= now).is_some() {
            self.due = true;
        }
        self.due
    }

    /// When [`NvmeSide::is_due`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.reservations_due
    }

    /// Makes the settings anew that NVMe hosts see, if something may have changed them.
    pub(super) fn make_catalog(
        &mut self,
        view: &View,
        directory: &Directory,
        mail: &mut Mail,
        control: &mut ControlPlane,
    ) {
        if !self.settled || !std::mem::take(&mut self.due) {
            return;
        }
        let Some(cataloguer) = &mut self.cataloguer else { return };
        let made = cataloguer.make(view, |volume| directory.is_open(volume));
        for warning in cataloguer.warnings() {
            control.warn(warning);
        }
        if let Some(catalog) = made {
            mail.broadcast(|| NodeMessage::Catalog(catalog.clone()));
        }
    }

    /// The settings have changed.
    pub(super) fn adopt(&mut self, catalog: Arc<amita_nvme::Catalog>) {
        self.port.set_catalog(catalog);
        self.changed = true;
    }

    /// Are hosts to be told that the settings have changed?
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::{ClusterId, NodeId};

    #[test]
    fn reservations_of_a_while_are_told_at_once() {
        let mut side = NvmeSide::new(amita_nvme::Config::default());
        let at = |ms: u64| Time(ms * 1_000_000);
        side.note_reservation(at(0));
        assert_eq!(side.deadline(), None, "nobody connects here");
        side.serve(Cataloguer::new(NodeId(1), ClusterId(7), None));
        assert!(side.is_due(at(0)));
        side.due = false;
        let mut told = 0;
        for ms in 0..1000 {
            side.note_reservation(at(ms));
            told += u32::from(side.is_due(at(ms)));
            side.due = false;
        }
        assert_eq!(told, 19);
        // Other changes do not wait.
        side.note(true);
        assert!(side.is_due(at(1000)));
    }
}
