//! What the control plane is told.

use super::context::Context;
use crate::control::FromCore;
use crate::directory::Directory;
use crate::fronts::Fronts;
use crate::mail::NodeMessage;
use crate::reporter::Reporter;
use crate::view::View;
use amita_reactor::driver::Time;
use amita_types::VolumeId;
use amita_types::condition::Failing;

/// What no longer happens.
fn works_again(failing: Failing) -> &'static str {
    match failing {
        Failing::Writes => "no write has failed",
        Failing::Reads => "no read has failed",
        Failing::Opening => "no opening has failed",
        Failing::Locked => "it was not wanting for keys",
    }
}

/// What happens.
fn fails(failing: Failing) -> &'static str {
    match failing {
        Failing::Writes => "writes fail",
        Failing::Reads => "reads fail",
        Failing::Opening => "it could not be opened",
        Failing::Locked => "it waits for its keys",
    }
}

/// Tells of stores that began to serve, or that cannot.
pub(super) fn announce_stores(cx: &mut Context, reporter: &mut Reporter) {
    if !cx.stores.has_news() {
        return;
    }
    cx.clock.stir();
    reporter.stir_space(cx.clock.began());
    let before = cx.control.outbox.len();
    cx.stores.announce(cx.clock.began(), &mut cx.control.outbox);
    let told = &cx.control.outbox[before..];
    let unmounted = |told: &&FromCore| matches!(told, FromCore::StoreFailed { store: None, .. });
    for _ in told.iter().filter(unmounted) {
        cx.mail.broadcast(|| NodeMessage::StoreUnmounted);
    }
    let core = cx.config.core;
    for what in told {
        if let &FromCore::StoreServes { store, .. } = what {
            cx.mail.broadcast(|| NodeMessage::StoreServes { store, core });
        }
    }
}

/// Tells of what the parts have noticed: slow stores, volumes that fail, hosts that were turned away.
pub(super) fn tick(
    cx: &mut Context,
    reporter: &mut Reporter,
    directory: &mut Directory,
    fronts: &mut Fronts,
    now: Time,
) {
    for event in cx.shards.health_events() {
        cx.control.warn(event.to_string());
        reporter.stir(now);
    }
    if cx.stores.take_asked() {
        reporter.stir_space(now);
    }
    for (volume, failing, why) in cx.shards.take_troubles() {
        trouble(cx, reporter, now, volume, failing, &why);
    }
    for (volume, failing, why) in directory.take_unopened() {
        let known = cx.view.volumes().find(|known| known.name == volume);
        if let Some(id) = known.map(|known| known.id) {
            trouble(cx, reporter, now, id, failing, &why);
        }
    }
    for ended in reporter.ended_troubles(now) {
        let name = name_of(&cx.view, ended.0);
        let what = works_again(ended.1);
        cx.control.tell(FromCore::VolumeWorks {
            volume: name.clone(),
            text: format!("volume {name}: {what} for half a minute"),
        });
    }
    for why in [fronts.take_turned_away(now), fronts.take_refused(now)]
        .into_iter()
        .flatten()
    {
        cx.control.warn(why);
    }
    if let Some((call, request)) = reporter.tick(now, &mut cx.shards, &cx.view, &cx.stores) {
        cx.control.call(call, request);
    }
}

fn name_of(view: &View, volume: VolumeId) -> String {
    let found = view.volume_with(volume);
    found.map_or_else(|| volume.to_string(), |found| found.name.clone())
}

/// Something fails at a volume: it is said when it begins, and stands in the cluster's status until it ends.
fn trouble(cx: &mut Context, reporter: &mut Reporter, now: Time, volume: VolumeId, failing: Failing, why: &str) {
    if reporter.trouble(now, volume, failing, why) {
        let volume = name_of(&cx.view, volume);
        let what = fails(failing);
        cx.control.tell(FromCore::VolumeFails {
            text: format!("volume {volume}: {what}: {why}"),
            volume,
        });
    }
}
