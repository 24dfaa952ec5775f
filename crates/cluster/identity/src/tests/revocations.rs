//! How much is revoked, for how long, and what of it is forgotten.

use super::authority::request;
use super::*;

/// A connection that was made with it may still be there.
#[test]
fn a_certificate_that_has_ended_is_revoked_with_the_others_of_its_name() {
    let world = World::new();
    let other = world.live(&world.made(Role::Node, "n1"));
    let stolen = Identity::open(&world.made(Role::Client, "eve"), NOW).unwrap();
    world.pass(20 * DAY);
    other.judge_established(stolen.chain(), Usage::Client).unwrap();
    let revoked = world.authority.revoke("client/eve").unwrap();
    assert_eq!(revoked.certificates.len(), 1);
    let heard = || other.install_trust(&world.authority.trust().unwrap());
    heard().unwrap();
    let judged = || other.judge_established(stolen.chain(), Usage::Client);
    assert_eq!(judged(), Err(Refusal::Revoked));
    // And it stays on the list for as long as others do.
    world.pass_in_use(12 * DAY);
    world.made(Role::Node, "n2");
    world.authority.revoke("n2").unwrap();
    heard().unwrap();
    assert_eq!(judged(), Err(Refusal::Revoked));
}

/// Else whoever has stolen one makes so many of it that the list of what is revoked is too long for its readers.
#[test]
fn a_name_has_a_bounded_number_of_certificates_that_are_valid() {
    let world = World::new();
    let stolen = Identity::open(&world.made(Role::Client, "eve"), NOW).unwrap();
    let renew = || {
        let key = request(&world.folder("x"));
        let answer = world.authority.renew(&stolen.chain()[0], key.request());
        std::fs::remove_dir_all(world.folder("x")).unwrap();
        answer
    };
    let renewed = (0..300).take_while(|_| renew().is_ok()).count();
    assert_eq!(renewed, 255);
    let told = renew().unwrap_err().to_string();
    assert!(told.contains("somebody else must be renewing it"), "{told}");
    // Nobody else is held up, and the name can be revoked with all that was made of it.
    world.made(Role::Client, "bob");
    assert_eq!(world.authority.revoke("client/eve").unwrap().certificates.len(), 256);
    let list = world.authority.trust().unwrap();
    assert!(list.len() < 64 << 10, "{} bytes", list.len());
}

/// As long as a certificate could be revoked, a connection that was made with it is there.
#[test]
fn a_connection_outlives_its_certificate_by_a_month_at_most() {
    let world = World::new();
    let other = world.live(&world.made(Role::Node, "n1"));
    let client = Identity::open(&world.made(Role::Client, "app"), NOW).unwrap();
    let judged = || other.judge_established(client.chain(), Usage::Client);
    world.pass((7 + 30) * DAY - HOUR);
    judged().unwrap();
    world.pass(HOUR);
    let late = judged().unwrap_err();
    assert!(matches!(late, Refusal::Expired { .. }), "{late}");
}

/// Lines of certificates like the one that the authority has made for eve.
fn issued_to_eve(world: &World, count: usize) {
    let path = world.folder("ca").join("issued");
    let good = std::fs::read_to_string(&path).unwrap();
    let line = good.lines().find(|line| line.ends_with("/client/eve")).unwrap();
    let rest = line.split_once(' ').unwrap().1;
    let more: String = (0..count)
        .map(|at| format!("40112233445566778899aabb{at:08x} {rest}\n"))
        .collect();
    std::fs::write(&path, good + &more).unwrap();
}

#[test]
fn of_a_name_as_many_are_renewed_as_are_revoked_with_it() {
    let world = World::new();
    world.made(Role::Client, "eve");
    issued_to_eve(&world, 2100);
    world.pass(6 * DAY + 23 * HOUR);
    // She has had them for a while: the newest is valid.
    let folder = world.folder("again");
    world
        .authority
        .make_identity(&folder, &world.name(Role::Client, "eve"))
        .unwrap();
    world.pass(2 * HOUR);
    let error = world.authority.renew_identity(&folder).unwrap_err().to_string();
    let until = NOW.after((7 + 30) * DAY);
    assert!(error.contains(&format!("renewed again from {until} on")), "{error}");
    let newest = Identity::open(&folder, world.clock.now()).unwrap().serial().clone();
    let revoked = world.authority.revoke("eve").unwrap().certificates;
    assert_eq!(revoked.len(), 2048);
    assert!(revoked.iter().any(|revoked| revoked.serial == newest));
    // Under its name somebody may come again.
    let (again, name) = (world.folder("again2"), world.name(Role::Client, "eve"));
    world.authority.make_identity(&again, &name).unwrap();
    world.authority.renew_identity(&again).unwrap();
}

fn revoked_lines(world: &World, count: usize) {
    let until = NOW.after(30 * DAY).0;
    let lines: String = (0..count)
        .map(|at| format!("40112233445566778899aabb{at:08x} {} {until} -\n", NOW.0))
        .collect();
    std::fs::write(world.folder("ca").join("revoked"), lines).unwrap();
    mode(&world.folder("ca").join("revoked"), 0o600);
}

#[test]
fn a_list_that_nobody_could_read_is_not_made() {
    let world = World::new();
    let folder = world.made(Role::Node, "n1");
    world.made(Role::Node, "n2");
    revoked_lines(&world, 7999);
    world.authority.revoke("n1").unwrap();
    let before = world.authority.trust().unwrap();
    let error = world.authority.revoke("n2").unwrap_err().to_string();
    assert!(error.contains("ca rotate"), "{error}");
    assert_eq!(world.authority.trust().unwrap(), before);
    assert_eq!(world.authority.revoked().unwrap().len(), 8000);
    // What is to be done then works: there is room for two lists.
    world.authority.rotate(HOUR).unwrap();
    let both = world.authority.trust().unwrap();
    assert!(both.len() < 1 << 20, "{} bytes", both.len());
    world.live(&folder).install_trust(&both).unwrap();
    // However it has come to be too long.
    revoked_lines(&world, 30_000);
    world.pass(2 * HOUR);
    let error = world.authority.finish(true).unwrap_err().to_string();
    assert!(error.contains("more than anybody reads"), "{error}");
    assert_eq!(world.authority.trust().unwrap(), both);
    Authority::open(world.authority.folder(), world.clock.clone()).unwrap();
}

/// What it then takes for long ended may be valid.
#[test]
fn an_authority_whose_clock_is_wrong_forgets_nothing() {
    let world = World::new();
    world.made(Role::Node, "n1");
    world.made(Role::Node, "n2");
    world.authority.revoke("n1").unwrap();
    world.clock.set(NOW.after(400 * DAY));
    for name in ["n3", "n4", "n5"] {
        // The second one comes when the log has something of that time.
        world.made(Role::Node, name);
        world.authority.revoke(name).unwrap();
    }
    world.clock.set(NOW.after(DAY));
    let issued = world.authority.issued().unwrap();
    assert!(issued.iter().any(|issued| issued.name.name() == "n2"), "{issued:?}");
    assert_eq!(world.authority.revoked().unwrap().len(), 4);
    let still = world.authority.revoke("n2").unwrap();
    assert_eq!(still.certificates.len(), 1);
    assert_eq!(world.authority.revoked().unwrap().len(), 5);
}
