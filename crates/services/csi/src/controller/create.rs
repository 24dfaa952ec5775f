//! CreateVolume: empty, from a snapshot, or as a clone of another volume.

use super::capacity::left;
use super::place::Choice;
use super::{Controller, Found, Sizes, crossed, missing, signed};
use crate::api::{NewVolume, OnDelete, Snapshot, Tagged, Volume};
use crate::capability::{self, Sharing};
use crate::id::{self, SnapshotId, VolumeId};
use crate::labels::{self, Labels};
use crate::parameters::{BY_SECRET, Class, Mutable, on_delete_text};
use crate::topology::{Reach, Requirement};
use crate::wire::common::{self, TopologyRequirement, VolumeContentSource, VolumeContentSourceTypeOneOf};
use crate::wire::controller::{CreateVolumeRequest, CreateVolumeResponse};
use tonic::{Code, Status};

/// The longest name (CSI 1.13, "Size Limits").
const MAX_NAME: usize = 128;

/// What a volume begins as.
enum Source {
    Snapshot(SnapshotId),
    Volume(VolumeId),
}

/// What is wanted.
struct Wish {
    csi_name: String,
    name: String,
    sizes: Sizes,
    class: Class,
    mutable: Mutable,
    source: Option<Source>,
    content: Option<VolumeContentSource>,
    read_only: bool,
    /// Where it is to be used.
    requirement: TopologyRequirement,
}

impl Wish {
    fn read(request: CreateVolumeRequest) -> Result<Wish, Status> {
        let csi_name = request.name;
        if csi_name.is_empty() {
            return Err(missing("name"));
        }
        if csi_name.len() > MAX_NAME || csi_name.chars().any(char::is_control) {
            let why = format!(
                "the name has {} bytes, or control characters; it may have {MAX_NAME}",
                csi_name.len()
            );
            return Err(Status::invalid_argument(why));
        }
        let uses = capability::all(&request.volume_capabilities)?;
        let readers = uses.iter().filter(|found| found.sharing == Sharing::Readers).count();
        if readers > 0 && uses.iter().any(|found| !found.reads_only) {
            return Err(Status::invalid_argument(
                "a volume is either written, or read by many: ask for ReadOnlyMany alone",
            ));
        }
        let content = request.volume_content_source;
        let source = content.as_ref().map(source_of).transpose()?;
        if readers > 0 && source.is_none() {
            return Err(Status::invalid_argument(
                "a volume that is only read begins as a snapshot, or as another volume",
            ));
        }
        let class = Class::read(&request.parameters).map_err(Status::invalid_argument)?;
        Ok(Wish {
            name: id::volume_name(&csi_name),
            csi_name,
            sizes: Sizes::read(request.capacity_range.as_ref(), class.head_bytes())?,
            class,
            mutable: Mutable::read(&request.mutable_parameters).map_err(Status::invalid_argument)?,
            source,
            content,
            read_only: readers > 0,
            requirement: request.accessibility_requirements.unwrap_or_default(),
        })
    }

    fn source_text(&self) -> String {
        match &self.source {
            None => String::new(),
            Some(Source::Snapshot(snapshot)) => format!("snapshot {snapshot}"),
            Some(Source::Volume(volume)) => format!("volume {volume}"),
        }
    }

    /// Whose it is to be; empty: nobody's.
    fn tenant(&self) -> &str {
        self.class.tenant.as_deref().unwrap_or_default()
    }

    /// The snapshot that is taken of a volume that is to be cloned.
    fn clone_snapshot(&self) -> String {
        format!("csi-clone-{}", id::sum(&self.csi_name, 16))
    }

    fn labels(&self, driver: &str, size_bytes: u64) -> Labels {
        let mut labels = self.class.labels.clone();
        let mut put = |key: &str, value: String| labels.insert(key.to_owned(), value);
        put(labels::DRIVER, driver.to_owned());
        put(labels::NAME, self.csi_name.clone());
        put(labels::SIZE, size_bytes.to_string());
        put(labels::ON_DELETE, on_delete_text(self.class.on_delete));
        if self.source.is_some() {
            put(labels::SOURCE, self.source_text());
        }
        if let Some(tenant) = &self.class.tenant {
            put(labels::TENANT, tenant.clone());
        }
        if self.class.reach != Reach::Everywhere {
            put(labels::ACCESSIBLE_FROM, self.class.reach.text().to_owned());
        }
        if self.read_only {
            put(labels::READ_ONLY, "1".to_owned());
        }
        if self.class.is_by_secret() {
            put(labels::BY_SECRET, self.class.head_bytes().to_string());
        }
        labels
    }

