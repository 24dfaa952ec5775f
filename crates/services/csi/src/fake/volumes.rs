//! Volumes, snapshots, sets, pools and jobs.

use super::{Cluster, Parts, Said, Snapshot, Volume, labels_of, list, no_such, refuse, text};
use crate::labels;
use http::Method;
use serde_json::{Value, json};

const NOW: u64 = 1_764_000_000;

impl Cluster {
    fn volume(&self, name: &str) -> Result<Value, (u16, &'static str, String)> {
        let Some(found) = self.volumes.get(name) else {
            return no_such(&format!("volume {name}"));
        };
        Ok(
            json!({"name": name, "id": found.id, "pool": found.pool, "size_bytes": found.size_bytes, "labels": found.labels,
            "encrypted": found.encrypted, "parent": found.parent, "owner": null}),
        )
    }

    fn name_of(&self, id: u64) -> &str {
        let found = self.volumes.iter().find(|(_, volume)| volume.id == id);
        found.map_or("", |(name, _)| name)
    }

    fn snapshot(&self, found: &Snapshot) -> Value {
        json!({"volume": self.name_of(found.of), "name": found.name, "size_bytes": found.size_bytes, "taken_at": NOW, "set": found.set,
            "mark": found.mark, "hidden": false, "labels": found.labels})
    }

    fn index_of(&self, volume: &str, name: &str) -> Result<usize, (u16, &'static str, String)> {
        let of = self.volumes.get(volume).map(|found| found.id);
        let found = self
            .snapshots
            .iter()
            .position(|found| Some(found.of) == of && found.name == name);
        found.map_or_else(|| no_such(&format!("snapshot {volume}@{name}")), Ok)
    }

    pub(super) fn of_volumes(&mut self, segments: &[&str], parts: &Parts<'_>) -> Said {
        match (&parts.ask.method, segments) {
            (&Method::GET, ["volumes"]) => {
                let (key, value) = parts.parameter("label").split_once('=').expect("a label");
                let fit = self
                    .volumes
                    .iter()
                    .filter(|(_, found)| found.labels.get(key).is_some_and(|it| it == value));
                list(fit.map(|(name, _)| self.volume(name).expect("it")).collect())
            }
            (&Method::POST, ["volumes"]) => self.make(&parts.body()),
            (&Method::GET, ["volumes", name]) => Ok((200, self.volume(name)?)),
            (&Method::PATCH, ["volumes", name]) => self.change(name, parts),
            (&Method::DELETE, ["volumes", name]) => self.delete(name, parts),
            (&Method::POST, ["volumes", name, "rename"]) => self.rename(name, &text(&parts.body(), "name")),
            (&Method::GET, ["volumes", name, "limits"]) => {
                self.volume(name)?;
                Ok((200, self.volumes[*name].limits.clone()))
            }
            (&Method::PUT, ["volumes", name, "limits"]) => {
                self.volume(name)?;
                self.volumes.get_mut(*name).expect("it").limits = parts.body();
                Ok((200, parts.body()))
            }
            (&Method::GET, ["volumes", name, "priority"]) => {
                self.volume(name)?;
                let there = self.priorities.get(*name).cloned();
                Ok((200, there.unwrap_or_else(|| json!({}))))
            }
            (&Method::PUT, ["volumes", name, "priority"]) => {
                self.volume(name)?;
                self.priorities.insert((*name).to_owned(), parts.body());
                Ok((200, parts.body()))
            }
            (&Method::POST, ["volumes", name, "migrate"]) => {
                let pool = text(&parts.body(), "pool");
                if !self.pools.contains_key(&pool) {
                    return no_such("pool");
                }
                self.jobs.push(("migrate".to_owned(), (*name).to_owned()));
                Ok((202, json!({"kind": "migrate", "object": name})))
            }
            (_, ["volumes", name, "attachment"]) => self.attachment(name),
            (_, ["volumes", name, "iscsi-attachment"]) => self.iscsi_attachment(name),
            (_, ["volumes", name, "reservation"]) => {
                self.volume(name)?;
                let held = self.reservations.get(*name);
                let registrants: Vec<Value> = held
                    .iter()
                    .map(|(host, key)| json!({"host_id": host, "key": key, "holder": true}))
                    .chain(self.registrants.get(*name).into_iter().flatten().cloned())
                    .collect();
                Ok((
                    200,
                    json!({"volume": name, "kind": held.map(|_| "write-exclusive"), "registrants": registrants}),
                ))
            }
            (_, ["volumes", name, "diff"]) => self.diff(name, parts),
            (&Method::GET, ["jobs"]) => list(
                self.jobs
                    .iter()
                    .map(|(kind, object)| json!({"kind": kind, "object": object}))
                    .collect(),
            ),
            (&Method::GET, ["pools"]) => list(self.pools.keys().map(|name| self.pool(name)).collect()),
            (&Method::GET, ["nodes"]) => {
                let node = |name: String, (site, rack): (&str, &str)| json!({"name": name, "site": site, "rack": rack});
                let of_stores = self
                    .stores()
                    .into_iter()
                    .map(|(name, place)| node(format!("at-{name}"), place));
                list(of_stores.chain([node("gateway".to_owned(), ("", ""))]).collect())
            }
            (&Method::GET, ["stores"]) => {
                let names = self.stores().into_iter().map(|(name, _)| name);
                list(
                    names
                        .map(|name| json!({"id": name, "node": format!("at-{name}")}))
                        .collect(),
                )
            }
            (&Method::GET, ["pools", name]) => match self.pools.contains_key(*name) {
                true => Ok((200, self.pool(name))),
                false => no_such("pool"),
            },
            _ => self.of_snapshots(segments, parts),
        }
    }

