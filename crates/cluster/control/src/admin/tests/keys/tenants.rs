//! Tenants' volume keys: who is wrapped by what, step by step; and a world in which everything races with everything, and whoever does it dies.

use super::*;
use crate::admin::subsystem::uses_guard;
use crate::admin::tests::migrate as moving;
use amita_types::map::TENANT_KEYS_SINCE;
use std::cell::RefCell;
use std::ops::Range;

/// A file of volume keys: for whom each wraps, and what it is made of.
#[derive(Clone, Debug)]
struct Lines(Vec<(Option<&'static str>, u8)>);

const ACME: Option<&str> = Some("acme");
const ZETA: Option<&str> = Some("zeta");

/// All that there is.
fn all() -> Lines {
    Lines(vec![(None, 7), (ACME, 11), (ZETA, 21)])
}

fn kek(number: u8) -> SealedFile {
    SealedFile::new(vec![Zeroizing::new([number; 32])]).unwrap()
}

fn by(number: u8) -> WrappingKey {
    kek(number).first().unwrap()
}

impl Lines {
    fn with(&self, line: (Option<&'static str>, u8)) -> Lines {
        Lines([&[line], &self.0[..]].concat())
    }

    fn without(&self, number: u8) -> Lines {
        Lines(self.0.iter().copied().filter(|line| line.1 != number).collect())
    }

    fn open(&self, record: &WrappedKey) -> std::result::Result<DataKey, String> {
        let mut why = "an empty file".to_owned();
        for (_, number) in &self.0 {
            match kek(*number).unwrap(record.binding(), record) {
                Ok(opened) => return Ok(opened.done().unwrap()),
                Err(other) => why = other.to_string(),
            }
        }
        Err(why)
    }

    fn wrap(&self, to: &WrappingKey, binding: &Binding, key: &DataKey) -> std::result::Result<WrappedKey, String> {
        let mut lines = self.0.iter();
        let tenant = binding.tenant.as_deref();
        let line = lines.find(|(of, number)| *of == tenant && by(*number) == *to);
        let (_, number) = line.ok_or_else(|| format!("no line of {tenant:?} is {to}"))?;
        let wrapped = kek(*number).wrap_by(to, binding, key, &mut |bytes| bytes.fill(1));
        wrapped
            .map_err(|why| why.to_string())?
            .done()
            .ok_or_else(|| "nobody is asked".to_owned())
    }
}

impl DataKeys for Lines {
    fn make(
        &self,
        _: ClusterId,
        to: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String> {
        let mut next = u8::try_from(binding.key.image.0 % 200).unwrap();
        let key = DataKey::generate(&mut |bytes| {
            bytes.fill_with(|| {
                next = next.wrapping_add(1);
                next
            });
        });
        match to {
            Some(to) => self.wrap(to, binding, &key),
            None => self.wrap(&self.to(None)?, binding, &key),
        }
    }
}

impl Rewrap for Lines {
    fn to(&self, _: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        let first = self.0.iter().find(|(tenant, _)| tenant.is_none());
        first
            .map(|(_, number)| by(*number))
            .ok_or_else(|| "all are tenants'".to_owned())
    }

    fn to_of(
        &self,
        tenant: &str,
        _: Option<&WrappingKey>,
        identifier: Option<&str>,
    ) -> std::result::Result<WrappingKey, String> {
        let own = self.0.iter().filter(|(of, _)| *of == Some(tenant));
        let own: Vec<WrappingKey> = own.map(|(_, number)| by(*number)).collect();
        let is_it = |key: &&WrappingKey| identifier.is_none_or(|wanted| wanted == key.identifier());
        match own.iter().filter(is_it).collect::<Vec<_>>()[..] {
            [one] => Ok(one.clone()),
            _ => Err(format!("which one of {tenant}'s?")),
        }
    }

    fn has(&self, tenant: Option<&str>, to: &WrappingKey) -> std::result::Result<(), KeyTrouble> {
        match self.0.iter().any(|(of, number)| *of == tenant && by(*number) == *to) {
            true => Ok(()),
            false => Err(KeyTrouble::Key(format!("{to} of {tenant:?} is not there"))),
        }
    }

    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        self.rewrap_as(cluster, to, wrapped.binding(), wrapped)
    }

    fn rewrap_as(
        &self,
        _: ClusterId,
        to: &WrappingKey,
        binding: &Binding,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        let key = self.open(wrapped)?;
        Ok(self.wrap(to, binding, &key)?)
    }

    fn proves(&self, _: ClusterId, to: &WrappingKey, wrapped: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        let lines = self.0.iter().filter(|(_, number)| by(*number) == *to);
        Ok(Lines(lines.copied().collect()).open(wrapped).map(drop)?)
    }
}

fn make(meta: &dyn Transact, keys: &Lines, tenant: Option<&str>, name: &str) -> Result<Volume> {
    make_volume_of(meta, tenant, (name, "main", 1 << 30), None, Some(keys))
}

fn records(meta: &dyn Transact) -> Vec<WrappedKey> {
    let reply = meta.txn(&Call::prefix(map::all_secrets_prefix())).unwrap();
    let found = reply.values(0).iter();
    found
        .map(|found| WrappedKey::parse(std::str::from_utf8(&found.value).unwrap()).unwrap())
        .collect()
}

/// By what the newest data key of a volume is wrapped, and for whom.
fn wraps(meta: &dyn Transact, name: &str) -> (WrappingKey, Option<String>) {
    let key = volume(meta, name).unwrap().keys.unwrap().newest().key;
    let found = records(meta)
        .into_iter()
        .find(|record| record.binding().key == key)
        .unwrap();
    (found.wrapping_key(), found.binding().tenant.clone())
}

fn of(tenant: &str, number: u8) -> (WrappingKey, Option<String>) {
    (by(number), Some(tenant.to_owned()))
}

fn whose(meta: &dyn Transact, name: &str) -> Option<String> {
    let id = volume(meta, name).unwrap().id;
    let found = tenancies(meta).unwrap().into_iter().find(|found| found.volume == id);
    found.map(|found| found.tenant)
}

fn quiet(meta: &dyn Transact, keys: &Lines) {
    let done = rewrap_keys(meta, keys).unwrap();
    assert_eq!(done.failed, [] as [String; 0]);
    assert_eq!(misplaced_keys(meta).unwrap(), []);
}

/// Two tenants with keys, and volumes of each and of nobody.
fn of_two() -> (Mutex<State>, Lines) {
    let (meta, keys) = (cluster_with_pool(), all());
    make(&meta, &keys, None, "own").unwrap();
    set_tenant_key(&meta, &keys, "acme", None).unwrap();
    set_tenant_key(&meta, &keys, "zeta", None).unwrap();
    make(&meta, &keys, ACME, "a").unwrap();
    make(&meta, &keys, ZETA, "z").unwrap();
    (meta, keys)
}

#[test]
fn a_tenants_volumes_are_wrapped_by_his_key_and_no_others() {
    let (meta, keys) = of_two();
    assert_eq!(wraps(&meta, "own"), (by(7), None));
    assert_eq!((wraps(&meta, "a"), wraps(&meta, "z")), (of("acme", 11), of("zeta", 21)));
    // A clone is the tenant's, too, as is a copy and what a volume is reverted to.
    snap(&meta, "a", 4);
    let clone = |keys: &Lines, name| clone_volume_with(&meta, Some(keys), ("a", "s1"), name, &About::of(VolumeId(0)));
    clone(&keys, "b").unwrap();
    assert_eq!(
        (whose(&meta, "b"), wraps(&meta, "b")),
        (Some("acme".to_owned()), of("acme", 11))
    );
    let wish = CopyWish {
        of: "a@s1",
        name: "c",
        pool: "main",
        snapshots: false,
        limit_bytes_per_s: None,
        encrypted: false,
        keys: Some(&keys),
        now: Duration::from_secs(9),
    };
    copy_volume(&meta, &wish).unwrap();
    assert_eq!(
        (whose(&meta, "c"), wraps(&meta, "c")),
        (Some("acme".to_owned()), of("acme", 11))
    );
    let before = snap(&meta, "a", 5);
    let owned = volume(&meta, "a").unwrap();
    let revert = Revert {
        volume: &owned,
        to: &snapshot(&meta, "a", "s1").unwrap(),
        before: &before,
        keep: true,
        now: Duration::from_secs(1000),
        keys: Some(&keys),
        mirror: None,
    };
    revert_volume(&meta, &revert).unwrap();
    assert_eq!(
        (whose(&meta, "a"), wraps(&meta, "a")),
        (Some("acme".to_owned()), of("acme", 11))
    );
    // Who has not got his line makes none of his, and all others.
    let less = keys.without(11);
    let why = clone(&less, "d").unwrap_err();
    assert_eq!(why.code().name(), "no-volume-keys", "{why}");
    make(&meta, &less, ACME, "d").unwrap_err();
    make(&meta, &less, ZETA, "d").unwrap();
    make(&meta, &less, None, "e").unwrap();
    assert_eq!(misplaced_keys(&meta).unwrap(), []);
    let done = rewrap_keys(&meta, &less).unwrap();
    assert_eq!(
        (done.wrapped, done.failed.len(), done.unseen.len()),
        (0, 0, 1),
        "{done:?}"
    );
}

#[test]
fn a_volume_that_is_written_anew_stays_its_tenants() {
    let (meta, keys) = (cluster_with_pool(), all());
    let about = About::of(moving::SOURCE);
    make_volume_of(&meta, ACME, ("db", "main", 64 * moving::MIB), Some(&about), Some(&keys)).unwrap();
    set_tenant_key(&meta, &keys, "acme", None).unwrap();
    moving::own(&meta, "db");
    let wish = MigrateWish {
        volume: "db",
        pool: None,
        at_rest: AtRest::AsItIs,
        limit_bytes_per_s: None,
        keys: Some(&keys),
        now: moving::NOW,
    };
    migrate_volume(&meta, &wish).unwrap();
    assert_eq!(records(&meta).len(), 2);
    assert_eq!(misplaced_keys(&meta).unwrap(), []);
    // What it is about to be would stay his.
    let why = set_tenant(&meta, "db", ZETA).unwrap_err().to_string();
    assert!(why.contains("rekey-2"), "{why}");
    // His next key wraps both.
    let newer = keys.with((ACME, 12));
    let why = set_tenant_key(&meta, &newer, "acme", None).unwrap_err().to_string();
    assert!(why.contains("which one"), "the order says nothing: {why}");
    let done = set_tenant_key(&meta, &newer, "acme", Some(&by(12).identifier())).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (2, 0));
    let held = moving::claim(&meta);
    moving::pass(&meta, held);
    let last = moving::last(&meta, held);
    assert_eq!(moving::switch(&meta, held, last), Switched::Made);
    assert_eq!(wraps(&meta, "db"), of("acme", 12));
    assert_eq!(misplaced_keys(&meta).unwrap(), []);
}

#[test]
fn a_volume_that_is_given_away_is_seen_and_wrapped_again() {
    let (meta, keys) = of_two();
    set_tenant(&meta, "a", ZETA).unwrap();
    let shown = volume_keys(&meta, "a").unwrap();
    let wanted = shown[0].to_be_wrapped_by.as_ref().unwrap();
    assert!(
        wanted.contains(&by(21).to_string()) && wanted.contains("zeta"),
        "{wanted}"
    );
    assert_eq!(shown[0].tenant.as_deref(), ACME);
    assert_eq!(misplaced_keys(&meta).unwrap().len(), 1);
    quiet(&meta, &keys);
    assert_eq!(wraps(&meta, "a"), of("zeta", 21));
    set_tenant(&meta, "a", None).unwrap();
    quiet(&meta, &keys);
    assert_eq!(wraps(&meta, "a"), (by(7), None));
    // What is the cluster's next one wraps for nobody's volumes alone.
    let newer = keys.with((None, 8));
    let done = rewrap_keys(&meta, &newer).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (2, 0), "{done:?}");
    assert_eq!((wraps(&meta, "a"), wraps(&meta, "z")), ((by(8), None), of("zeta", 21)));
}

#[test]
fn who_has_no_key_any_more_is_wrapped_by_the_clusters() {
    let (meta, keys) = of_two();
    let why = clear_tenant_key(&meta, &keys.without(11), "acme")
        .unwrap_err()
        .to_string();
    assert!(why.contains("nothing was changed"), "{why}");
    assert_eq!(wraps(&meta, "a"), of("acme", 11));
    let done = clear_tenant_key(&meta, &keys, "acme").unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (1, 0));
    assert_eq!((wraps(&meta, "a"), wraps(&meta, "z")), ((by(7), None), of("zeta", 21)));
    assert_eq!(
        clear_tenant_key(&meta, &keys, "acme").unwrap().wrapped,
        0,
        "it is so already"
    );
    assert_eq!(misplaced_keys(&meta).unwrap(), []);
}

