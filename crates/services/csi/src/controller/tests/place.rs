//! Where volumes lie, and from where they are used.

use super::*;
use crate::wire::common::{Topology, TopologyRequirement};

const SITE: &str = "topology.csi.amita.io/site";
const RACK: &str = "topology.csi.amita.io/rack";

fn at(site: &str, rack: &str) -> Topology {
    Topology {
        segments: of(&[(SITE, site), (RACK, rack)]),
    }
}

fn in_site(site: &str) -> Topology {
    Topology {
        segments: of(&[(SITE, site)]),
    }
}

/// Pools `east`, `west` and `both`, of which `west` has most room.
pub(super) fn sites() -> Fake {
    let fake = Fake::new();
    {
        let mut cluster = fake.cluster();
        for (name, free, places) in [
            ("east", 100, &[("e", "r1"), ("e", "r2")] as &[_]),
            ("west", 300, &[("w", "r1")]),
            ("both", 200, &[("e", "r1"), ("w", "r2")]),
            ("nowhere", 900, &[("", "")]),
        ] {
            cluster.pools.insert(name.to_owned(), (1, free << 30, None));
            let own = places
                .iter()
                .map(|(site, rack): &(&str, &str)| ((*site).to_owned(), (*rack).to_owned()));
            cluster.places.insert(name.to_owned(), own.collect());
        }
    }
    fake
}

pub(super) fn bound(
    name: &str,
    pools: &str,
    reach: &str,
    requisite: &[Topology],
    preferred: &[Topology],
) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: of(&[("pool", pools), ("accessibleFrom", reach)]),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: requisite.to_vec(),
            preferred: preferred.to_vec(),
        }),
        ..wanted(name, GIB)
    }
}

pub(super) async fn made(fake: &Fake, request: CreateVolumeRequest) -> Result<(String, Vec<Topology>), Status> {
    let made = fake
        .controller()
        .with_places()
        .create(request)
        .await?
        .volume
        .expect("a volume");
    let name = made.volume_id.split(':').nth(1).expect("a name").to_owned();
    Ok((fake.cluster().volumes[&name].pool.clone(), made.accessible_topology))
}

#[tokio::test]
async fn what_is_reached_from_everywhere_is_made_near_and_bound_nowhere() {
    let fake = sites();
    let (e, w) = (at("e", "r1"), at("w", "r1"));
    let both = [e.clone(), w.clone()];
    for (name, preferred, pool) in [
        ("a", vec![w.clone(), e.clone()], "west"),
        ("b", vec![e.clone(), w.clone()], "east"),
        ("c", vec![at("e", "r2")], "east"),
        // Nobody is near: the one with most room.
        ("d", vec![at("far", "r1")], "west"),
    ] {
        let request = bound(name, "east, west", "everywhere", &both, &preferred);
        assert_eq!(
            made(&fake, request).await.expect("made"),
            (pool.to_owned(), vec![]),
            "{name}"
        );
    }
    // One that is far away is made all the same; nobody is asked where anything stands.
    fake.cut(None);
    let request = bound(
        "f",
        "east",
        "everywhere",
        std::slice::from_ref(&w),
        std::slice::from_ref(&w),
    );
    assert_eq!(made(&fake, request).await.expect("made").0, "east");
    assert_eq!(fake.asked(), ["GET /volumes/f", "POST /volumes"]);
}

#[tokio::test]
async fn a_volume_that_is_bound_to_a_place_is_made_where_it_is_wanted_or_not_at_all() {
    let fake = sites();
    let told = |pool: &str, sites: &[&str]| Ok((pool.to_owned(), sites.iter().map(|site| in_site(site)).collect()));
    let pools = "east,west,both";
    let both = [at("e", "r2"), at("w", "r1")];
    for (name, reach, request, wanted) in [
        ("a", "site", (&both[..1], &both[..1]), told("east", &["e"])),
        ("b", "site", (&both[1..], &both[1..]), told("west", &["w"])),
        ("c", "site", (&both[..], &both[..1]), told("east", &["e"])),
        (
            "d",
            "rack",
            (&both[..1], &both[..1]),
            Ok(("east".to_owned(), vec![at("e", "r1"), at("e", "r2")])),
        ),
        ("e", "site", (&[at("n", "r1")], &[]), Err(Code::ResourceExhausted)),
        ("f", "rack", (&[at("w", "r9")], &[]), Err(Code::ResourceExhausted)),
    ]
        as [(
            &str,
            &str,
            (&[Topology], &[Topology]),
            Result<(String, Vec<Topology>), Code>,
        ); 6]
    {
        let request = bound(name, pools, reach, request.0, request.1);
        // The rack decides among pools of one site; then the room.
        let said = made(&fake, request.clone()).await.map_err(|why| why.code());
        assert_eq!(said, wanted, "{name}");
        assert_eq!(
            made(&fake, request).await.map_err(|why| why.code()),
            said,
            "{name}, again"
        );
    }
    let unnamed = bound("g", "nowhere", "site", &[], &[]);
    assert_eq!(code(made(&fake, unnamed).await), Code::ResourceExhausted);
    let unknown = bound("g", "east,none", "site", &[], &[]);
    assert_eq!(code(made(&fake, unknown).await), Code::InvalidArgument);
    // A driver that is not told of places cannot keep to one.
    let refused = fake.controller().create(bound("g", "east", "site", &[], &[])).await;
    assert_eq!(code(refused), Code::InvalidArgument);
    assert_eq!(
        code(made(&fake, bound("c", "east", "everywhere", &[], &[])).await),
        Code::AlreadyExists
    );
}