    /// What each is called, and where it stands.
    fn stores(&self) -> Vec<(String, (&str, &str))> {
        let of = |(pool, places): (&String, &'_ Vec<(String, String)>)| {
            let numbered = (0..places.len()).map(|number| format!("{pool}-{number}"));
            numbered.collect::<Vec<_>>()
        };
        let names = self.places.iter().flat_map(of);
        let places = self.places.values().flatten();
        names
            .zip(places.map(|(site, rack)| (site.as_str(), rack.as_str())))
            .collect()
    }

    fn pool(&self, name: &str) -> Value {
        let (copies, free, quota) = self.pools[name];
        let asked: u64 = self
            .volumes
            .values()
            .filter(|found| found.pool == name)
            .map(|found| found.size_bytes)
            .sum();
        let stores = (0..self.places.get(name).map_or(0, Vec::len)).map(|number| format!("{name}-{number}"));
        json!({"name": name, "stores": stores.collect::<Vec<_>>(), "copies": copies, "free_bytes": free, "quota": {"provisioned_bytes": quota},
            "asked": {"provisioned_bytes": asked}, "recycle_seconds": if self.keeps_nothing { 0 } else { 86_400 }})
    }

    fn put(&mut self, name: &str, made: Volume) -> Said {
        let is_name = name.len() <= 200
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_name {
            return refuse(422, "bad-setting", format!("{name:?} is no name"));
        }
        if self.volumes.contains_key(name) {
            return refuse(409, "exists", format!("a volume named {name} exists already"));
        }
        if std::mem::take(&mut self.is_late) {
            self.put(name, made)?;
            return refuse(409, "exists", format!("a volume named {name} exists already"));
        }
        self.has_room(&made.pool, made.size_bytes)?;
        self.last_id += 1;
        let id = self.last_id;
        self.volumes.insert(name.to_owned(), Volume { id, ..made });
        Ok((201, self.volume(name)?))
    }

    /// Does the quota of a pool leave so much?
    fn has_room(&self, pool: &str, more: u64) -> Result<(), (u16, &'static str, String)> {
        let found = self.pool(pool);
        let asked = found["asked"]["provisioned_bytes"].as_u64().unwrap_or(0);
        match found["quota"]["provisioned_bytes"].as_u64() {
            Some(most) if asked + more > most => refuse(409, "no-room", "the quota leaves less"),
            _ => Ok(()),
        }
    }

    fn make(&mut self, body: &Value) -> Said {
        let size_bytes = body["size_bytes"].as_u64().expect("a size");
        if !size_bytes.is_multiple_of(4096) {
            return refuse(422, "bad-setting", "the size is no multiple of 4096");
        }
        let pool = text(body, "pool");
        if !self.pools.contains_key(&pool) {
            return no_such("pool");
        }
        let made = Volume {
            id: 0,
            pool,
            size_bytes,
            labels: labels_of(body),
            encrypted: body["encrypted"].as_bool().expect("a flag"),
            tenant: body["tenant"].as_str().map(str::to_owned),
            parent: None,
            limits: json!({"iops": {}, "bandwidth": {}}),
        };
        self.put(&text(body, "name"), made)
    }

