//! Whom this core reaches, and who is to be asked for a volume.

use crate::core::context::Context;
use crate::faults::Fault;
use crate::forwarder::State;
use crate::mail::DirectoryMessage;
use amita_types::map::is_hidden;
use amita_types::{Generation, VolumeId};

/// Does another gateway own the volume, and live, that this one alone does not reach (R10)? Then it is not taken from it, and
/// hosts are to go by another path: two gateways that do not reach each other would take it from one another for ever, and one
/// whose network is dead would take what it cannot serve. An owner whose port refuses is dead; one that most of the living do not
/// reach may be deposed by those.
pub(super) fn is_out_of_reach(cx: &Context, volume: VolumeId) -> bool {
    let owner = cx.view.owner(volume).filter(|owner| *owner != cx.config.node);
    owner.is_some_and(|owner| {
        cx.view.lives(owner)
            && cx.peers.is_lost(owner)
            && !cx.peers.is_refused(owner)
            && !reaches_most(cx)
            && !cx.config.faults.has(Fault::DeposeAlone)
    })
}

/// Are there links to so many of the living gateways that they are, with this one, more than half?
fn reaches_most(cx: &Context) -> bool {
    let living = cx.view.living().filter(|node| !cx.view.is_client(*node));
    let (mut reached, mut all) = (0, 0);
    for node in living {
        all += 1;
        reached += usize::from(node == cx.config.node || cx.peers.link_to(node).is_some());
    }
    2 * reached > all
}

/// Is it a deleted volume, of which hosts are served nothing; or what one was before it was reverted, of which they read snapshots?
pub(super) fn is_deleted(cx: &Context, volume: VolumeId) -> bool {
    let record = cx.view.volume_of(volume);
    record.is_some_and(|record| is_hidden(&record.name))
}

/// Is it closed to the hosts of this node, as far as is known here? It may be open by now: its record says so for certain, or who has it open.
pub(in crate::core) fn is_closed(cx: &Context, volume: VolumeId) -> bool {
    let record = cx.view.volume_of(volume);
    record.is_some_and(|record| record.closed_to(cx.config.opener.mirror).is_some())
}

/// Was it taken from who had it open under this generation because it was closed? What is known here may be of before that opening.
pub(in crate::core) fn was_closed_since(cx: &Context, volume: VolumeId, generation: Generation) -> bool {
    let record = cx.view.volume_of(volume);
    is_closed(cx, volume) && record.is_some_and(|record| record.generation > generation)
}

/// For whom a way to a volume is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Hosts,
    /// Hosts, of a volume that is closed as far as is known here: nobody is asked for it before its record was read anew.
    HostsOfClosed,
    /// Reads for clones, or of snapshots alone: of a deleted or closed one too.
    Clones,
}

/// The way to a volume as this core knows it; or the directory is asked.
pub(super) fn find_route(cx: &mut Context, volume: VolumeId, whom: For) -> State {
    let owner = cx.view.owner(volume).filter(|owner| *owner != cx.config.node);
    if let Some(owner) = owner
        && whom != For::HostsOfClosed
        && cx.view.lives(owner)
        && cx.peers.link_to(owner).is_some()
    {
        return State::There(owner);
    }
    let core = cx.config.core;
    let lost = owner.filter(|owner| cx.peers.is_lost(*owner));
    let lost = lost
        .map(|owner| (owner, cx.peers.is_refused(owner)))
        .into_iter()
        .collect();
    let seek = DirectoryMessage::Seek {
        core,
        volume,
        lost,
        for_clones: whom == For::Clones,
    };
    cx.mail.send(0, seek);
    State::Asking
}
