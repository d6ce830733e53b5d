//! A model server on loopback that answers from a script and refuses what providers refuse.
//!
//! Responsible for: four wire protocols over one neutral core, rules that take their answers only
//! from what a request contains, faults on request, and a judgement of every request. Must not:
//! listen beyond loopback, call a model, or know the agent.
//!
//! ```
//! use segno_testkit::scripted_model::ScriptedModel;
//! let server = ScriptedModel::start(
//!     r#"
//!     rule greet
//!       when user contains "hello"
//!       say "Hello. You said: {user}"
//!     "#,
//! )?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert!(server.violations().is_empty());
//! # Ok::<(), segno_testkit::scripted_model::StartError>(())
//! ```

pub mod demo;
mod judge;
mod picture;
mod prefix;
mod reply;
mod script;
mod seen;
mod server;
mod signature;
mod state;
mod stream;
mod wire;

pub use judge::RULES;
pub use prefix::Prefix;
pub use reply::{Answer, Fault, Numbers, Part, Reply, Stop};
pub use script::{Script, ScriptError};
pub use seen::{Piece, Said, Seen, SeenResult, SeenTool, Turn, Violation, Wire};
pub use server::Recorded;
pub use stream::Delivery;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use server::{Brain, Shared};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// The server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The script makes no sense.
    #[error("the script makes no sense: {0}")]
    Script(#[from] ScriptError),
    /// No port, or no thread.
    #[error("the scripted model cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// A running server, on a thread of its own; dropping it ends the server and every connection.
pub struct ScriptedModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedModel").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// Starts a server with a script on a free port.
    ///
    /// # Errors
    /// A script that makes no sense, or no port.
    pub fn start(script: &str) -> Result<Self, StartError> {
        Self::start_at(0, script)
    }

    /// Starts a server with a script on a given port of loopback.
    ///
    /// # Errors
    /// A script that makes no sense, or a port that is taken.
    pub fn start_at(port: u16, script: &str) -> Result<Self, StartError> {
        Self::run(port, Brain::Script(Script::parse(script)?))
    }

    /// Starts a server that lets code answer each good request.
    ///
    /// # Errors
    /// No port.
    pub fn reply_with<A: Into<Answer>>(
        answer: impl Fn(&Seen) -> A + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        Self::run(0, Brain::Code(Box::new(move |seen| answer(seen).into())))
    }

    fn run(port: u16, brain: Brain) -> Result<Self, StartError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listen = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(listen)?;
        let shared = Arc::new(Shared::new(brain));
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("scripted-model".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, served) => {}
                        _ = stopped => {}
                    }
                });
            })
            .map_err(listen)?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// The base URL, without a path: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in order of arrival (very old ones are forgotten when there are many).
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.records()
    }

    /// Everything that any request broke so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.requests().into_iter().flat_map(|request| request.violations).collect()
    }

    /// Waits until the requests so far are `enough`, e.g. until the last one hangs. False when the
    /// time is over before. Blocks the thread.
    pub fn wait_until(&self, timeout: Duration, enough: impl FnMut(&[Recorded]) -> bool) -> bool {
        self.shared.wait_until(timeout, enough)
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

/// Takes connections until the future is dropped. A connection that fails is its client's matter.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: let some connections end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(shared.serve(request).await) }
            });
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
