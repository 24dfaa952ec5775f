//! CreateVolume: empty, from a snapshot, or as a clone of another volume.

use super::capacity::left;
use super::{Change, Controller, Found, Sizes, missing, signed};
use crate::api::{NewVolume, OnDelete, Snapshot, Tagged, Trouble, Volume};
use crate::capability::{self, Sharing};
use crate::id::{self, SnapshotId, VolumeId};
use crate::labels::{self, Labels};
use crate::parameters::{Class, Mutable, on_delete_text};
use crate::wire::common::{self, VolumeContentSource, VolumeContentSourceTypeOneOf};
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
        Ok(Wish {
            name: id::volume_name(&csi_name),
            csi_name,
            sizes: Sizes::read(request.capacity_range.as_ref())?,
            class: Class::read(&request.parameters).map_err(Status::invalid_argument)?,
            mutable: Mutable::read(&request.mutable_parameters).map_err(Status::invalid_argument)?,
            source,
            content,
            read_only: readers > 0,
        })
    }

    fn source_text(&self) -> String {
        match &self.source {
            None => String::new(),
            Some(Source::Snapshot(snapshot)) => format!("snapshot {snapshot}"),
            Some(Source::Volume(volume)) => format!("volume {volume}"),
        }
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
        if self.read_only {
            put(labels::READ_ONLY, "1".to_owned());
        }
        labels
    }

    /// Why a volume that is there is another one; none: it is this one, or what a call that was cut off has left of it.
    fn differs(&self, volume: &Volume, pool: Option<&str>) -> Option<String> {
        let label = |key: &str| labels::get(&volume.labels, key);
        let made_for = label(labels::SIZE).parse().unwrap_or(volume.size_bytes);
        let checks = [
            ("name", label(labels::NAME) == self.csi_name),
            ("source", label(labels::SOURCE) == self.source_text()),
            ("size", self.sizes.allows(made_for)),
            ("encryption", volume.encrypted || !self.class.encrypted),
            (
                "encryption",
                self.source.is_some() || volume.encrypted == self.class.encrypted,
            ),
            ("access mode", labels::is_read_only(volume) == self.read_only),
            ("pool", pool.is_none_or(|pool| pool == volume.pool)),
        ];
        let bad = checks.iter().find(|(_, fits)| !fits)?;
        Some(format!(
            "volume {} is there already, with another {}",
            self.csi_name, bad.0
        ))
    }
}

/// It was looked for, and there was none: another controller was faster. Whoever asks again finds it, and is told whether it is what was wanted.
pub(super) fn made_meanwhile(why: Trouble) -> Status {
    match why.is("exists") {
        true => Status::aborted(why.to_string()),
        false => why.into(),
    }
}

