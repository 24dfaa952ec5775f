use super::{Gateway, Guide, Proofs};

const SUBSYSTEM: &str = "nqn.2026-11.io.amita:0123abcd:db";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0051-3510-8052-b4c04f4e3732";

fn gateways() -> Vec<Gateway> {
    let of = |node: &str, traddr: &str, owner| Gateway {
        node: node.to_owned(),
        traddr: traddr.to_owned(),
        trsvcid: 4420,
        owner,
        alive: true,
    };
    vec![of("n2", "192.0.2.2", true), of("n1", "2001:db8::1", false)]
}

#[test]
fn a_host_gets_a_command_for_each_gateway() {
    let guide = Guide::new(SUBSYSTEM, HOST, &gateways(), Proofs::default());
    assert_eq!(guide.prepare, ["modprobe nvme-tcp"]);
    assert_eq!(
        guide.connect[0],
        format!(
            "nvme connect --transport=tcp --traddr=192.0.2.2 --trsvcid=4420 --nqn={SUBSYSTEM} --hostnqn={HOST} \
             --nr-io-queues=8 --keep-alive-tmo=5 --reconnect-delay=2 --ctrl-loss-tmo=-1 --fast_io_fail_tmo=600"
        )
    );
    assert!(guide.connect[1].contains("--traddr=2001:db8::1 "), "without brackets");
    assert!(guide.connect_all.as_ref().unwrap().contains("--traddr=192.0.2.2 "));
    assert_eq!(guide.permanent_file, "/etc/nvme/discovery.conf");
    assert_eq!(guide.permanent.len(), 2);
    let text = guide.text("the-uuid");
    assert!(
        text.contains("nvme-uuid.the-uuid") && !text.contains("is not alive"),
        "{text}"
    );
}

#[test]
fn a_host_with_keys_gets_them_from_its_own_files() {
    let proofs = Proofs {
        dhchap: true,
        dhchap_controller: true,
        tls: true,
    };
    let guide = Guide::new(SUBSYSTEM, HOST, &gateways(), proofs);
    assert!(guide.prepare[2].starts_with("nvme check-tls-key --insert"), "{guide:?}");
    let command = &guide.connect[0];
    assert!(command.contains("--dhchap-secret=\"$(cat ") && command.contains("--dhchap-ctrl-secret=\"$(cat "));
    assert!(command.ends_with(" --tls"), "{command}");
    assert_eq!(guide.connect_all, None);
    let file: serde_json::Value = serde_json::from_str(&guide.permanent.join("\n")).expect("a JSON file");
    let port = &file[0]["subsystems"][0]["ports"][1];
    assert_eq!((&port["traddr"], &port["tls"]), (&"2001:db8::1".into(), &true.into()));
    assert_eq!(port["ctrl_loss_tmo"], -1);
}

#[test]
fn names_that_a_shell_would_take_apart_are_quoted() {
    let guide = Guide::new(
        "nqn.2014-08.com.example:a;b$c",
        "nqn.2014-08.com.example:it's",
        &gateways(),
        Proofs::default(),
    );
    let command = &guide.connect[0];
    assert!(command.contains("--nqn='nqn.2014-08.com.example:a;b$c' "), "{command}");
    assert!(
        command.contains(r"--hostnqn='nqn.2014-08.com.example:it'\''s' "),
        "{command}"
    );
}

#[test]
fn a_single_path_and_a_dead_gateway_are_said() {
    let mut one = gateways();
    one.truncate(1);
    one[0].alive = false;
    let text = Guide::new(SUBSYSTEM, HOST, &one, Proofs::default()).text("x");
    assert!(
        text.contains("Node n2 is not alive now") && text.contains("one path"),
        "{text}"
    );
}
