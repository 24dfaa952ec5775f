//! gRPC on a Unix socket, and which method does what.

use crate::controller::Controller;
use crate::grpc::unary;
use crate::identity::Identity;
use crate::node::Node;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::fs;
use std::future::ready;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tonic::Status;
use tonic::body::Body;

/// Connections that wait no longer when accepting fails: there are no descriptors left, say.
const PAUSE: Duration = Duration::from_millis(100);
/// Calls of one connection at a time.
const MAX_STREAMS: u32 = 256;

/// What a socket answers.
#[derive(Clone)]
pub struct Services {
    /// Who the driver is.
    pub identity: Identity,
    /// Volumes, snapshots and who has them.
    pub controller: Option<Controller>,
    /// Disks and mounts of this machine.
    pub node: Option<Node>,
}

/// Where sidecars reach the driver: the path of `unix:///PATH`, `unix:PATH` or `/PATH`.
///
/// # Errors
/// In words: it is none of them.
pub fn socket_path(endpoint: &str) -> Result<PathBuf, String> {
    let path = endpoint
        .strip_prefix("unix://")
        .or_else(|| endpoint.strip_prefix("unix:"))
        .unwrap_or(endpoint);
    match path.starts_with('/') {
        true => Ok(PathBuf::from(path)),
        false => Err(format!("{endpoint:?} is no socket; write unix:///PATH")),
    }
}

/// Takes a socket. One that is there is of a driver that has ended: Kubernetes starts no second one beside it.
///
/// # Errors
/// It cannot be made, or something else has its name.
pub fn bind(path: &Path) -> io::Result<Bound> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file of this name, and no socket",
            ));
        }
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => return Err(why),
    }
    let listener = UnixListener::bind(path)?;
    // Whoever may connect may do what the driver may: the sidecars of its own pod.
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    let file = Socket {
        path: path.to_owned(),
        number: number(path)?,
    };
    Ok(Bound { listener, _file: file })
}

/// A socket that is served.
#[derive(Debug)]
pub struct Bound {
    listener: UnixListener,
    _file: Socket,
}

/// The file of a socket; removed when it is dropped, if it is there still, and not the one of whoever came next.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    number: (u64, u64),
}

/// Which file it is, whatever it is called.
fn number(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Drop for Socket {
    fn drop(&mut self) {
        if number(&self.path).is_ok_and(|now| now == self.number) {
            // Whoever comes next takes one that is left.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Serves, for as long as it is polled.
pub async fn serve(bound: &Bound, services: Services) -> Infallible {
    let services = Arc::new(services);
    loop {
        match bound.listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&services)));
            }
            Err(why) => {
                log::warn!("a connection cannot be taken: {why}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: UnixStream, services: Arc<Services>) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let services = Arc::clone(&services);
        async move { Ok::<_, Infallible>(services.route(request).await) }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS);
    if let Err(why) = builder.serve_connection(TokioIo::new(stream), service).await {
        log::debug!("a connection has ended: {why}");
    }
}

impl Services {
    async fn route(&self, request: Request<Incoming>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return unknown(&path);
        };
        let answer = match service {
            "csi.v1.Identity" => self.identity(method, request).await,
            "identity.Identity" => self.addons_identity(method, request).await,
            "csi.v1.Node" | "reclaimspace.ReclaimSpaceNode" => self.of_node(service, method, request).await,
            _ => self.of_controller(service, method, request).await,
        };
        answer.unwrap_or_else(|| unknown(&path))
    }

    async fn of_controller(&self, service: &str, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        let controller = self.controller.clone()?;
        match service {
            "csi.v1.Controller" => controller.route(method, request).await,
            "csi.v1.GroupController" => controller.route_group(method, request).await,
            "csi.v1.SnapshotMetadata" => controller.route_changes(method, request).await,
            "fence.FenceController" => controller.route_fence(method, request).await,
            _ => None,
        }
    }

    async fn of_node(&self, service: &str, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        let node = self.node.clone()?;
        match (service, method) {
            ("csi.v1.Node", _) => node.route(method, request).await,
            (_, "NodeReclaimSpace") => Some(node.reclaim(request).await),
            _ => None,
        }
    }

    async fn identity(&self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        use crate::wire::identity as wire;
        let identity = self.identity.clone();
        Some(match method {
            "GetPluginInfo" => unary(request, |_: wire::GetPluginInfoRequest| ready(Ok(identity.info()))).await,
            "GetPluginCapabilities" => {
                let say = |_: wire::GetPluginCapabilitiesRequest| ready(Ok(identity.capabilities()));
                unary(request, say).await
            }
            "Probe" => unary(request, |_: wire::ProbeRequest| ready(Ok(Identity::probe()))).await,
            _ => return None,
        })
    }

    async fn addons_identity(&self, method: &str, request: Request<Incoming>) -> Option<Response<Body>> {
        use crate::wire::{addons as wire, identity};
        let own = self.identity.clone();
        Some(match method {
            "GetIdentity" => unary(request, |_: wire::GetIdentityRequest| ready(Ok(own.addons_info()))).await,
            "GetCapabilities" => {
                let say = |_: wire::GetCapabilitiesRequest| ready(Ok(own.addons_capabilities()));
                unary(request, say).await
            }
            "Probe" => unary(request, |_: identity::ProbeRequest| ready(Ok(Identity::probe()))).await,
            _ => return None,
        })
    }
}

fn unknown(path: &str) -> Response<Body> {
    Status::unimplemented(format!("{path} is no method of this part of the driver")).into_http()
}

#[cfg(test)]
mod tests;
