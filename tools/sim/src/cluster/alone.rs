//! The operator has a volume alone, as commands of the product that own it do: by a node that does not own it, so that the opening raises
//! the generation, and only where nobody has raised it in between (`is_alone` of `amita volume`).

use super::Cluster;
use super::node::node_id;
use super::session::Heard;
use crate::faults::Member;
use amita_frontend::{Event, FrontId, Who};
use amita_types::map;
use std::cell::RefCell;
use std::rc::Rc;

/// Where the operator sits.
pub(super) struct Seat {
    pub member: Member,
    pub front: FrontId,
    pub process: u64,
    heard: Rc<RefCell<Heard>>,
}

impl Seat {
    /// What was heard next.
    pub fn hear(&self) -> Option<Event> {
        self.heard.borrow_mut().events.pop_front()
    }

    /// As if that had been heard.
    pub fn pretend(&self, event: Event) {
        self.heard.borrow_mut().events.push_back(event);
    }
}

impl Cluster {
    /// Asks for a volume at a node that does not own it; the volume's record as it was before. None: it cannot be asked for now.
    pub(super) fn open_alone(&mut self, name: &str) -> Option<(Seat, map::Volume)> {
        let before = self.record_of(name)?;
        let others = (0..self.setup.gateways()).filter(|member| Some(node_id(*member)) != before.owner);
        let others: Vec<Member> = others.filter(|member| self.nodes[*member].is_up()).collect();
        if others.is_empty() {
            return None;
        }
        let member = *self.shrinks.random.pick(&others);
        let node = &mut self.nodes[member];
        let (front, heard) = node.attach(0)?;
        node.ask(0, front, |service| service.open(front, 0, name, &Who::Program));
        let seat = Seat {
            member,
            front,
            process: node.process,
            heard,
        };
        self.hosts.has_moved = true;
        Some((seat, before))
    }

    /// The record of the volume, which is open, if nobody else has had it since.
    pub(super) fn alone(&self, before: &map::Volume) -> Option<map::Volume> {
        let record = self.record_of(&before.name)?;
        let is_alone = record.id == before.id && Some(record.generation) == before.generation.next();
        is_alone.then_some(record)
    }

    /// The node of the seat is the one that it was.
    pub(super) fn is_seated(&self, seat: &Seat) -> bool {
        let node = &self.nodes[seat.member];
        node.process == seat.process && node.is_up()
    }

    /// The operator lets go of the volume.
    pub(super) fn leave_seat(&mut self, seat: Option<Seat>) {
        let Some(seat) = seat else { return };
        seat.heard.borrow_mut().gone = true;
        let node = &mut self.nodes[seat.member];
        if node.process == seat.process {
            node.hang_up(0, seat.front);
        }
    }

    /// The record of a volume.
    pub(super) fn record_of(&self, name: &str) -> Option<map::Volume> {
        let found = self.metadata.state().get(&map::volume_key(name))?;
        found.json().ok()
    }
}