#[tokio::test]
async fn a_full_pool_is_passed_over() {
    let fake = sites();
    fake.cluster()
        .pools
        .insert("west".to_owned(), (1, 300 << 30, Some(1 << 20)));
    let near_west = [at("w", "r1")];
    let (pool, places) = made(&fake, bound("a", "east,west,both", "site", &near_west, &near_west))
        .await
        .expect("made");
    assert_eq!((pool.as_str(), places), ("both", vec![in_site("e"), in_site("w")]));
    let full = made(&fake, bound("b", "west", "site", &near_west, &near_west)).await;
    assert_eq!(code(full), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_clone_is_where_its_source_is() {
    let fake = sites();
    made(&fake, bound("one", "east", "site", &[], &[])).await.expect("made");
    let clone = |name: &str, pools: &str, site: &str| CreateVolumeRequest {
        volume_content_source: from_volume("1:one"),
        ..bound(name, pools, "site", &[in_site(site)], &[])
    };
    let (pool, places) = made(&fake, clone("two", "west,east", "e")).await.expect("made");
    assert_eq!((pool.as_str(), places), ("east", vec![in_site("e")]));
    assert_eq!(
        code(made(&fake, clone("three", "west,east", "w")).await),
        Code::ResourceExhausted
    );
    assert_eq!(
        code(made(&fake, clone("three", "west", "w")).await),
        Code::InvalidArgument
    );
}

#[tokio::test]
async fn a_volume_is_made_as_its_tenants_and_so_are_its_clones() {
    let fake = Fake::new();
    let of_tenant = |name: &str, parameters: &[(&str, &str)]| CreateVolumeRequest {
        parameters: of(parameters),
        ..wanted(name, GIB)
    };
    let acme = [("pool", "fast"), ("encrypted", "true"), ("tenant", "acme")];
    make(&fake, of_tenant("one", &acme)).await.expect("made");
    assert_eq!(fake.cluster().volumes["one"].tenant.as_deref(), Some("acme"));
    make(&fake, of_tenant("one", &acme)).await.expect("it is there");
    assert_eq!(
        code(make(&fake, of_tenant("one", &acme[..2])).await),
        Code::AlreadyExists
    );
    let clone = |name: &str, parameters: &[(&str, &str)]| CreateVolumeRequest {
        volume_content_source: from_volume("1:one"),
        ..of_tenant(name, parameters)
    };
    assert_eq!(code(make(&fake, clone("two", &acme[..2])).await), Code::InvalidArgument);
    make(&fake, clone("two", &acme)).await.expect("made");
}

#[tokio::test]
async fn room_is_told_by_place() {
    let fake = sites();
    let room = async |pools: &str, reach: &str, place: Option<Topology>| {
        let request = GetCapacityRequest {
            parameters: of(&[("pool", pools), ("accessibleFrom", reach)]),
            accessible_topology: place,
            ..Default::default()
        };
        let said = fake.controller().with_places().capacity(request).await.expect("room");
        said.available_capacity >> 30
    };
    assert_eq!(room("east,west", "site", Some(at("e", "r7"))).await, 100);
    assert_eq!(room("east,west", "site", Some(at("w", "r7"))).await, 300);
    assert_eq!(room("east,west", "rack", Some(at("w", "r7"))).await, 0);
    assert_eq!(room("east,west", "site", Some(at("n", "r1"))).await, 0);
    assert_eq!(room("east,west", "site", None).await, 300);
    assert_eq!(room("east", "everywhere", Some(at("w", "r1"))).await, 100);
}

#[tokio::test]
async fn what_is_bound_to_a_place_is_listed_so_and_stays_there() {
    let fake = sites();
    made(&fake, bound("one", "east", "site", &[], &[])).await.expect("made");
    made(&fake, bound("two", "east", "everywhere", &[], &[]))
        .await
        .expect("made");
    let listed = fake
        .controller()
        .list(ListVolumesRequest::default())
        .await
        .expect("a list");
    let places: Vec<_> = listed
        .entries
        .into_iter()
        .map(|entry| entry.volume.expect("a volume").accessible_topology)
        .collect();
    assert_eq!(places, [vec![in_site("e")], vec![]]);
    let volume_id = "1:one".to_owned();
    let request = ControllerGetVolumeRequest { volume_id };
    let got = fake
        .controller()
        .get(request)
        .await
        .expect("it")
        .volume
        .expect("a volume");
    assert_eq!(got.accessible_topology, [in_site("e")]);
    let moved = async |volume: &str, pool: &str| {
        let request = ControllerModifyVolumeRequest {
            volume_id: volume.to_owned(),
            mutable_parameters: of(&[("pool", pool)]),
            ..Default::default()
        };
        code(fake.controller().modify(request).await)
    };
    assert_eq!(moved("1:one", "west").await, Code::InvalidArgument);
    assert_eq!(moved("1:one", "both").await, Code::Aborted, "it is moving");
    assert_eq!(moved("2:two", "west").await, Code::Aborted, "it is moving");
    let validated = async |reach: &str| {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: "1:one".to_owned(),
            volume_capabilities: vec![mount(Mode::SingleNodeWriter, "")],
            parameters: of(&[("pool", "east"), ("accessibleFrom", reach)]),
            ..Default::default()
        };
        fake.controller()
            .validate(request)
            .await
            .expect("an answer")
            .confirmed
            .is_some()
    };
    assert!(validated("site").await && !validated("everywhere").await);
}
