//! What fronts ask of the node, until the core routes it.

use crate::directory::OpeningId;
use amita_frontend::{Computation, FrontId, HostKey, RegisterMessage, StorageService, Who, reservation};
use amita_iscsi as iscsi;
use amita_nvme as nvme;
use amita_reactor::Slice;
use amita_types::VolumeId;
use amita_types::io::Op;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// What a front asks of the node: the calls of [`StorageService`], kept until the core routes them.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum FrontRequest {
    /// The exports.
    List { front: FrontId, tag: u64, who: Who },
    /// Open a volume.
    Open {
        front: FrontId,
        tag: u64,
        name: String,
        who: Who,
    },
    /// Which of these snapshots (none: all) it can be compared with.
    Bases {
        front: FrontId,
        tag: u64,
        name: String,
        only: Vec<String>,
        who: Who,
    },
    /// What it had opened is not used any longer.
    Close { opening: OpeningId },
    /// A piece of I/O.
    Submit {
        front: FrontId,
        tag: u64,
        source: amita_frontend::Source,
        op: Op,
        payload: Slice,
        /// Whose, if the front has said so: then it may be forwarded.
        host: HostKey,
    },
    /// Look at or change a volume's reservation.
    Reserve {
        front: FrontId,
        tag: u64,
        volume: VolumeId,
        host: HostKey,
        command: reservation::Command,
    },
    /// Something to be computed where no I/O waits for it.
    Compute {
        front: FrontId,
        tag: u64,
        computation: Computation,
    },
    /// Something for the node's register of NVMe controllers.
    Nvme { front: FrontId, tag: u64, call: nvme::Call },
    /// Something for the node's register of iSCSI sessions.
    Iscsi {
        front: FrontId,
        tag: u64,
        call: iscsi::Call,
    },
}

impl FrontRequest {
    /// Whose host goes on by another path when its connection is gone, so that it must not be carried out then; none: it may be.
    pub(super) fn front_of_host(&self) -> Option<FrontId> {
        match self {
            FrontRequest::Submit { front, .. } | FrontRequest::Reserve { front, .. } => Some(*front),
            _ => None,
        }
    }
}

/// The requests of one pass, in order.
#[derive(Default)]
pub struct FrontRequests {
    /// In order.
    pub queue: VecDeque<FrontRequest>,
    /// Fronts that have said whose I/O theirs is.
    pub(super) hosts: FxHashMap<FrontId, HostKey>,
    /// What fronts have open and count as users of, by the number that each knows the volume by.
    opened: FxHashMap<FrontId, Vec<(VolumeId, OpeningId)>>,
}

impl FrontRequests {
    /// A front has a volume open from now on, and counts as using it.
    pub fn opened(&mut self, front: FrontId, volume: VolumeId, opening: OpeningId) {
        self.opened.entry(front).or_default().push((volume, opening));
    }

    /// One of its openings of the volume, which it has no more.
    pub(super) fn take_opening(&mut self, front: FrontId, volume: VolumeId) -> Option<OpeningId> {
        let of_front = self.opened.get_mut(&front)?;
        let at = of_front.iter().position(|(opened, _)| *opened == volume)?;
        let (_, opening) = of_front.swap_remove(at);
        if of_front.is_empty() {
            self.opened.remove(&front);
        }
        Some(opening)
    }

    /// The front is gone: it uses nothing any more.
    pub(super) fn close_all(&mut self, front: FrontId) {
        for (_, opening) in self.opened.remove(&front).into_iter().flatten() {
            self.queue.push_back(FrontRequest::Close { opening });
        }
    }
}

impl StorageService for FrontRequests {
    fn list(&mut self, front: FrontId, tag: u64, who: &Who) {
        self.queue.push_back(FrontRequest::List {
            front,
            tag,
            who: who.clone(),
        });
    }
    fn open(&mut self, front: FrontId, tag: u64, name: &str, who: &Who) {
        self.queue.push_back(FrontRequest::Open {
            front,
            tag,
            name: name.to_owned(),
            who: who.clone(),
        });
    }
    fn bases(&mut self, front: FrontId, tag: u64, export: &str, only: Vec<String>, who: &Who) {
        self.queue.push_back(FrontRequest::Bases {
            front,
            tag,
            name: export.to_owned(),
            only,
            who: who.clone(),
        });
    }
    fn close(&mut self, front: FrontId, source: amita_frontend::Source) {
        // A snapshot keeps no volume open, and what was lost is not counted any more.
        let opening = source.is_head().then(|| self.take_opening(front, source.volume));
        if let Some(opening) = opening.flatten() {
            self.queue.push_back(FrontRequest::Close { opening });
        }
    }
    fn submit(&mut self, front: FrontId, tag: u64, source: amita_frontend::Source, op: Op, payload: Slice) {
        let host = match self.hosts.is_empty() {
            true => HostKey::NONE,
            false => self.hosts.get(&front).copied().unwrap_or_default(),
        };
        self.queue.push_back(FrontRequest::Submit {
            front,
            tag,
            source,
            op,
            payload,
            host,
        });
    }
    fn identify(&mut self, front: FrontId, host: HostKey) {
        self.hosts.insert(front, host);
    }
    fn reserve(&mut self, front: FrontId, tag: u64, volume: VolumeId, host: HostKey, command: reservation::Command) {
        self.queue.push_back(FrontRequest::Reserve {
            front,
            tag,
            volume,
            host,
            command,
        });
    }
    fn register(&mut self, front: FrontId, tag: u64, call: RegisterMessage) {
        // There is no third one.
        self.queue.push_back(match call.downcast::<nvme::Call>() {
            Ok(call) => FrontRequest::Nvme {
                front,
                tag,
                call: *call,
            },
            Err(call) => {
                let call = *call.downcast().expect("a call of a register of this node");
                FrontRequest::Iscsi { front, tag, call }
            }
        });
    }
    fn compute(&mut self, front: FrontId, tag: u64, computation: Computation) {
        self.queue.push_back(FrontRequest::Compute {
            front,
            tag,
            computation,
        });
    }
}
