//! `amita mirror add` and `amita mirror join`: two clusters are made the two ends of a mirror.

use super::bootstrap::{self, Bootstrap, MAX_BYTES, Place};
use super::link::{Link, seal_token};
use super::{Settings, now, show};
use crate::admin::{Admin, Described as _};
use crate::by_api::place::Place as Address;
use crate::cli::Endpoints;
use crate::commands::volume::key::FileArgument;
use amita_api::mirror::{MirrorLink, MirrorPeerTold};
use amita_control::access::Action;
use amita_control::admin::{self, DataKeys, Joined, LEAST_LIMIT, MirrorWish, TargetWish, USUAL_KEEP};
use amita_control::mirror::{MirrorView, view};
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_node::volume_keys::KeyFile;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_terminal::table::print;
use amita_types::MirrorId;
use amita_types::map::{MAX_POINTS, Mirror, MirrorPeer, MirrorRole};
use serde::Serialize;
use std::path::PathBuf;
use uuid::Uuid;

/// The longest file of authorities, in bytes.
const MAX_AUTHORITY: u64 = 32 << 10;

/// `amita mirror add`.
#[derive(Debug, clap::Args)]
pub struct AddArguments {
    /// Its name in this cluster
    pub name: String,
    /// The volumes, which have one moment at each point
    #[arg(value_name = "VOLUME", required = true)]
    pub volumes: Vec<String>,
    /// The file that is made for the other cluster, with a token in it (mode 0600): bring it there, and give it to `amita mirror join`. Without
    /// this it is told by the answer
    #[arg(long, value_name = "FILE")]
    pub bootstrap: Option<PathBuf>,
    #[command(flatten)]
    pub reached: Reached,
    #[command(flatten)]
    pub settings: Settings,
    /// Where this end hears that the other one was promoted by force it goes on all the same, and says that there is a split
    #[arg(long)]
    pub never_deposed: bool,
    /// Say what was made as JSON; without --bootstrap the token is in it
    #[arg(long)]
    pub json: bool,
}

/// `amita mirror token`.
#[derive(Debug, clap::Args)]
pub struct TokenArguments {
    /// The mirror
    pub name: String,
    /// The file that is made for the other cluster, with a token in it (mode 0600): bring it there, and give it to `amita mirror join`. Without
    /// this it is told by the answer
    #[arg(long, value_name = "FILE")]
    pub bootstrap: Option<PathBuf>,
    #[command(flatten)]
    pub reached: Reached,
    /// Say what was made as JSON; without --bootstrap the token is in it
    #[arg(long)]
    pub json: bool,
}

/// `amita mirror join`.
#[derive(Debug, clap::Args)]
pub struct JoinArguments {
    /// The file that `amita mirror add` or `amita mirror token` has made, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// The pool that is to hold the volumes; where this cluster is an end of the mirror already it is not needed
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Its name in this cluster [default: as it is, or as at the other end]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The volumes are encrypted here, also those that are not at the other end. Those that are, are in any case
    #[arg(long)]
    pub encrypted: bool,
    #[command(flatten)]
    pub keys: FileArgument,
    /// The file with the cluster's sealing key (`amita host seal-key`), by which the token for the other end is kept; a node that carries the
    /// command out for you uses its own
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
    #[command(flatten)]
    pub reached: Reached,
    #[command(flatten)]
    pub settings: Settings,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// How the other cluster reaches this one.
#[derive(Debug, clap::Args)]
pub struct Reached {
    /// Where the other cluster reaches this one's API; may be given again for more nodes [default: what the nodes tell of themselves]
    #[arg(long = "address", value_name = "HOST:PORT")]
    pub addresses: Vec<String>,
    /// The authority (PEM) of the certificates that the other cluster is shown there, where that is not the cluster's own: a proxy's, or one for
    /// browsers. It believes no other one
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
}

/// What `add` says.
#[derive(Serialize)]
struct Added<'a> {
    #[serde(flatten)]
    mirror: MirrorView,
    /// When the token ends, unless it is renewed, which the other end does.
    token_ends_at: u64,
    /// Where it was written to.
    file: Option<String>,
    /// What the other end joins by, where it was written to no file.
    bootstrap: Option<&'a Bootstrap>,
}

fn usage(why: impl Into<String>) -> Failure {
    Failure::new(why).kind(Kind::Usage)
}

impl Settings {
    fn check(&self) -> Result<()> {
        if let Some(limit) = self.limit_rate.filter(|limit| *limit < LEAST_LIMIT) {
            return Err(usage(format!(
                "a limit of {limit} bytes a second; {LEAST_LIMIT} are the fewest"
            )));
        }
        if let Some(keep) = self.keep.filter(|keep| *keep as usize + 2 > MAX_POINTS) {
            let most = MAX_POINTS - 2;
            return Err(usage(format!("{keep} points are to be kept; {most} are the most")));
        }
        Ok(())
    }