/// Is it an answer after which nobody asks again (CSI 1.13, "CreateVolume Errors")?
fn is_final(code: Code) -> bool {
    let goes_on = [
        Code::Aborted,
        Code::Unavailable,
        Code::DeadlineExceeded,
        Code::Cancelled,
    ];
    // Another volume has the name: nothing was made.
    code != Code::AlreadyExists && !goes_on.contains(&code)
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
        let wish = Wish::read(request)?;
        let _hold = self.hold(format!("volume {}", wish.name))?;
        let pool = self.wanted_pool(&wish).await?;
        let there = self.api.volume(&wish.name).await?;
        let is_new = there.as_ref().is_none_or(|there| labels::is_deleted(&there.thing));
        let found = match self.whole(&wish, there, pool.as_deref()).await {
            Err(why) if is_final(why.code()) => {
                self.undo(&wish, is_new).await?;
                return Err(why);
            }
            done => done?,
        };
        Ok(CreateVolumeResponse {
            volume: Some(common::Volume {
                capacity_bytes: signed(found.volume().size_bytes),
                volume_id: found.id.to_string(),
                volume_context: wish.class.context,
                content_source: wish.content,
                accessible_topology: Vec::new(),
            }),
        })
    }

    /// The volume with all that was asked for.
    async fn whole(&self, wish: &Wish, there: Option<Tagged<Volume>>, pool: Option<&str>) -> Result<Found, Status> {
        let found = match there {
            None => self.make(wish, pool).await?,
            Some(there) => self.made_before(wish, there, pool).await?,
        };
        let found = self.grow(found).await?;
        if let Some(Source::Volume(source)) = &wish.source {
            self.end_of_clone(source, &wish.clone_snapshot()).await?;
        }
        if wish.read_only {
            self.seal(&found).await?;
        }
        self.limit(found.name(), &wish.mutable).await?;
        Ok(found)
    }

    /// Whoever is told for good that there is no volume neither asks for it again nor has it deleted. So what was made for it goes: by this call, or by one before it
    /// that did not come to the size. What was whole before may be in use.
    async fn undo(&self, wish: &Wish, is_new: bool) -> Result<(), Status> {
        if let Some(there) = self.api.volume(&wish.name).await?
            && let Ok(found) = self.found(wish, there)
            && !labels::is_deleted(found.volume())
            && wish.differs(found.volume(), None).is_none()
        {
            let made_for = labels::get(&found.volume().labels, labels::SIZE).parse().unwrap_or(0);
            if is_new || found.volume().size_bytes < made_for {
                self.end_own_snapshots(&found).await?;
                self.api.delete_volume(&found.tagged, OnDelete::Now).await?;
            }
        }
        match &wish.source {
            Some(Source::Volume(source)) => self.end_of_clone(source, &wish.clone_snapshot()).await,
            _ => Ok(()),
        }
    }

    async fn wanted_pool(&self, wish: &Wish) -> Result<Option<String>, Status> {
        match self.pool_of(&wish.mutable).await? {
            Some(pool) => Ok(Some(pool)),
            None => Ok(wish.class.pool.clone()),
        }
    }

    fn found(&self, wish: &Wish, tagged: Tagged<Volume>) -> Result<Found, Status> {
        let id = labels::volume_id(self.driver(), &tagged.thing);
        let id = id.ok_or_else(|| {
            let why = format!("there is a volume {} that is none of this driver's", wish.name);
            Status::already_exists(why)
        })?;
        Ok(Found { id, tagged })
    }

    /// There is a volume of its name.
    async fn made_before(&self, wish: &Wish, there: Tagged<Volume>, pool: Option<&str>) -> Result<Found, Status> {
        let found = self.found(wish, there)?;
        if labels::is_deleted(found.volume()) {
            // Its deletion was cut off before it had lost its name.
            self.api.rename(found.name(), &found.id.gone_name()).await?;
            return self.make(wish, pool).await;
        }
        match wish.differs(found.volume(), pool) {
            None => Ok(found),
            Some(why) => Err(Status::already_exists(why)),
        }
    }

    async fn make(&self, wish: &Wish, pool: Option<&str>) -> Result<Found, Status> {
        match &wish.source {
            None => self.make_empty(wish, pool).await?,
            Some(Source::Snapshot(snapshot)) => {
                let none = || Status::not_found(format!("there is no snapshot \"{snapshot}\""));
                let of = self.look_up(&snapshot.volume).await?.ok_or_else(none)?;
                let found = self.api.snapshot(of.name(), &snapshot.name).await?;
                // One that the driver has not told of is none.
                let is_own =
                    |found: &Tagged<Snapshot>| labels::snapshot_id(self.driver(), &of.id, &found.thing).is_some();
                let found = found.filter(is_own).ok_or_else(none)?;
                let least = found.thing.size_bytes;
                self.fits_source(wish, (&of, least), pool).await?;
                self.make_of(wish, &of, (&snapshot.name, least)).await?;
            }
            Some(Source::Volume(source)) => {
                let _hold = self.hold_snapshots(source)?;
                let of = self.find(&source.to_string()).await?;
                self.fits_source(wish, (&of, of.volume().size_bytes), pool).await?;
                let name = wish.clone_snapshot();
                let taken = match self.api.snapshot(of.name(), &name).await? {
                    Some(taken) => taken.thing,
                    None => {
                        let labels = Labels::from([(labels::DRIVER.to_owned(), self.driver().to_owned())]);
                        let taken = self.api.take_snapshot(of.name(), &name, &labels).await;
                        taken.map_err(made_meanwhile)?
                    }
                };
                self.make_of(wish, &of, (&name, taken.size_bytes)).await?;
            }
        }
        let made = self.api.volume(&wish.name).await?;
        let made = made.ok_or_else(|| Status::aborted(format!("volume {} was made and deleted", wish.name)))?;
        self.found(wish, made)
    }

    async fn make_empty(&self, wish: &Wish, pool: Option<&str>) -> Result<(), Status> {
        let size_bytes = wish.sizes.choose(0)?;
        let pool = match pool {
            Some(pool) => pool.to_owned(),
            None => self.only_pool().await?,
        };
        let wanted = NewVolume {
            name: &wish.name,
            pool: &pool,
            size_bytes,
            labels: &wish.labels(self.driver(), size_bytes),
            encrypted: wish.class.encrypted,
        };
        // A pool that is not there is a wrong class, and no volume that is missing.
        let made = self.api.create_volume(&wanted).await;
        made.map(drop).map_err(|why| match why.is_not_found() {
            true => Status::invalid_argument(why.to_string()),
            false => made_meanwhile(why),
        })
    }

    async fn make_of(&self, wish: &Wish, of: &Found, (snapshot, least): (&str, u64)) -> Result<(), Status> {
        let size_bytes = wish.sizes.choose(least)?;
        let labels = wish.labels(self.driver(), size_bytes);
        let made = self
            .api
            .clone_snapshot((of.name(), snapshot), &wish.name, &labels)
            .await;
        made.map(drop).map_err(made_meanwhile)
    }

    /// A clone lies where its source does, is encrypted as that is, and begins with its size. What cannot be is told before anything is made: also that it cannot
    /// grow to what it is to have.
    async fn fits_source(&self, wish: &Wish, (of, least): (&Found, u64), pool: Option<&str>) -> Result<(), Status> {
        let bytes = wish.sizes.choose(least)?;
        let volume = of.volume();
        if let Some(pool) = pool.filter(|pool| *pool != volume.pool) {
            return Err(Status::invalid_argument(format!(
                "its source lies in pool {}, and so does what is made of it: pool {pool} cannot be had here; move it afterwards",
                volume.pool
            )));
        }
        if wish.class.encrypted && !volume.encrypted {
            return Err(Status::invalid_argument(
                "its source is not encrypted, and so is nothing that is made of it",
            ));
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

    /// A clone begins with its source's size.
    async fn grow(&self, found: Found) -> Result<Found, Status> {
        let wanted = labels::get(&found.volume().labels, labels::SIZE).parse().unwrap_or(0);
        if found.volume().size_bytes >= wanted {
            return Ok(found);
        }
        let grown = self.change(&found, Change::Size(wanted)).await?;
        let grown = grown.ok_or_else(|| Status::aborted("the volume was made and deleted"))?;
        let tag = found.tagged.tag;
        Ok(Found {
            id: found.id,
            tagged: Tagged { thing: grown, tag },
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
            taken.map_err(made_meanwhile)?;
        }
        Ok(())
    }
}