#[test]
fn one_key_wraps_for_one() {
    let (meta, keys) = of_two();
    // One that wraps for a tenant does not become the cluster's, nor another tenant's, and the cluster's no tenant's.
    let why = rewrap_keys(&meta, &Lines(vec![(None, 11), (None, 7)]))
        .unwrap_err()
        .to_string();
    assert!(why.contains("tenant acme"), "{why}");
    for number in [11, 7] {
        let said = set_tenant_key(&meta, &Lines(vec![(ZETA, number), (None, 7)]), "zeta", None);
        let why = said.unwrap_err().to_string();
        assert!(why.contains("wraps for nobody else"), "{why}");
    }
    quiet(&meta, &keys);
}

#[test]
fn no_volume_is_read_by_what_wraps_for_another_tenant() {
    let (meta, keys) = of_two();
    snap(&meta, "a", 4);
    snap(&meta, "own", 4);
    for (of, name) in [("a", "b"), ("own", "twin")] {
        clone_volume_with(&meta, Some(&keys), (of, "s1"), name, &About::of(VolumeId(0))).unwrap();
    }
    for (name, tenant, other) in [("b", ZETA, "a"), ("a", None, "b"), ("twin", ACME, "own")] {
        let why = set_tenant(&meta, name, tenant).unwrap_err().to_string();
        assert!(
            why.contains("volume rekey") && why.contains(&format!("({other})")),
            "{why}"
        );
    }
    // Of one without a key that is no matter, and it is none for him as long as it is so.
    set_tenant(&meta, "twin", Some("poor")).unwrap();
    let poor = keys.with((Some("poor"), 31));
    let why = set_tenant_key(&meta, &poor, "poor", None).unwrap_err().to_string();
    assert!(why.contains("(own)"), "{why}");
    set_tenant(&meta, "own", Some("poor")).unwrap();
    let done = set_tenant_key(&meta, &poor, "poor", None).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (2, 0));
    // Deleted for good, the one takes nothing of the other along.
    delete_volume(&meta, "own", true, 9, &mut || false).unwrap();
    quiet(&meta, &poor);
    assert_eq!(wraps(&meta, "twin"), of("poor", 31));
}

