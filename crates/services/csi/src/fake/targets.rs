//! Targets and initiators.

use super::{Cluster, Parts, Said, is, list, no_such, refuse, text};
use http::Method;
use serde_json::{Value, json};

/// A target.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub iqn: String,
    pub gateways: Vec<String>,
    pub initiators: Vec<String>,
    pub luns: Vec<String>,
}

impl Cluster {
    fn target(&self, name: &str) -> Result<Value, (u16, &'static str, String)> {
        let Some(found) = self.targets.get(name) else {
            return no_such(&format!("target {name}"));
        };
        let initiators: Vec<Value> = found
            .initiators
            .iter()
            .map(|name| json!({"initiator": name, "luns": null}))
            .collect();
        Ok(
            json!({"name": name, "iqn": found.iqn, "gateways": found.gateways, "initiators": initiators, "luns": found.luns.len()}),
        )
    }

    pub(super) fn iscsi_attachment(&self, of: &str) -> Said {
        let used = self
            .targets
            .iter()
            .find(|(_, found)| found.luns.iter().any(|it| it == of));
        let Some((name, found)) = used else {
            return no_such(&format!("target with {of}"));
        };
        let portal = |node: u8| json!({"node": format!("n{node}"), "address": format!("192.0.2.{node}"), "port": 3260, "tag": node, "owner": node == 1, "alive": true});
        let naa = self.naa.clone().unwrap_or_else(|| crate::id::sum(of, 16));
        Ok((
            200,
            json!({"target": name, "iqn": found.iqn, "lun": 0, "naa": naa, "portals": [portal(1), portal(2)]}),
        ))
    }

    pub(super) fn of_targets(&mut self, segments: &[&str], parts: &Parts<'_>) -> Said {
        let body = parts.body();
        match segments {
            ["targets"] if is(parts, &Method::GET) => {
                list(self.targets.keys().map(|name| self.target(name).expect("it")).collect())
            }
            ["targets"] if is(parts, &Method::POST) => {
                let (name, iqn) = (text(&body, "name"), text(&body, "iqn"));
                if self.targets.contains_key(&name) {
                    return refuse(409, "exists", "the name is taken");
                }
                let made = Target {
                    iqn,
                    gateways: serde_json::from_value(body["gateways"].clone()).expect("names"),
                    ..Target::default()
                };
                self.targets.insert(name.clone(), made);
                Ok((201, self.target(&name)?))
            }
            ["targets", name] if is(parts, &Method::GET) => Ok((200, self.target(name)?)),
            ["targets", name] if is(parts, &Method::DELETE) => {
                parts.matches(&self.target(name)?, false)?;
                assert_eq!(parts.parameter("force"), "true");
                self.targets.remove(*name);
                Ok((204, Value::Null))
            }
            ["targets", name, "luns"] if is(parts, &Method::POST) => {
                let of = text(&body, "volume");
                self.target(name)?;
                if !self.volumes.contains_key(of.split('@').next().unwrap_or_default()) {
                    return no_such(&format!("volume {of}"));
                }
                if self.is_served(&of) {
                    return refuse(409, "in-use", "it is served already");
                }
                self.targets.get_mut(*name).expect("it").luns.push(of.clone());
                Ok((201, json!({"target": name, "lun": 0, "volume": of})))
            }
            ["targets", name, "initiators", initiator] => {
                self.change_initiators(name, initiator, is(parts, &Method::PUT))
            }
            other => panic!("nobody is asked for {other:?}"),
        }
    }

    /// Is a volume a namespace, or a LUN?
    pub(super) fn is_served(&self, of: &str) -> bool {
        let is_it = |it: &String| it == of;
        self.subsystems.values().any(|found| found.namespaces.iter().any(is_it))
            || self.targets.values().any(|found| found.luns.iter().any(is_it))
    }

    fn change_initiators(&mut self, name: &str, initiator: &str, is_let_in: bool) -> Said {
        self.target(name)?;
        let others_go = is_let_in && std::mem::take(&mut self.others_go);
        let found = self.targets.get_mut(name).expect("it");
        let at = found.initiators.iter().position(|known| known == initiator);
        if is_let_in && found.initiators.is_empty() {
            assert!(
                self.used_nqns.insert(found.iqn.clone()),
                "the name of {name} was used before"
            );
        }
        if others_go {
            found.initiators.clear();
        }
        match (is_let_in, at) {
            (true, None) => found.initiators.push(initiator.to_owned()),
            (true, Some(_)) => {}
            (false, Some(at)) => drop(found.initiators.remove(at)),
            (false, None) => return no_such("initiator there"),
        }
        Ok((200, self.target(name)?))
    }
}