    /// Why a volume that is there is another one; none: it is this one, or what a call that was cut off has left of it.
    fn differs(&self, volume: &Volume, choice: &Choice) -> Option<String> {
        let label = |key: &str| labels::get(&volume.labels, key);
        let made_for = label(labels::SIZE).parse().unwrap_or_else(|_| labels::seen(volume));
        let checks = [
            ("name", label(labels::NAME) == self.csi_name),
            ("source", label(labels::SOURCE) == self.source_text()),
            ("size", self.sizes.allows(made_for)),
            ("encryption", volume.encrypted || !self.class.encrypted),
            (
                "encryption",
                self.source.is_some() || volume.encrypted == self.class.encrypted,
            ),
            (
                "encryption by a Secret",
                labels::is_by_secret(volume) == self.class.is_by_secret(),
            ),
            ("access mode", labels::is_read_only(volume) == self.read_only),
            ("reach (accessibleFrom)", labels::reach(volume) == self.class.reach),
            ("tenant", label(labels::TENANT) == self.tenant()),
            (
                "node",
                label(labels::INLINE) == labels::get(&self.class.labels, labels::INLINE),
            ),
            ("pool", choice.allows(&volume.pool)),
        ];
        let bad = checks.iter().find(|(_, fits)| !fits)?;
        Some(format!(
            "volume {} is there already, with another {}",
            self.csi_name, bad.0
        ))
    }
}

/// Is it an answer after which nobody asks again (CSI 1.13, "CreateVolume Errors")?
fn is_final(code: Code) -> bool {
    let goes_on = [
        Code::Aborted,
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
        Code::Internal,
        Code::Unknown,
        Code::Unauthenticated,
        Code::PermissionDenied,
    ];
    // Another volume has the name: nothing was made.
    code != Code::AlreadyExists && !goes_on.contains(&code)
}

/// What has become of it is not known, or was done by a call before: it is to be asked for again. Sidecars take these four for final, and would leave what was made.
fn to_be_asked_again(why: Status) -> Status {
    match why.code() {
        Code::Internal | Code::Unknown | Code::Unauthenticated | Code::PermissionDenied => {
            Status::unavailable(why.message())
        }
        _ => why,
    }
}

/// What was not undone stays, whatever the reason is.
fn not_undone(why: Status) -> Status {
    match is_final(why.code()) {
        true => Status::unavailable(why.message()),
        false => to_be_asked_again(why),
    }
}

/// Of what is refused there is a volume already, which is not undone: somebody may have been told of it. After a final answer nobody would have it deleted.
fn there_already(why: &Status, name: &str) -> Status {
    Status::aborted(format!(
        "{}; volume {name} was made for this before, and stays until that is mended (or until somebody deletes it)",
        why.message()
    ))
}

/// How many bytes a volume is to have.
fn wanted_bytes(volume: &Volume) -> u64 {
    let seen = labels::get(&volume.labels, labels::SIZE).parse::<u64>();
    seen.map_or(0, |seen| seen.saturating_add(labels::head_bytes(volume)))
}

/// Has nobody been told of a volume yet, because it is short of its size? One that was made with its head within that was told of as it was, and may be in use for long: it grows by the head.
fn is_unfinished(volume: &Volume) -> bool {
    let within = match labels::has_head_beside(volume) {
        true => 0,
        false => labels::head_bytes(volume),
    };
    volume.size_bytes.saturating_add(within) < wanted_bytes(volume)
}

