use super::*;

const TARGET: &str = "iqn.2026-11.io.amita:0123abcd:db";
const INITIATOR: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";
const NAA: &str = "602414d456789abc8fedcba987654326";

fn portals() -> Vec<Portal> {
    let at = |node: &str, at: &str, tag| Portal::new(node, at.parse().unwrap(), tag);
    let owner = Portal {
        owner: true,
        alive: true,
        ..at("n2", "192.0.2.2:3260", 2)
    };
    vec![owner, at("n1", "[2001:db8::1]:3260", 1)]
}

fn guide(chap: &Chap) -> Guide {
    Guide::new(TARGET, INITIATOR, &portals(), chap, NAA)
}

fn both_ways(user: &str) -> Chap {
    Chap {
        user: Some(user.to_owned()),
        both_ways: true,
        target_user: None,
    }
}

#[test]
fn a_host_with_nothing_to_prove_learns_the_portals_from_any() {
    let guide = guide(&Chap::default());
    let connect = &guide.linux.connect;
    // Records that are there, of other targets as well, stay as they are.
    assert_eq!(
        connect[0],
        "iscsiadm -m discoverydb -t sendtargets -p 192.0.2.2:3260 -o new --discover"
    );
    assert!(
        connect.contains(&format!(
            "iscsiadm -m node -T {TARGET} -o update -n 'node.conn[0].timeo.noop_out_interval' -v 5"
        )),
        "{connect:?}"
    );
    assert!(!connect.iter().any(|line| line.contains("auth")), "{connect:?}");
    assert_eq!(
        connect[connect.len() - 5],
        format!("iscsiadm -m node -T {TARGET} --login")
    );
    // It is a disk that multipath does not know yet; a link to it (`/dev/disk/by-id/wwn-0x...`) is not taken.
    let known = format!("multipath -a 3{NAA}");
    assert_eq!(connect[connect.len() - 3], known);
    assert_eq!(guide.linux.disk, format!("/dev/disk/by-id/dm-uuid-mpath-3{NAA}"));
}

#[test]
fn a_host_with_secrets_gets_them_from_itself() {
    let guide = guide(&both_ways("o'neill"));
    let connect = guide.linux.connect.join("\n");
    for line in [
        format!("iscsiadm -m node -o new -T {TARGET} -p 192.0.2.2:3260,2"),
        format!("iscsiadm -m node -o new -T {TARGET} -p [2001:db8::1]:3260,1"),
        r"-n 'node.session.auth.username' -v 'o'\''neill'".to_owned(),
        r#"-n 'node.session.auth.password' -v "$(cat /etc/iscsi/amita.secret)""#.to_owned(),
        format!("-n 'node.session.auth.username_in' -v {TARGET}"),
        "-n 'node.session.auth.chap_algs' -v SHA3-256,SHA256".to_owned(),
    ] {
        assert!(connect.contains(&line), "{line}\n{connect}");
    }
    assert!(
        !connect.contains("discovery"),
        "a session of discovery would have to prove it as well"
    );
    let esxi = guide.esxi.connect.join("\n");
    assert!(
        esxi.contains("--direction=mutual")
            && esxi.contains("--secret=\"$S\"")
            && esxi.contains(r"--authname='o'\''neill'"),
        "{esxi}"
    );
    // One name for all targets, which is all that the adapter of ESXi can be told.
    let named = Chap {
        target_user: Some("amita".to_owned()),
        ..both_ways("esx")
    };
    let named = self::guide(&named);
    assert!(
        named
            .esxi
            .connect
            .join("\n")
            .contains("--direction=mutual --level=required --authname=amita ")
    );
    assert!(named.linux.connect.join("\n").contains("username_in' -v amita\n"));
    let windows = guide.windows.connect.join("\n");
    assert!(
        windows.contains("-AuthenticationType MUTUALCHAP -ChapUsername 'o''neill' -ChapSecret $s"),
        "{windows}"
    );
    assert!(
        windows.contains("-TargetPortalAddress 2001:db8::1 -TargetPortalPortNumber 3260"),
        "{windows}"
    );
}

#[test]
fn esxi_and_windows_are_told_every_portal_and_the_disk() {
    let guide = guide(&Chap::default());
    let places = |steps: &Steps, what: &str| steps.connect.iter().filter(|line| line.contains(what)).count();
    assert_eq!(places(&guide.esxi, "discovery sendtarget add"), 2);
    assert_eq!(places(&guide.windows, "New-IscsiTargetPortal"), 2);
    assert_eq!(places(&guide.windows, "Connect-IscsiTarget"), 2);
    assert!(guide.esxi.disk.ends_with(&format!("naa.{NAA}")));
    assert!(guide.windows.disk.contains("602414D456789ABC8FEDCBA987654326"));
    assert!(
        guide
            .esxi
            .connect
            .iter()
            .any(|line| line.contains("--address=[2001:db8::1]:3260"))
    );
}

#[test]
fn multipath_waits_as_long_as_nvme_does() {
    let text = multipath().join("\n");
    assert!(
        text.starts_with("devices {\n    device {\n        vendor                \"AMITA\"\n"),
        "{text}"
    );
    assert!(text.contains("no_path_retry         120"), "{text}");
    assert_eq!(text.matches('{').count(), text.matches('}').count());
}

#[test]
fn a_person_reads_of_its_own_kind_of_host_and_of_what_is_missing() {
    let guide = guide(&Chap::default());
    let all = guide.text(INITIATOR, None);
    for title in ["On Linux", "On ESXi", "On Windows"] {
        assert!(all.contains(title), "{all}");
    }
    assert!(
        all.contains("Node n1 is not alive now") && !all.contains("Only node"),
        "{all}"
    );
    let own = guide.text(INITIATOR, System::of(INITIATOR));
    assert!(own.contains("On Linux") && !own.contains("On ESXi"), "{own}");
    assert!(
        own.contains("cat > /etc/multipath/conf.d/amita.conf <<'END'\ndevices {\n"),
        "{own}"
    );
    assert_eq!(System::of("iqn.1998-01.com.vmware:esx-1:1:64"), Some(System::Esxi));
    assert_eq!(System::of("iqn.1991-05.com.microsoft:host"), Some(System::Windows));
    assert_eq!(System::of("eui.02004567a425678d"), None);
    let alone = Guide::new(TARGET, INITIATOR, &portals()[..1], &Chap::default(), NAA);
    assert!(alone.text(INITIATOR, None).contains("Only node n2 serves it"));
}
