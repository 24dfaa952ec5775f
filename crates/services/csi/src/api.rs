//! What the driver asks a cluster: requests of the REST API, typed as far as it needs them.
//!
//! How a node is reached, as whom, and which one, is not known here: [`Way`] is given. None of these requests has a key of idempotency: each is made after
//! a look, and whoever has lost an answer looks again.

mod targets;
mod things;
mod trouble;

pub use things::*;
pub use trouble::Trouble;

use http::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;

/// What takes its time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Pieces of one list, at most.
const MOST_PIECES: usize = 10_000;
/// Things of one piece.
const PIECE: usize = 1000;

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// How.
    pub method: Method,
    /// The path, with its parameters.
    pub path: String,
    /// The body.
    pub body: Option<Value>,
    /// What the thing was when it was looked at.
    pub if_match: Option<String>,
}

/// An answer, whatever it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The entity tag.
    pub tag: Option<String>,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

/// A way to nodes' APIs: to another node, where one does not answer.
pub trait Way: Send + Sync + 'static {
    /// Asks. An error, in words, is that no node has answered; what was asked for may have been done.
    fn ask(&self, ask: Ask) -> Boxed<'_, Result<Answer, String>>;
}

/// The requests.
#[derive(Clone)]
pub struct Api(Arc<dyn Way>);

type Done<T> = Result<T, Trouble>;

/// A text in a path or a parameter (RFC 3986, section 2.1).
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                // A text takes what is written to it.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn read<T: DeserializeOwned>(answer: &Answer) -> Done<T> {
    serde_json::from_slice(&answer.body).map_err(|why| Trouble::Unreadable(why.to_string()))
}

/// A thing as it was made or changed: it is the one that was left while its tag is the same. An answer without a tag is of one that is not known again.
fn read_tagged<T: DeserializeOwned>(answer: &Answer) -> Done<Tagged<T>> {
    let tag = answer.tag.clone().unwrap_or_else(|| "\"\"".to_owned());
    Ok(Tagged {
        thing: read(answer)?,
        tag,
    })
}

impl Api {
    /// By this way.
    #[must_use]
    pub fn new(way: Arc<dyn Way>) -> Api {
        Api(way)
    }

    async fn send(&self, method: Method, path: String, body: Option<Value>, if_match: Option<&str>) -> Done<Answer> {
        let ask = Ask {
            method,
            path: format!("/api/v1{path}"),
            body,
            if_match: if_match.map(str::to_owned),
        };
        let answer = self.0.ask(ask).await.map_err(Trouble::NoAnswer)?;
        match answer.status {
            200..=299 => Ok(answer),
            _ => Err(Trouble::refused(&answer)),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: String) -> Done<T> {
        read(&self.send(Method::GET, path, None, None).await?)
    }

    /// What lies there, with its entity tag; none: nothing does.
    async fn find<T: DeserializeOwned>(&self, path: String) -> Done<Option<Tagged<T>>> {
        match self.send(Method::GET, path, None, None).await {
            Ok(answer) => {
                let tag = answer.tag.clone().unwrap_or_else(|| "*".to_owned());
                Ok(Some(Tagged {
                    thing: read(&answer)?,
                    tag,
                }))
            }
            Err(why) if why.is_not_found() => Ok(None),
            Err(why) => Err(why),
        }
    }

    async fn all<T: DeserializeOwned>(&self, path: &str) -> Done<Vec<T>> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut all = Vec::new();
        let mut after = String::new();
        for _ in 0..MOST_PIECES {
            let piece: Piece<T> = self.get(format!("{path}{mark}limit={PIECE}{after}")).await?;
            all.extend(piece.items);
            match piece.next {
                None => return Ok(all),
                Some(next) => after = format!("&after={}", encode(&next)),
            }
        }
        Err(Trouble::Unreadable(format!(
            "{path} has more pieces than {MOST_PIECES}"
        )))
    }