    fn change(&mut self, name: &str, parts: &Parts<'_>) -> Said {
        parts.matches(&self.volume(name)?, false)?;
        let body = parts.body();
        let found = self.volumes.get_mut(name).expect("it");
        if let Some(size) = body["size_bytes"].as_u64() {
            if size < found.size_bytes {
                return refuse(422, "bad-setting", "volumes only grow");
            }
            if self.grows_no_more {
                return refuse(409, "no-room", "others were faster");
            }
            let (pool, more) = (found.pool.clone(), size - found.size_bytes);
            self.has_room(&pool, more)?;
            self.volumes.get_mut(name).expect("it").size_bytes = size;
        }
        let found = self.volumes.get_mut(name).expect("it");
        let labels = labels_of(&body);
        let is_marked = labels.contains_key(labels::DELETED);
        found.labels.extend(labels);
        if let Some(late) = self.snapshot_at_mark.take_if(|_| is_marked) {
            self.take(name, "late", &late, None)?;
        }
        Ok((200, self.volume(name)?))
    }

    fn is_namespace(&self, of: &str) -> bool {
        self.subsystems.values().any(|found| {
            found
                .namespaces
                .iter()
                .any(|it| it == of || it.starts_with(&format!("{of}@")))
        })
    }

    fn delete(&mut self, name: &str, parts: &Parts<'_>) -> Said {
        parts.matches(&self.volume(name)?, true)?;
        if self.owner_changes > 0 {
            self.owner_changes -= 1;
            return refuse(412, "changed", "it has another owner");
        }
        if self.is_namespace(name) {
            return refuse(409, "in-use", format!("volume {name} is a namespace"));
        }
        if let Some(late) = self.late_snapshot.take() {
            self.take(name, "late", &late, None)?;
        }
        let id = self.volumes[name].id;
        let has_snapshots = self.snapshots.iter().any(|found| found.of == id && !found.mark);
        let how = parts.ask.path.split_once('?').map_or("", |(_, how)| how);
        assert!(!how.contains("snapshots"), "what is another's is not destroyed");
        let is_for_good = how == "now=true" || how == "keep_seconds=0" || (how.is_empty() && self.keeps_nothing);
        if has_snapshots && is_for_good {
            return refuse(409, "in-use", format!("volume {name} has snapshots"));
        }
        let gone = self.volumes.remove(name).expect("it");
        self.snapshots.retain(|found| found.of != gone.id);
        let how = parts.ask.path.split_once('?').map_or("", |(_, how)| how);
        self.deleted.push(format!("{name}?{how}"));
        Ok((200, json!({"name": name, "id": gone.id})))
    }

    fn rename(&mut self, name: &str, to: &str) -> Said {
        self.volume(name)?;
        if self.volumes.contains_key(to) {
            return refuse(409, "exists", "the name is taken");
        }
        let moved = self.volumes.remove(name).expect("it");
        self.volumes.insert(to.to_owned(), moved);
        Ok((200, self.volume(to)?))
    }

    fn of_snapshots(&mut self, segments: &[&str], parts: &Parts<'_>) -> Said {
        match (&parts.ask.method, segments) {
            (&Method::GET, ["snapshots"]) => {
                let (key, value) = parts.parameter("label").split_once('=').expect("a label");
                let fit = self
                    .snapshots
                    .iter()
                    .filter(|found| found.labels.get(key).is_some_and(|it| it == value));
                list(fit.map(|found| self.snapshot(found)).collect())
            }
            (&Method::GET, ["volumes", volume, "snapshots"]) => {
                self.volume(volume)?;
                let of = self.volumes[*volume].id;
                list(
                    self.snapshots
                        .iter()
                        .filter(|found| found.of == of)
                        .map(|found| self.snapshot(found))
                        .collect(),
                )
            }
            (&Method::POST, ["volumes", volume, "snapshots"]) => {
                let body = parts.body();
                self.take(volume, &text(&body, "name"), &body, None)
            }
            (&Method::GET, ["volumes", volume, "snapshots", name]) => {
                let index = self.index_of(volume, name)?;
                Ok((200, self.snapshot(&self.snapshots[index])))
            }
            (&Method::DELETE, ["volumes", volume, "snapshots", name]) => {
                let index = self.index_of(volume, name)?;
                let found = self.snapshot(&self.snapshots[index]);
                parts.matches(&found, true)?;
                if self.is_namespace(&format!("{volume}@{name}")) {
                    return refuse(409, "in-use", "it is a namespace");
                }
                self.snapshots.remove(index);
                Ok((200, found))
            }
            (&Method::POST, ["volumes", volume, "snapshots", name, "clones"]) => {
                let index = self.index_of(volume, name)?;
                let size_bytes = self.snapshots[index].size_bytes;
                let body = parts.body();
                if self.clones_nothing {
                    return refuse(409, "no-room", "there are too many volumes");
                }
                let made = Volume {
                    size_bytes,
                    labels: labels_of(&body),
                    parent: Some(format!("{volume}@{name}")),
                    ..self.volumes[*volume].clone()
                };
                self.put(&text(&body, "name"), made)
            }
            (&Method::GET, ["snapshot-sets"]) => {
                let sets = (1..=self.last_set).map(|set| self.set(set));
                list(sets.filter(|set| set["volumes"] != json!([])).collect())
            }
            (&Method::POST, ["snapshot-sets"]) => self.take_set(&parts.body()),
            other => panic!("nobody is asked for {other:?}"),
        }
    }

