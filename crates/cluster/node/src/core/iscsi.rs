//! The iSCSI side of a core: the register of sessions and the settings that initiators see.

use super::control_plane::ControlPlane;
use crate::directory::Directory;
use crate::iscsi_catalog::IscsiCataloguer;
use crate::mail::{Mail, NodeMessage};
use crate::view::View;
use amita_frontend::ConnectionId;
use amita_reactor::Time;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Between two times at which initiators are told of others' reservations.
const RESERVATIONS_PAUSE: Duration = Duration::from_millis(50);
/// How soon initiators are told that pools are fuller: each core of each node says how full its stores are, again and again.
const SPACE_PAUSE: Duration = Duration::from_secs(1);

/// The iSCSI side of one core.
pub(super) struct IscsiSide {
    port: Rc<amita_iscsi::Port>,
    /// On core 0: the register of sessions.
    hub: amita_iscsi::Hub,
    /// On core 0 of a node that initiators log in to.
    cataloguer: Option<IscsiCataloguer>,
    /// All records of the metadata are known, as they were at the start. Before that nobody is let in: an initiator that is told
    /// that its target does not exist may give the path up.
    settled: bool,
    /// What initiators see has changed: they are told in this pass.
    changed: bool,
    /// What initiators see may have changed.
    due: bool,
    /// Reservations have: of all else that they see nothing is looked at for that.
    reserved: bool,
    /// A reservation has: looked at then.
    reservations_due: Option<Time>,
    /// Not before that, since it was just looked at.
    reservations_rest: Time,
    /// How full stores are has: looked at then.
    space_due: Option<Time>,
}

impl IscsiSide {
    pub(super) fn new(config: amita_iscsi::Config) -> IscsiSide {
        IscsiSide {
            port: Rc::new(amita_iscsi::Port::new(config)),
            hub: amita_iscsi::Hub::default(),
            cataloguer: None,
            settled: false,
            changed: false,
            due: false,
            reserved: false,
            reservations_due: None,
            reservations_rest: Time(0),
            space_due: None,
        }
    }

    /// The iSCSI target's side of this core.
    pub(super) fn port(&self) -> &Rc<amita_iscsi::Port> {
        &self.port
    }

    /// Initiators log in to this node: the settings that they see are made by it, on core 0.
    pub(super) fn serve(&mut self, cataloguer: IscsiCataloguer) {
        self.cataloguer = Some(cataloguer);
        self.due = true;
    }

    /// A connection asks the register, which is on core 0.
    pub(super) fn ask_register(
        &mut self,
        mail: &mut Mail,
        connection: ConnectionId,
        tag: u64,
        call: amita_iscsi::Call,
    ) {
        self.hub.call(connection, tag, call);
        while let Some((connection, tag, word)) = self.hub.next_reply() {
            let front = connection.front;
            mail.send(
                usize::from(connection.core),
                NodeMessage::IscsiReply { front, tag, word },
            );
        }
    }

    /// All records of the metadata are known, as they were at the start.
    pub(super) fn settle(&mut self) {
        self.settled = true;
        self.due = true;
    }

    /// What initiators see may have changed, if `changed`.
    pub(super) fn note(&mut self, changed: bool) {
        self.due |= changed;
    }

    /// A reservation has changed, as any host may have it do as often as it can: the first is told at once, since commands that do no I/O go by
    /// what is known here, and what follows in a while together.
    pub(super) fn note_reservation(&mut self, now: Time) {
        if self.cataloguer.is_some() {
            self.reservations_due.get_or_insert(now.max(self.reservations_rest));
        }
    }

    /// How full stores are has changed, somewhere: what comes in a while is looked at together.
    pub(super) fn note_space(&mut self, now: Time) {
        if self.cataloguer.is_some() {
            self.space_due.get_or_insert(now.plus(SPACE_PAUSE));
        }
    }

    /// Is [`IscsiSide::make_catalog`] to be called?
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        if self.reservations_due.take_if(|at| *at <= now).is_some() {
            self.reservations_rest = now.plus(RESERVATIONS_PAUSE);
            self.reserved = true;
        }
        self.due |= self.space_due.take_if(|at| *at <= now).is_some();
        self.due || self.reserved
    }

    /// When [`IscsiSide::is_due`] is wanted.
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.reservations_due, self.space_due].into_iter().flatten().min()
    }

    /// Makes the settings anew that initiators see, if something may have changed them.
    pub(super) fn make_catalog(
        &mut self,
        view: &View,
        directory: &Directory,
        mail: &mut Mail,
        control: &mut ControlPlane,
    ) {
        if !self.settled || !(self.due || self.reserved) {
            return;
        }
        let is_all = std::mem::take(&mut self.due);
        self.reserved = false;
        let Some(cataloguer) = &mut self.cataloguer else { return };
        let made = match is_all {
            true => cataloguer.make(view, |volume| directory.is_open(volume)),
            false => cataloguer.make_reserved(view),
        };
        for warning in cataloguer.warnings() {
            control.warn(warning);
        }
        if let Some(catalog) = made {
            mail.broadcast(|| NodeMessage::IscsiCatalog(catalog.clone()));
        }
    }

    /// The settings have changed.
    pub(super) fn adopt(&mut self, catalog: Arc<amita_iscsi::Catalog>) {
        self.port.set_catalog(catalog);
        self.changed = true;
    }

    /// Are initiators to be told that the settings have changed?
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::NodeId;

    #[test]
    fn the_first_reservation_is_told_at_once_and_others_of_a_while_together() {
        let mut side = IscsiSide::new(amita_iscsi::Config::default());
        let at = |ms: u64| Time(ms * 1_000_000);
        side.note_reservation(at(0));
        assert_eq!(side.deadline(), None, "nobody logs in here");
        side.serve(IscsiCataloguer::new(NodeId(1), None));
        assert!(side.is_due(at(0)));
        (side.due, side.reserved) = (false, false);
        let mut told = 0;
        for ms in 0..1000 {
            side.note_reservation(at(ms));
            told += u32::from(side.is_due(at(ms)));
            (side.due, side.reserved) = (false, false);
        }
        assert_eq!(told, 20);
        assert!(side.deadline().is_some(), "the last are told too");
        // Other changes do not wait.
        side.note(true);
        assert!(side.is_due(at(1000)));
    }

    #[test]
    fn how_full_stores_are_is_looked_at_once_a_second_however_often_it_is_said() {
        let mut side = IscsiSide::new(amita_iscsi::Config::default());
        let at = |ms: u64| Time(ms * 1_000_000);
        side.note_space(at(0));
        assert_eq!(side.deadline(), None, "nobody logs in here");
        side.serve(IscsiCataloguer::new(NodeId(1), None));
        side.due = false;
        let mut told = 0;
        for ms in 0..10_000 {
            side.note_space(at(ms));
            told += u32::from(side.is_due(at(ms)));
            (side.due, side.reserved) = (false, false);
        }
        assert_eq!(told, 9);
        assert_eq!(side.deadline(), Some(at(10_009)));
        // A reservation does not wait for it.
        side.note_reservation(at(10_000));
        assert!(side.is_due(at(10_000)));
    }
}
