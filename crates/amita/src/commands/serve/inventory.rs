//! The node tells what its machine is like: what `amita inspect` judges.

use super::{Arguments, Discard};
use crate::cli::Endpoints;
use amita_api::Shown as BrowserCertificate;
use amita_identity::{Identity, Outline};
use amita_inspect::Keeper;
use amita_inspect::collect::{Figures, Serving};
use amita_inspect::inventory::{Certificate, Latency, MAX_AUTHORITIES, Setting, Shown, short};
use amita_inspect::keeper::Sources;
use amita_node::observe::{CertificateReport, CollectReport, StoreReport, Wanted};
use amita_node::serve::{Protection, Running, ServeConfig};
use amita_store::Times;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Tells it, until it is dropped. A node that cannot tell serves all the same.
pub(super) fn keep(
    arguments: &Arguments,
    metadata: &Endpoints,
    config: &ServeConfig,
    running: &Running,
    collect: &CollectReport,
    browser: Option<Arc<BrowserCertificate>>,
) -> Option<Keeper> {
    let client = match config.metadata_client() {
        Ok(client) => client,
        Err(why) => {
            log::warn!("nobody is told what this machine is like: {why}");
            return None;
        }
    };
    let identity = config.identity.clone();
    let sources = Sources {
        node: running.node,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        metadata_addresses: metadata.list().map_or(0, |list| list.len()),
        stores: config.stores.clone(),
        serving: serving(running),
        settings: settings(arguments),
        certificate: Box::new(move || {
            let live = identity.as_ref()?;
            Some(certificate(&live.current(), browser.as_deref()))
        }),
        figures: figures(collect),
        leads: leads(collect),
    };
    Keeper::start(client, sources)
        .inspect_err(|why| log::warn!("nobody is told what this machine is like: {why}"))
        .ok()
}

fn certificate(identity: &Identity, browser: Option<&BrowserCertificate>) -> Certificate {
    let report = CertificateReport::from(identity);
    let outline = |certificate| Outline::of(certificate).ok().map(shown);
    let roots = identity.trust().roots().iter();
    Certificate {
        begins: report.begins,
        ends: report.expires,
        authority_ends: report.authority_expires,
        what: identity.chain().first().and_then(outline),
        authorities: roots.filter_map(outline).take(MAX_AUTHORITIES).collect(),
        browser: browser.and_then(BrowserCertificate::outline).map(shown),
    }
}

fn shown(outline: Outline) -> Shown {
    Shown {
        name: short(&outline.subject),
        issuer: short(&outline.issuer),
        serial: outline.serial.to_string(),
        fingerprint: outline.fingerprint,
        begins: outline.not_before.0,
        ends: outline.not_after.0,
    }
}

fn serving(running: &Running) -> Vec<Serving> {
    let at = |what, address: Option<SocketAddr>| address.map(|address| (what, address.ip()));
    let all: [Option<(&'static str, IpAddr)>; 4] = [
        at("fabric", Some(running.fabric)),
        at("fabric2", running.fabric2),
        at("nbd", running.nbd),
        at("nvme", running.nvme),
    ];
    let portals = running.iscsi.iter().map(|portal| ("iscsi", portal.ip()));
    all.into_iter()
        .flatten()
        .chain(portals)
        .map(|(what, address)| Serving { what, address })
        .collect()
}

/// Those that change how a node behaves, and that all nodes mostly have alike. None of them is a secret.
fn settings(arguments: &Arguments) -> Vec<Setting> {
    let setting = |name: &str, value: String, usual: &str| Setting {
        name: name.to_owned(),
        value,
        usual: usual.to_owned(),
    };
    let discard = match arguments.discard {
        Discard::Never => "never",
        Discard::Devices => "devices",
        Discard::Always => "always",
    };
    let links = match arguments.links.unwrap_or_default() {
        Protection::Auth => "auth",
        Protection::Secret => "secret",
    };
    vec![
        setting("lease", arguments.lease.to_string(), "5"),
        setting("scrub-days", arguments.scrub_days.to_string(), "14"),
        setting("discard", discard.to_owned(), "devices"),
        setting("confirm-reads", arguments.confirm_reads.to_string(), "false"),
        setting("trace-one-in", arguments.trace_one_in.to_string(), "1000"),
        setting("yields", arguments.yields.to_string(), "1000"),
        setting("links", links.to_owned(), "auth"),
    ]
}

fn leads(collect: &CollectReport) -> Box<dyn Fn() -> bool + Send> {
    let collect = CollectReport::clone(collect);
    Box::new(move || collect(Wanted::default()).leads)
}

/// What stores have done since it was asked before.
fn figures(collect: &CollectReport) -> Box<dyn FnMut() -> Result<Vec<Figures>, String> + Send> {
    let collect = CollectReport::clone(collect);
    let mut before: BTreeMap<String, Times> = BTreeMap::new();
    Box::new(move || {
        let report = collect(Wanted::default());
        if report.cores.len() < report.core_count {
            return Err("not all cores of the node answer".to_owned());
        }
        let serving = report.stores().into_iter().filter(|store| store.serves);
        let all = serving.map(|store| {
            let earlier = before.insert(store.path.clone(), store.times.clone());
            of_store(store, earlier.as_ref())
        });
        Ok(all.collect())
    })
}

fn of_store(store: &StoreReport, earlier: Option<&Times>) -> Figures {
    let status = &store.status;
    let latency = earlier.map(|earlier| {
        let (reads, writes) = (
            store.times.reads.since(&earlier.reads),
            store.times.writes.since(&earlier.writes),
        );
        let p99_us = |histogram: &amita_reactor::histogram::Histogram| {
            u64::try_from(histogram.permille(990).as_micros()).unwrap_or(u64::MAX)
        };
        Latency {
            reads: reads.count(),
            read_p99_us: p99_us(&reads),
            writes: writes.count(),
            write_p99_us: p99_us(&writes),
        }
    });
    Figures {
        path: store.path.clone(),
        used_bytes: status.capacity_bytes.saturating_sub(status.free_bytes),
        latency,
    }
}
