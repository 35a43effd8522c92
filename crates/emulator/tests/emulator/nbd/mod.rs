//! The NBD frontend from outside: against a client codec written apart from it, hostile bytes, and the
//! clients that people use.

mod builtin;
mod certificates;
mod client;
mod hostile;
mod jobs;
mod memory;
mod own_client;
mod protocol;
mod real_clients;
mod serving;
mod silent;
mod supervision;
mod tls;
mod tls_hostile;
mod tls_server;
