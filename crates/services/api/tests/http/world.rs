//! A cluster in the metadata's model, and who asks.

use amita_api::session::Asker;
use amita_api::{Api, router};
use amita_audit::Whence;
use amita_control::access::Caller;
use amita_control::admin::{self, DEFAULT_CHUNK_BYTES, PoolSpec};
use amita_identity::{Name, OperatorRole};
use amita_metadata::model::State;
use amita_metadata::{Call, Transact};
use amita_types::map::{self, Live};
use amita_types::placement::Level;
use amita_types::{ClusterId, StoreId};
use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, Response, StatusCode, header};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tower::ServiceExt as _;

pub const CLUSTER: ClusterId = ClusterId(9);

pub struct World {
    pub meta: Arc<Mutex<State>>,
    router: Router,
}

/// An answer.
#[derive(Debug)]
pub struct Said {
    pub status: StatusCode,
    pub tag: Option<String>,
    pub kind: String,
    pub body: Value,
}

impl Said {
    /// It is a problem of this code, in the form that the standard wants.
    pub fn is(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status.as_u16(), &self.body["code"]),
            (status, &code.into()),
            "{self:?}"
        );
        assert_eq!(self.kind, "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], status, "{self:?}");
        assert!(
            self.body["detail"].as_str().is_some_and(|text| text.len() > 10),
            "{self:?}"
        );
        assert!(
            self.body["type"].as_str().is_some_and(|text| text.ends_with(code)),
            "{self:?}"
        );
    }

    pub fn done(self, status: u16) -> Said {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }
}

impl World {
    /// Three nodes with a store each, and a pool.
    pub fn new() -> World {
        World::of(CLUSTER)
    }

    /// The same of another cluster.
    pub fn of(cluster: ClusterId) -> World {
        let meta = Arc::new(Mutex::new(State::new()));
        admin::init_cluster(&*meta, cluster).unwrap();
        for number in 1..=3 {
            let node = admin::register_node(&*meta, &format!("n{number}"), "127.0.0.1:1", None, 2).unwrap();
            let live = Live {
                stores: None,
                session: 1,
                pid: 1,
                version: map::METADATA_VERSION,
            };
            let live = serde_json::to_vec(&live).unwrap();
            meta.txn(&Call::put(map::live_key(node.id), live)).unwrap();
            let store = StoreId(u128::from(node.id.0) << 64 | 7);
            admin::register_store(&*meta, &admin::store_record(store, node.id, "/dev/x", 64 << 30)).unwrap();
        }
        let pool = PoolSpec {
            name: "main".to_owned(),
            copies: 3,
            min_copies: 2,
            groups: 64,
            chunk_bytes: DEFAULT_CHUNK_BYTES,
            level: Level::Node,
            class: None,
        };
        admin::create_pool(&*meta, &pool).unwrap();
        World::at(meta)
    }

    /// Another node of the cluster with this metadata.
    pub fn at(meta: Arc<Mutex<State>>) -> World {
        let router = router(Api::new(Arc::clone(&meta) as Arc<dyn Transact + Send + Sync>));
        World { meta, router }
    }

    /// The same, at a node that asks the metadata by this.
    pub fn through(self, meta: Arc<dyn Transact + Send + Sync>) -> World {
        World {
            router: router(Api::new(meta)),
            ..self
        }
    }

    /// The same, at a node that has the cluster's sealing key in that file.
    pub fn sealing(self, file: &std::path::Path) -> World {
        let api = Api::new(Arc::clone(&self.meta) as Arc<dyn Transact + Send + Sync>);
        World {
            router: router(api.with_seal_key(Some(file.to_owned()))),
            ..self
        }
    }

    /// The same, at a node that makes data keys by this.
    pub fn wrapping(self, keys: Arc<dyn admin::DataKeys + Send + Sync>) -> World {
        let api = Api::new(Arc::clone(&self.meta) as Arc<dyn Transact + Send + Sync>);
        World {
            router: router(api.with_data_keys(Some(keys))),
            ..self
        }
    }

    /// The same, at a node that carries commands out.
    pub fn commanding(self, commands: Arc<dyn amita_api::Commands>) -> World {
        let api = Api::new(Arc::clone(&self.meta) as Arc<dyn Transact + Send + Sync>);
        World {
            router: router(api.with_commands(commands)),
            ..self
        }
    }

    /// The same, at a node that answers by this.
    pub fn by(self, router: Router) -> World {
        World { router, ..self }
    }

    /// The head of an answer, whose body comes by and by.
    pub async fn begin(&self, role: OperatorRole, mut request: Request<Body>) -> Response<Body> {
        let host = http::HeaderValue::from_static("127.0.0.1:7000");
        request.headers_mut().entry(header::HOST).or_insert(host);
        let name = Name::operator(CLUSTER, role, "alice").unwrap();
        let asker = Asker(Caller::of(&name, Whence::default()));
        request.extensions_mut().insert(asker);
        self.router.clone().oneshot(request).await.unwrap()
    }

    pub async fn send(&self, who: Option<OperatorRole>, request: Request<Body>) -> Said {
        let mut request = request;
        let host = http::HeaderValue::from_static("127.0.0.1:7000");
        request.headers_mut().entry(header::HOST).or_insert(host);
        if let Some(role) = who {
            let name = Name::operator(CLUSTER, role, "alice").unwrap();
            let asker = Asker(Caller::of(&name, Whence::default()));
            request.extensions_mut().insert(asker);
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let text = |name| {
            response
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        let (status, tag, kind) = (response.status(), text(header::ETAG), text(header::CONTENT_TYPE));
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Said {
            status,
            tag,
            kind: kind.unwrap_or_default(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        }
    }

    pub async fn ask(&self, role: OperatorRole, method: &str, path: &str, body: Option<Value>) -> Said {
        self.ask_if(role, method, path, body, None).await
    }

    pub async fn ask_if(
        &self,
        role: OperatorRole,
        method: &str,
        path: &str,
        body: Option<Value>,
        tag: Option<&str>,
    ) -> Said {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(tag) = tag {
            request = request.header(header::IF_MATCH, tag);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.send(Some(role), request.body(body).unwrap()).await
    }
}

/// A volume that is to be made.
pub fn volume(name: &str) -> Value {
    json!({ "name": name, "pool": "main", "size_bytes": 1 << 30, "labels": { "team": "db" } })
}