    fn wish<'a>(&self, name: &'a str, id: MirrorId, odd: bool, peer: MirrorPeer) -> MirrorWish<'a> {
        MirrorWish {
            name,
            id,
            odd,
            interval: self.interval,
            keep: self.keep.unwrap_or(USUAL_KEEP),
            limit_bytes_per_s: self.limit_rate,
            alert_after: self.alert_after.filter(|after| !after.is_zero()),
            never_deposed: false,
            peer,
        }
    }
}

impl Reached {
    /// Addresses of this cluster's API, and the certificates by which the other one knows it.
    fn find(&self, endpoints: &Endpoints, meta: &dyn Transact) -> Result<(Vec<String>, String)> {
        let authority = match &self.authority {
            Some(path) => {
                let read = endpoints.read_file(path, MAX_AUTHORITY);
                read.context(|| format!("{} cannot be read", path.display()))?
                    .to_string()
            }
            // Where nobody proves anything, both are on one machine.
            None => endpoints.authority()?.unwrap_or_default(),
        };
        let addresses: Vec<String> = match self.addresses.is_empty() {
            false => self.addresses.clone(),
            true => {
                let nodes = admin::nodes(meta).described()?;
                nodes.into_iter().filter_map(|node| node.api).collect()
            }
        };
        if addresses.is_empty() {
            return Err(
                usage("no node tells of an API by which the other cluster could reach this one").advice(
                    "Start nodes with `--api ADDRESS:PORT`, or say where they are reached (--address HOST:PORT).",
                ),
            );
        }
        for address in &addresses {
            Address::parse(address, !authority.is_empty())
                .map_err(|why| usage(format!("--address {address}: {why}")))?;
        }
        Ok((addresses, authority))
    }
}

pub(super) fn add(arguments: &AddArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorAdd)?;
    arguments.settings.check()?;
    let reader = metadata.reader();
    let cluster = admin::cluster(&reader).described()?.id;
    let (addresses, authority) = arguments.reached.find(endpoints, &reader)?;
    // Before there is anything that could be lost.
    let place = arguments.bootstrap.as_deref().map(Place::make).transpose()?;
    let mut wish = arguments
        .settings
        .wish(name, MirrorId(Uuid::new_v4().as_u128()), false, MirrorPeer::default());
    wish.never_deposed = arguments.never_deposed;
    let by = metadata.caller().who().name.as_str();
    let made = metadata.act(Action::MirrorAdd, name, |meta| {
        admin::add_mirror_to_join(meta, &wish, &arguments.volumes, (by, now()))
    });
    let (made, token, secret) = made.described()?;
    let bootstrap = Bootstrap::new(
        (made.id, name),
        cluster,
        (addresses, authority),
        secret.to_text().to_string(),
    );
    let is_written = place.is_some();
    if let Some(place) = place {
        place.write(&bootstrap::text(&bootstrap)?).map_err(|failure| {
            failure.advice(format!(
                "The mirror is made, and nobody can join it: `amita mirror remove {name}`, and add it anew."
            ))
        })?;
    }
    let file = arguments.bootstrap.as_ref().map(|path| path.display().to_string());
    let added = Added {
        mirror: view(&made, now().as_secs()),
        token_ends_at: token.ends_at,
        file: file.clone(),
        bootstrap: (!is_written).then_some(&bootstrap),
    };
    let text = match &file {
        Some(file) => format!(
            "Mirror {name}: {} are mirrored when another cluster joins it. Bring {file} there, and keep it from others: `amita mirror join FILE \
             --pool POOL`.\n",
            show::volumes(&made)
        ),
        None => bootstrap::text(&bootstrap)?,
    };
    print(arguments.json, &added, || text)
}

