//! Before a node serves: has another end of a mirror been promoted while this one was switched off? (decision 081, "What can be promised without a link")

use super::link::Link;
use amita_control::admin::{self, AdminError};
use amita_keys::SealKey;
use amita_metadata::{Client, Error};
use amita_node::serve::ServeConfig;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_types::map::{Mirror, MirrorRole, Seen};
use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The other ends' answers are waited for so long; then this end is served, as one that is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// Addresses that are asked at one time. Each may take all of that for nothing, and none keeps another one from being asked.
const AT_ONCE: usize = 64;
/// How soon the metadata is asked again when it is away.
const AGAIN: Duration = Duration::from_secs(1);

/// Closes what is to be closed by its record, asks the other ends of the mirrors whose volumes hosts write here, and closes what was promoted there
/// meanwhile. It returns when each has answered, or [`PATIENCE`] is over. Whatever else goes wrong is the runners' affair, and does not keep a node from
/// serving.
pub fn look(config: &ServeConfig) {
    let Ok(client) = config.metadata_client() else { return };
    let Some(all) = mirrors(&client) else { return };
    // Whoever was at it may have ended before.
    for mirror in all.iter().filter(|mirror| is_to_be_closed(mirror)) {
        told(
            &mirror.name,
            patiently(|| admin::close_mirrored(&client, &mirror.name)).map(drop),
        );
    }
    let ours: Vec<Mirror> = all.into_iter().filter(is_asked).collect();
    if ours.is_empty() {
        return;
    }
    let Some(key) = sealing_key(config) else { return };
    let until = Instant::now() + PATIENCE;
    let mut silent: BTreeMap<&str, (&Mirror, usize)> = BTreeMap::new();
    for mirror in &ours {
        silent.insert(&mirror.name, (mirror, mirror.peer.addresses.len()));
    }
    let answers = ask(&ours, &key, until);
    while !silent.is_empty()
        && let Ok((name, answer)) = answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        let Some((mirror, left)) = silent.get_mut(name.as_str()) else {
            continue;
        };
        match answer {
            Ok(seen) => {
                told(&name, close_promoted(&client, mirror, &seen));
                silent.remove(name.as_str());
            }
            Err(why) => {
                log::debug!("mirror {name}: {}", why.what);
                *left -= 1;
                if *left == 0 {
                    unheard(&name);
                    silent.remove(name.as_str());
                }
            }
        }
    }
    silent.keys().for_each(|name| unheard(name));
}

fn unheard(name: &str) {
    log::info!("mirror {name}: the other end does not answer, and this node serves without having heard of it");
}

fn told(name: &str, closed: std::result::Result<(), AdminError>) {
    if let Err(why) = closed {
        log::warn!(
            "mirror {name}: this end is not the one that hosts may write, and its volumes could not all be closed to them: {why}"
        );
    }
}

/// None: the metadata refuses, which whoever serves tells.
fn mirrors(client: &Client) -> Option<Vec<Mirror>> {
    let all = patiently(|| admin::mirrors(client));
    all.inspect_err(|why| log::debug!("mirrors: {why}")).ok()
}

/// A metadata that is away is waited for: without it nothing is served.
fn patiently<T>(call: impl Fn() -> std::result::Result<T, AdminError>) -> std::result::Result<T, AdminError> {
    loop {
        match call() {
            Err(AdminError::Metadata(Error::Unavailable { .. } | Error::Unknown { .. })) if !interrupt::caught() => {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

fn is_to_be_closed(mirror: &Mirror) -> bool {
    !mirror.leaving && matches!(mirror.standing.role, MirrorRole::Deposed | MirrorRole::Demoting)
}

/// May volumes of it be open to hosts here, which another end's word would close?
fn is_asked(mirror: &Mirror) -> bool {
    let is_open = match mirror.standing.role {
        MirrorRole::Primary => !mirror.never_deposed,
        MirrorRole::Promoting | MirrorRole::Demoting => true,
        MirrorRole::Secondary | MirrorRole::Deposed => false,
    };
    is_open && !mirror.leaving && !mirror.peer.token.is_empty() && !mirror.peer.addresses.is_empty()
}

fn sealing_key(config: &ServeConfig) -> Option<SealKey> {
    let Some(file) = config.seal_key.as_deref() else {
        log::info!(
            "this node has no sealing key, and so cannot ask the other ends of mirrors before it serves: others do"
        );
        return None;
    };
    let key = SealKey::load(file).context(|| "the sealing key of this node".to_owned());
    key.inspect_err(|why| {
        log::warn!(
            "the other ends of mirrors are not asked before this node serves: {}",
            why.what
        )
    })
    .ok()
}

/// Asks all addresses of all of them, the first ones first. Who asks is waited for by nobody: the name of a machine may take long to be looked up.
fn ask(mirrors: &[Mirror], key: &SealKey, until: Instant) -> Receiver<(String, Result<Seen>)> {
    let (tell, answers) = channel();
    let all = mirrors.iter().flat_map(|mirror| {
        let addresses = mirror.peer.addresses.iter().enumerate();
        addresses.map(|(at, address)| {
            let mut one = mirror.clone();
            one.peer.addresses = vec![address.clone()];
            (at, one)
        })
    });
    let mut all: Vec<(usize, Mirror)> = all.collect();
    all.sort_by_key(|(at, _)| *at);
    let threads = all.len().min(AT_ONCE);
    let asked = Arc::new(Mutex::new(VecDeque::from(all)));
    let key = Arc::new(key.clone());
    for _ in 0..threads {
        let (asked, tell, key) = (Arc::clone(&asked), tell.clone(), Arc::clone(&key));
        let ask_some = move || {
            let next = || asked.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some((_, mirror)) = next().filter(|_| Instant::now() < until) {
                let answer = ask_one(&mirror, &key, until);
                // Nobody waits any more.
                if tell.send((mirror.name, answer)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("amita-ask".to_owned()).spawn(ask_some);
        if let Err(why) = thread {
            log::warn!("no thread to ask the other ends of mirrors: {why}");
        }
    }
    answers
}

fn ask_one(mirror: &Mirror, key: &SealKey, until: Instant) -> Result<Seen> {
    let link = Link::of(mirror, Some(key))?.wanted(move || match Instant::now() < until {
        true => Ok(()),
        false => {
            Err(Failure::new(format!("it does not answer within {} s", PATIENCE.as_secs())).kind(Kind::Unreachable))
        }
    });
    let heard = link.look()?;
    Ok(Seen {
        standing: heard.standing,
        at: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
        clock: heard.clock,
    })
}

/// Where the other end was promoted, this one is deposed, by this node or by another one, and closed.
fn close_promoted(client: &Client, mirror: &Mirror, seen: &Seen) -> std::result::Result<(), AdminError> {
    let name = &mirror.name;
    if seen.standing.epoch <= mirror.standing.epoch {
        return Ok(());
    }
    let deposed = patiently(|| admin::depose_seen(client, name, seen));
    if let Err(why) = deposed {
        // Another node has done it, or an operator has decided.
        let now = patiently(|| admin::mirror(client, name))?;
        if is_asked(&now) && now.standing.epoch < seen.standing.epoch {
            return Err(why);
        }
    }
    if patiently(|| admin::close_mirrored(client, name))? {
        log::warn!(
            "mirror {name}: the other end was promoted while this one did not run: its volumes are closed to hosts here"
        );
    }
    Ok(())
}
