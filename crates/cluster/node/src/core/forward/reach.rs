//! Whom this core reaches, and who is to be asked for a volume.

use crate::core::context::Context;
use crate::faults::Fault;
use crate::forwarder::State;
use crate::mail::DirectoryMessage;
use amita_types::VolumeId;
use amita_types::map::is_hidden;

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

/// Is it closed to the hosts of this node, as far as is known here? Who has it open says it for certain.
pub(in crate::core) fn is_closed(cx: &Context, volume: VolumeId) -> bool {
    let record = cx.view.volume_of(volume);
    record.is_some_and(|record| record.closed_to(cx.config.opener.mirror).is_some())
}

/// The way to a volume as this core knows it; or the directory is asked. `for_clones`: of a deleted one too.
pub(super) fn find_route(cx: &mut Context, volume: VolumeId, for_clones: bool) -> State {
    let owner = cx.view.owner(volume).filter(|owner| *owner != cx.config.node);
    if let Some(owner) = owner
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
        for_clones,
    };
    cx.mail.send(0, seek);
    State::Asking
}
