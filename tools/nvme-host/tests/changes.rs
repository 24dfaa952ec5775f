//! Settings that change while hosts are connected: who asked is told, once, and what is told is true.

mod common;

use amita_nvme::{Ana, Catalog, Subsystem};
use amita_nvme_host::structures::{AnaLog, DiscoveryLog, namespaces_of};
use amita_nvme_host::wire::{feature, log};
use amita_nvme_host::{Controller, commands};
use common::Target;
use std::sync::Arc;

/// Kinds of notice in dword 0 of an event: type 2, what it is about, the page that says more.
const NAMESPACES: u32 = 0x04_00_02;
const ANA: u32 = 0x0c_03_02;
const DISCOVERY: u32 = 0x70_f0_02;

/// New settings: the subsystem changed by `change`.
fn change(target: &Target, change: impl FnOnce(&mut Subsystem)) {
    let mut catalog: Catalog = (*target.board.catalog()).clone();
    catalog.revision += 1;
    let mut subsystem = (*catalog.subsystems[0]).clone();
    change(&mut subsystem);
    catalog.subsystems[0] = Arc::new(subsystem);
    target.board.set_catalog(Arc::new(catalog));
}

/// A controller that is told of everything that it can be told of, with one request outstanding.
fn listener(target: &Target) -> (Controller, u16) {
    let mut controller = target.controller().expect("a controller");
    let events = controller.identify().expect("Identify").dword(92);
    assert_eq!(events & (1 << 8 | 1 << 11), 1 << 8 | 1 << 11, "OAES is {events:#x}");
    let enable = commands::set_feature(feature::ASYNC_EVENTS, events & (1 << 8 | 1 << 11));
    controller
        .call(&enable)
        .expect("an answer")
        .good("Set Features")
        .expect("events");
    let event = controller.ask_for_event().expect("a send");
    (controller, event)
}

fn told(controller: &mut Controller, event: u16) -> u32 {
    controller
        .admin
        .wait(event)
        .expect("an event")
        .good("Asynchronous Event Request")
        .expect("an event")
        .dword()
}

#[test]
fn a_namespace_that_grows_is_told() {
    let target = Target::start();
    let (mut controller, event) = listener(&target);
    let before = controller.namespace(1).expect("Identify").blocks();
    change(&target, |subsystem| {
        let mut namespace = (*subsystem.namespaces[0]).clone();
        namespace.size_bytes /= 2;
        subsystem.namespaces[0] = Arc::new(namespace);
    });
    assert_eq!(told(&mut controller, event), NAMESPACES);
    let page = controller
        .log(log::CHANGED_NAMESPACES, u32::MAX, 4096)
        .expect("the page");
    assert_eq!(namespaces_of(&page), [1]);
    assert_eq!(controller.namespace(1).expect("Identify").blocks(), before / 2);
}

#[test]
fn a_namespace_that_goes_and_comes_is_told_each_time() {
    let target = Target::start();
    let (mut controller, event) = listener(&target);
    let second = target.board.catalog().subsystems[0].namespaces[1].clone();
    change(&target, |subsystem| drop(subsystem.namespaces.remove(1)));
    assert_eq!(told(&mut controller, event) & 0xff_ffff, NAMESPACES);
    let page = controller
        .log(log::CHANGED_NAMESPACES, u32::MAX, 4096)
        .expect("the page");
    assert_eq!(namespaces_of(&page), [2]);
    assert_eq!(controller.namespaces().expect("the list"), [1]);

    let event = controller.ask_for_event().expect("a send");
    change(&target, |subsystem| subsystem.namespaces.push(second));
    assert_eq!(told(&mut controller, event), NAMESPACES);
    assert_eq!(controller.namespaces().expect("the list"), [1, 2]);
}

#[test]
fn a_change_of_ana_is_told_and_the_log_has_it() {
    let target = Target::start();
    let (mut controller, event) = listener(&target);
    change(&target, |subsystem| {
        let mut namespace = (*subsystem.namespaces[0]).clone();
        namespace.ana = Ana::Inaccessible;
        subsystem.namespaces[0] = Arc::new(namespace);
        subsystem.ana_changes += 1;
    });
    assert_eq!(told(&mut controller, event), ANA);
    let read = AnaLog::read(&controller.log(log::ANA, 0, 4096).expect("the log")).expect("the log");
    let states: Vec<(u32, u8)> = read.groups.iter().map(|group| (group.id, group.state)).collect();
    assert_eq!(states, [(1, 3), (2, 1)]);
    // What the log says of the group holds for I/O (status 3h/02h, Asymmetric Access Inaccessible).
    let mut queue = controller.io_queue(1, 16).expect("a queue");
    let refused = queue.call(&commands::read(1, 0, 1, 4096)).expect("an answer");
    assert_eq!(refused.status.number(), 0x302, "{}", refused.status);
    queue
        .call(&commands::read(2, 0, 1, 512))
        .expect("an answer")
        .good("Read")
        .expect("the other namespace");
}

#[test]
fn a_persistent_discovery_controller_tells_that_its_log_changed() {
    let target = Target::start();
    let mut settings = target.settings();
    settings.nqn = "nqn.2014-08.org.nvmexpress.discovery".into();
    let mut controller = Controller::connect(&settings, &target.host()).expect("a controller");
    controller.enable().expect("it becomes ready");
    let enable = commands::set_feature(feature::ASYNC_EVENTS, 1 << 31);
    controller
        .call(&enable)
        .expect("an answer")
        .good("Set Features")
        .expect("events");
    let read = |controller: &mut Controller| {
        DiscoveryLog::read(&controller.log(log::DISCOVERY, 0, 4096).expect("the log")).expect("the log")
    };
    let before = read(&mut controller);
    let event = controller.ask_for_event().expect("a send");
    let mut catalog: Catalog = (*target.board.catalog()).clone();
    catalog.revision += 1;
    catalog.gateways[0].portal = "127.0.0.2:4420".parse().expect("an address");
    target.board.set_catalog(Arc::new(catalog));
    assert_eq!(told(&mut controller, event), DISCOVERY);
    let after = read(&mut controller);
    assert!(
        after.generation != before.generation,
        "GENCTR is still {}",
        after.generation
    );
    assert!(
        after.entries.iter().any(|entry| entry.address == "127.0.0.2"),
        "{:?}",
        after.entries
    );
}

#[test]
fn a_host_that_is_removed_is_cut_off_and_the_others_are_not() {
    let target = Target::start();
    let mut controller = target.controller().expect("a controller");
    let options = target.options(1);
    let second = amita_nvme_host::Host::named(&options.second_host);
    let mut other = Controller::connect(&target.settings(), &second).expect("a controller");
    other.enable().expect("it becomes ready");
    change(&target, |subsystem| {
        subsystem.hosts.retain(|host| host.nqn != options.second_host)
    });
    other.admin.connection.wait_closed().expect("it is cut off");
    assert!(
        Controller::connect(&target.settings(), &second).is_err(),
        "it may connect again"
    );
    controller.identify().expect("the other host goes on");
}
