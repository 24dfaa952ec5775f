//! The register of a node's controllers.

use super::catalog::Catalog;
use crate::service::FrontId;
use std::collections::VecDeque;

/// A connection, among those of all cores of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mouth {
    /// Its core.
    pub core: u16,
    /// Its front there.
    pub front: FrontId,
}

/// What a queue asks of the register.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Call {}

/// What the register says to a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Word {}

/// The register: on one core of the node, off the path of an I/O.
#[derive(Debug, Default)]
pub struct Hub {
    said: VecDeque<(Mouth, u64, Word)>,
}

impl Hub {
    /// A queue asks.
    pub fn call(&mut self, _from: Mouth, _tag: u64, call: Call, _catalog: &Catalog) {
        match call {}
    }

    /// What is to be said, and to whom; the tag of the call, or 0.
    pub fn next_word(&mut self) -> Option<(Mouth, u64, Word)> {
        self.said.pop_front()
    }
}
