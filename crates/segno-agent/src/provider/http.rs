//! The network: the only place of the providers that talks to anybody.
//!
//! Responsible for: one HTTP client per provider, the key's header, and failures of the connection as
//! errors without a key or a query in them. Must not: know a wire's content; follow redirects (a key
//! would go along); try again.
//!
//! TLS is rustls with ring. Trusted roots are the system's (`SSL_CERT_FILE` is respected), read at
//! run time, so that a static build works wherever certificates are installed. Plain `http://`
//! servers need none, and a machine without certificates can use those.

use super::error::{broken, error, http_error, retry_after, web_page};
use super::keys::Secret;
use super::wire::HttpRequest;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, Url};
use segno_runtime::{ModelError, ModelErrorKind};
use std::error::Error as _;
use std::sync::Once;
use std::time::Duration;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(15);
/// How long a server may be silent, also between two pieces of a stream.
const SILENCE: Duration = Duration::from_secs(300);
/// The same for a server on this machine, which may read a long context on a slow processor.
const LOCAL_SILENCE: Duration = Duration::from_secs(3600);
/// More of an error's body is not read.
const ERROR_BYTES: usize = 64 * 1024;

/// A server and how to talk to it.
#[derive(Debug, Clone)]
pub(super) struct Server {
    client: Client,
    base: Url,
    auth: Option<(HeaderName, HeaderValue)>,
}

/// How a key is sent: the header and what stands before the key.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyHeader(pub(super) &'static str, pub(super) &'static str);

impl Server {
    /// Prepares a client; connects nowhere yet.
    pub(super) fn new(
        base_url: &str,
        header: KeyHeader,
        key: Option<&Secret>,
    ) -> Result<Self, ModelError> {
        let base = parse_base(base_url)?;
        let auth = key.map(|key| auth(header, key)).transpose()?;
        Ok(Self { client: client(&base, CONNECT)?, base, auth })
    }

    /// Whether the server runs on this machine.
    pub(super) fn is_local(&self) -> bool {
        is_loopback(&self.base)
    }

    /// Posts a request; the answer has begun and is a success.
    pub(super) async fn post(&self, request: &HttpRequest) -> Result<Response, ModelError> {
        let mut builder = self.client.post(join(&self.base, &request.path));
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        let builder = builder.header(CONTENT_TYPE, "application/json").body(request.body.clone());
        self.send(builder).await
    }

    /// Gets a document.
    pub(super) async fn get(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
        timeout: Duration,
    ) -> Result<String, ModelError> {
        let mut builder = self.client.get(join(&self.base, path)).timeout(timeout);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        let response = self.send(builder).await?;
        response.text().await.map_err(|e| broken(&cause(e)))
    }

    async fn send(&self, builder: RequestBuilder) -> Result<Response, ModelError> {
        let builder = match &self.auth {
            Some((name, value)) => builder.header(name, value),
            None => builder,
        };
        let mut response = builder.send().await.map_err(|e| self.unreachable(e))?;
        let status = response.status();
        if status.is_success() {
            return match is_of_type(&response, "text/html") {
                true => Err(web_page(status.as_u16())),
                false => Ok(response),
            };
        }
        let mut body = Vec::new();
        while body.len() < ERROR_BYTES {
            // The status says enough when the explanation breaks off.
            let Ok(Some(chunk)) = response.chunk().await else { break };
            body.extend_from_slice(&chunk);
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok();
        let body = String::from_utf8_lossy(&body);
        Err(http_error(status.as_u16(), &body, retry_after(header), header("location")))
    }

    fn unreachable(&self, failure: reqwest::Error) -> ModelError {
        let place = match (self.base.host_str(), self.base.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => self.base.to_string(),
        };
        let cause = cause(failure);
        if cause.contains("certificate") {
            let message = format!(
                "{place} is not trusted: {cause}; if it should be, install its root certificate or \
                 name a bundle in SSL_CERT_FILE"
            );
            return error(ModelErrorKind::Refused, message);
        }
        error(ModelErrorKind::Busy, format!("no answer from {place}: {cause}"))
    }
}

/// The next piece of a stream; none at its end.
pub(super) async fn next_chunk(response: &mut Response) -> Result<Option<Vec<u8>>, ModelError> {
    match response.chunk().await {
        Ok(chunk) => Ok(chunk.map(|bytes| bytes.to_vec())),
        Err(failure) => Err(broken(&cause(failure))),
    }
}

/// Whether an answer is one JSON document instead of a stream.
pub(super) fn is_document(response: &Response) -> bool {
    is_of_type(response, "application/json")
}

fn is_of_type(response: &Response, media_type: &str) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
    content_type.is_some_and(|t| t.trim_start().starts_with(media_type))
}

