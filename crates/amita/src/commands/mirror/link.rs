//! The way to a mirror's other end: its nodes' API, by HTTPS with the authority that is pinned in this end's record (decision 081).
//!
//! A node shows what it shows to its own cluster, and is judged by that cluster's number; where it is believed by a certificate for browsers alone,
//! that is. Redirections are not followed, no answer is held whole but for those that are small, and where one address does not answer the next
//! one is asked.

use super::wire::Reader;
use crate::by_api::place::Place;
use crate::by_api::rest::encode;
use crate::by_api::stream::{Coming, Opened, open_at_once};
use crate::by_api::transport::{Proof, Question, Said, Unsaid, send_at_once};
use crate::by_api::wait::within_while;
use amita_api::mirror::{MirrorLink, MirrorPeerTold};
use amita_control::mirror::{TOKEN_FIELD, token_bound_to};
use amita_identity::{Expected, Role, Zeroizing, foreign_client_config};
use amita_keys::SealKey;
use amita_terminal::error::{Context as _, Failure, Kind, Result};
use amita_types::map::{MAX_MIRROR_VOLUMES, MAX_POINTS, Mirror, MirrorPeer, Point, PointName, Standing};
use amita_types::name::MAX_NAME_BYTES;
use amita_types::{ClusterId, MirrorEpoch, MirrorId};
use http::Method;
use hyper::body::{Buf as _, Bytes};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// One address says what it was asked for within this.
const ANSWER: Duration = Duration::from_secs(10);
/// And it is waited for so long, names and connections included.
const ONE: Duration = Duration::from_secs(20);
/// What is read of a point begins to come within this: a gateway has to open its snapshots before.
const OPENING: Duration = Duration::from_secs(180);
/// And then some of it is there within this, or the other end is gone.
const SILENCE: Duration = Duration::from_secs(150);
/// The longest answer that is held whole: a standing with as many points as can be, and as many volumes.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// The most addresses that are asked.
const MAX_ADDRESSES: usize = 64;
/// The latest epoch, and the largest number of a point, that are believed: with one a second they would be reached after millions of years. Behind what
/// somebody has made up there would be no later one.
const MOST_NUMBER: u64 = 1 << 48;
/// An end may have so many points beside the most: its last one, the one that it is at, and those that are not let go yet.
const POINTS_BESIDE: usize = 16;
/// So much of another cluster's words is told.
const MAX_WORDS: usize = 500;

/// The way to the other end.
pub struct Link {
    runtime: Arc<Runtime>,
    places: Vec<Place>,
    /// By what nodes may be believed.
    proofs: Vec<Proof>,
    /// Which address, and which proof, was good last.
    last: AtomicUsize,
    good: AtomicUsize,
    mirror: MirrorId,
    cluster: Option<ClusterId>,
    /// Is what is asked for wanted still?
    wanted: Wanted,
}

type Wanted = Rc<dyn Fn() -> Result<()>>;

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        write!(f, "Link({})", places.join(", "))
    }
}

/// A token in place of the one that ends.
#[derive(Deserialize)]
pub struct Renewed {
    /// Its text.
    pub token: String,
    /// When it ends, in seconds since 1970, by the other end's clock.
    pub ends_at: u64,
}

#[derive(Deserialize)]
struct Cut {
    point: Point,
}

/// A token for the other end, as it is kept in the record of a mirror of this number.
///
/// # Errors
/// It is too long.
pub fn seal_token(key: &SealKey, mirror: MirrorId, token: &str) -> Result<String> {
    let sealed = key.seal(&token_bound_to(mirror), TOKEN_FIELD, token);
    sealed.context(|| "the token for the other end".to_owned())
}

/// The token that a mirror's record keeps.
///
/// # Errors
/// It was sealed with another key, or for another record.
pub fn unseal_token(key: &SealKey, mirror: MirrorId, sealed: &str) -> Result<Zeroizing<String>> {
    let opened = key.unseal(&token_bound_to(mirror), TOKEN_FIELD, sealed);
    opened.context(|| "the token for the other end".to_owned())
}

