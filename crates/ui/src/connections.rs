//! The connections of clients: accepted while there is room, limited in time, and ended in order.
//!
//! # Scope and limits
//! At most [`CONNECTIONS_MAX`] clients are connected, the others wait in the kernel. A client has [`HEAD_TIME`] for the head
//! of a request, [`REQUEST_TIME`] for the rest of it, and is cut off when it has not read anything for [`STALL_TIME`].

use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Sleep, sleep};

use crate::routes::App;

/// Clients that are connected at a time.
pub const CONNECTIONS_MAX: usize = 64;
/// Bytes of the body of a request.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// Time for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time for the body of a request and for the head of the answer.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Time in which a client must read something that is sent to it.
const STALL_TIME: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Time that clients get when the server ends.
const GOODBYE_TIME: Duration = Duration::from_secs(2);

/// Serves until the session is stopped, ends the run, and lets the clients go.
pub(crate) fn serve(
    session: &Session,
    listener: TcpListener,
    router: Router,
    app: &Arc<App>,
) -> Result<(), Failure> {
    let refused = |error| Failure::from(error).context("the server cannot be started");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let (stop, stopped) = watch::channel(false);
    session.stop().on_stop(move || {
        stop.send_replace(true);
    });
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
        let (end, ended) = watch::channel(false);
        accept(&listener, &router, stopped, &ended).await;
        drop(listener);
        // The run ends in order and is saved. Clients hear of its end.
        let runner = Arc::clone(&app.runner);
        let _ = tokio::task::spawn_blocking(move || runner.end()).await;
        app.history.close();
        end.send_replace(true);
        drop(ended);
        let _ = tokio::time::timeout(GOODBYE_TIME, end.closed()).await;
        Ok(())
    })
}

/// Accepts clients until the server is stopped.
async fn accept(
    listener: &tokio::net::TcpListener,
    router: &Router,
    mut stopped: watch::Receiver<bool>,
    ended: &watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = async {
            let permit = Arc::clone(&room).acquire_owned().await.expect("the room is never closed");
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, ended) = (router.clone(), ended.clone());
                tokio::spawn(async move {
                    connection(stream, router, ended).await;
                    drop(permit);
                });
            }
            // A client that has gone again, or a process without descriptors: others may have more luck.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Serves one client.
async fn connection(stream: TcpStream, router: Router, mut ended: watch::Receiver<bool>) {
    // Events are small and should not wait for more.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(Unstalled::new(stream)), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    tokio::select! {
        // Clients come and go, and no failure of one is of interest.
        _ = connection.as_mut() => return,
        _ = ended.wait_for(|is_ended| *is_ended) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A stream that fails when its reader has not read anything for [`STALL_TIME`] although something is to be sent.
struct Unstalled {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Unstalled {
    fn new(stream: TcpStream) -> Self {
        Self { stream, stalled: None }
    }

    /// Passes on the result of an attempt to write, and watches the time while there is none.
    fn watched<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_TIME)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Unstalled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Unstalled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
