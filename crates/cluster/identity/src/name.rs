//! Names: `amita://CLUSTER/ROLE/NAME`, and for operators who are no admins `amita://CLUSTER/operator/NAME/ROLE`.

use amita_types::ClusterId;
use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "amita://";

/// What a holder of a certificate is in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A node, by the name that it serves under: its stores, its links to the others.
    Node,
    /// A gateway without stores of its own.
    Gateway,
    /// A program that uses volumes.
    Client,
    /// A person, or what acts for one.
    Operator,
    /// The server of the certificate authority, and nothing else: no server but the authority's shows it, and nobody lets
    /// it in as a client.
    Authority,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 5] = [Role::Node, Role::Gateway, Role::Client, Role::Operator, Role::Authority];

    /// As it stands in names.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Role::Node => "node",
            Role::Gateway => "gateway",
            Role::Client => "client",
            Role::Operator => "operator",
            Role::Authority => "authority",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A text that is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role: node, gateway, client, operator and authority are")]
pub struct BadRole(pub String);

impl FromStr for Role {
    type Err = BadRole;

    fn from_str(text: &str) -> Result<Role, BadRole> {
        let found = Role::ALL.into_iter().find(|role| role.text() == text);
        found.ok_or_else(|| BadRole(text.to_owned()))
    }
}

/// What an operator may do. `amita-control` has the table of who may what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperatorRole {
    /// Everything.
    Admin,
    /// The daily work: disks, pools, volumes, hosts.
    Operator,
    /// Their own objects, by the API; nothing else.
    Tenant,
    /// Look, and change nothing.
    Viewer,
    /// The same, and read the audit log.
    Auditor,
    /// The other end of a mirror, by a token of the API that is bound to it. There is no certificate of this role.
    Mirror,
}

impl OperatorRole {
    /// All of them.
    pub const ALL: [OperatorRole; 6] = [
        OperatorRole::Admin,
        OperatorRole::Operator,
        OperatorRole::Tenant,
        OperatorRole::Viewer,
        OperatorRole::Auditor,
        OperatorRole::Mirror,
    ];

    /// As it stands in names.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            OperatorRole::Admin => "admin",
            OperatorRole::Operator => "operator",
            OperatorRole::Tenant => "tenant",
            OperatorRole::Viewer => "viewer",
            OperatorRole::Auditor => "auditor",
            OperatorRole::Mirror => "mirror",
        }
    }
}

impl fmt::Display for OperatorRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A text that is no role of an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no role of an operator: admin, operator, tenant, viewer and auditor are")]
pub struct BadOperatorRole(pub String);

impl FromStr for OperatorRole {
    type Err = BadOperatorRole;

    fn from_str(text: &str) -> Result<OperatorRole, BadOperatorRole> {
        let found = OperatorRole::ALL.into_iter().find(|role| role.text() == text);
        found.ok_or_else(|| BadOperatorRole(text.to_owned()))
    }
}

/// Who somebody is: `amita://CLUSTER/ROLE/NAME`.
///
/// The role of an operator who is no admin stands behind the name, so that whoever does not know of such roles takes the
/// whole for no name, and lets nobody in by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    cluster: ClusterId,
    role: Role,
    name: String,
    /// Of an operator, and of nobody else.
    operator_role: Option<OperatorRole>,
}

/// Why a text is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is no name of the form amita://CLUSTER/ROLE/NAME: {why}")]
pub struct BadUri {
    /// The text, or the beginning of it.
    pub given: String,
    /// What is wrong.
    pub why: String,
}

impl BadUri {
    fn new(given: &str, why: impl Into<String>) -> BadUri {
        BadUri {
            given: given.chars().take(300).collect(),
            why: why.into(),
        }
    }
}

impl Name {
    /// A name; `name` is as a node's may be ([`amita_types::name`]). An operator by it is an admin.
    ///
    /// # Errors
    /// Says what is wrong with `name`.
    pub fn new(cluster: ClusterId, role: Role, name: impl Into<String>) -> Result<Name, BadUri> {
        let name = name.into();
        match amita_types::name::fault(&name) {
            None => Ok(Name {
                cluster,
                role,
                name,
                operator_role: (role == Role::Operator).then_some(OperatorRole::Admin),
            }),
            Some(why) => Err(BadUri::new(&name, why)),
        }
    }

    /// An operator of that role.
    ///
    /// # Errors
    /// As [`Name::new`]; the role is for no certificate.
    pub fn operator(cluster: ClusterId, role: OperatorRole, name: impl Into<String>) -> Result<Name, BadUri> {
        let name = Name::new(cluster, Role::Operator, name)?;
        if role == OperatorRole::Mirror {
            let why = "the role mirror is for tokens that `amita mirror add` and `amita mirror join` make, and for no certificate";
            return Err(BadUri::new(&name.name, why));
        }
        Ok(Name {
            operator_role: Some(role),
            ..name
        })
    }

    /// What an operator may; `None`: this is none.
    #[must_use]
    pub fn operator_role(&self) -> Option<OperatorRole> {
        self.operator_role
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The name in the role: a node's name, a client's.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}", self.cluster, self.role, self.name)?;
        match self.operator_role {
            None | Some(OperatorRole::Admin) => Ok(()),
            Some(role) => write!(f, "/{role}"),
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Name {
    type Err = BadUri;

    fn from_str(text: &str) -> Result<Name, BadUri> {
        let bad = |why: String| BadUri::new(text, why);
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad(format!("it does not begin with {SCHEME}")))?;
        let mut parts = rest.splitn(3, '/');
        let (Some(cluster), Some(role), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad("it has not three parts".to_owned()));
        };
        let id: ClusterId = cluster
            .parse()
            .map_err(|why: amita_types::id::BadUuid| bad(why.to_string()))?;
        // One name has one text: whoever compares texts is right as well.
        if id.to_string() != cluster {
            return Err(bad("the cluster's digits are not in lower case".to_owned()));
        }
        let role = role.parse().map_err(|why: BadRole| bad(why.to_string()))?;
        let named = match name.split_once('/').filter(|_| role == Role::Operator) {
            None => Name::new(id, role, name),
            Some((_, "admin")) => {
                return Err(bad(
                    "an admin's name ends with the name: no role stands behind it".to_owned()
                ));
            }
            Some((name, operator_role)) => {
                let operator_role = operator_role
                    .parse()
                    .map_err(|why: BadOperatorRole| bad(why.to_string()))?;
                Name::operator(id, operator_role, name)
            }
        };
        named.map_err(|why| bad(why.why))
    }
}
