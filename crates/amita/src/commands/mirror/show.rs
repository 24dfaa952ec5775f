//! `amita mirror list` and `amita mirror show`.

use super::now;
use crate::admin::{Admin, Described as _};
use crate::logging::timestamp;
use amita_control::admin;
use amita_control::mirror::{MirrorView, PassView, SeenView, view};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::Mirror;

/// Points that `show` tells one by one, the newest ones.
const SHOWN_POINTS: usize = 8;

/// The names of a mirror's volumes.
pub(super) fn volumes(mirror: &Mirror) -> String {
    let names: Vec<&str> = mirror.volumes.iter().map(|volume| volume.name.as_str()).collect();
    names.join(", ")
}

pub(super) fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let now = now().as_secs();
    let all = admin::mirrors(&metadata.reader()).described()?;
    let all: Vec<MirrorView> = all.iter().map(|mirror| view(mirror, now)).collect();
    print(as_json, &all, || {
        if all.is_empty() {
            return "There are no mirrors. `amita mirror add NAME VOLUME` makes one, and the other cluster joins it (`amita mirror join`).\n"
                .to_owned();
        }
        let mut table = Table::new(&["mirror", "role", "volumes", "at", "lag", "other end", ""]);
        for found in &all {
            table.row([
                found.name.clone(),
                role(found),
                found.volumes.len().to_string(),
                found.point.clone().unwrap_or_default(),
                found.lag_s.map_or_else(String::new, |lag| format!("{lag} s")),
                found.seen.as_ref().map_or_else(String::new, |seen| seen.role.clone()),
                state(found),
            ]);
        }
        table.text()
    })
}

fn role(found: &MirrorView) -> String {
    match found.handed {
        true => format!("{}, handed over", found.role),
        false => found.role.clone(),
    }
}

/// The worst that is so.
fn state(found: &MirrorView) -> String {
    match found {
        _ if found.role == "deposed" => "DEPOSED".to_owned(),
        _ if found.split => "SPLIT".to_owned(),
        _ if found.ails.is_some() => "STALLED".to_owned(),
        _ if found.paused.is_some() => "paused".to_owned(),
        MirrorView { pass: Some(pass), .. } => format!("brings {}: {}", pass.to, percent(pass)),
        MirrorView { peer, .. } if peer.cluster.is_none() => "nobody has joined it".to_owned(),
        _ => String::new(),
    }
}

fn percent(pass: &PassView) -> String {
    let sum = |of: fn(&amita_control::mirror::PassVolumeView) -> u64| {
        pass.volumes
            .iter()
            .fold(0, |sum: u64, volume| sum.saturating_add(of(volume)))
    };
    let (done, total) = (sum(|volume| volume.done_bytes), sum(|volume| volume.total_bytes));
    let percent = u128::from(done) * 100 / u128::from(total.max(1));
    format!("{percent} %")
}

pub(super) fn show(name: &str, as_json: bool, metadata: &Admin) -> Result<()> {
    let found = admin::mirror(&metadata.reader(), name).described()?;
    let shown = view(&found, now().as_secs());
    print(as_json, &shown, || text(&shown))
}

fn text(found: &MirrorView) -> String {
    let mut out = String::new();
    let mut line = |head: &str, what: &str| out.push_str(&format!("{head:<10}{what}\n"));
    line("mirror", &format!("{} (number {})", found.name, found.id));
    line("role", &format!("{}, in epoch {}", role(found), found.epoch));
    line("volumes", &found.volumes.join(", "));
    if let Some(point) = &found.point {
        line("at", &format!("point {point}"));
    }
    if let Some(lag) = found.lag_s {
        line("lag", &format!("{lag} s; late from {} s on", found.late_after_s));
    }
    if found.split {
        line(
            "SPLIT",
            "it was promoted by force, and the other end has not heard of that yet, or has not followed",
        );
    }
    if let Some(paused) = &found.paused {
        let by = amita_audit::plain(&paused.by);
        line("paused", &format!("by {by}, since {}", timestamp(paused.at, 0)));
    }
    if let Some(why) = &found.ails {
        line("STALLED", &amita_audit::plain(why));
    }
    if let Some(pass) = &found.pass {
        let base = pass.base.as_deref().map_or_else(
            || "all of it".to_owned(),
            |base| format!("what differs from point {base}"),
        );
        line("brings", &format!("point {}, {base}: {}", pass.to, percent(pass)));
        for volume in &pass.volumes {
            let (name, done, total) = (
                &volume.name,
                size::show(volume.done_bytes),
                size::show(volume.total_bytes),
            );
            let written = size::show(volume.written_bytes);
            let whole = if volume.whole { ", whole" } else { "" };
            line("", &format!("{name}: {done} of {total}, {written} brought{whole}"));
        }
    }
    let older = found.points.len().saturating_sub(SHOWN_POINTS);
    for (index, point) in found.points.iter().skip(older).enumerate() {
        let head = if index == 0 { "points" } else { "" };
        line(
            head,
            &format!(
                "{}, cut at {}: VOLUME@{}",
                point.name,
                timestamp(point.cut_at, 0),
                point.snapshots
            ),
        );
    }
    if older > 0 {
        line("", &format!("and {older} older ones"));
    }
    match &found.peer.cluster {
        Some(cluster) => line(
            "other end",
            &format!("cluster {cluster}, {}", found.peer.addresses.join(", ")),
        ),
        None => line("other end", "nobody has joined the mirror yet"),
    }
    if let Some(seen) = &found.seen {
        line("seen", &told(seen));
    }
    let rate = found.limit_bytes_per_second.map_or_else(
        || "no limit".to_owned(),
        |limit| format!("at most {} a second", size::show(limit)),
    );
    line(
        "works",
        &format!("every {} s, keeps {} points, {rate}", found.interval_s, found.keep),
    );
    if found.never_deposed {
        line("", "as primary it goes on, whatever it hears of the other end");
    }
    out
}

/// What the other end has said of itself.
fn told(seen: &SeenView) -> String {
    let handed = if seen.handed { ", handed over" } else { "" };
    let point = seen
        .point
        .as_ref()
        .map_or_else(String::new, |point| format!(", at point {point}"));
    format!(
        "{}{handed}, in epoch {}{point}, at {}",
        seen.role,
        seen.epoch,
        timestamp(seen.at, 0)
    )
}