    fn take(&mut self, volume: &str, name: &str, body: &Value, set: Option<u64>) -> Said {
        self.volume(volume)?;
        if self.index_of(volume, name).is_ok() {
            return refuse(409, "exists", format!("a snapshot {volume}@{name} exists already"));
        }
        if std::mem::take(&mut self.is_late) {
            self.take(volume, name, body, set)?;
            return refuse(409, "exists", format!("a snapshot {volume}@{name} exists already"));
        }
        let found = &self.volumes[volume];
        let taken = Snapshot {
            of: found.id,
            name: name.to_owned(),
            size_bytes: found.size_bytes,
            set,
            mark: false,
            labels: labels_of(body),
        };
        self.snapshots.push(taken.clone());
        if std::mem::take(&mut self.marked_at_snapshot) {
            let of = self.volumes.get_mut(volume).expect("it");
            of.labels.insert(labels::DELETED.to_owned(), "1".to_owned());
        }
        Ok((201, self.snapshot(&taken)))
    }

    fn set(&self, set: u64) -> Value {
        let own: Vec<&Snapshot> = self.snapshots.iter().filter(|found| found.set == Some(set)).collect();
        let volumes: Vec<&str> = own.iter().map(|found| self.name_of(found.of)).collect();
        json!({"id": set, "name": own.first().map(|found| found.name.clone()).unwrap_or_default(), "taken_at": NOW, "volumes": volumes})
    }

    fn take_set(&mut self, body: &Value) -> Said {
        let name = text(body, "name");
        let volumes: Vec<String> = serde_json::from_value(body["volumes"].clone()).expect("names");
        for volume in &volumes {
            self.volume(volume)?;
            if self.index_of(volume, &name).is_ok() {
                return refuse(409, "exists", "a snapshot of this name exists already");
            }
        }
        let is_late = std::mem::take(&mut self.is_late);
        self.last_set += 1;
        for volume in &volumes {
            self.take(volume, &name, body, Some(self.last_set))?;
        }
        match is_late {
            true => refuse(409, "exists", "a snapshot of this name exists already"),
            false => Ok((201, self.set(self.last_set))),
        }
    }

    fn diff(&self, volume: &str, parts: &Parts<'_>) -> Said {
        let (from, to) = (parts.parameter("from"), parts.parameter("to"));
        let size_bytes = self.snapshots[self.index_of(volume, to)?].size_bytes;
        self.index_of(volume, from)?;
        let all = self
            .diffs
            .get(&(from.to_owned(), to.to_owned()))
            .cloned()
            .unwrap_or_default();
        let after: u64 = parts.parameter("after").parse().unwrap_or(0);
        let limit: usize = parts.parameter("limit").parse().expect("a limit");
        // An extent that lies across that position is told from there on.
        let rest = |(offset, length): (u64, u64)| {
            let (from, end) = (offset.max(after), offset + length);
            (from < end).then(|| (from, end - from))
        };
        let left: Vec<(u64, u64)> = all.into_iter().filter_map(rest).collect();
        let next = left.get(limit).map(|(offset, _)| offset.to_string());
        let items = left
            .iter()
            .take(limit)
            .map(|(offset, length)| json!({"offset": offset, "length": length, "kind": "data"}));
        Ok((
            200,
            json!({"size_bytes": size_bytes, "items": items.collect::<Vec<_>>(), "next": next}),
        ))
    }
}
