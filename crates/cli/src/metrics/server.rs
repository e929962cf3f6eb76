//! Serves metrics over HTTP, with limits on connections, requests and time.

use super::exposition::CONTENT_TYPE as TEXT_FORMAT;
use super::listener::{Connection, Listener};
use super::scraper::Scraper;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// The path of the metrics.
const PATH: &str = "/metrics";
/// Maximum number of open connections, and of scrapes; further ones wait. Few programs scrape a
/// job.
const CONNECTIONS_MAX: usize = 8;
/// Maximum size of a request in bytes: the minimum of hyper, and far more than a request needs.
const REQUEST_BYTES_MAX: usize = 8192;
/// Maximum number of header fields of a request.
const FIELDS_MAX: usize = 64;
/// Time for a client to send its request.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// Time after which a connection ends, whatever its client does: a scrape takes up to eight
/// seconds, and Prometheus itself waits for ten.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(15);
/// Pause after a failure to accept a connection: the cause, such as too many open files, may last.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between two warnings about clients that got no metrics.
const WARNING_PERIOD: Duration = Duration::from_secs(60);

/// Serves metrics until this process ends.
pub(super) async fn serve(listener: Listener, scraper: Arc<Scraper>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut warned: Option<Instant> = None;
    // The semaphore is never closed.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let connection = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                if warned.is_none_or(|at| at.elapsed() >= WARNING_PERIOD) {
                    tracing::warn!(%error, "a client got no metrics");
                    warned = Some(Instant::now());
                }
                // Clients that are refused must not hinder others.
                if error.kind() != ErrorKind::PermissionDenied {
                    sleep(PAUSE).await;
                }
                continue;
            }
        };
        let scraper = scraper.clone();
        tokio::spawn(async move {
            // A failure of the client does not affect the job.
            let _ = timeout(CONNECTION_PATIENCE, attend(connection, scraper, slot)).await;
        });
    }
}

/// Answers the request of a client. Keeps the slot until the scrape has ended, even if the client
/// does not wait.
async fn attend(
    connection: Box<dyn Connection>,
    scraper: Arc<Scraper>,
    slot: OwnedSemaphorePermit,
) -> hyper::Result<()> {
    let slot = Arc::new(slot);
    let service = service_fn(move |request: Request<Incoming>| {
        let (scraper, slot) = (scraper.clone(), slot.clone());
        let scrape = move || {
            let scrape = scraper.scrape();
            drop(slot);
            scrape
        };
        let refused = refusal(&request);
        async move {
            let answer = match refused {
                Some(refusal) => refusal,
                None => answer(scrape).await,
            };
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .keep_alive(false)
        .max_buf_size(REQUEST_BYTES_MAX)
        .max_headers(FIELDS_MAX);
    http.serve_connection(TokioIo::new(connection), service).await
}

/// Returns the refusal of a request that is not for metrics, or that a web page may have made in a
/// browser of this user: a page whose server name resolves to this machine could read the answer
/// (DNS rebinding).
fn refusal<B>(request: &Request<B>) -> Option<Response<Full<Bytes>>> {
    let mut hosts = request.headers().get_all(HOST).iter();
    if !hosts.all(|host| host.to_str().is_ok_and(is_this_machine)) {
        let reason = "write localhost or 127.0.0.1 in the address\n";
        return Some(text(StatusCode::FORBIDDEN, reason.to_owned()));
    }
    if request.uri().path() != PATH {
        return Some(text(StatusCode::NOT_FOUND, format!("the metrics are at {PATH}\n")));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned());
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(refusal);
    }
    None
}

/// Whether this is a name or an address of the loopback interface, with a port or without.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Scrapes the job on a blocking thread, because `scrape` waits for the job's counters.
async fn answer(
    scrape: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Response<Full<Bytes>> {
    match tokio::task::spawn_blocking(scrape).await {
        Ok(Ok(metrics)) => {
            let mut answer = text(StatusCode::OK, metrics);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT));
            answer
        }
        Ok(Err(reason)) => text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_served() {
        for host in ["localhost", "LOCALHOST:9464", "127.0.0.1:9464", "127.3.0.1", "[::1]:80"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["", "page.example", "localhost.example", "10.0.0.1", "[fe80::1]:80", ":80"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn requests_for_something_else_than_metrics_are_refused() {
        let code = |method: Method, uri: &str, host: &str| {
            let request = Request::builder().method(method).uri(uri).header(HOST, host).body(());
            refusal(&request.unwrap()).map(|refusal| refusal.status())
        };
        assert_eq!(code(Method::GET, PATH, "localhost:9464"), None);
        assert_eq!(code(Method::HEAD, "/metrics?name=x", "[::1]:9464"), None);
        let forbidden = Some(StatusCode::FORBIDDEN);
        assert_eq!(code(Method::GET, PATH, "page.example:9464"), forbidden);
        assert_eq!(code(Method::GET, "/", "localhost"), Some(StatusCode::NOT_FOUND));
        let not_allowed = Some(StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(code(Method::POST, PATH, "localhost"), not_allowed);
    }
}