    /// Who asks: whether the cluster is there, and knows the driver.
    ///
    /// # Errors
    /// As all of these: no node answers, or it refuses.
    pub async fn myself(&self) -> Done<()> {
        self.send(Method::GET, "/self".to_owned(), None, None).await.map(drop)
    }

    /// A volume by its name.
    ///
    /// # Errors
    /// See [`Api::myself`]; none is not an error.
    pub async fn volume(&self, name: &str) -> Done<Option<Tagged<Volume>>> {
        self.find(format!("/volumes/{}", encode(name))).await
    }

    /// The volumes with a label.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn volumes(&self, label: (&str, &str)) -> Done<Vec<Volume>> {
        let label = encode(&format!("{}={}", label.0, label.1));
        self.all(&format!("/volumes?label={label}")).await
    }

    /// Makes a volume.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn create_volume(&self, wanted: &NewVolume<'_>) -> Done<Tagged<Volume>> {
        let mut body = json!({"name": wanted.name, "pool": wanted.pool, "size_bytes": wanted.size_bytes, "labels": wanted.labels,
            "encrypted": wanted.encrypted});
        // Nodes of before do not know it.
        if let Some(tenant) = wanted.tenant {
            body["tenant"] = json!(tenant);
        }
        read_tagged(&self.send(Method::POST, "/volumes".to_owned(), Some(body), None).await?)
    }

    /// Makes a volume of a snapshot.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn clone_snapshot(
        &self,
        (volume, snapshot): (&str, &str),
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Done<Tagged<Volume>> {
        let path = format!("/volumes/{}/snapshots/{}/clones", encode(volume), encode(snapshot));
        let body = json!({"name": name, "labels": labels});
        read_tagged(&self.send(Method::POST, path, Some(body), None).await?)
    }

    /// Has a volume be larger.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn resize(&self, volume: &Tagged<Volume>, size_bytes: u64) -> Done<Tagged<Volume>> {
        self.change(volume, json!({"size_bytes": size_bytes})).await
    }

    /// Gives a volume a label.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn label(&self, volume: &Tagged<Volume>, key: &str, value: &str) -> Done<Tagged<Volume>> {
        self.change(volume, json!({"labels": {key: value}})).await
    }

    async fn change(&self, volume: &Tagged<Volume>, change: Value) -> Done<Tagged<Volume>> {
        let path = format!("/volumes/{}", encode(&volume.thing.name));
        read_tagged(&self.send(Method::PATCH, path, Some(change), Some(&volume.tag)).await?)
    }

    /// Gives a volume another name.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn rename(&self, volume: &str, name: &str) -> Done<Volume> {
        let path = format!("/volumes/{}/rename", encode(volume));
        read(&self.send(Method::POST, path, Some(json!({"name": name})), None).await?)
    }

    /// Deletes a volume as it was looked at. Snapshots keep it from going for good.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn delete_volume(&self, volume: &Tagged<Volume>, how: OnDelete) -> Done<()> {
        let how = match how {
            OnDelete::Recycle => String::new(),
            OnDelete::Now => "?now=true".to_owned(),
            OnDelete::Keep(seconds) => format!("?keep_seconds={seconds}"),
        };
        let path = format!("/volumes/{}{how}", encode(&volume.thing.name));
        self.send(Method::DELETE, path, None, Some(&volume.tag)).await.map(drop)
    }

    /// What the hosts of a volume may do.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn limits(&self, volume: &str) -> Done<Limits> {
        self.get(format!("/volumes/{}/limits", encode(volume))).await
    }

    /// Says what the hosts of a volume may do.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn set_limits(&self, volume: &str, limits: &Limits) -> Done<()> {
        let path = format!("/volumes/{}/limits", encode(volume));
        let body = serde_json::to_value(limits).map_err(|why| Trouble::Unreadable(why.to_string()))?;
        self.send(Method::PUT, path, Some(body), None).await.map(drop)
    }

    /// How a volume stands among others.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn priority(&self, volume: &str) -> Done<Priority> {
        self.get(format!("/volumes/{}/priority", encode(volume))).await
    }

    /// Says how a volume stands among others.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn set_priority(&self, volume: &str, priority: &Priority) -> Done<()> {
        let path = format!("/volumes/{}/priority", encode(volume));
        let body = serde_json::to_value(priority).map_err(|why| Trouble::Unreadable(why.to_string()))?;
        self.send(Method::PUT, path, Some(body), None).await.map(drop)
    }

    /// Moves a volume to another pool: it is begun.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn migrate(&self, volume: &str, pool: &str) -> Done<()> {
        let path = format!("/volumes/{}/migrate", encode(volume));
        self.send(Method::POST, path, Some(json!({"pool": pool})), None)
            .await
            .map(drop)
    }

    /// What takes long at present.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn jobs(&self) -> Done<Vec<Job>> {
        self.all("/jobs").await
    }

    /// The pools.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn pools(&self) -> Done<Vec<Pool>> {
        self.all("/pools").await
    }

    /// The stores.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn stores(&self) -> Done<Vec<Store>> {
        self.all("/stores").await
    }

    /// The nodes.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn nodes(&self) -> Done<Vec<Node>> {
        self.all("/nodes").await
    }

    /// A pool with what may be asked for in it.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn pool(&self, name: &str) -> Done<Option<PoolDetails>> {
        let found = self.find(format!("/pools/{}", encode(name))).await?;
        Ok(found.map(|found: Tagged<PoolDetails>| found.thing))
    }
}

