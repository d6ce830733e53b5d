//! The ticket service on its two transports.
//!
//! Responsible for: lines on standard streams, and one POST per message over HTTP, answered as a document
//! or as a stream of events in turn. Must not: know what a call does.

use super::{Reply, Tickets};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Serves standard input and output until the input ends.
pub fn serve_stdio(dir: &Path) {
    let tickets = Tickets::new(dir);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        match tickets.answer(&message) {
            Reply::Send(answer) => {
                let mut out = std::io::stdout().lock();
                let written = writeln!(out, "{answer}").and_then(|()| out.flush());
                if written.is_err() {
                    return;
                }
            }
            Reply::Nothing | Reply::Silence { ends: false } => {}
            Reply::Silence { ends: true } => return,
        }
    }
}

/// The service over HTTP on loopback, until the process ends.
#[derive(Debug)]
pub struct TicketServer {
    address: SocketAddr,
    /// Its state.
    pub tickets: Arc<Tickets>,
}

/// The session that it gives out.
const SESSION: &str = "mcp-session-id: s1\r\n";

impl TicketServer {
    /// Starts it with the state in a directory.
    ///
    /// # Panics
    /// When there is no port.
    #[must_use]
    pub fn start(dir: &Path) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let tickets = Arc::new(Tickets::new(dir));
        let served = Arc::clone(&tickets);
        let count = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tickets, count) = (Arc::clone(&served), Arc::clone(&count));
                std::thread::spawn(move || drop(serve(stream, &tickets, &count)));
            }
        });
        Self { address, tickets }
    }

    /// Its endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

fn serve(stream: TcpStream, tickets: &Tickets, count: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let Some((head, body)) = request(&mut reader)? else { return Ok(()) };
        let Ok(message) = serde_json::from_slice::<Value>(&body) else {
            return stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        };
        let initializes = message["method"] == "initialize";
        if !initializes && !head.contains(SESSION.trim_end()) {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        let session = if initializes { SESSION } else { "" };
        match tickets.answer(&message) {
            Reply::Send(answer) if count.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => {
                let body = answer.to_string();
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\n{session}content-type: application/json\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                )?;
            }
            Reply::Send(answer) => {
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\n{session}content-type: text/event-stream\r\n\
                     connection: close\r\n\r\nevent: message\ndata: {answer}\n\n"
                )?;
                return Ok(());
            }
            Reply::Nothing => {
                stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")?;
            }
            Reply::Silence { ends: true } => return Ok(()),
            // Until the other side hangs up.
            Reply::Silence { ends: false } => {
                let _ = stream.read(&mut [0]);
                return Ok(());
            }
        }
    }
}

/// A request's head, in small letters, and its body; none at the end of the connection.
fn request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line.to_ascii_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<u64>().ok()).unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(Some((head, body)))
}
