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
    assert!(guide.prepare[3].starts_with("nvme check-tls-key --insert"), "{guide:?}");
    let command = &guide.connect[0];
    assert!(!command.contains("secret") && !command.contains("$("), "{command}");
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

/// A name that reads as another one in a list is seen in a command, and is that name all the same.
#[test]
fn what_nobody_sees_in_a_name_is_written_out() {
    let name = "nqn.2014-08.com.example:a\u{202e}'\\\u{e0041}b";
    let proofs = Proofs {
        dhchap: true,
        ..Proofs::default()
    };
    let guide = Guide::new(name, HOST, &gateways(), proofs);
    let command = &guide.connect[0];
    assert!(
        command.contains(r"--nqn=$'nqn.2014-08.com.example:a\U0000202e\U00000027\\\U000e0041b' "),
        "{command}"
    );
    let lines = guide.permanent.join("\n");
    assert!(lines.contains(r"a\u202e'\\\udb40\udc41b"), "{lines}");
    let text = guide.text("x");
    assert!(!text.contains(|c| c != '\n' && amita_audit::is_obeyed(c)), "{text}");
    let file: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(file[0]["subsystems"][0]["nqn"], name);
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

/// What the shell writes is the file that `nvme` reads, with the keys from the host's own files, for root alone; and no process has a
/// key among its arguments.
#[test]
fn the_shell_writes_the_keys_into_the_file() {
    let proofs = Proofs {
        dhchap: true,
        dhchap_controller: true,
        tls: false,
    };
    let name = "nqn.2014-08.com.example:a`id`$HOME\\$(id)'b";
    let guide = Guide::new(name, HOST, &gateways(), proofs);
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| text.replace("/etc/nvme", folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("dhchap.key"), "DHHC-1:00:one:\n").unwrap();
    std::fs::write(folder.path().join("dhchap-ctrl.key"), "DHHC-1:00:two:\n").unwrap();
    let script = at(&guide.prepare[1]);
    let file = folder.path().join("config.json");
    // What is there stays, beside it, and its loose rights do not count for the new one.
    for old in ["first", "second"] {
        std::fs::write(&file, old).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let status = std::process::Command::new("sh")
            .arg("-c")
            .arg(&script)
            .status()
            .unwrap();
        assert!(status.success());
    }
    let kept = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        (kept("config.json.old.~1~").as_str(), kept("config.json.old").as_str()),
        ("first", "second")
    );
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let subsystem = &written[0]["subsystems"][0];
    assert_eq!(subsystem["nqn"], name);
    for port in subsystem["ports"].as_array().unwrap() {
        assert_eq!(port["dhchap_key"], "DHHC-1:00:one:");
        assert_eq!(port["dhchap_ctrl_key"], "DHHC-1:00:two:");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let text = guide.text("x");
    assert!(
        text.contains("nvmf-autoconnect") && text.matches("dhchap.key").count() == 2,
        "{text}"
    );
}
