//! The NVMe side of a core: the register of controllers and the settings that hosts see.

use super::Core;
use crate::catalog::Cataloguer;
use crate::control::FromCore;
use crate::mail::CoreMessage;
use amita_frontend as frontend;
use std::rc::Rc;
use std::sync::Arc;

impl Core {
    /// A queue asks the register, which is on core 0.
    pub(super) fn on_nvme(&mut self, connection: frontend::ConnectionId, tag: u64, call: amita_nvme::Call) {
        let catalog = self.port.catalog();
        self.hub.call(connection, tag, call, &catalog);
        while let Some((connection, tag, word)) = self.hub.next_reply() {
            let front = connection.front;
            self.mail.send(
                usize::from(connection.core),
                CoreMessage::NvmeReply { front, tag, word },
            );
        }
    }

    /// This node serves NVMe hosts: the settings that they see are made by it, on core 0.
    pub fn serve_nvme(&mut self, cataloguer: Cataloguer) {
        self.cataloguer = Some(cataloguer);
        self.catalog_due = true;
    }

    /// The NVMe target's side of this core.
    #[must_use]
    pub fn nvme_port(&self) -> &Rc<amita_nvme::Port> {
        &self.port
    }

    /// Makes the settings anew that NVMe hosts see, if something may have changed them.
    pub(super) fn make_catalog(&mut self) {
        if !self.settled || !std::mem::take(&mut self.catalog_due) {
            return;
        }
        let Some(cataloguer) = &mut self.cataloguer else { return };
        let directory = &self.directory;
        let made = cataloguer.make(&self.view, |volume| directory.is_open(volume));
        for warning in cataloguer.warnings() {
            self.to_control.push(FromCore::Warning(warning));
        }
        if let Some(catalog) = made {
            self.mail.broadcast(|| CoreMessage::Catalog(catalog.clone()));
        }
    }

    /// The settings have changed.
    pub(super) fn on_catalog(&mut self, catalog: Arc<amita_nvme::Catalog>) {
        self.port.set_catalog(catalog);
        self.tell_settings = true;
    }
}
