//! The metadata: the client of the etcd v3 API and the embedded server.
