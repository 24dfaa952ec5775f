//! What the connections of one protocol share on a node, whichever cores they are on: its *register*. (NVMe's has the
//! controllers, so that their queues find one another.) A front asks it by [`crate::StorageService::register`] and is told
//! by [`crate::Event::Register`]; it is no part of an I/O.

use crate::service::FrontId;
use std::any::Any;

/// A connection, among those of all cores of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    pub core: u16,
    /// Its front there.
    pub front: FrontId,
}

/// A call to a register, or what it says: of a type of its protocol, which alone knows it.
pub type RegisterMessage = Box<dyn Any + Send>;