#[test]
fn an_older_cluster_has_no_tenants_keys() {
    let (meta, keys) = (cluster_with_pool(), all());
    make(&meta, &keys, ACME, "a").unwrap();
    let older = Cluster {
        version: TENANT_KEYS_SINCE - 1,
        ..cluster(&meta).unwrap()
    };
    meta.txn(&Call::put(map::cluster_key(), json(&older))).unwrap();
    let why = set_tenant_key(&meta, &keys, "acme", None).unwrap_err().to_string();
    assert!(why.contains("finalize"), "{why}");
    assert_eq!(tenant_keys(&meta).unwrap(), []);
}

/// Programs of before make a data key by comparing the cluster's record alone: it is written when a tenant gets a key, so that none that has looked before
/// goes through.
#[test]
fn what_was_begun_before_a_tenant_had_a_key_is_begun_again() {
    let (meta, keys) = (cluster_with_pool(), all());
    make(&meta, &keys, ACME, "a").unwrap();
    let (now, revision) = wrapping_key(&meta).unwrap();
    set_tenant_key(&meta, &keys, "acme", None).unwrap();
    let (same, later) = wrapping_key(&meta).unwrap();
    assert!(now == same && later > revision);
}

/// A file of which a KMIP server has one key, and does not answer.
struct Silent {
    lines: Lines,
    asked: Cell<usize>,
}

