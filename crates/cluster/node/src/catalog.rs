//! The settings that NVMe hosts see, made of what is known of the cluster.

use crate::view::View;
use amita_control::admin::field;
use amita_keys::{SealError, SealKey};
use amita_nvme::{Ana, Catalog, Gateway, HostAccess, Namespace, Secret, Subsystem};
use amita_types::map;
use amita_types::{ClusterId, NodeId, VolumeId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Makes the catalogs of a node, and remembers what it takes to make the next one.
pub struct Cataloguer {
    node: NodeId,
    discovery_nqn: String,
    key: Option<Arc<SealKey>>,
    made: Arc<Catalog>,
    /// What was opened, by what it was sealed as.
    opened: BTreeMap<String, Secret>,
    /// What could not be opened, so that it is said once.
    refused: BTreeSet<String>,
    /// The same for the catalog before, while one is made: what stands in no record any more is forgotten with it.
    before: (BTreeMap<String, Secret>, BTreeSet<String>),
    /// For the operator.
    warnings: Vec<String>,
}

impl Cataloguer {
    /// A cataloguer that has made none yet. Without a sealing key, hosts with secrets cannot connect.
    #[must_use]
    pub fn new(node: NodeId, cluster: ClusterId, key: Option<Arc<SealKey>>) -> Cataloguer {
        Cataloguer {
            node,
            discovery_nqn: discovery_nqn(cluster),
            key,
            made: Arc::default(),
            opened: BTreeMap::new(),
            refused: BTreeSet::new(),
            before: Default::default(),
            warnings: Vec::new(),
        }
    }

    /// What is to be told to the operator.
    pub fn warnings(&mut self) -> std::vec::Drain<'_, String> {
        self.warnings.drain(..)
    }

    /// The settings as they are now, if they are not those that were made last. `is_open`: is the volume open on this node?
    pub fn make(&mut self, view: &View, is_open: impl Fn(VolumeId) -> bool) -> Option<Arc<Catalog>> {
        let gateways = gateways(view);
        self.before = (std::mem::take(&mut self.opened), std::mem::take(&mut self.refused));
        let mut subsystems: Vec<Arc<Subsystem>> = view
            .subsystems()
            .map(|record| Arc::new(self.subsystem(record, view, &gateways, &is_open)))
            .collect();
        self.before = Default::default();
        subsystems.sort_by(|a, b| a.nqn.cmp(&b.nqn));
        let volumes = subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        // Nobody reserves what was.
        let volumes = volumes.filter(|namespace| namespace.source().is_head());
        let reservations = volumes
            .filter_map(|namespace| Some((namespace.volume, view.reservation(namespace.volume)?.clone())))
            .collect();
        let mut catalog = Catalog {
            reservations,
            node: self.node,
            revision: self.made.revision,
            discovery_nqn: self.discovery_nqn.clone(),
            subsystems,
            gateways,
        };
        if catalog == *self.made {
            return None;
        }
        catalog.revision += 1;
        self.made = Arc::new(catalog);
        Some(self.made.clone())
    }

    fn subsystem(
        &mut self,
        record: &map::Subsystem,
        view: &View,
        gateways: &[Gateway],
        is_open: &impl Fn(VolumeId) -> bool,
    ) -> Subsystem {
        let named = |gateway: &&Gateway| record.gateways.is_empty() || record.gateways.contains(&gateway.name);
        let mut named_hosts: BTreeSet<&str> = record.hosts.iter().map(String::as_str).collect();
        if record.any_host {
            // Whoever has something to show shows it, also where anybody may come.
            named_hosts.extend(view.hosts_with_secrets());
            named_hosts.extend(view.unreadable_hosts());
        }
        let hosts: Vec<Arc<HostAccess>> = named_hosts
            .into_iter()
            .filter_map(|nqn| self.host(nqn, view))
            .map(Arc::new)
            .collect();
        let mut namespaces: Vec<Arc<Namespace>> = record
            .namespaces
            .iter()
            .filter_map(|record| self.namespace(record, view, is_open))
            .map(Arc::new)
            .collect();
        namespaces.sort_by_key(|namespace| namespace.nsid);
        let before = self.made.subsystem(&record.nqn);
        let states = |namespaces: &[Arc<Namespace>]| -> Vec<(u32, Ana)> {
            namespaces.iter().map(|found| (found.nsid, found.ana)).collect()
        };
        let changed = before.is_none_or(|before| states(&before.namespaces) != states(&namespaces));
        Subsystem {
            nqn: record.nqn.clone(),
            serial: record.serial.clone(),
            gateways: gateways.iter().filter(named).map(|gateway| gateway.node).collect(),
            any_host: record.any_host,
            tls_required: record.tls_required,
            hosts,
            namespaces,
            ana_changes: before.map_or(0, |before| before.ana_changes) + u64::from(changed),
        }
    }

    /// `None`: it has no record, so that nobody knows what it has to show. One whose record cannot be read can show nothing that fits, so that
    /// it is not one of those anybodies who have nothing to show.
    fn host(&mut self, nqn: &str, view: &View) -> Option<HostAccess> {
        let Some(record) = view.host(nqn) else {
            let is_barred = view.unreadable_hosts().any(|known| known == nqn);
            return is_barred.then(|| barred(nqn));
        };
        let mut open = |field: &str, sealed: &Option<String>| {
            let sealed = sealed.as_ref()?;
            // What cannot be opened nobody can show: an empty secret fits none.
            Some(self.open(nqn, field, sealed).unwrap_or_else(|| Secret(String::new())))
        };
        let mut access = HostAccess {
            nqn: nqn.to_owned(),
            dhchap: open(field::DHCHAP, &record.dhchap),
            dhchap_controller: open(field::DHCHAP_CONTROLLER, &record.dhchap_controller),
            tls: open(field::TLS, &record.tls),
        };
        let is_barred = |secret: &Option<Secret>| secret.as_ref().is_some_and(|secret| secret.0.is_empty());
        if is_barred(&access.tls) || is_barred(&access.dhchap_controller) {
            access.dhchap = Some(Secret(String::new()));
        }
        Some(access)
    }

    fn open(&mut self, nqn: &str, field: &str, sealed: &str) -> Option<Secret> {
        let known = format!("{nqn} {field} {sealed}");
        // Each subsystem that allows a host asks.
        let secret = self
            .before
            .0
            .remove(&known)
            .or_else(|| self.opened.get(&known).cloned());
        if let Some(secret) = secret {
            self.opened.insert(known, secret.clone());
            return Some(secret);
        }
        let opened: Result<String, String> = match &self.key {
            Some(key) => key
                .unseal(nqn, field, sealed)
                .map(|text| text.to_string())
                .map_err(|why: SealError| why.to_string()),
            None => Err(format!(
                "the {field} of {nqn} is sealed, and this gateway has no sealing key: start it with --seal-key"
            )),
        };
        match opened {
            Ok(text) => {
                self.opened.insert(known, Secret(text.clone()));
                Some(Secret(text))
            }
            Err(why) => {
                let is_said = self.before.1.contains(&known);
                if self.refused.insert(known) && !is_said {
                    self.warnings
                        .push(format!("host {nqn} cannot connect through this gateway: {why}"));
                }
                None
            }
        }
    }

    /// `None`: its volume is gone or deleted, or no host could use it.
    fn namespace(
        &self,
        record: &map::Namespace,
        view: &View,
        is_open: &impl Fn(VolumeId) -> bool,
    ) -> Option<Namespace> {
        // A snapshot of what a volume was before it was reverted is the volume's.
        let known = view.present(record.volume);
        let data = view.volume_of(known)?;
        let is_read = !data.is_former() || record.snapshot.is_some();
        let volume = view
            .volume_with(known)
            .filter(|volume| is_read && !map::is_hidden(&volume.name))?;
        let chunk_bytes = view.chunk_bytes(&volume.pool)?;
        let uuid = *record.uuid.as_bytes();
        let owned = data.owner == Some(self.node) && is_open(data.id);
        let namespace = Namespace {
            nsid: record.nsid,
            volume: data.id,
            snapshot: record.snapshot_id(),
            name: volume.name.clone(),
            size_bytes: record
                .snapshot
                .map_or(volume.size_bytes, |snapshot| snapshot.size_bytes),
            chunk_bytes,
            block_bytes: record.block_bytes,
            uuid,
            nguid: uuid,
            ana: if owned { Ana::Optimized } else { Ana::NonOptimized },
        };
        namespace.is_sound().then_some(namespace)
    }
}

/// A host that cannot be let in, since nobody knows what it has to show.
fn barred(nqn: &str) -> HostAccess {
    HostAccess {
        nqn: nqn.to_owned(),
        dhchap: Some(Secret(String::new())),
        dhchap_controller: None,
        tls: None,
    }
}

/// The cluster's name as a discovery subsystem.
#[must_use]
pub fn discovery_nqn(cluster: ClusterId) -> String {
    format!("nqn.2014-08.org.nvmexpress:uuid:{cluster}")
}

fn gateways(view: &View) -> Vec<Gateway> {
    let mut gateways: Vec<Gateway> = view
        .nodes()
        .filter_map(|node| {
            let portal: SocketAddr = node.nvme.as_ref()?.parse().ok()?;
            Some(Gateway {
                node: node.id,
                name: node.name.clone(),
                portal,
                alive: view.lives(node.id),
            })
        })
        .collect();
    gateways.sort_by_key(|gateway| gateway.node);
    gateways
}

#[cfg(test)]
mod tests;