impl Link {
    /// To this other end, by this token.
    ///
    /// # Errors
    /// No address, or one that cannot be; its authority, or the token, is none; there is no event loop.
    pub fn new(peer: &MirrorPeer, token: &str, mirror: MirrorId) -> Result<Link> {
        let usage = |why: String| Failure::new(format!("the other end of the mirror: {why}")).kind(Kind::Usage);
        let is_proved = !peer.authority.is_empty();
        let places = peer.addresses.iter().take(MAX_ADDRESSES);
        let places: Vec<Place> = places
            .map(|text| Place::parse(text, is_proved).map_err(|why| usage(format!("{text}: {why}"))))
            .collect::<Result<_>>()?;
        if places.is_empty() {
            return Err(usage("it has no address".to_owned()));
        }
        let proofs = match is_proved {
            true => proofs(peer).map_err(usage)?,
            // On the same machine, and nowhere else: whoever is there proves nothing, and is told nothing secret.
            false => vec![Proof::none()],
        };
        let proofs: Vec<Proof> = match token.is_empty() {
            true => proofs,
            false => proofs
                .into_iter()
                .map(|proof| proof.with_token(token).map_err(usage))
                .collect::<Result<_>>()?,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context(|| "no event loop".to_owned())?;
        Ok(Link {
            runtime: Arc::new(runtime),
            places,
            proofs,
            last: AtomicUsize::new(0),
            good: AtomicUsize::new(0),
            mirror,
            cluster: peer.cluster,
            wanted: Rc::new(|| Ok(())),
        })
    }

    /// Nothing is waited for any more where `wanted` fails.
    #[must_use]
    pub fn wanted(mut self, wanted: impl Fn() -> Result<()> + 'static) -> Link {
        self.wanted = Rc::new(wanted);
        self
    }

    /// As this end's record says, with the token that is sealed there.
    ///
    /// # Errors
    /// As [`Link::new`]; the other end is not known yet, or there is no sealing key.
    pub fn of(record: &Mirror, key: Option<&SealKey>) -> Result<Link> {
        let peer = &record.peer;
        if peer.token.is_empty() || peer.addresses.is_empty() {
            return Err(
                Failure::new(format!("mirror {}: the other end is not known yet", record.name)).kind(Kind::Conflict),
            );
        }
        let Some(key) = key else {
            let what = format!(
                "mirror {}: the token for the other end is kept sealed, and there is no sealing key here",
                record.name
            );
            return Err(Failure::new(what).advice("Start nodes with --seal-key FILE (`amita host seal-key`)."));
        };
        let token = unseal_token(key, record.id, &peer.token)?;
        Link::new(peer, &token, record.id)
    }

    /// What the other end is.
    ///
    /// # Errors
    /// No address of it answers; it refuses; another cluster or another mirror answers.
    pub fn look(&self) -> Result<MirrorLink> {
        let said = self.ask(&Question::get(&self.path("")))?;
        self.checked(read(&said)?)
    }

    /// Has it cut a point of this epoch, or give the newest where that is young; none: it is being cut.
    ///
    /// # Errors
    /// As [`Link::look`].
    pub fn cut(&self, epoch: MirrorEpoch) -> Result<Option<Point>> {
        let said = self.post("/points", &serde_json::json!({ "epoch": epoch }))?;
        match said.status {
            202 => Ok(None),
            _ => {
                let point = read::<Cut>(&said)?.point;
                sound_point(&point).map_err(refused)?;
                Ok(Some(point))
            }
        }
    }

    /// Asks it to decline this end's demotion of this epoch: it is never promoted by that. With what this end is.
    ///
    /// # Errors
    /// As [`Link::look`]; it was promoted already, or has not seen the demotion yet.
    pub fn decline(&self, epoch: MirrorEpoch, standing: &Standing) -> Result<MirrorLink> {
        let body = serde_json::json!({ "epoch": epoch, "standing": standing });
        let said = self.post("/decline", &body)?;
        self.checked(read(&said)?)
    }

    /// Tells it how this end is reached.
    ///
    /// # Errors
    /// As [`Link::look`].
    pub fn tell_peer(&self, told: &MirrorPeerTold) -> Result<()> {
        let body = serde_json::to_string(told).context(|| "what is told to the other end".to_owned())?;
        let question = Question::with_body(Method::PUT, &self.path("/peer"), body, None);
        self.ask(&question).map(drop)
    }

    /// Another token in place of this one.
    ///
    /// # Errors
    /// As [`Link::look`].
    pub fn renew(&self) -> Result<Renewed> {
        read(&self.post("/token", &serde_json::json!({}))?)
    }

    /// What a point of it has of a volume, or what differs from another point, behind so many bytes.
    ///
    /// # Errors
    /// As [`Link::look`]; it has no such point.
    pub fn data(
        &self,
        point: PointName,
        volume: &str,
        base: Option<PointName>,
        after: u64,
    ) -> Result<Reader<Box<dyn Read>>> {
        let base = base.map_or_else(String::new, |base| format!("&base={base}"));
        let path = format!("/points/{point}/volumes/{}/data?after={after}{base}", encode(volume));
        let question = Question::get(&self.path(&path));
        let mut tried = Tried::default();
        for (place, proof, at) in self.ways() {
            if tried.is_done_with(at.0) {
                continue;
            }
            let opening = open_at_once(place, proof, &question);
            let opened = within_while(&self.runtime, OPENING, &*self.wanted, opening)?;
            let why = match opened {
                Some(Ok(Opened::Coming(coming))) => {
                    self.was_good(at);
                    let from = Streamed {
                        runtime: Arc::clone(&self.runtime),
                        wanted: Rc::clone(&self.wanted),
                        coming,
                        bytes: Bytes::new(),
                        is_over: false,
                    };
                    return Ok(Reader::new(Box::new(from) as Box<dyn Read>));
                }
                Some(Ok(Opened::Said(said))) => match judge(said) {
                    Ok(said) => Unsaid::CutOff(format!("it answers {} where data is to come", said.status)),
                    Err(Judged::Next(why)) => Unsaid::CutOff(why),
                    Err(Judged::Final(failure)) => return Err(failure),
                },
                Some(Err(why)) => why,
                None => Unsaid::Silent(format!("it has not answered within {} s", OPENING.as_secs())),
            };
            tried.note((at.0, place), why);
        }
        Err(tried.nobody())
    }

    fn path(&self, rest: &str) -> String {
        format!("{}/mirror-links/{}{rest}", amita_api::PREFIX, self.mirror)
    }

    fn post(&self, rest: &str, body: &serde_json::Value) -> Result<Said> {
        let question = Question::with_body(Method::POST, &self.path(rest), body.to_string(), None);
        self.ask(&question)
    }

    /// All ways to ask, from the one on that was good last.
    fn ways(&self) -> impl Iterator<Item = (&Place, &Proof, (usize, usize))> {
        let (places, proofs) = (self.places.len(), self.proofs.len());
        let (last, good) = (self.last.load(Ordering::Relaxed), self.good.load(Ordering::Relaxed));
        (0..places * proofs).map(move |step| {
            let at = ((last + step / proofs) % places, (good + step % proofs) % proofs);
            (&self.places[at.0], &self.proofs[at.1], at)
        })
    }

    fn was_good(&self, (place, proof): (usize, usize)) {
        self.last.store(place, Ordering::Relaxed);
        self.good.store(proof, Ordering::Relaxed);
    }

    fn ask(&self, question: &Question) -> Result<Said> {
        let mut tried = Tried::default();
        for (place, proof, at) in self.ways() {
            if tried.is_done_with(at.0) {
                continue;
            }
            let sent = send_at_once(place, proof, question, (ANSWER, MAX_ANSWER_BYTES));
            let why = match within_while(&self.runtime, ONE, &*self.wanted, sent)? {
                Some(Ok(said)) => match judge(said) {
                    Ok(said) => {
                        self.was_good(at);
                        return Ok(said);
                    }
                    Err(Judged::Next(why)) => Unsaid::CutOff(why),
                    Err(Judged::Final(failure)) => return Err(failure),
                },
                Some(Err(why)) => why,
                None => Unsaid::Silent(format!("it has not answered within {} s", ONE.as_secs())),
            };
            tried.note((at.0, place), why);
        }
        Err(tried.nobody())
    }

    fn checked(&self, link: MirrorLink) -> Result<MirrorLink> {
        sound(&link).map_err(refused)?;
        match self.cluster {
            Some(cluster) if cluster != link.cluster => Err(refused(format!(
                "it is cluster {}, and this mirror's is {cluster}",
                link.cluster
            ))),
            _ if link.mirror != self.mirror => Err(refused(format!(
                "it tells of mirror {}, and this one is {}",
                link.mirror, self.mirror
            ))),
            _ => Ok(link),
        }
    }
}

fn refused(what: String) -> Failure {
    Failure::new(format!("the other end is refused: {what}")).kind(Kind::Conflict)
}

/// Can an end say that of itself? It is kept in this end's record, which has a longest one, and epochs are counted on from it.
fn sound(link: &MirrorLink) -> std::result::Result<(), String> {
    let standing = &link.standing;
    if standing.points.len() > MAX_POINTS + POINTS_BESIDE {
        return Err(format!(
            "it says that it has {} points, and {MAX_POINTS} are the most",
            standing.points.len()
        ));
    }
    if link.volumes.len() > MAX_MIRROR_VOLUMES {
        return Err(format!(
            "it says that it has {} volumes in this mirror, and {MAX_MIRROR_VOLUMES} are the most",
            link.volumes.len()
        ));
    }
    standing.points.iter().try_for_each(sound_point)?;
    link.volumes.iter().try_for_each(|volume| sound_name(&volume.name))?;
    let epochs = [Some(standing.epoch), standing.declined];
    let epochs = epochs.into_iter().flatten();
    epochs
        .chain(standing.point.map(|point| point.epoch))
        .try_for_each(|epoch| sound_number(epoch.0, "an epoch"))?;
    sound_number(standing.point.map_or(0, |point| point.number), "a point's number")
}

fn sound_point(point: &Point) -> std::result::Result<(), String> {
    sound_name(&point.snapshots)?;
    sound_number(point.name.epoch.0, "an epoch")?;
    sound_number(point.name.number, "a point's number")
}

fn sound_name(name: &str) -> std::result::Result<(), String> {
    match name.len() <= MAX_NAME_BYTES {
        true => Ok(()),
        false => Err(format!(
            "a name of {} bytes, and {MAX_NAME_BYTES} are the most",
            name.len()
        )),
    }
}

fn sound_number(number: u64, what: &str) -> std::result::Result<(), String> {
    match number <= MOST_NUMBER {
        true => Ok(()),
        false => Err(format!("{number} is {what} that nobody comes to by counting")),
    }
}

/// By its cluster's authority, and as a browser would believe it: by these certificates alone.
fn proofs(peer: &MirrorPeer) -> std::result::Result<Vec<Proof>, String> {
    let mut proofs = Vec::new();
    // One that is no authority of a cluster may be one for browsers.
    if let Some(cluster) = peer.cluster
        && let Ok(tls) = foreign_client_config(&peer.authority, cluster, Expected::any(&[Role::Node, Role::Gateway]))
    {
        proofs.push(Proof::by_cluster(tls));
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(peer.authority.as_bytes()) {
        let certificate = certificate.map_err(|why| format!("its authority is no PEM: {why}"))?;
        let added = roots.add(certificate);
        added.map_err(|why| format!("a certificate of its authority is none: {why}"))?;
    }
    if roots.is_empty() {
        return Err("there is no certificate of its authority".to_owned());
    }
    proofs.push(Proof::by_authorities(roots)?);
    Ok(proofs)
}

enum Judged {
    /// Another address may answer.
    Next(String),
    /// None does otherwise.
    Final(Failure),
}

fn judge(said: Said) -> std::result::Result<Said, Judged> {
    let status = said.status;
    if (200..300).contains(&status) {
        return Ok(said);
    }
    let problem: serde_json::Value = serde_json::from_slice(&said.body).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("no more than that");
    let detail: String = detail.chars().take(MAX_WORDS).collect();
    let what = format!("the other end answers {status}: {detail}");
    match status {
        421 | 429 | 500 | 502..=504 => Err(Judged::Next(format!("it answers {status}: {detail}"))),
        401 | 403 => Err(Judged::Final(Failure::new(what).advice(
            "The token by which it knows this end has ended, or was revoked there: `amita mirror token NAME --bootstrap FILE` there makes another one, and \
             `amita mirror join FILE` here takes it.",
        ))),
        404 => Err(Judged::Final(Failure::new(what).kind(Kind::NotFound))),
        409 | 412 => Err(Judged::Final(Failure::new(what).kind(Kind::Conflict))),
        _ => Err(Judged::Final(Failure::new(what))),
    }
}

/// What has come of the ways that were tried.
#[derive(Default)]
struct Tried {
    whys: Vec<String>,
    /// Of this address no other proof is tried.
    done_with: Option<usize>,
    /// Some address has answered, by HTTP, though with nothing of use: somebody lives there.
    has_answered: bool,
}

impl Tried {
    fn is_done_with(&self, place: usize) -> bool {
        self.done_with == Some(place)
    }

    fn note(&mut self, (at, place): (usize, &Place), why: Unsaid) {
        let is_believed = !matches!(why, Unsaid::Unbelieved(_));
        self.done_with = is_believed.then_some(at);
        self.has_answered |= matches!(why, Unsaid::CutOff(_));
        self.whys.push(format!("{place}: {}", why.why()));
    }

    /// Unreachable: no address has given any answer.
    fn nobody(&self) -> Failure {
        let whys = self.whys.join("; ");
        match self.has_answered {
            true => Failure::new(format!("the other end gives no answer of use ({whys})")),
            false => Failure::new(format!("the other end does not answer ({whys})")).kind(Kind::Unreachable),
        }
    }
}

fn read<T: DeserializeOwned>(said: &Said) -> Result<T> {
    let parsed = serde_json::from_slice(&said.body);
    parsed.map_err(|why| Failure::new(format!("the other end's answer is of another form: {why}")))
}

/// What comes, as it is read. What is not read is not asked for: the connection is driven by the reading alone.
struct Streamed {
    runtime: Arc<Runtime>,
    wanted: Wanted,
    coming: Box<Coming>,
    bytes: Bytes,
    is_over: bool,
}

impl Read for Streamed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.bytes.is_empty() && !self.is_over {
            let next = within_while(&self.runtime, SILENCE, &*self.wanted, self.coming.next());
            // Whoever reads is to end.
            let next = next.map_err(|why| io::Error::other(why.what))?;
            match next {
                Some(Ok(Some(bytes))) => self.bytes = bytes,
                Some(Ok(None)) => self.is_over = true,
                Some(Err(why)) => return Err(io::Error::other(why)),
                None => {
                    let why = format!("nothing has come for {} s", SILENCE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
            }
        }
        let length = into.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(addresses: &[&str]) -> MirrorPeer {
        MirrorPeer {
            addresses: addresses.iter().map(|text| (*text).to_owned()).collect(),
            ..MirrorPeer::default()
        }
    }

    #[test]
    fn without_an_authority_nobody_but_this_machine_is_asked() {
        let mirror = MirrorId(7);
        for (bad, why) in [
            (vec![], "no address"),
            (vec!["http://192.0.2.1:1"], "HTTPS"),
            (vec!["n1"], "no port"),
        ] {
            let refused = Link::new(&peer(&bad), "", mirror).expect_err("it cannot be");
            assert!(refused.what.contains(why), "{bad:?}: {refused:?}");
        }
        assert!(Link::new(&peer(&["127.0.0.1:1"]), "", mirror).is_ok());
        // By TLS, without anything to believe it by.
        let far = Link::new(&peer(&["192.0.2.1:1"]), "", mirror).expect("a link");
        assert_eq!(far.places.len(), 1);
        assert!(far.places[0].is_tls());
        let pinned = MirrorPeer {
            authority: "no PEM".to_owned(),
            ..peer(&["n1.example:1"])
        };
        assert!(Link::new(&pinned, "t", mirror).is_err());
    }

    #[test]
    fn the_way_that_was_good_is_the_first_one_and_all_are_tried() {
        let link = Link::new(&peer(&["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]), "", MirrorId(7)).expect("a link");
        let order = || link.ways().map(|(_, _, at)| at.0).collect::<Vec<_>>();
        assert_eq!(order(), [0, 1, 2]);
        link.was_good((1, 0));
        assert_eq!(order(), [1, 2, 0]);
        assert_eq!(link.path("/peer"), format!("/api/v1/mirror-links/{}/peer", MirrorId(7)));
    }

    /// Where nobody is reached no other proof is; and who answers with nothing of use lives.
    #[test]
    fn an_address_that_is_not_reached_is_tried_once_and_one_that_answers_lives() {
        let link = Link::new(&peer(&["127.0.0.1:1", "127.0.0.1:2"]), "", MirrorId(7)).expect("a link");
        let mut tried = Tried::default();
        let place = &link.places[0];
        tried.note((0, place), Unsaid::Unbelieved("another authority".to_owned()));
        assert!(!tried.is_done_with(0), "another proof may be good");
        tried.note((0, place), Unsaid::Silent("refused".to_owned()));
        assert!(tried.is_done_with(0) && !tried.is_done_with(1));
        assert_eq!(tried.nobody().kind, Kind::Unreachable);
        tried.note((1, &link.places[1]), Unsaid::CutOff("it answers 503".to_owned()));
        let told = tried.nobody();
        assert!(
            told.kind == Kind::Failed && told.what.contains("503") && told.what.contains("refused"),
            "{told:?}"
        );
    }

    #[test]
    fn what_is_wanted_no_more_is_not_waited_for() {
        // It takes connections, and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("an address").to_string();
        let link = Link::new(&peer(&[&address]), "", MirrorId(7)).expect("a link");
        let link = link.wanted(|| Err(Failure::new("it is another's by now")));
        let ended = link.look().expect_err("nobody answers");
        assert!(ended.what.contains("another's"), "{ended:?}");
    }

    #[test]
    fn another_cluster_or_mirror_is_refused() {
        let known = MirrorPeer {
            cluster: Some(ClusterId(3)),
            ..peer(&["127.0.0.1:1"])
        };
        let link = Link::new(&known, "", MirrorId(7)).expect("a link");
        let told = |cluster, mirror| MirrorLink {
            cluster: ClusterId(cluster),
            mirror: MirrorId(mirror),
            clock: 1,
            standing: Standing::default(),
            volumes: Vec::new(),
            interval_s: 60,
        };
        assert!(link.checked(told(3, 7)).is_ok());
        assert!(link.checked(told(4, 7)).is_err_and(|why| why.what.contains("cluster")));
        assert!(link.checked(told(3, 8)).is_err_and(|why| why.what.contains("mirror")));
    }

    #[test]
    fn what_no_end_can_be_is_refused_before_it_is_kept() {
        let link = Link::new(&peer(&["127.0.0.1:1"]), "", MirrorId(7)).expect("a link");
        let point = |epoch, number, name: usize| Point {
            name: PointName {
                epoch: MirrorEpoch(epoch),
                number,
            },
            cut_at: 1,
            snapshots: "p".repeat(name),
            arrived_at: None,
        };
        let checked = |standing: Standing, volumes: usize, name: usize| {
            let volume = amita_api::mirror::LinkVolume {
                name: "v".repeat(name),
                size_bytes: 4096,
                encrypted: false,
            };
            link.checked(MirrorLink {
                cluster: ClusterId(3),
                mirror: MirrorId(7),
                clock: 1,
                standing,
                volumes: vec![volume; volumes],
                interval_s: 60,
            })
        };
        let of = |points: Vec<Point>| Standing {
            points,
            ..Standing::default()
        };
        let full = vec![point(2, 1, MAX_NAME_BYTES); MAX_POINTS + POINTS_BESIDE];
        assert!(checked(of(full.clone()), MAX_MIRROR_VOLUMES, MAX_NAME_BYTES).is_ok());
        let epoch = |epoch: u64| Standing {
            epoch: MirrorEpoch(epoch),
            ..Standing::default()
        };
        assert!(checked(epoch(MOST_NUMBER), 1, 1).is_ok());
        let declined = Standing {
            declined: Some(MirrorEpoch(u64::MAX)),
            ..Standing::default()
        };
        let at = Standing {
            point: Some(point(2, u64::MAX, 1).name),
            ..Standing::default()
        };
        let more = [full, vec![point(2, 2, 1)]].concat();
        for (standing, volumes, name, why) in [
            (of(more), 1, 1, "points, and"),
            (of(vec![point(2, 1, MAX_NAME_BYTES + 1)]), 1, 1, "a name of"),
            (of(vec![point(u64::MAX, 1, 1)]), 1, 1, "an epoch"),
            (of(vec![point(2, u64::MAX, 1)]), 1, 1, "number"),
            (epoch(u64::MAX), 1, 1, "an epoch"),
            (declined, 1, 1, "an epoch"),
            (at, 1, 1, "number"),
            (epoch(2), MAX_MIRROR_VOLUMES + 1, 1, "volumes in this mirror"),
            (epoch(2), 1, MAX_NAME_BYTES + 1, "a name of"),
        ] {
            let refused = checked(standing, volumes, name).expect_err(why);
            assert!(
                refused.what.contains(why) && refused.kind == Kind::Conflict,
                "{why}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_token_opens_in_its_own_record_alone() {
        let key = SealKey::generate();
        let sealed = seal_token(&key, MirrorId(7), "amita-api-1.x").expect("sealed");
        assert!(!sealed.contains("amita-api"));
        assert_eq!(
            unseal_token(&key, MirrorId(7), &sealed).expect("opened").as_str(),
            "amita-api-1.x"
        );
        assert!(unseal_token(&key, MirrorId(8), &sealed).is_err());
        assert!(unseal_token(&SealKey::generate(), MirrorId(7), &sealed).is_err());
    }
}