impl Silent {
    fn answers(&self, of: &WrappingKey) -> std::result::Result<(), KeyTrouble> {
        if !of.is_of_kmip() {
            return Ok(());
        }
        self.asked.set(self.asked.get() + 1);
        Err(KeyTrouble::Away("nobody listens".to_owned()))
    }
}

impl Rewrap for Silent {
    fn to(&self, now: Option<&WrappingKey>) -> std::result::Result<WrappingKey, String> {
        self.lines.to(now)
    }

    fn to_of(
        &self,
        tenant: &str,
        now: Option<&WrappingKey>,
        identifier: Option<&str>,
    ) -> std::result::Result<WrappingKey, String> {
        self.lines.to_of(tenant, now, identifier)
    }

    fn has(&self, tenant: Option<&str>, to: &WrappingKey) -> std::result::Result<(), KeyTrouble> {
        self.answers(to)?;
        self.lines.has(tenant, to)
    }

    fn rewrap(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        self.rewrap_as(cluster, to, wrapped.binding(), wrapped)
    }

    fn rewrap_as(
        &self,
        cluster: ClusterId,
        to: &WrappingKey,
        binding: &Binding,
        wrapped: &WrappedKey,
    ) -> std::result::Result<WrappedKey, KeyTrouble> {
        self.answers(&wrapped.wrapping_key())?;
        self.answers(to)?;
        self.lines.rewrap_as(cluster, to, binding, wrapped)
    }

    fn proves(&self, _: ClusterId, to: &WrappingKey, _: &WrappedKey) -> std::result::Result<(), KeyTrouble> {
        self.answers(to)
    }
}

/// The same data keys, as if a KMIP server's key had wrapped them, which is the tenant's.
fn by_kmip(meta: &dyn Transact, tenant: &str, names: &[&str]) {
    let kmip: WrappingKey = serde_json::from_str(r#"{"kmip": {"key": "1"}}"#).unwrap();
    meta.txn(&Call::put(map::tenant_wrapping_key(tenant), json(&kmip)))
        .unwrap();
    for name in names {
        let key = volume(meta, name).unwrap().keys.unwrap().newest().key;
        let all = records(meta);
        let found = all.iter().find(|record| record.binding().key == key).unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&found.to_text()).unwrap();
        let (nonce, wrapped) = ("00".repeat(12), "00".repeat(80));
        record["by"] = serde_json::json!({"kmip": {"key": "1", "nonce": nonce, "wrapped": wrapped}});
        let made = WrappedKey::parse(&record.to_string()).unwrap();
        meta.txn(&Call::put(map::secret_key(key), made.to_text().into_bytes()))
            .unwrap();
    }
}

