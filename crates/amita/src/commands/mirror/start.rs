//! Before a node serves: has another end of a mirror been promoted while this one was switched off? (decision 081, "What can be promised without a link")

use super::link::Link;
use crate::admin::Described as _;
use amita_control::admin::{self, AdminError};
use amita_keys::SealKey;
use amita_metadata::{Client, Error};
use amita_node::serve::ServeConfig;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::map::{Mirror, MirrorRole, Seen};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The other end's answer is waited for so long; then this end is served, as one that is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Ends that are asked at one time.
const AT_ONCE: usize = 32;
/// How soon the metadata is asked again when it is away.
const AGAIN: Duration = Duration::from_secs(1);

/// Asks the other ends of the mirrors whose volumes hosts write here, and closes what was promoted there meanwhile. It returns when each has answered,
/// or [`PATIENCE`] is over. Whatever else goes wrong is the runners' affair, and does not keep a node from serving.
pub fn look(config: &ServeConfig) {
    let Ok(client) = config.metadata_client() else { return };
    let Some(ours) = written(&client) else { return };
    if ours.is_empty() {
        return;
    }
    let Some(file) = config.seal_key.as_deref() else {
        log::info!(
            "this node has no sealing key, and so cannot ask the other ends of mirrors before it serves: others do"
        );
        return;
    };
    let key = match SealKey::load(file).context(|| "the sealing key of this node".to_owned()) {
        Ok(key) => key,
        Err(why) => {
            return log::warn!(
                "the other ends of mirrors are not asked before this node serves: {}",
                why.what
            );
        }
    };
    let until = Instant::now() + PATIENCE;
    for some in ours.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for mirror in some {
                scope.spawn(|| match ask(&client, mirror, &key, until) {
                    Ok(Asked::Stays) => {}
                    Ok(Asked::Deposed) => log::warn!(
                        "mirror {}: the other end was promoted while this one did not run: its volumes are closed to hosts here",
                        mirror.name
                    ),
                    Err(why) => log::info!(
                        "mirror {}: the other end is not heard before this node serves: {}",
                        mirror.name,
                        why.what
                    ),
                });
            }
        });
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Stays,
    Deposed,
}

/// The mirrors whose volumes are open to hosts here; none: the metadata refuses, which whoever serves tells.
fn written(client: &Client) -> Option<Vec<Mirror>> {
    loop {
        match admin::mirrors(client) {
            Ok(all) => return Some(all.into_iter().filter(is_written).collect()),
            Err(why) if is_away(&why) && !interrupt::caught() => std::thread::sleep(AGAIN),
            Err(why) => {
                log::debug!("mirrors: {why}");
                return None;
            }
        }
    }
}

fn is_written(mirror: &Mirror) -> bool {
    let is_open = matches!(
        mirror.standing.role,
        MirrorRole::Primary | MirrorRole::Promoting | MirrorRole::Demoting
    );
    is_open && !mirror.leaving && !mirror.never_deposed && !mirror.peer.token.is_empty()
}

fn ask(client: &Client, mirror: &Mirror, key: &SealKey, until: Instant) -> Result<Asked> {
    let link = Link::of(mirror, Some(key))?.wanted(move || match Instant::now() < until {
        true => Ok(()),
        false => {
            Err(Failure::new(format!("it does not answer within {} s", PATIENCE.as_secs())).kind(Kind::Unreachable))
        }
    });
    let heard = link.look()?;
    if heard.standing.epoch <= mirror.standing.epoch {
        return Ok(Asked::Stays);
    }
    let seen = Seen {
        standing: heard.standing,
        at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
        clock: heard.clock,
    };
    close(client, &mirror.name, &seen).described()?;
    Ok(Asked::Deposed)
}

/// It is deposed, by this node or by another one, and closed. A metadata that is away is waited for: without it nothing is served.
fn close(client: &Client, name: &str, seen: &Seen) -> std::result::Result<(), AdminError> {
    loop {
        let deposed = admin::depose_seen(client, name, seen);
        let closed = match deposed {
            Err(AdminError::Metadata(why)) => Err(AdminError::Metadata(why)),
            // Another node has done it, or an operator has decided.
            _ => admin::close_mirrored(client, name),
        };
        match closed {
            Err(why) if is_away(&why) && !interrupt::caught() => std::thread::sleep(AGAIN),
            closed => return closed.map(drop),
        }
    }
}

fn is_away(why: &AdminError) -> bool {
    matches!(
        why,
        AdminError::Metadata(Error::Unavailable { .. } | Error::Unknown { .. })
    )
}