fn source_of(content: &VolumeContentSource) -> Result<Source, Status> {
    match &content.r#type {
        None => Err(missing("source in the content's source")),
        Some(VolumeContentSourceTypeOneOf::Snapshot(found)) => {
            let none = || Status::not_found(format!("there is no snapshot {:?}", found.snapshot_id));
            SnapshotId::parse(&found.snapshot_id)
                .map(Source::Snapshot)
                .ok_or_else(none)
        }
        Some(VolumeContentSourceTypeOneOf::Volume(found)) => {
            let none = || Status::not_found(format!("there is no volume {:?}", found.volume_id));
            VolumeId::parse(&found.volume_id).map(Source::Volume).ok_or_else(none)
        }
    }
}

impl Controller {
    pub(super) async fn create(self, request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
        self.create_labelled(request, Labels::new()).await
    }

    /// The same with labels of its own.
    pub(super) async fn create_labelled(
        self,
        request: CreateVolumeRequest,
        labels: Labels,
    ) -> Result<CreateVolumeResponse, Status> {
        let mut wish = Wish::read(request)?;
        wish.class.labels.extend(labels);
        let _hold = self.hold(format!("volume {}", wish.name))?;
        let choice = self.wanted_pools(&wish).await;
        // Behind the look at the pools: what is there when that is refused is not left.
        let there = self.api.volume(&wish.name).await;
        let there = there.map_err(|why| to_be_asked_again(why.into()))?;
        let is_own = |there: &Tagged<Volume>| {
            labels::volume_id(self.driver(), &there.thing).is_some() && !labels::is_deleted(&there.thing)
        };
        let was_there = there.as_ref().is_some_and(is_own);
        let choice = match choice {
            Err(why) if is_final(why.code()) && was_there => return Err(there_already(&why, &wish.name)),
            choice => choice.map_err(to_be_asked_again)?,
        };
        let mut unfinished = None;
        let found = match self.whole(&wish, there, &choice, &mut unfinished).await {
            Err(why) if is_final(why.code()) && was_there && unfinished.is_none() => {
                return Err(there_already(&why, &wish.name));
            }
            Err(why) if is_final(why.code()) => {
                self.undo(&wish, unfinished).await.map_err(not_undone)?;
                return Err(why);
            }
            done => done.map_err(to_be_asked_again)?,
        };
        Ok(CreateVolumeResponse {
            volume: Some(common::Volume {
                capacity_bytes: signed(labels::seen(found.volume())),
                volume_id: found.id.to_string(),
                volume_context: wish.class.context,
                content_source: wish.content,
                accessible_topology: choice.accessible(self.driver(), &found.volume().pool),
            }),
        })
    }

    /// The volume with all that was asked for. `unfinished` is what would have to be undone at each moment: the volume as this call has made it, or has found it
    /// short of its size, for a call before it was cut.
    async fn whole(
        &self,
        wish: &Wish,
        there: Option<Tagged<Volume>>,
        choice: &Choice,
        unfinished: &mut Option<Found>,
    ) -> Result<Found, Status> {
        let (mut found, is_own) = match there {
            None => (self.make(wish, choice).await?, true),
            Some(there) => self.made_before(wish, there, choice).await?,
        };
        let is_short = found.volume().size_bytes < wanted_bytes(found.volume());
        if is_own || is_unfinished(found.volume()) {
            *unfinished = Some(found.clone());
        }
        if is_short {
            found = self.grow(found).await?;
            *unfinished = is_own.then(|| found.clone());
        }
        if let Some(Source::Volume(source)) = &wish.source {
            self.end_of_clone(source, &wish.clone_snapshot()).await?;
        }
        self.limit(found.name(), &wish.mutable).await?;
        // The last thing: what is sealed is whole.
        if wish.read_only {
            self.seal(&found).await?;
        }
        Ok(found)
    }

    /// Whoever is told for good that there is no volume neither asks for it again nor has it deleted. So what this call has made goes, and what one before it has left
    /// short of its size. Another controller may have found it, made it whole, and told of it: then it is another one than this call has left, and stays.
    async fn undo(&self, wish: &Wish, unfinished: Option<Found>) -> Result<(), Status> {
        if let Some(found) = unfinished {
            match self.api.delete_volume(&found.tagged, OnDelete::Now).await {
                Err(why) if why.is_not_found() => {}
                // Sealed, or it has a snapshot of somebody's.
                Err(why) if why.is("in-use") => return Err(Status::aborted(why.to_string())),
                done => done?,
            }
        }
        match &wish.source {
            Some(Source::Volume(source)) => self.end_of_clone(source, &wish.clone_snapshot()).await,
            _ => Ok(()),
        }
    }