#[test]
fn who_has_wrapped_and_does_not_answer_holds_up_nothing_else() {
    let (meta, keys) = of_two();
    make(&meta, &keys, ZETA, "z2").unwrap();
    make(&meta, &keys, ACME, "a2").unwrap();
    make(&meta, &keys, None, "last").unwrap();
    by_kmip(&meta, "zeta", &["z", "z2"]);
    let file = Silent {
        lines: keys.with((None, 8)).with((ACME, 12)),
        asked: Cell::default(),
    };
    for name in ["z", "z2"] {
        set_tenant(&meta, name, None).unwrap();
    }
    // Those behind are wrapped, and it is asked once a pass.
    let done = rewrap_keys(&meta, &file).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (2, 2), "{done:?}");
    assert!(done.failed.iter().all(|why| why.contains("kmip 1")), "{done:?}");
    assert_eq!((wraps(&meta, "last"), file.asked.get()), ((by(8), None), 2));
    // A tenant who was given such a volume gets another key all the same, proven by what else is the tenant's.
    set_tenant(&meta, "a", None).unwrap();
    set_tenant(&meta, "z2", ACME).unwrap();
    let done = set_tenant_key(&meta, &file, "acme", Some(&by(12).identifier())).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (2, 1), "{done:?}");
    assert_eq!((wraps(&meta, "a2"), wraps(&meta, "a")), (of("acme", 12), (by(8), None)));
    // Nor does who is to wrap what is another tenant's by now.
    set_tenant(&meta, "a2", ZETA).unwrap();
    let done = set_tenant_key(&meta, &file, "acme", Some(&by(12).identifier())).unwrap();
    assert_eq!((done.wrapped, done.failed.len()), (0, 2), "{done:?}");
}

#[test]
fn another_clusters_file_is_refused_where_all_is_tenants() {
    let (meta, keys) = (cluster_with_pool(), all());
    make(&meta, &keys, None, "own").unwrap();
    set_tenant_key(&meta, &keys, "acme", None).unwrap();
    make(&meta, &keys, ACME, "a").unwrap();
    delete_volume(&meta, "own", true, 9, &mut || false).unwrap();
    let why = rewrap_keys(&meta, &Lines(vec![(None, 9)])).unwrap_err().to_string();
    assert!(why.contains("nothing was changed"), "{why}");
    assert_eq!(wrapping_key(&meta).unwrap().0, Some(by(7)));
    // The cluster's line says that it is not, and so does what opens a tenant's.
    rewrap_keys(&meta, &Lines(vec![(None, 8), (None, 7)])).unwrap();
    rewrap_keys(&meta, &Lines(vec![(None, 9), (ACME, 11)])).unwrap();
    assert_eq!(wrapping_key(&meta).unwrap().0, Some(by(9)));
    // One that cannot be read is neither the cluster's nor does it hold that up.
    let stray = KeyName {
        volume: VolumeId(1 << 20),
        image: VolumeId(1 << 20),
        number: KeyNumber(1),
    };
    meta.txn(&Call::put(map::secret_key(stray), b"nothing".to_vec()))
        .unwrap();
    rewrap_keys(&meta, &Lines(vec![(None, 8), (None, 9)])).unwrap();
    rewrap_keys(&meta, &Lines(vec![(None, 7), (ACME, 11)])).unwrap();
    assert_eq!(wrapping_key(&meta).unwrap().0, Some(by(7)));
}

/// Who gives a tenant a key asks others for that; meanwhile clones are made, of which each raises what is compared.
#[test]
fn a_tenant_gets_a_key_while_clones_are_made_of_others() {
    let (meta, keys) = of_two();
    let busy = Busy {
        meta,
        left: Cell::new(RACES as usize - 2),
    };
    let other = by(12).identifier();
    set_tenant_key(&busy, &keys.with((ACME, 12)), "acme", Some(&other)).unwrap();
    assert_eq!(wraps(&busy.meta, "a"), of("acme", 12));
    assert_eq!(busy.left.get(), 0, "nobody came in between");
}

/// Whose uses are counted while their number is compared.
struct Busy {
    meta: Mutex<State>,
    left: Cell<usize>,
}

impl Transact for Busy {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        let guard = map::counter_key("namespaces");
        let is_one = call
            .then
            .iter()
            .any(|op| matches!(op, Op::Put { key, .. } if *key == guard));
        if is_one && self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            let (now, _) = uses_guard(&self.meta).unwrap();
            self.meta.txn(&Call::put(guard, json(&(now + 1)))).unwrap();
        }
        self.meta.txn(call)
    }
}

#[test]
fn a_record_that_cannot_be_read_is_told_of() {
    let (meta, keys) = of_two();
    let key = volume(&meta, "a").unwrap().keys.unwrap().newest().key;
    meta.txn(&Call::put(map::secret_key(key), b"nothing".to_vec())).unwrap();
    let told = misplaced_keys(&meta).unwrap();
    assert!(told.len() == 1 && told[0].ails.is_some(), "{told:?}");
    assert_eq!(set_tenant_key(&meta, &keys, "acme", None).unwrap().failed.len(), 1);
    assert_eq!(set_tenant_key(&meta, &keys, "zeta", None).unwrap().failed.len(), 0);
    let why = clear_tenant_key(&meta, &keys, "acme").unwrap_err().to_string();
    assert!(why.contains("nothing was changed"), "{why}");
}

/// As a file says whose its lines are.
#[derive(Debug)]
struct Labelled(Lines);

impl DataKeys for Labelled {
    fn make(
        &self,
        cluster: ClusterId,
        to: Option<&WrappingKey>,
        binding: &Binding,
    ) -> std::result::Result<WrappedKey, String> {
        self.0.make(cluster, to, binding)
    }

