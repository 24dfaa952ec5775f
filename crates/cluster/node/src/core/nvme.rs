//! The NVMe side of a core: the register of controllers and the settings that hosts see.

use super::control_plane::ControlPlane;
use crate::catalog::Cataloguer;
use crate::directory::Directory;
use crate::mail::{Mail, NodeMessage};
use crate::view::View;
use amita_frontend::ConnectionId;
use std::rc::Rc;
use std::sync::Arc;

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

    /// Is [`NvmeSide::make_catalog`] to be called?
    pub(super) fn is_due(&self) -> bool {
        self.due
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
