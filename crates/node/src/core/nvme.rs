//! The NVMe side of a core: the register of controllers and the settings that hosts see.

use super::Core;
use crate::mail::CoreMessage;
use amita_reactor::driver::Driver;
use amita_uss as uss;
use std::sync::Arc;

impl Core {
    /// A queue asks the register, which is on core 0.
    pub(super) fn on_nvme(&mut self, mouth: uss::nvme::Mouth, tag: u64, call: uss::nvme::Call) {
        let catalog = self.port.catalog();
        self.hub.call(mouth, tag, call, &catalog);
        while let Some((mouth, tag, word)) = self.hub.next_word() {
            let front = mouth.front;
            self.mail
                .send(usize::from(mouth.core), CoreMessage::NvmeWord { front, tag, word });
        }
    }

    /// The settings have changed.
    pub(super) fn on_catalog(&mut self, driver: &mut dyn Driver, catalog: Arc<uss::nvme::Catalog>) {
        self.port.set_catalog(catalog);
        self.fronts.event_to_all(driver, || uss::Event::Settings);
    }
}