    fn has_line_of(&self, tenant: &str) -> std::result::Result<bool, String> {
        match &self.0.0[..] {
            [] => Err("the file is half written".to_owned()),
            lines => Ok(lines.iter().any(|(of, _)| *of == Some(tenant))),
        }
    }
}

#[test]
fn who_has_a_line_and_no_key_is_not_wrapped_by_the_clusters() {
    let (meta, keys) = (cluster_with_pool(), all());
    let labelled = Labelled(keys.clone());
    let make = |tenant, name| make_volume_of(&meta, tenant, (name, "main", 1 << 30), None, Some(&labelled));
    let why = make(ACME, "a").unwrap_err();
    assert_eq!(why.code().name(), "no-volume-keys", "{why}");
    assert!(why.to_string().contains("tenant key set acme"), "{why}");
    make(Some("poor"), "p").unwrap();
    make(None, "own").unwrap();
    set_tenant_key(&meta, &keys, "acme", None).unwrap();
    make(ACME, "a").unwrap();
    assert_eq!(wraps(&meta, "a"), of("acme", 11));
    // Of a file that cannot be read nobody knows it.
    let unread = Labelled(Lines(Vec::new()));
    let why = make_volume_of(&meta, Some("poor"), ("q", "main", 1 << 30), None, Some(&unread)).unwrap_err();
    assert!(why.to_string().contains("half written"), "{why}");
}

fn remove(key: String) -> Call {
    Call {
        then: vec![Op::Delete { key }],
        ..Call::default()
    }
}

/// Before the transaction of this number two volumes change their names.
struct Renamed {
    meta: Mutex<State>,
    left: Cell<usize>,
}

impl Transact for Renamed {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if self.left.get() == 1 {
            for (from, to) in [("a", "old"), ("z", "a")] {
                let name = to.to_owned();
                let found = Volume {
                    name,
                    ..volume(&self.meta, from).unwrap()
                };
                let old = map::volume_key(from);
                self.meta.txn(&Call::put(map::volume_key(to), json(&found))).unwrap();
                self.meta.txn(&remove(old)).unwrap();
            }
        }
        self.left.set(self.left.get().saturating_sub(1));
        self.meta.txn(call)
    }
}

#[test]
fn a_copy_is_the_tenants_whose_volume_is_copied_whatever_is_called_so_by_now() {
    let (mut made, mut changed) = (0, 0);
    for at in 1..40 {
        let (meta, keys) = of_two();
        let renamed = Renamed {
            meta,
            left: Cell::new(at),
        };
        let wish = CopyWish {
            of: "a",
            name: "c",
            pool: "main",
            snapshots: false,
            limit_bytes_per_s: None,
            encrypted: false,
            keys: Some(&keys),
            now: Duration::from_secs(9),
        };
        let copying = match copy_volume(&renamed, &wish) {
            Ok(copying) => copying,
            Err(AdminError::Changed) => {
                changed += 1;
                continue;
            }
            Err(_) => continue,
        };
        made += 1;
        let all = volumes(&renamed.meta).unwrap();
        let source = all.iter().find(|found| found.host() == copying.source).unwrap();
        assert_eq!(whose(&renamed.meta, "c"), whose(&renamed.meta, &source.name), "{at}");
    }
    assert!(made > 0 && changed > 0, "{made} {changed}");
}

/// Numbers of a seed.
struct Dice(Cell<u64>);

impl Dice {
    fn below(&self, end: u64) -> u64 {
        self.0.set(amita_types::layout::mix(
            self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15),
        ));
        self.0.get() % end
    }

    fn one<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// The metadata, between whose transactions anybody else may do anything, and those who do something die.
struct World {
    meta: Mutex<State>,
    dice: Dice,
    depth: Cell<u32>,
    names: Cell<u64>,
    /// The volume that most is done to.
    hot: RefCell<String>,
    /// Records of data keys that there were behind the last transaction.
    known: RefCell<BTreeMap<KeyName, WrappedKey>>,
    done: RefCell<BTreeMap<&'static str, u64>>,
}

/// So many may be in the midst of something.
const AT_ONCE: u32 = 3;

impl Transact for World {
    fn txn(&self, call: &Call) -> std::result::Result<Reply, Error> {
        if self.depth.get() < AT_ONCE && self.dice.below(6) == 0 {
            self.act();
        }
        let dies = self.depth.get() > 0 && self.dice.below(60) == 0;
        let gone = || Error::Unknown {
            what: "it has died".to_owned(),
            endpoint: "here".to_owned(),
        };
        if dies && self.dice.below(2) == 0 {
            return Err(gone());
        }
        let reply = self.meta.txn(call)?;
        if !call.is_read_only() && reply.succeeded {
            self.check();
        }
        if dies { Err(gone()) } else { Ok(reply) }
    }
}