/// Snapshots.
impl Api {
    /// A snapshot of a volume.
    ///
    /// # Errors
    /// See [`Api::myself`]; none is not an error.
    pub async fn snapshot(&self, volume: &str, name: &str) -> Done<Option<Tagged<Snapshot>>> {
        let found = self
            .find(format!("/volumes/{}/snapshots/{}", encode(volume), encode(name)))
            .await?;
        Ok(found.filter(|found: &Tagged<Snapshot>| !found.thing.mark && !found.thing.hidden))
    }

    /// A volume's snapshots.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn snapshots(&self, volume: &str) -> Done<Vec<Snapshot>> {
        let all: Vec<Snapshot> = self.all(&format!("/volumes/{}/snapshots", encode(volume))).await?;
        // Those that were deleted and are needed still, and those of which the mark alone is kept, are none.
        Ok(all.into_iter().filter(|found| !found.mark && !found.hidden).collect())
    }

    /// The snapshots of all volumes with a label.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn all_snapshots(&self, label: (&str, &str)) -> Done<Vec<Snapshot>> {
        let label = encode(&format!("{}={}", label.0, label.1));
        let all = self.all(&format!("/snapshots?label={label}")).await?;
        Ok(all
            .into_iter()
            .filter(|found: &Snapshot| !found.mark && !found.hidden)
            .collect())
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn take_snapshot(&self, volume: &str, name: &str, labels: &BTreeMap<String, String>) -> Done<Snapshot> {
        let path = format!("/volumes/{}/snapshots", encode(volume));
        let body = json!({"name": name, "labels": labels});
        read(&self.send(Method::POST, path, Some(body), None).await?)
    }

    /// Deletes a snapshot as it was looked at; one that is gone, is.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn delete_snapshot(&self, snapshot: &Tagged<Snapshot>) -> Done<()> {
        let Snapshot { volume, name, .. } = &snapshot.thing;
        let path = format!("/volumes/{}/snapshots/{}", encode(volume), encode(name));
        match self.send(Method::DELETE, path, None, Some(&snapshot.tag)).await {
            Err(why) if why.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    /// The sets of which snapshots are there.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn sets(&self) -> Done<Vec<Set>> {
        self.all("/snapshot-sets").await
    }

    /// Takes snapshots of several volumes at one moment.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn take_set(&self, name: &str, volumes: &[String], labels: &BTreeMap<String, String>) -> Done<Set> {
        let body = json!({"name": name, "volumes": volumes, "labels": labels});
        read(
            &self
                .send(Method::POST, "/snapshot-sets".to_owned(), Some(body), None)
                .await?,
        )
    }

    /// What was changed between two snapshots: a piece of it.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn diff(&self, volume: &str, (from, to): (&str, &str), limit: usize, after: Option<&str>) -> Done<Diff> {
        let after = after.map_or_else(String::new, |after| format!("&after={}", encode(after)));
        let (volume, from, to) = (encode(volume), encode(from), encode(to));
        self.get(format!(
            "/volumes/{volume}/diff?from={from}&to={to}&limit={limit}{after}"
        ))
        .await
    }
}

