//! Subsystems and hosts.

use super::{Cluster, Parts, Said, Subsystem, is, list, no_such, refuse, text};
use crate::controller::FENCED;
use http::Method;
use serde_json::{Value, json};

fn usual_nqn(name: &str) -> String {
    format!("nqn.2026-11.io.amita:01234567:{name}")
}

impl Cluster {
    fn subsystem(&self, name: &str) -> Result<Value, (u16, &'static str, String)> {
        let Some(found) = self.subsystems.get(name) else {
            return no_such(&format!("subsystem {name}"));
        };
        Ok(
            json!({"name": name, "nqn": self.nqns.get(name).cloned().unwrap_or_else(|| usual_nqn(name)), "hosts": found.hosts,
            "serial": format!("01234567{:08X}", self.numbers.get(name).copied().unwrap_or_default()),
            "namespaces": found.namespaces.len(), "gateways": found.gateways, "tls_required": found.tls_required}),
        )
    }

    pub(super) fn attachment(&self, of: &str) -> Said {
        let used = self
            .subsystems
            .iter()
            .find(|(_, found)| found.namespaces.iter().any(|it| it == of));
        let Some((name, _)) = used else {
            return no_such(&format!("subsystem with {of}"));
        };
        let gateway = |node: u8| json!({"node": format!("n{node}"), "traddr": format!("192.0.2.{node}"), "trsvcid": 4420, "owner": node == 1, "alive": true});
        Ok((
            200,
            json!({"subsystem": name, "nqn": self.subsystem(name)?["nqn"], "nsid": 1, "uuid": self.uuid.clone().unwrap_or_else(|| crate::id::sum(of, 16)),
            "gateways": [gateway(1), gateway(2)]}),
        ))
    }

    pub(super) fn of_hosts(&mut self, segments: &[&str], parts: &Parts<'_>) -> Said {
        let body = parts.body();
        match segments {
            ["hosts"] if is(parts, &Method::POST) => {
                let nqn = text(&body, "nqn");
                if self.hosts.contains(&nqn) {
                    return refuse(409, "exists", "it is known");
                }
                self.hosts.push(nqn.clone());
                Ok((201, json!({"nqn": nqn})))
            }
            ["subsystems"] if is(parts, &Method::GET) => list(
                self.subsystems
                    .keys()
                    .map(|name| self.subsystem(name).expect("it"))
                    .collect(),
            ),
            ["subsystems"] if is(parts, &Method::POST) => {
                let name = text(&body, "name");
                if self.subsystems.contains_key(&name) {
                    return refuse(409, "exists", "the name is taken");
                }
                let made = Subsystem {
                    gateways: serde_json::from_value(body["gateways"].clone()).expect("names"),
                    tls_required: body["tls_required"] == json!(true),
                    ..Subsystem::default()
                };
                let nqn = body["nqn"].as_str().map_or_else(|| usual_nqn(&name), str::to_owned);
                if self
                    .nqns
                    .iter()
                    .any(|(other, there)| *there == nqn && self.subsystems.contains_key(other))
                {
                    return refuse(422, "bad-setting", "the qualified name is another's");
                }
                self.last_number += 1;
                self.made.insert((nqn.clone(), self.last_number));
                self.nqns.insert(name.clone(), nqn);
                self.numbers.insert(name.clone(), self.last_number);
                self.subsystems.insert(name.clone(), made);
                Ok((201, self.subsystem(&name)?))
            }
            ["subsystems", name] if is(parts, &Method::GET) => Ok((200, self.subsystem(name)?)),
            ["subsystems", name] if is(parts, &Method::DELETE) => {
                parts.matches(&self.subsystem(name)?, false)?;
                assert_eq!(parts.parameter("force"), "true");
                self.subsystems.remove(*name);
                Ok((204, Value::Null))
            }
            ["subsystems", name, "namespaces"] if is(parts, &Method::POST) => self.add_namespace(name, &body),
            ["subsystems", name, "hosts", nqn] => self.change_hosts(name, nqn, is(parts, &Method::PUT)),
            other => panic!("nobody is asked for {other:?}"),
        }
    }

    fn add_namespace(&mut self, name: &str, body: &Value) -> Said {
        let of = text(body, "volume");
        self.subsystem(name)?;
        let volume = of.split('@').next().unwrap_or_default();
        if !self.volumes.contains_key(volume) {
            return no_such(&format!("volume {of}"));
        }
        if self.is_served(&of) {
            return refuse(409, "in-use", "it is a namespace already");
        }
        self.subsystems.get_mut(name).expect("it").namespaces.push(of.clone());
        Ok((201, json!({"subsystem": name, "nsid": 1, "volume": of})))
    }

    fn change_hosts(&mut self, name: &str, nqn: &str, is_let_in: bool) -> Said {
        self.subsystem(name)?;
        let is_known = self.hosts.iter().any(|known| known == nqn);
        let found = self.subsystems.get_mut(name).expect("it");
        let others_go = is_let_in && std::mem::take(&mut self.others_go);
        let at = found.hosts.iter().position(|known| known == nqn);
        // What a host had queued while it was let in by this name would be sent when it is let in again.
        if is_let_in && is_known && found.hosts.is_empty() && name != FENCED && !found.tls_required {
            let own = self.nqns.get(name).cloned().unwrap_or_default();
            assert!(self.used_nqns.insert(own), "the name of {name} was used before");
        }
        if others_go {
            found.hosts.clear();
        }
        match (is_let_in, at) {
            (true, _) if !is_known => return no_such("host"),
            (true, None) => found.hosts.push(nqn.to_owned()),
            (true, Some(_)) => {}
            (false, Some(at)) => drop(found.hosts.remove(at)),
            (false, None) => return no_such("host there"),
        }
        Ok((200, self.subsystem(name)?))
    }
}