impl World {
    fn new(seed: u64) -> World {
        World {
            meta: cluster_with_pool(),
            dice: Dice(Cell::new(seed)),
            depth: Cell::new(0),
            names: Cell::new(0),
            hot: RefCell::default(),
            known: RefCell::default(),
            done: RefCell::default(),
        }
    }

    /// All that there is: 9 is to wrap for the cluster or for a tenant, whoever is first.
    fn lines() -> Lines {
        let of_one = [(None, 7), (ACME, 11), (ZETA, 21), (ACME, 12), (None, 8)];
        let of_any = [(None, 9), (ACME, 9), (ZETA, 9)];
        Lines([&of_one[..], &of_any].concat())
    }

    /// Behind each transaction: each data key that a volume is read by is there, and no other, is the one that it was, and opens; what is new, or was wrapped
    /// again, is wrapped by what is to wrap it; no key wraps for two.
    fn check(&self) {
        let mut now = BTreeMap::new();
        for record in records(&self.meta) {
            let opened = World::lines().open(&record).unwrap();
            assert_eq!(opened.check_value(), record.check_value());
            now.insert(record.binding().key, record);
        }
        let misplaced = misplaced_keys(&self.meta).unwrap();
        for (key, record) in &now {
            let known = self.known.borrow();
            let before = known.get(key);
            if let Some(before) = before {
                assert_eq!(before.check_value(), record.check_value(), "{key} is another one");
            }
            if before != Some(record) {
                let found = misplaced.iter().find(|found| found.key == key.to_string());
                assert_eq!(found, None, "{key} was wrapped this moment");
            }
        }
        let all = with_deleted(&self.meta).unwrap();
        let needed = all.iter().flat_map(|volume| volume.keys.iter().flat_map(KeyRing::eras));
        let needed: BTreeSet<KeyName> = needed.map(|era| era.key).collect();
        assert_eq!(now.keys().copied().collect::<BTreeSet<_>>(), needed);
        let keyed = tenant_keys(&self.meta).unwrap().into_iter().map(|found| found.by);
        let wrapping: Vec<WrappingKey> = keyed.chain(wrapping_key(&self.meta).unwrap().0).collect();
        for (at, one) in wrapping.iter().enumerate() {
            assert!(!wrapping[..at].contains(one), "{one} wraps for two: {wrapping:?}");
        }
        *self.known.borrow_mut() = now;
    }

    fn fresh(&self) -> String {
        self.names.set(self.names.get() + 1);
        format!("v{}", self.names.get())
    }

    fn any(&self) -> Option<Volume> {
        let all = volumes(&self.meta).unwrap();
        let all: Vec<&Volume> = all.iter().filter(|volume| !map::is_moving_name(&volume.name)).collect();
        if let Some(hot) = all.iter().find(|volume| volume.name == *self.hot.borrow())
            && self.dice.below(4) > 0
        {
            return Some((*hot).clone());
        }
        let one = (!all.is_empty()).then(|| (*self.dice.one(&all)).clone())?;
        self.hot.borrow_mut().clone_from(&one.name);
        Some(one)
    }

    fn snapshot_of(&self, volume: &Volume) -> Option<Snapshot> {
        let all = snapshots(&self.meta, &volume.name).unwrap();
        (!all.is_empty()).then(|| self.dice.one(&all).clone())
    }

    /// Somebody does something, which may come to nothing.
    fn act(&self) {
        self.depth.set(self.depth.get() + 1);
        let (what, is_done) = self.something();
        if is_done {
            *self.done.borrow_mut().entry(what).or_default() += 1;
        }
        self.depth.set(self.depth.get() - 1);
    }