    async fn wanted_pools(&self, wish: &Wish) -> Result<Choice, Status> {
        let names = match self.pool_of(&wish.mutable).await? {
            Some(pool) => vec![pool],
            None => wish.class.pools.clone(),
        };
        let TopologyRequirement { requisite, preferred } = &wish.requirement;
        let requirement = Requirement::read(self.driver(), requisite, preferred);
        self.choose(names, wish.class.reach, requirement).await
    }

    fn found(&self, wish: &Wish, tagged: Tagged<Volume>) -> Result<Found, Status> {
        let id = labels::volume_id(self.driver(), &tagged.thing);
        let id = id.ok_or_else(|| {
            let why = format!("there is a volume {} that is none of this driver's", wish.name);
            Status::already_exists(why)
        })?;
        Ok(Found { id, tagged })
    }

    /// There is a volume of its name; it, or another one in its place that this call has made.
    async fn made_before(&self, wish: &Wish, there: Tagged<Volume>, choice: &Choice) -> Result<(Found, bool), Status> {
        let found = self.found(wish, there)?;
        if labels::is_deleted(found.volume()) {
            // Its deletion was cut off before it had lost its name.
            let gone = self.api.rename(found.name(), &found.id.gone_name()).await;
            gone.map_err(crossed)?;
            return Ok((self.make(wish, choice).await?, true));
        }
        match wish.differs(found.volume(), choice) {
            None => Ok((found, false)),
            Some(why) => Err(Status::already_exists(why)),
        }
    }

    async fn make(&self, wish: &Wish, choice: &Choice) -> Result<Found, Status> {
        let made = match &wish.source {
            None => self.make_empty(wish, choice).await?,
            Some(Source::Snapshot(snapshot)) => {
                let none = || Status::not_found(format!("there is no snapshot \"{snapshot}\""));
                let of = self.look_up(&snapshot.volume).await?.ok_or_else(none)?;
                let found = self.api.snapshot(of.name(), &snapshot.name).await?;
                // One that the driver has not told of is none.
                let is_own =
                    |found: &Tagged<Snapshot>| labels::snapshot_id(self.driver(), &of.id, &found.thing).is_some();
                let found = found.filter(is_own).ok_or_else(none)?;
                let least = labels::seen_of(of.volume(), found.thing.size_bytes);
                self.fits_source(wish, (&of, least), choice).await?;
                self.make_of(wish, &of, (&snapshot.name, least)).await?
            }
            Some(Source::Volume(source)) => {
                let _hold = self.hold_snapshots(source)?;
                let of = self.find(&source.to_string()).await?;
                self.fits_source(wish, (&of, labels::seen(of.volume())), choice).await?;
                let name = wish.clone_snapshot();
                let taken = match self.api.snapshot(of.name(), &name).await? {
                    Some(taken) => taken.thing,
                    None => {
                        let labels = Labels::from([(labels::DRIVER.to_owned(), self.driver().to_owned())]);
                        let taken = self.api.take_snapshot(of.name(), &name, &labels).await;
                        taken.map_err(crossed)?
                    }
                };
                let least = labels::seen_of(of.volume(), taken.size_bytes);
                self.make_of(wish, &of, (&name, least)).await?
            }
        };
        self.found(wish, made)
    }

    /// In the nearest pool that has room.
    async fn make_empty(&self, wish: &Wish, choice: &Choice) -> Result<Tagged<Volume>, Status> {
        let seen = wish.sizes.choose(0)?;
        let labels = wish.labels(self.driver(), seen);
        let only = match choice.pools.is_empty() {
            true => vec![self.only_pool().await?],
            false => Vec::new(),
        };
        let mut full = Status::resource_exhausted("there is no pool");
        for pool in choice.pools.iter().chain(&only) {
            let wanted = NewVolume {
                name: &wish.name,
                pool,
                size_bytes: wish.sizes.raw(seen),
                labels: &labels,
                encrypted: wish.class.encrypted,
                tenant: wish.class.tenant.as_deref(),
            };
            match self.api.create_volume(&wanted).await {
                Err(why) if why.is("no-room") || why.is("cannot-place") => full = why.into(),
                // A pool that is not there is a wrong class, and no volume that is missing.
                Err(why) if why.is_not_found() => return Err(Status::invalid_argument(why.to_string())),
                made => return made.map_err(crossed),
            }
        }
        Err(full)
    }

