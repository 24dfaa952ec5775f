use super::*;
use crate::identity::Part;
use crate::wire::identity::{GetPluginInfoRequest, GetPluginInfoResponse};
use crate::{Driver, USUAL_NAME};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use prost::Message as _;

/// What comes of a method: the status of gRPC, and the message.
pub(crate) async fn call(path: &Path, method: &str, message: Vec<u8>) -> (String, Vec<u8>) {
    let stream = UnixStream::connect(path).await.expect("a connection");
    let made = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = made.expect("HTTP/2");
    tokio::spawn(connection);
    let mut framed = vec![0];
    framed.extend((message.len() as u32).to_be_bytes());
    framed.extend(message);
    let request = Request::post(format!("http://csi/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(Bytes::from(framed)));
    let response = sender
        .send_request(request.expect("a request"))
        .await
        .expect("an answer");
    let header = response.headers().get("grpc-status").cloned();
    let collected = response.into_body().collect().await.expect("a body");
    let status = header.or_else(|| {
        collected
            .trailers()
            .and_then(|trailers| trailers.get("grpc-status").cloned())
    });
    let status = status.expect("a status").to_str().expect("text").to_owned();
    let bytes = collected.to_bytes();
    (status, bytes.get(5..).unwrap_or_default().to_vec())
}

#[tokio::test]
async fn a_socket_says_who_the_driver_is_and_what_it_does_not_know() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("csi.sock");
    // One that a driver has left is taken.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let listener = bind(&path).expect("the socket");
    assert_eq!(fs::metadata(&path).expect("it").permissions().mode() & 0o777, 0o660);
    let services = Services {
        identity: Identity::new(Driver::new(USUAL_NAME).expect("a name"), Part::Node),
        controller: None,
        node: None,
    };
    let serving = tokio::spawn(async move { serve(&listener, services).await });
    let (status, answer) = call(
        &path,
        "csi.v1.Identity/GetPluginInfo",
        GetPluginInfoRequest {}.encode_to_vec(),
    )
    .await;
    assert_eq!(status, "0");
    let info = GetPluginInfoResponse::decode(answer.as_slice()).expect("a message");
    assert_eq!(info.name, USUAL_NAME);
    for unknown in ["csi.v1.Controller/CreateVolume", "csi.v1.Identity/Guess", "x"] {
        assert_eq!(call(&path, unknown, Vec::new()).await.0, "12", "{unknown}");
    }
    assert_eq!(call(&path, "csi.v1.Identity/GetPluginInfo", vec![0xff]).await.0, "13");
    serving.abort();
}

/// One process may end behind the beginning of the next.
#[tokio::test]
async fn who_ends_late_leaves_the_socket_of_who_came_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("csi.sock");
    let first = bind(&path).expect("the socket");
    let second = bind(&path).expect("the socket, after it");
    drop(first);
    UnixStream::connect(&path).await.expect("the second one's");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("csi.sock");
    fs::write(&path, "precious").expect("a file");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let bound = runtime.block_on(async { bind(&path) });
    assert_eq!(bound.expect_err("a file").kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).expect("it"), "precious");
}

#[test]
fn sockets_are_named_as_kubernetes_does() {
    for text in ["unix:///csi/csi.sock", "unix:/csi/csi.sock", "/csi/csi.sock"] {
        assert_eq!(socket_path(text), Ok(PathBuf::from("/csi/csi.sock")), "{text}");
    }
    for text in ["", "tcp://0.0.0.0:1", "unix://csi.sock", "csi.sock"] {
        assert!(socket_path(text).is_err(), "{text}");
    }
}

/// Who reaches no node of the cluster is not to be ended for it.
#[tokio::test]
async fn a_controller_is_ready_also_while_the_cluster_is_away() {
    use crate::api::{Answer, Api, Ask, Boxed, Way};
    use crate::wire::controller::{CreateVolumeRequest, ListVolumesRequest};
    use crate::wire::identity::{ProbeRequest, ProbeResponse};
    struct Away;
    impl Way for Away {
        fn ask(&self, _: Ask) -> Boxed<'_, Result<Answer, String>> {
            Box::pin(std::future::ready(Err("nobody answers".to_owned())))
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("csi.sock");
    let driver = Driver::new(USUAL_NAME).expect("a name");
    let services = Services {
        identity: Identity::new(driver.clone(), Part::Controller),
        controller: Some(Controller::new(driver, Api::new(Arc::new(Away)))),
        node: None,
    };
    let bound = bind(&path).expect("the socket");
    let serving = tokio::spawn(async move { serve(&bound, services).await });
    let (status, answer) = call(&path, "csi.v1.Identity/Probe", ProbeRequest {}.encode_to_vec()).await;
    assert_eq!(status, "0");
    assert_eq!(
        ProbeResponse::decode(answer.as_slice()).expect("a message").ready,
        Some(true)
    );
    // UNAVAILABLE, and INVALID_ARGUMENT where nobody has to be asked.
    let list = ListVolumesRequest::default().encode_to_vec();
    assert_eq!(call(&path, "csi.v1.Controller/ListVolumes", list).await.0, "14");
    let none = CreateVolumeRequest::default().encode_to_vec();
    assert_eq!(call(&path, "csi.v1.Controller/CreateVolume", none).await.0, "3");
    serving.abort();
}
