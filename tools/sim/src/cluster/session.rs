//! A host's session at a gateway: a front end without a protocol, inside the gateway's process. What a host asks goes
//! straight to the gateway's service, and what it hears is kept until the host looks.
//!
//! Protocols have tests of their own; here the storage beneath them is tested, and a session that costs little makes
//! more seeds in the same time.

use amita_frontend::{Event, Flow, Front, StorageService};
use amita_reactor::{Inbox, Outbox, Pool, Time};
use amita_types::VolumeId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What the session has heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// In order.
    pub events: VecDeque<Event>,
    /// The host has gone: nothing more is kept.
    pub gone: bool,
    /// The volume that is open, to be given back.
    pub volume: Option<VolumeId>,
}

/// The gateway's end of a session.
pub struct Session {
    heard: Rc<RefCell<Heard>>,
    id: amita_frontend::FrontId,
}

impl Session {
    /// A session, and the host's end of it.
    pub fn new(id: amita_frontend::FrontId) -> (Session, Rc<RefCell<Heard>>) {
        let heard = Rc::new(RefCell::new(Heard::default()));
        (
            Session {
                heard: heard.clone(),
                id,
            },
            heard,
        )
    }
}

impl Front for Session {
    fn received(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn event(&mut self, _: Time, event: Event, _: &mut Outbox, _: &Pool, service: &mut dyn StorageService) -> Flow {
        let mut heard = self.heard.borrow_mut();
        match &event {
            Event::Opened { result: Ok(info), .. } if heard.gone => service.close(self.id, info.source()),
            Event::Opened { result: Ok(info), .. } => heard.volume = Some(info.id),
            Event::Lost { source, .. } if heard.volume == Some(source.volume) => heard.volume = None,
            _ => {}
        }
        if !heard.gone {
            heard.events.push_back(event);
        }
        Flow::Go
    }

    fn tick(&mut self, _: Time, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn wants_input(&self) -> bool {
        false
    }

    fn receive_bytes(&self) -> usize {
        0
    }

    fn end_pass(&mut self, _: Time, _: &mut Inbox, _: &mut Outbox, _: &Pool, _: &mut dyn StorageService) -> Flow {
        Flow::Go
    }

    fn closed(&mut self, service: &mut dyn StorageService) {
        let mut heard = self.heard.borrow_mut();
        heard.gone = true;
        heard.events.clear();
        if let Some(volume) = heard.volume.take() {
            service.close(self.id, volume.into());
        }
    }
}