/// Another token for the other end of a mirror that stands: where that one's has ended, or was lost with its sealing key, or this end is reached
/// elsewhere. Those of before are good until they end.
pub(super) fn token(arguments: &TokenArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorAdd)?;
    let reader = metadata.reader();
    let found = admin::mirror(&reader, name).described()?;
    let cluster = admin::cluster(&reader).described()?.id;
    let (addresses, authority) = arguments.reached.find(endpoints, &reader)?;
    let place = arguments.bootstrap.as_deref().map(Place::make).transpose()?;
    let by = metadata.caller().who().name.as_str();
    let made = metadata.act(Action::MirrorAdd, name, |meta| {
        admin::create_mirror_token(meta, &found, by, now())
    });
    let (token, secret) = made.described()?;
    let bootstrap = Bootstrap::new(
        (found.id, name),
        cluster,
        (addresses, authority),
        secret.to_text().to_string(),
    );
    let is_written = place.is_some();
    if let Some(place) = place {
        place.write(&bootstrap::text(&bootstrap)?)?;
    }
    let file = arguments.bootstrap.as_ref().map(|path| path.display().to_string());
    let added = Added {
        mirror: view(&found, now().as_secs()),
        token_ends_at: token.ends_at,
        file: file.clone(),
        bootstrap: (!is_written).then_some(&bootstrap),
    };
    let text = match &file {
        Some(file) => format!(
            "Mirror {name}: another token for the other end is made. Bring {file} there, and keep it from others: `amita mirror join FILE`. Those of \
             before are good until they end, or are revoked (`amita token list`).\n"
        ),
        None => bootstrap::text(&bootstrap)?,
    };
    print(arguments.json, &added, || text)
}

/// What this cluster calls the mirror of the file, where it is one of its ends already, with all of its volumes.
fn standing_end(all: &[Mirror], near: &Bootstrap, wanted: Option<&str>) -> Result<Option<String>> {
    let found = all.iter().find(|found| found.id == near.mirror);
    if let (Some(found), Some(wanted)) = (found, wanted)
        && wanted != found.name
    {
        let what = format!("mirror {} is that of the file, and {wanted} is not", found.name);
        return Err(Failure::new(what).kind(Kind::Conflict));
    }
    Ok(match admin::joined(all, near.mirror) {
        Joined::Stands(name) => Some(name.to_owned()),
        Joined::Halves | Joined::No => None,
    })
}

/// The other end of a mirror that stands is known by another token from now on, and knows this one by another; nothing else is changed.
fn join_again(
    (near, seal): (&Bootstrap, &SealKey),
    name: &str,
    (addresses, authority): (Vec<String>, String),
    as_json: bool,
    metadata: &Admin,
) -> Result<()> {
    let reader = metadata.reader();
    let own = admin::cluster(&reader).described()?.id;
    let peer = peer(near, seal)?;
    let link = Link::new(&peer, &near.token, near.mirror)?;
    // Whoever answers is that cluster, and lets this one in by the token.
    link.look()?;
    let by = metadata.caller().who().name.as_str();
    let made = metadata.act(Action::MirrorAdd, name, |meta| {
        admin::join_mirror_again(meta, name, &peer, (by, now()))
    });
    let secret = made.described()?;
    link.tell_peer(&MirrorPeerTold {
        cluster: own,
        addresses,
        authority,
        token: secret.to_text().to_string(),
    })
    .map_err(again)?;
    let found = admin::mirror(&reader, name).described()?;
    super::told(&found, as_json, || {
        format!("Mirror {name}: its ends know each other by new tokens. Nothing else of it is changed.\n")
    })
}

fn again(failure: Failure) -> Failure {
    let advice = match failure.advice.as_str() {
        "" => String::new(),
        advice => format!("{advice} "),
    };
    failure.advice(format!("{advice}Then give the command again: it goes on where it was."))
}

pub(super) fn join(arguments: &JoinArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    metadata.permit(Action::MirrorAdd)?;
    arguments.settings.check()?;
    let shown = arguments.file.display();
    let text = endpoints.read_file(&arguments.file, MAX_BYTES + 1);
    let text = text.map_err(|why| Failure::new(format!("{shown} cannot be read: {why}")).kind(Kind::Unreadable))?;
    let near = bootstrap::parse(&text)?;
    let reader = metadata.reader();
    let own = admin::cluster(&reader).described()?.id;
    if own == near.cluster {
        return Err(
            usage("the file is of this cluster, and one cluster is no two ends of a mirror")
                .advice("Give it at the other cluster (--metadata, --by-api)."),
        );
    }
    let Some(seal) = endpoints.seal_key(arguments.seal_key.as_deref())? else {
        return Err(usage("the token for the other end is kept sealed, and no sealing key was given").advice(
            "Pass --seal-key FILE, or set AMITA_SEAL_KEY: the file that the nodes have (`amita serve --seal-key`). `amita host seal-key FILE` \
             makes one.",
        ));
    };
    let (addresses, authority) = arguments.reached.find(endpoints, &reader)?;
    let all = admin::mirrors(&reader).described()?;
    if let Some(name) = standing_end(&all, &near, arguments.name.as_deref())? {
        return join_again((&near, &seal), &name, (addresses, authority), arguments.json, metadata);
    }
    let name = arguments.name.as_deref().unwrap_or(&near.name);
    let Some(pool) = arguments.pool.as_deref() else {
        return Err(usage("no pool is named, and the volumes are to be made in one").advice("Say --pool NAME."));
    };
    let peer = peer(&near, &seal)?;
    let link = Link::new(&peer, &near.token, near.mirror)?;
    let there = look(&link, &near)?;
    let keys = keys(arguments, endpoints, &there)?;
    let (joined, token) = make(arguments, (name, pool, &near), (peer, &there), keys.as_ref(), metadata)?;
    link.tell_peer(&MirrorPeerTold {
        cluster: own,
        addresses,
        authority,
        token,
    })
    .map_err(again)?;
    let done = metadata.act(Action::MirrorAdd, name, |meta| admin::complete_mirrored(meta, name));
    done.described().map_err(again)?;
    let found = admin::mirror(&reader, name).described()?;
    super::told(&found, arguments.json, || {
        format!(
            "Mirror {name}: {} are brought to pool {}, and closed to hosts until this end is promoted. `amita mirror show {name}` says how far \
             it is.\n",
            show::volumes(&joined),
            pool
        )
    })
}