    async fn make_of(&self, wish: &Wish, of: &Found, (snapshot, least): (&str, u64)) -> Result<Tagged<Volume>, Status> {
        let labels = wish.labels(self.driver(), wish.sizes.choose(least)?);
        let made = self
            .api
            .clone_snapshot((of.name(), snapshot), &wish.name, &labels)
            .await;
        made.map_err(crossed)
    }

    /// A clone lies where its source does, is encrypted as that is, and begins with its size. What cannot be is told before anything is made: also that it cannot
    /// grow to what it is to have.
    async fn fits_source(&self, wish: &Wish, (of, least): (&Found, u64), choice: &Choice) -> Result<(), Status> {
        let bytes = wish.sizes.raw(wish.sizes.choose(least)?);
        let volume = of.volume();
        if choice.elsewhere.contains(&volume.pool) {
            return Err(Status::resource_exhausted(format!(
                "its source lies in pool {}, and so does what is made of it: that pool has no store from where the volume is to be used",
                volume.pool
            )));
        }
        if !choice.allows(&volume.pool) {
            return Err(Status::invalid_argument(format!(
                "its source lies in pool {}, and so does what is made of it: pool {} cannot be had here; move it afterwards",
                volume.pool,
                choice.pools.join(", ")
            )));
        }
        let of_source = labels::get(&volume.labels, labels::TENANT);
        if of_source != wish.tenant() {
            return Err(Status::invalid_argument(format!(
                "its source is of tenant {of_source:?} (empty: nobody's), and so is what is made of it: tenant {:?} cannot be had here",
                wish.tenant()
            )));
        }
        if wish.class.encrypted && !volume.encrypted {
            return Err(Status::invalid_argument(
                "its source is not encrypted, and so is nothing that is made of it",
            ));
        }
        let is_by_secret = wish.class.is_by_secret();
        if labels::is_by_secret(volume) != is_by_secret {
            return Err(Status::invalid_argument(format!(
                "its source is {} by a Secret at its node, and so is what is made of it: take a class {} {BY_SECRET}",
                if is_by_secret { "not encrypted" } else { "encrypted" },
                if is_by_secret { "without" } else { "with" },
            )));
        }
        let left = self.api.pool(&volume.pool).await?.and_then(|pool| left(&pool));
        match left.filter(|left| *left < bytes) {
            None => Ok(()),
            Some(left) => Err(Status::resource_exhausted(format!(
                "it is to have {bytes} bytes, and the quota of pool {} leaves {left}",
                volume.pool
            ))),
        }
    }

    /// A clone begins with its source's size. Nobody uses it yet: who has changed it meanwhile is at work on the same.
    async fn grow(&self, found: Found) -> Result<Found, Status> {
        let grown = self.api.resize(&found.tagged, wanted_bytes(found.volume())).await;
        Ok(Found {
            id: found.id,
            tagged: grown.map_err(crossed)?,
        })
    }

    /// The clone is made: it holds what it needs by itself.
    async fn end_of_clone(&self, source: &VolumeId, snapshot: &str) -> Result<(), Status> {
        let Some(of) = self.look_up(source).await? else {
            return Ok(());
        };
        match self.api.snapshot(of.name(), snapshot).await? {
            None => Ok(()),
            Some(taken) => Ok(self.api.delete_snapshot(&taken).await?),
        }
    }

    /// What is only read is published as a snapshot, to which no gateway takes a write.
    async fn seal(&self, found: &Found) -> Result<(), Status> {
        let name = labels::READ_ONLY_SNAPSHOT;
        if self.api.snapshot(found.name(), name).await?.is_none() {
            let labels = Labels::from([(labels::DRIVER.to_owned(), self.driver().to_owned())]);
            let taken = self.api.take_snapshot(found.name(), name, &labels).await;
            taken.map_err(crossed)?;
        }
        Ok(())
    }
}