    fn something(&self) -> (&'static str, bool) {
        let (keys, tenants) = (World::lines(), [None, ACME, ZETA, Some("poor")]);
        let tenant = *self.dice.one(&tenants);
        let any = self.any();
        match (self.dice.below(16), any) {
            (0 | 1, _) | (_, None) => ("made", make(self, &keys, tenant, &self.fresh()).is_ok()),
            (2, Some(volume)) => {
                snap(&self.meta, &volume.name, volume.generation.0 + 1);
                ("snapshot", true)
            }
            (3 | 4, Some(volume)) => {
                let Some(taken) = self.snapshot_of(&volume) else {
                    return ("clone", false);
                };
                let (of, name) = ((&*volume.name, &*taken.name), self.fresh());
                let made = clone_volume_with(self, Some(&keys), of, &name, &About::of(VolumeId(0)));
                ("clone", made.is_ok())
            }
            (5, Some(volume)) => {
                let before = snap(&self.meta, &volume.name, volume.generation.0 + 1);
                let owned = super::super::volume(&self.meta, &volume.name).unwrap();
                let Some(to) = self.snapshot_of(&owned) else {
                    return ("revert", false);
                };
                let revert = Revert {
                    volume: &owned,
                    to: &to,
                    before: &before,
                    keep: self.dice.below(2) == 0,
                    now: Duration::from_secs(1000),
                    keys: Some(&keys),
                    mirror: None,
                };
                ("revert", revert_volume(self, &revert).is_ok())
            }
            (6 | 7, Some(volume)) => ("given", set_tenant(self, &volume.name, tenant).is_ok()),
            (8 | 9, _) => {
                let all = [("acme", 11), ("acme", 12), ("acme", 9), ("zeta", 21), ("zeta", 9)];
                let (tenant, key) = *self.dice.one(&all);
                let key = by(key).identifier();
                ("key", set_tenant_key(self, &keys, tenant, Some(&key)).is_ok())
            }
            (10, _) => {
                let tenant = *self.dice.one(&["acme", "zeta"]);
                ("no key", clear_tenant_key(self, &keys, tenant).is_ok())
            }
            (11 | 12, _) => {
                let first = *self.dice.one(&[7, 8, 9]);
                let file = match self.dice.below(2) {
                    0 => keys.clone(),
                    _ => keys.without(*self.dice.one(&[11, 12, 21, 9])),
                };
                let file = file.with((None, first));
                ("rewrap", rewrap_keys(self, &file).is_ok())
            }
            (13, Some(volume)) => {
                let wish = CopyWish {
                    of: &volume.name,
                    name: &self.fresh(),
                    pool: "main",
                    snapshots: false,
                    limit_bytes_per_s: None,
                    encrypted: false,
                    keys: Some(&keys),
                    now: Duration::from_secs(9),
                };
                ("copy", copy_volume(self, &wish).is_ok())
            }
            (14, Some(volume)) => {
                let wish = MigrateWish {
                    volume: &volume.name,
                    pool: None,
                    at_rest: AtRest::AsItIs,
                    limit_bytes_per_s: None,
                    keys: Some(&keys),
                    now: moving::NOW,
                };
                ("rekey", migrate_volume(self, &wish).is_ok())
            }
            (_, Some(volume)) => {
                let gone = delete_volume(self, &volume.name, true, 9, &mut || false);
                ("deleted", gone.is_ok())
            }
        }
    }

    /// Nobody does anything any more, but for whoever wraps all again.
    fn ends(&self) {
        self.depth.set(AT_ONCE);
        let keys = World::lines();
        let done = rewrap_keys(&self.meta, &keys).unwrap();
        assert_eq!(done.failed, [] as [String; 0]);
        assert_eq!(misplaced_keys(&self.meta).unwrap(), []);
        // Once more, and by other means.
        let whose: BTreeMap<VolumeId, String> = tenancies(&self.meta)
            .unwrap()
            .into_iter()
            .map(|found| (found.volume, found.tenant))
            .collect();
        let keyed = tenant_keys(&self.meta).unwrap();
        let (clusters, _) = wrapping_key(&self.meta).unwrap();
        let records: BTreeMap<KeyName, WrappedKey> = records(&self.meta)
            .into_iter()
            .map(|record| (record.binding().key, record))
            .collect();
        let is_of_its_own = |volume: &&Volume| !volume.is_former() && !map::is_moving_name(&volume.name);
        for volume in with_deleted(&self.meta).unwrap().iter().filter(is_of_its_own) {
            let tenant = whose.get(&volume.id);
            let own = keyed.iter().find(|found| Some(&found.tenant) == tenant);
            let wanted = own.map(|found| found.by.clone()).or_else(|| clusters.clone());
            for era in volume.keys.iter().flat_map(|ring| ring.eras()) {
                let found = &records[&era.key];
                assert_eq!(
                    Some(found.wrapping_key()),
                    wanted,
                    "{} of {tenant:?}: {}",
                    volume.name,
                    era.key
                );
                assert_eq!(found.binding().tenant, own.map(|found| found.tenant.clone()));
            }
        }
    }
}

/// Whoever wraps again races with those who make, clone, revert, copy and delete volumes, give them away and give tenants keys; each of them dies between
/// any two steps.
#[test]
fn whatever_races_with_whatever_no_key_is_lost_and_none_is_another_tenants_in_the_end() {
    race(0..40);
}

/// The same for as many seeds as `AMITA_SEEDS` says, from `AMITA_FIRST` on.
#[test]
#[ignore = "takes minutes: make soak"]
fn soak() {
    let number = |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let first = number("AMITA_FIRST", 0);
    race(first..first + number("AMITA_SEEDS", 400));
}

fn race(seeds: Range<u64>) {
    let least = (seeds.end - seeds.start) / 20;
    let mut done: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in seeds {
        let world = World::new(seed);
        make(&world.meta, &World::lines(), None, "first").unwrap();
        world.check();
        for _ in 0..30 {
            world.act();
        }
        world.ends();
        for (what, count) in world.done.borrow().iter() {
            *done.entry(what).or_default() += count;
        }
    }
    println!("{done:?}");
    for what in [
        "made", "clone", "revert", "copy", "rekey", "given", "key", "no key", "rewrap", "deleted",
    ] {
        assert!(done.get(what).is_some_and(|count| *count >= least), "{what}: {done:?}");
    }
}