/// The near end, with its token sealed.
fn peer(near: &Bootstrap, seal: &SealKey) -> Result<MirrorPeer> {
    Ok(MirrorPeer {
        cluster: Some(near.cluster),
        addresses: near.addresses.clone(),
        authority: near.authority.clone(),
        token: seal_token(seal, near.mirror, &near.token)?,
    })
}

/// What the near end is: it can be followed.
fn look(link: &Link, near: &Bootstrap) -> Result<MirrorLink> {
    let there = link.look()?;
    match there.standing.role {
        MirrorRole::Primary => Ok(there),
        other => Err(Failure::new(format!(
            "the other end of mirror {} is {other}, and only a primary is joined",
            near.name
        ))
        .kind(Kind::Conflict)),
    }
}

/// What makes data keys, where something is to be encrypted.
fn keys(arguments: &JoinArguments, endpoints: &Endpoints, there: &MirrorLink) -> Result<Option<KeyFile>> {
    match arguments.encrypted || there.volumes.iter().any(|volume| volume.encrypted) {
        true => arguments.keys.needed(endpoints).map(Some),
        false => Ok(None),
    }
}

/// This end's record, its volumes, and a token for the other end.
fn make(
    arguments: &JoinArguments,
    (name, pool, near): (&str, &str, &Bootstrap),
    (peer, there): (MirrorPeer, &MirrorLink),
    keys: Option<&KeyFile>,
    metadata: &Admin,
) -> Result<(Mirror, String)> {
    let wish = arguments.settings.wish(name, near.mirror, true, peer);
    let targets: Vec<TargetWish<'_>> = there
        .volumes
        .iter()
        .map(|volume| TargetWish {
            name: &volume.name,
            pool,
            size_bytes: volume.size_bytes,
            keys: keys
                .filter(|_| arguments.encrypted || volume.encrypted)
                .map(|file| file as &dyn DataKeys),
        })
        .collect();
    let by = metadata.caller().who().name.as_str();
    let made = metadata.act(Action::MirrorAdd, name, |meta| {
        admin::join_mirror(meta, &wish, there.standing.epoch, &targets, (by, now()))
    });
    let made = made.map(|(made, secret)| (made, secret.to_text().to_string()));
    made.described().map_err(|failure| match failure.advice.as_str() {
        "" => failure.advice("What was made of it stays, closed; when that is mended, give the command again."),
        _ => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_types::ClusterId;

    #[test]
    fn an_end_that_stands_is_told_by_the_number_of_its_mirror_and_has_its_own_name() {
        let record = serde_json::json!({
            "id": MirrorId(7), "name": "m7", "role": "primary", "epoch": 0, "volumes": [], "peer": {}, "interval_s": 60, "keep": 3
        });
        let all: Vec<Mirror> = vec![serde_json::from_value(record).expect("a record")];
        let near = Bootstrap::new(
            (MirrorId(7), "dr"),
            ClusterId(3),
            (vec!["n1:1".to_owned()], String::new()),
            "t".to_owned(),
        );
        assert_eq!(standing_end(&all, &near, None), Ok(Some("m7".to_owned())));
        assert_eq!(standing_end(&all, &near, Some("m7")), Ok(Some("m7".to_owned())));
        assert!(standing_end(&all, &near, Some("other")).is_err_and(|why| why.kind == Kind::Conflict));
        assert_eq!(standing_end(&all[..0], &near, Some("other")), Ok(None));
    }
}
