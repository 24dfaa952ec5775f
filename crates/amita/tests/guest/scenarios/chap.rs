//! Who may log in by iSCSI: initiators that are not allowed, CHAP one way and both.

use crate::host::{Host, initiator};
use crate::target::Target;
use amita_terminal::error::{Failure, Result};

/// What an initiator has to prove, and what targets prove to it.
#[derive(Default)]
pub struct Secrets<'a> {
    pub initiator: Option<&'a str>,
    pub target: Option<&'a str>,
}

/// A target that lets in whom it was told to, and nobody else.
pub trait Proving: Target {
    /// Lets an initiator in that has these secrets.
    fn allow(&mut self, initiator: &str, secrets: &Secrets<'_>) -> Result<()>;

    /// Lets it in no more.
    fn deny(&mut self, initiator: &str) -> Result<()>;
}

const OWN: &str = "amita-own-secret-1";
const THEIRS: &str = "amita-their-secret-2";
const WRONG: &str = "amita-wrong-secret-3";

/// Settings of a record for CHAP.
fn options(algorithm: &str, name: &str, secret: &str) -> String {
    format!(
        "node.session.auth.authmethod=CHAP node.session.auth.chap_algs={algorithm} node.session.auth.username={name} \
         node.session.auth.password={secret}"
    )
}

fn refused(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    let portal = target.portals()[0];
    let (address, port, nqn) = (portal.ip(), portal.port(), target.nqn());
    let said = host.must_fail(&format!("connect {address} {port} {nqn} {options} 2>&1"))?;
    host.sh(&format!(
        "[ -z \"$(sessions {nqn})\" ] || fail 'a session is left'; iscsiadm -m node -T {nqn} -o delete"
    ))?;
    let words = said.lines().find(|line| line.contains("iscsiadm: "));
    Ok(format!("{}\n", words.unwrap_or("(without a word)")))
}

/// Logs in, writes and reads back a little, logs out. What was just allowed reaches gateways in a moment.
fn accepted(host: &Host, target: &dyn Target, options: &str) -> Result<String> {
    let portal = target.portals()[0];
    let (address, port, nqn) = (portal.ip(), portal.port(), target.nqn());
    let seen = host.sh(&format!(
        "let_in() {{ connect {address} {port} {nqn} {options}; }}; await 60 'it is let in' let_in
         device=$(device {nqn}); head -c 256k /dev/urandom >/tmp/data
         dd if=/tmp/data of=$device bs=64k oflag=direct status=none && dd if=$device bs=64k count=4 iflag=direct status=none |
             cmp - /tmp/data || fail 'what was written is not there'
         echo \"$(paths {nqn} | grep -c live) path, 256 KiB written and read\""
    ))?;
    host.disconnect(target)?;
    Ok(seen)
}

/// An initiator that is not listed does not get in, and sees nothing of the target; one that is, does; and when it is allowed no more
/// while it is logged in, it is cut off.
pub fn not_allowed(host: &Host, target: &mut dyn Proving) -> Result<String> {
    let name = initiator(host.guest.name());
    let nqn = target.nqn().to_owned();
    let portal = target.portals()[0];
    let found = host.sh(&format!(
        "iscsiadm -m discovery -t sendtargets -p {portal} 2>/dev/null; iscsiadm -m discoverydb -o delete >/dev/null 2>&1; true"
    ))?;
    if found.contains(&nqn) {
        return Err(Failure::new(format!("discovery shows what it must not: {found}")));
    }
    let mut seen = format!("not listed: {}", refused(host, target, "")?);
    target.allow(&name, &Secrets::default())?;
    seen += &format!("listed: {}", accepted(host, target, "")?);
    host.connect(target, 0, "")?;
    host.sh(&format!("await_paths {nqn} 1"))?;
    target.deny(&name)?;
    host.sh(&format!(
        "cut_off() {{ ! paths {nqn} | grep -q ' live '; }}; await 90 'it is cut off' cut_off"
    ))?;
    host.disconnect(target)?;
    seen += &format!("no more: cut off, and {}", refused(host, target, "")?);
    Ok(seen)
}

/// CHAP one way and both, with each hash that Linux has; wrong secrets, none, a wrong secret of the target.
pub fn chap(host: &Host, target: &mut dyn Proving) -> Result<String> {
    let name = initiator(host.guest.name());
    let nqn = target.nqn().to_owned();
    let one_way = Secrets {
        initiator: Some(OWN),
        target: None,
    };
    target.allow(&name, &one_way)?;
    let mut seen = String::new();
    for algorithm in ["SHA3-256", "SHA256", "SHA1", "MD5", "SHA3-256,SHA256,SHA1,MD5"] {
        let by = options(algorithm, &name, OWN);
        seen += &format!("{algorithm}: {}", accepted(host, target, &by)?);
    }
    let wrong = options("SHA256", &name, WRONG);
    seen += &format!("a wrong secret: {}", refused(host, target, &wrong)?);
    let another = options("SHA256", "somebody-else", OWN);
    seen += &format!("another's name: {}", refused(host, target, &another)?);
    seen += &format!("no secret: {}", refused(host, target, "")?);

    let both_ways = Secrets {
        initiator: Some(OWN),
        target: Some(THEIRS),
    };
    target.allow(&name, &both_ways)?;
    let both = |secret: &str| {
        let one_way = options("SHA3-256,SHA256", &name, OWN);
        format!("{one_way} node.session.auth.username_in={nqn} node.session.auth.password_in={secret}")
    };
    seen += &format!("both ways: {}", accepted(host, target, &both(THEIRS))?);
    seen += &format!(
        "a wrong secret of the target's: {}",
        refused(host, target, &both(WRONG))?
    );
    Ok(seen)
}
