//! Random sequences against a model. What Kubernetes asks is begun, cut anywhere, left, taken up again by another controller in any order with what else is asked, until
//! it is answered; the answer is what the model says, and in the end nothing is there twice, nothing is left over, and nobody has what he should not.

use super::fence::{fence, unfence};
use super::publish::{nqn, publish, unpublish};
use super::snapshot::drop_snapshot;
use super::*;
use crate::id::{self, reservation_key};
use amita_testkit::random::Random;
use std::collections::BTreeSet;
use uuid::Uuid;

const SEQUENCES: u64 = 1000;
/// What is begun in each.
const CALLS: usize = 40;
const NODES: [&str; 3] = [
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
];

#[derive(Clone, Debug, PartialEq)]
enum Call {
    Make {
        volume: String,
        shared: bool,
        source: Option<Begin>,
    },
    Delete(String),
    Take {
        volume: String,
        snapshot: String,
    },
    Drop(String),
    Publish {
        volume: String,
        node: usize,
    },
    Unpublish {
        volume: String,
        node: usize,
    },
    Grow(String),
    Fence(usize),
    Unfence(usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Begin {
    Snapshot(String),
    Volume(String),
}

#[derive(Clone, Debug)]
struct Claim {
    id: String,
    gibibytes: i64,
    shared: bool,
    nodes: BTreeSet<usize>,
    /// Who holds it reserved, as the last node that staged it: it stays when the node is lost.
    holder: Option<usize>,
}

/// What should be.
#[derive(Default)]
struct Model {
    claims: BTreeMap<String, Claim>,
    /// By name: the id, of which volume id it is, and how large that was.
    snapshots: BTreeMap<String, (String, String, i64)>,
    fenced: BTreeSet<usize>,
    /// Whose fencing, or the end of it, is not answered yet: it may have taken place.
    unsure: BTreeSet<usize>,
    ids: BTreeSet<String>,
    names: usize,
}

/// The things that a call is about: while it is not answered, nothing else is asked about them.
fn things(call: &Call) -> Vec<String> {
    match call {
        Call::Make { volume, source, .. } => {
            let from = source.as_ref().map(|begin| match begin {
                Begin::Snapshot(name) => format!("snapshot {name}"),
                Begin::Volume(name) => format!("volume {name}"),
            });
            [format!("volume {volume}")].into_iter().chain(from).collect()
        }
        Call::Take { volume, snapshot } => vec![format!("volume {volume}"), format!("snapshot {snapshot}")],
        Call::Delete(volume) | Call::Grow(volume) => vec![format!("volume {volume}")],
        Call::Publish { volume, .. } | Call::Unpublish { volume, .. } => vec![format!("volume {volume}")],
        Call::Drop(snapshot) => vec![format!("snapshot {snapshot}")],
        Call::Fence(node) | Call::Unfence(node) => vec![format!("fence {node}")],
    }
}

/// Whom a call fences, or fences no longer.
fn fencing(call: &Call) -> Option<usize> {
    match call {
        Call::Fence(node) | Call::Unfence(node) => Some(*node),
        _ => None,
    }
}

impl Model {
    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("n-{}", self.names)
    }

    /// Something to ask.
    fn wish(&mut self, random: &mut Random) -> Option<Call> {
        let claims: Vec<String> = self.claims.keys().cloned().collect();
        let snapshots: Vec<String> = self.snapshots.keys().cloned().collect();
        let node = random.below(NODES.len() as u64) as usize;
        let any = |of: &[String], random: &mut Random| (!of.is_empty()).then(|| random.pick(of).clone());
        let shared = random.percent(30);
        match random.below(14) {
            0 | 1 => Some(Call::Make {
                volume: self.fresh(),
                shared,
                source: None,
            }),
            2 => any(&snapshots, random).map(|from| Call::Make {
                volume: self.fresh(),
                shared,
                source: Some(Begin::Snapshot(from)),
            }),
            3 => any(&claims, random).map(|from| Call::Make {
                volume: self.fresh(),
                shared,
                source: Some(Begin::Volume(from)),
            }),
            4 => any(&claims, random).map(Call::Delete),
            5 => {
                // At times under a name that is taken, by this volume or another one.
                let taken = any(&snapshots, random).filter(|_| random.percent(20));
                let snapshot = taken.unwrap_or_else(|| self.fresh());
                any(&claims, random).map(|volume| Call::Take { volume, snapshot })
            }
            6 => any(&snapshots, random).map(Call::Drop),
            7..=9 => any(&claims, random).map(|volume| Call::Publish { volume, node }),
            10 | 11 => any(&claims, random).map(|volume| Call::Unpublish { volume, node }),
            12 => any(&claims, random).map(Call::Grow),
            _ if random.percent(50) => Some(Call::Fence(node)),
            _ => Some(Call::Unfence(node)),
        }
    }
}

/// Asks, once; with what was answered the model goes on.
async fn ask(fake: &Fake, model: &mut Model, call: &Call) -> Result<(), Status> {
    match call.clone() {
        Call::Make { volume, shared, source } => {
            let (content, least) = match &source {
                None => (None, 1),
                Some(Begin::Snapshot(name)) => (from_snapshot(&model.snapshots[name].0), model.snapshots[name].2 + 1),
                Some(Begin::Volume(name)) => (from_volume(&model.claims[name].id), model.claims[name].gibibytes + 1),
            };
            let (id, bytes) = make(
                fake,
                CreateVolumeRequest {
                    volume_content_source: content,
                    volume_capabilities: vec![block(mode(shared))],
                    ..wanted(&volume, least * GIB)
                },
            )
            .await?;
            assert_eq!(bytes, least * GIB, "{call:?}");
            assert!(model.ids.insert(id.clone()), "{id} is there twice");
            let claim = Claim {
                id,
                gibibytes: least,
                shared,
                nodes: BTreeSet::new(),
                holder: None,
            };
            model.claims.insert(volume, claim);
        }
        Call::Delete(name) => {
            let claim = model.claims[&name].clone();
            let done = delete(fake, &claim.id).await;
            if answered(&done)? {
                assert!(claim.nodes.is_subset(&model.unsure), "{call:?}: {claim:?}");
                model.claims.remove(&name);
            } else {
                assert_eq!(code(done), Code::FailedPrecondition, "{call:?}");
                assert!(!claim.nodes.is_empty(), "{call:?}");
            }
        }
        Call::Take { volume, snapshot } => {
            let Claim { id: of, gibibytes, .. } = model.claims[&volume].clone();
            let done = take(fake, &of, &snapshot).await;
            answered(&done)?;
            match model.snapshots.get(&snapshot) {
                Some((_, other, _)) if *other != of => assert_eq!(code(done), Code::AlreadyExists),
                Some((id, ..)) => assert_eq!(done.ok().as_ref(), Some(id)),
                None => drop(model.snapshots.insert(snapshot, (done.expect("taken"), of, gibibytes))),
            }
        }
        Call::Drop(name) => {
            drop_snapshot(fake, &model.snapshots[&name].0).await?;
            model.snapshots.remove(&name);
        }
        Call::Publish { volume, node } => return publish_one(fake, model, &volume, node).await,
        Call::Unpublish { volume, node } => {
            let claim = model.claims.get_mut(&volume).expect("it");
            unpublish(fake, &claim.id, NODES[node]).await?;
            claim.nodes.remove(&node);
        }
        Call::Grow(name) => {
            let claim = model.claims.get_mut(&name).expect("it");
            let request = ControllerExpandVolumeRequest {
                volume_id: claim.id.clone(),
                capacity_range: Some(CapacityRange {
                    required_bytes: (claim.gibibytes + 1) * GIB,
                    limit_bytes: 0,
                }),
                ..Default::default()
            };
            let grown = fake.controller().expand(request).await?;
            claim.gibibytes += 1;
            assert_eq!(grown.capacity_bytes, claim.gibibytes * GIB);
        }
        Call::Fence(node) => {
            fence(fake, &[NODES[node]]).await?;
            model.fenced.insert(node);
            for claim in model.claims.values_mut() {
                claim.nodes.remove(&node);
            }
        }
        Call::Unfence(node) => {
            unfence(fake, &[NODES[node]]).await?;
            model.fenced.remove(&node);
        }
    }
    Ok(())
}

fn mode(shared: bool) -> Mode {
    match shared {
        true => Mode::MultiNodeMultiWriter,
        false => Mode::SingleNodeWriter,
    }
}

/// Was it answered, one way or another? Did it succeed?
fn answered<T>(done: &Result<T, Status>) -> Result<bool, Status> {
    match done {
        Ok(_) => Ok(true),
        Err(why) if why.code() == Code::Unavailable => Err(why.clone()),
        Err(_) => Ok(false),
    }
}

async fn publish_one(fake: &Fake, model: &mut Model, volume: &str, node: usize) -> Result<(), Status> {
    let claim = model.claims.get_mut(volume).expect("it");
    let done = publish(fake, &claim.id, NODES[node], mode(claim.shared)).await;
    answered(&done)?;
    let others = claim
        .nodes
        .iter()
        .copied()
        .filter(|other| !claim.shared && *other != node);
    let (unsure, sure): (Vec<usize>, Vec<usize>) = others.partition(|other| model.unsure.contains(other));
    let is_fenced = model.fenced.contains(&node);
    if (is_fenced && !model.unsure.contains(&node)) || !sure.is_empty() {
        assert_eq!(code(done), Code::FailedPrecondition, "{volume} at {node}");
        return Ok(());
    }
    let told = match done {
        Ok(told) => told,
        Err(why) => {
            let may_be = model.unsure.contains(&node) || !unsure.is_empty();
            assert!(
                may_be && why.code() == Code::FailedPrecondition,
                "{volume} at {node}: {why}"
            );
            return Ok(());
        }
    };
    // Those of whom it is not sure were off the list, or it would have been refused.
    claim.nodes.retain(|other| !unsure.contains(other));
    claim.nodes.insert(node);
    assert_eq!(told.contains_key("exclusive"), !claim.shared);
    // Whoever had it reserved and is not to have it is named, and nobody else.
    let key = |node: usize| format!("{:#018x}", reservation_key(host(node)));
    let lost = claim.holder.filter(|holder| *holder != node && !claim.shared);
    assert_eq!(told.get("preempt").cloned(), lost.map(key), "{volume} at {node}");
    if !claim.shared {
        // The node stages it.
        claim.holder = Some(node);
        let reservation = (host(node).to_string(), key(node));
        fake.cluster().reservations.insert(volume.to_owned(), reservation);
    }
    Ok(())
}

fn host(node: usize) -> Uuid {
    id::node(NODES[node]).expect("a node")
}

/// Whatever was cut: no volume of one node lets in two, and who is fenced, and was told so, is let in nowhere.
fn safe(fake: &Fake, model: &Model) {
    let cluster = fake.cluster();
    for claim in model.claims.values() {
        let number = claim.id.split(':').next().unwrap_or_default();
        let own = cluster
            .subsystems
            .iter()
            .find(|(name, _)| name.ends_with(&format!("-{number}")));
        let Some((name, own)) = own else { continue };
        assert!(claim.shared || own.hosts.len() <= 1, "{name}: {:?}", own.hosts);
        for node in model.fenced.difference(&model.unsure) {
            assert!(
                !own.hosts.contains(&nqn(NODES[*node])),
                "{name} lets in {node}, who is fenced"
            );
        }
    }
}

/// All calls are answered: the cluster is as the model, to a byte.
fn same(fake: &Fake, model: &Model) {
    let cluster = fake.cluster();
    let label = |labels: &BTreeMap<String, String>, key: &str| labels.get(key).cloned().unwrap_or_default();
    let alive = cluster
        .volumes
        .iter()
        .filter(|(name, _)| !name.starts_with("csi-gone-"));
    let alive: BTreeMap<String, u64> = alive
        .map(|(name, volume)| (format!("{}:{name}", volume.id), volume.size_bytes))
        .collect();
    let wanted = model
        .claims
        .values()
        .map(|claim| (claim.id.clone(), (claim.gibibytes * GIB) as u64));
    assert_eq!(alive, wanted.collect());
    // Volumes that are gone are there for their snapshots alone.
    let needed: BTreeSet<&str> = model
        .snapshots
        .values()
        .filter_map(|(_, of, _)| of.split(':').next())
        .collect();
    for (name, volume) in cluster.volumes.iter().filter(|(name, _)| name.starts_with("csi-gone-")) {
        assert!(needed.contains(volume.id.to_string().as_str()), "{name} is left over");
    }
    let taken: BTreeSet<String> = cluster
        .snapshots
        .iter()
        .map(|found| label(&found.labels, "csi.amita.io/name"))
        .collect();
    assert_eq!(
        taken,
        model.snapshots.keys().cloned().collect(),
        "{:?}",
        cluster.snapshots
    );
    assert_eq!(cluster.snapshots.len(), model.snapshots.len());
    for claim in model.claims.values() {
        let number = claim.id.split(':').next().unwrap_or_default();
        let own = cluster
            .subsystems
            .iter()
            .find(|(name, _)| name.ends_with(&format!("-{number}")));
        let hosts: BTreeSet<String> = own
            .map(|(_, own)| own.hosts.iter().cloned().collect())
            .unwrap_or_default();
        let wanted = claim.nodes.iter().map(|node| nqn(NODES[*node]));
        assert_eq!(hosts, wanted.collect(), "{claim:?}");
    }
}

async fn sequence(seed: u64) -> (usize, usize) {
    let mut random = Random::new(seed);
    let (fake, mut model) = (Fake::new(), Model::default());
    let mut waiting: Vec<Call> = Vec::new();
    let (mut asked, mut cuts) = (0, 0);
    let mut begun = 0;
    while begun < CALLS || !waiting.is_empty() {
        let goes_on = !waiting.is_empty() && (begun >= CALLS || random.percent(50));
        let call = match goes_on {
            true => waiting.swap_remove(random.below(waiting.len() as u64) as usize),
            false => {
                begun += 1;
                let busy: BTreeSet<String> = waiting.iter().flat_map(things).collect();
                let Some(call) = model.wish(&mut random) else { continue };
                if things(&call).iter().any(|thing| busy.contains(thing)) {
                    continue;
                }
                call
            }
        };
        let cut = random.percent(60).then(|| {
            let at = random.within(1, 14) as usize;
            match random.percent(50) {
                true => Cut::Before(at),
                false => Cut::After(at),
            }
        });
        fake.cut(cut);
        asked += 1;
        model.unsure = waiting.iter().filter_map(fencing).collect();
        if let Err(why) = ask(&fake, &mut model, &call).await {
            assert_eq!(
                why.code(),
                Code::Unavailable,
                "seed {seed}, {call:?}: {why}; {:?}",
                fake.asked()
            );
            assert!(cut.is_some(), "seed {seed}, {call:?}: {why}");
            cuts += 1;
            // A publishing that was not answered may be given up for its opposite, as Kubernetes does when the pod goes.
            waiting.push(match call {
                Call::Publish { volume, node } if random.percent(30) => Call::Unpublish { volume, node },
                other => other,
            });
        }
        model.unsure = waiting.iter().filter_map(fencing).collect();
        safe(&fake, &model);
    }
    same(&fake, &model);
    // All goes, and nothing stays.
    fake.cut(None);
    for claim in model.claims.values().cloned().collect::<Vec<_>>() {
        for node in claim.nodes {
            unpublish(&fake, &claim.id, NODES[node]).await.expect("taken off");
        }
        delete(&fake, &claim.id).await.expect("gone");
    }
    for (id, ..) in model.snapshots.values() {
        drop_snapshot(&fake, id).await.expect("gone");
    }
    let cluster = fake.cluster();
    assert!(cluster.volumes.is_empty(), "seed {seed}: {:?}", cluster.volumes);
    assert!(cluster.snapshots.is_empty(), "seed {seed}: {:?}", cluster.snapshots);
    let left = cluster.subsystems.keys().filter(|name| *name != "csi-fenced").count();
    assert_eq!(left, 0, "seed {seed}: {:?}", cluster.subsystems);
    (asked, cuts)
}

#[tokio::test]
async fn random_sequences_come_to_what_the_model_says() {
    let (mut asked, mut cuts) = (0, 0);
    for seed in 0..SEQUENCES {
        let done = sequence(seed).await;
        asked += done.0;
        cuts += done.1;
    }
    println!("{SEQUENCES} sequences: {asked} calls, of which {cuts} were cut");
    assert!(cuts > 1000 && asked > 20_000, "{asked} {cuts}");
}