/// Whether something listens and answers with a list of models, quickly.
pub(super) fn probe(base_url: &str, limit: Duration) -> Result<Server, ModelError> {
    let base = parse_base(base_url)?;
    Ok(Server { client: client(&base, limit)?, base, auth: None })
}

fn parse_base(base_url: &str) -> Result<Url, ModelError> {
    let invalid = |why: &str| {
        error(ModelErrorKind::Refused, format!("the base URL {base_url:?} is not usable: {why}"))
    };
    let base = Url::parse(base_url).map_err(|e| invalid(&e.to_string()))?;
    match base.scheme() {
        "http" | "https" if base.has_host() => Ok(base),
        _ => Err(invalid("it must begin with http:// or https://")),
    }
}

/// The address of `path` below the base. The version that both carry (`/v1`) is not doubled.
fn join(base: &Url, path: &str) -> Url {
    let (path, query) = path.split_once('?').map_or((path, None), |(p, q)| (p, Some(q)));
    let root = base.path().trim_end_matches('/');
    let last = root.rsplit_once('/').map_or("", |(_, last)| last);
    let rest = match path.strip_prefix('/').and_then(|p| p.split_once('/')) {
        Some((version, _)) if !last.is_empty() && version == last => &path[version.len() + 1..],
        _ => path,
    };
    let mut url = base.clone();
    url.set_path(&format!("{root}{rest}"));
    url.set_query(query);
    url
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

pub(crate) fn client(base: &Url, connect: Duration) -> Result<Client, ModelError> {
    static RING: Once = Once::new();
    RING.call_once(|| {
        // An embedder that has chosen its own provider keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = Client::builder()
        .user_agent(concat!("segno/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(connect);
    if base.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    builder = if is_loopback(base) {
        builder.no_proxy().read_timeout(LOCAL_SILENCE)
    } else {
        builder.read_timeout(SILENCE)
    };
    builder.build().map_err(|e| {
        let why = cause(e);
        let message = format!(
            "no TLS connection can be made: {why}; install root certificates (ca-certificates) or \
             name a bundle in SSL_CERT_FILE"
        );
        error(ModelErrorKind::Refused, message)
    })
}

fn auth(header: KeyHeader, key: &Secret) -> Result<(HeaderName, HeaderValue), ModelError> {
    let KeyHeader(name, before) = header;
    let mut value = HeaderValue::from_str(&format!("{before}{}", key.expose())).map_err(|_| {
        error(ModelErrorKind::Key, "the API key holds characters that no key has".to_owned())
    })?;
    value.set_sensitive(true);
    Ok((HeaderName::from_static(name), value))
}

/// The innermost cause: the outer layers only say that sending failed.
pub(crate) fn cause(failure: reqwest::Error) -> String {
    if failure.is_timeout() {
        return "it took too long".to_owned();
    }
    let failure = failure.without_url();
    let mut text = failure.to_string();
    let mut source = failure.source();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_to_any_spelling_of_the_base() {
        let table = [
            ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
            (
                "https://api.anthropic.com/v1/",
                "/v1/messages",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                "http://127.0.0.1:11434/v1",
                "/v1/chat/completions",
                "http://127.0.0.1:11434/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:8080",
                "/v1/chat/completions",
                "http://127.0.0.1:8080/v1/chat/completions",
            ),
            ("https://openrouter.ai/api/v1", "/v1/models", "https://openrouter.ai/api/v1/models"),
            (
                "https://g.example/v1beta",
                "/v1beta/models/m:s?alt=sse",
                "https://g.example/v1beta/models/m:s?alt=sse",
            ),
            ("https://gw.example/x", "/v1/responses", "https://gw.example/x/v1/responses"),
        ];
        for (base, path, expected) in table {
            assert_eq!(join(&Url::parse(base).unwrap(), path).as_str(), expected);
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        let table = [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example.com", false),
        ];
        for (url, expected) in table {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn a_base_url_that_is_none_is_refused_with_a_sentence() {
        for url in ["", "localhost:8080", "ftp://x", "http://"] {
            let failure = Server::new(url, KeyHeader("x-api-key", ""), None).unwrap_err();
            assert_eq!(failure.kind, ModelErrorKind::Refused, "{url}");
        }
    }

    #[test]
    fn https_has_trusted_roots_or_says_what_is_missing() {
        match Server::new("https://example.com", KeyHeader("x-api-key", ""), None) {
            Ok(server) => assert!(!server.is_local()),
            Err(failure) => assert!(failure.message.contains("SSL_CERT_FILE"), "{failure}"),
        }
    }
}