/// Who has volumes.
impl Api {
    /// A subsystem.
    ///
    /// # Errors
    /// See [`Api::myself`]; none is not an error.
    pub async fn subsystem(&self, name: &str) -> Done<Option<Tagged<Subsystem>>> {
        self.find(format!("/subsystems/{}", encode(name))).await
    }

    /// All subsystems.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn subsystems(&self) -> Done<Vec<Subsystem>> {
        self.all("/subsystems").await
    }

    /// Makes a subsystem without namespaces.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn create_subsystem(&self, wanted: &NewSubsystem<'_>) -> Done<Subsystem> {
        let NewSubsystem {
            name,
            nqn,
            gateways,
            tls_required,
        } = wanted;
        let body = json!({"name": name, "nqn": nqn, "gateways": gateways, "tls_required": tls_required});
        read(
            &self
                .send(Method::POST, "/subsystems".to_owned(), Some(body), None)
                .await?,
        )
    }

    /// Deletes a subsystem as it was looked at, with its namespaces; volumes stay.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn delete_subsystem(&self, subsystem: &Tagged<Subsystem>) -> Done<()> {
        let path = format!("/subsystems/{}?force=true", encode(&subsystem.thing.name));
        self.send(Method::DELETE, path, None, Some(&subsystem.tag))
            .await
            .map(drop)
    }

    /// Makes a volume, or a snapshot of one, a namespace.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn add_namespace(&self, subsystem: &str, of: &str, block_bytes: u32) -> Done<()> {
        let path = format!("/subsystems/{}/namespaces", encode(subsystem));
        let body = json!({"volume": of, "block_bytes": block_bytes});
        self.send(Method::POST, path, Some(body), None).await.map(drop)
    }

    /// Makes a host known; one that is, is.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn add_host(&self, nqn: &str) -> Done<()> {
        match self
            .send(Method::POST, "/hosts".to_owned(), Some(json!({"nqn": nqn})), None)
            .await
        {
            Err(why) if why.is("exists") => Ok(()),
            done => done.map(drop),
        }
    }

    /// Lets a host connect.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn allow(&self, subsystem: &str, nqn: &str) -> Done<Subsystem> {
        let path = format!("/subsystems/{}/hosts/{}", encode(subsystem), encode(nqn));
        read(&self.send(Method::PUT, path, None, None).await?)
    }

    /// A host may connect no more, and is cut off; one that may not, may not.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn deny(&self, subsystem: &str, nqn: &str) -> Done<()> {
        let path = format!("/subsystems/{}/hosts/{}", encode(subsystem), encode(nqn));
        match self.send(Method::DELETE, path, None, None).await {
            Err(why) if why.is_not_found() => Ok(()),
            done => done.map(drop),
        }
    }

    /// By what hosts have a volume, or a snapshot of one; none: it is no namespace.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn attachment(&self, of: &str) -> Done<Option<Attachment>> {
        let found = self.find(format!("/volumes/{}/attachment", encode(of))).await?;
        Ok(found.map(|found: Tagged<Attachment>| found.thing))
    }

    /// Who has reserved a volume.
    ///
    /// # Errors
    /// See [`Api::myself`].
    pub async fn reservation(&self, volume: &str) -> Done<Reservation> {
        self.get(format!("/volumes/{}/reservation", encode(volume))).await
    }
}
