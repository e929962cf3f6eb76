//! An HTTP service that runs a job for each request, on threads of its process.
//!
//! ```text
//! cargo run --release --example http_service
//! curl http://127.0.0.1:8080/primes/1000000
//! ```
//!
//! A client that closes its connection cancels its job, since the job is dropped with the request.

use gridspan::embed::Runner;
use gridspan::prelude::*;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::error::Error;
use std::net::Ipv4Addr;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Numbers that one actor tests.
const RANGE: u64 = 10_000;
/// The largest number up to which the service counts.
const LIMIT: u64 = 100_000_000;
/// Number of jobs that run at a time; further requests wait.
const JOBS_MAX: usize = 4;

static JOBS: Semaphore = Semaphore::const_new(JOBS_MAX);

/// Counts the primes of a range.
#[derive(Serialize, Deserialize)]
struct Counter {
    end: u64,
}

impl Actor for Counter {
    type Index = Ix1;
    type Init = u64;
    type Message = ();

    fn create(end: u64, _cx: &mut Context<'_, Self>) -> Self {
        Self { end }
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, Self>) {
        let begin = cx.index().0 as u64 * RANGE;
        let primes = (begin.max(2)..self.end.min(begin + RANGE)).filter(|&n| is_prime(n)).count();
        cx.contribute(Sum, primes as u64, To::main());
    }
}

fn is_prime(n: u64) -> bool {
    (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| !n.is_multiple_of(divisor))
}

/// Counts the primes below `end`.
async fn primes(end: u64) -> Result<u64, JobError> {
    let _permit = JOBS.acquire().await.expect("the semaphore is never closed");
    let run = Runner::on_threads(2).time_limit(Duration::from_secs(30));
    let job = Job::new("primes").actor::<Counter>();
    run.start(job, async move |grid: Grid| {
        let ranges = u32::try_from(end.div_ceil(RANGE)).expect("the limit is below");
        let counters = grid.create::<Counter>(Ix1::range(ranges), |_| end).await?;
        counters.broadcast(());
        Ok(counters.reduction(Sum).await?)
    })
    .await
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let end = request.uri().path().strip_prefix("/primes/").and_then(|end| end.parse().ok());
    let (status, text) = match end {
        Some(end @ 1..=LIMIT) => match primes(end).await {
            Ok(count) => (StatusCode::OK, format!("{count} primes below {end}\n")),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        _ => (StatusCode::NOT_FOUND, format!("ask for /primes/N, N from 1 to {LIMIT}\n")),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}

async fn serve(listener: TcpListener) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many files may be open, for example, until other connections close.
                eprintln!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        tokio::spawn(async move {
            let served = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
            if let Err(error) = served {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 8080)).await?;
    println!("http://{}/primes/1000000", listener.local_addr()?);
    // Ctrl-C ends the process, and jobs that run with it.
    serve(listener).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn each_request_runs_a_job() -> Result<(), Box<dyn Error>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(serve(listener));
        let ask = async |path: &str| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address).await?;
            let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            Ok(answer)
        };

        let (one, other, none) =
            tokio::join!(ask("/primes/100"), ask("/primes/100000"), ask("/primes/x"));

        assert!(one?.ends_with("25 primes below 100\n"));
        assert!(other?.ends_with("9592 primes below 100000\n"));
        assert!(none?.starts_with("HTTP/1.1 404"));
        Ok(())
    }
}
