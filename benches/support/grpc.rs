//! Measures tonic for comparison: unary calls, a stream in both directions, and a stream one way,
//! over one connection without encryption.
//!
//! The service is written by hand and its messages are plain bytes, so that neither the protobuf
//! compiler nor the protobuf encoding is involved.

use crate::nodes::{Cores, Second, end_with_input, listening, on_first_core};
use crate::suite::Sample;
use bytes::{Buf, BufMut, Bytes};
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::client;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::{self, uri::PathAndQuery};
use tonic::codegen::tokio_stream::{self, Stream, StreamExt};
use tonic::codegen::{BoxFuture, BoxStream, Service};
use tonic::server::{self, ClientStreamingService, StreamingService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

/// The role of the process that answers.
pub(crate) const ROLE: &str = "grpc";

const UNARY: &str = "/bench/Unary";
const BOTH_WAYS: &str = "/bench/BothWays";
const ONE_WAY: &str = "/bench/OneWay";
const SMALL: Bytes = Bytes::from_static(&[1; 64]);

/// A codec whose messages are plain bytes.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// The service and all its methods.
#[derive(Clone, Copy)]
struct Answers;

type Answer = BoxFuture<Response<Bytes>, Status>;

impl UnaryService<Bytes> for Answers {
    type Response = Bytes;
    type Future = Answer;

    fn call(&mut self, request: Request<Bytes>) -> Answer {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

impl StreamingService<Bytes> for Answers {
    type Response = Bytes;
    type ResponseStream = BoxStream<Bytes>;
    type Future = BoxFuture<Response<BoxStream<Bytes>>, Status>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(
            async move { Ok(Response::new(Box::pin(request.into_inner()) as BoxStream<Bytes>)) },
        )
    }
}

impl ClientStreamingService<Bytes> for Answers {
    type Response = Bytes;
    type Future = Answer;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Answer {
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut sum = 0;
            while let Some(message) = messages.next().await {
                sum += u64::from(message?[0]);
            }
            Ok(Response::new(Bytes::copy_from_slice(&sum.to_le_bytes())))
        })
    }
}

impl Service<http::Request<Body>> for Answers {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answers = *self;
        Box::pin(async move {
            let mut grpc = server::Grpc::new(Plain);
            Ok(match request.uri().path() {
                UNARY => grpc.unary(answers, request).await,
                BOTH_WAYS => grpc.streaming(answers, request).await,
                ONE_WAY => grpc.client_streaming(answers, request).await,
                _ => Status::unimplemented("").into_http(),
            })
        })
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().expect("the runtime starts").block_on(work)
}

/// Answers until the first process ends the input.
pub(crate) fn serve() {
    block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
        listening(listener.local_addr().expect("the socket has an address"));
        end_with_input();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let served = Server::builder().serve_with_incoming(Answers, incoming).await;
        served.expect("the server serves");
    });
}

fn with_client<T, F: Future<Output = T>>(
    cores: Cores,
    measure: impl FnOnce(client::Grpc<Channel>) -> F,
) -> T {
    on_first_core(|| {
        let mut second = Second::start(ROLE, cores);
        let address: SocketAddr = second.address();
        block_on(async move {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let endpoint = endpoint.expect("the address is a URI").tcp_nodelay(true);
            let channel = endpoint.connect().await.expect("the second process listens");
            measure(client::Grpc::new(channel)).await
        })
    })
}

/// Makes `calls` calls, one after the other.
pub(crate) fn unary(calls: u64, cores: Cores) -> Sample {
    with_client(cores, async |mut client: client::Grpc<Channel>| {
        let warm_up = calls / 10;
        let mut begin = Instant::now();
        for call in 0..warm_up + calls {
            if call == warm_up {
                begin = Instant::now();
            }
            client.ready().await.expect("the connection is open");
            let path = PathAndQuery::from_static(UNARY);
            let answer = client.unary(Request::new(SMALL), path, Plain).await;
            assert_eq!(answer.expect("an answer comes").into_inner(), SMALL, "it is an echo");
        }
        Sample { elapsed: begin.elapsed(), operations: calls }
    })
}

/// The messages that a call sends while it runs.
struct Requests(mpsc::Receiver<Bytes>);

impl Stream for Requests {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

/// Makes `calls` calls, of which `most` run at the same time.
pub(crate) fn under_way(most: u64, calls: u64, cores: Cores) -> Sample {
    with_client(cores, async |client: client::Grpc<Channel>| {
        let each = calls / most;
        let begin = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..most.min(calls) {
            let mut client = client.clone();
            callers.spawn(async move {
                for _ in 0..each.max(1) {
                    client.ready().await.expect("the connection is open");
                    let path = PathAndQuery::from_static(UNARY);
                    let answer = client.unary(Request::new(SMALL), path, Plain).await;
                    assert_eq!(answer.expect("an answer comes").into_inner(), SMALL);
                }
            });
        }
        let callers = callers.join_all().await.len() as u64;
        Sample { elapsed: begin.elapsed(), operations: callers * each.max(1) }
    })
}

/// Sends a message there and back `round_trips` times within one call, one after the other.
pub(crate) fn both_ways(round_trips: u64, cores: Cores) -> Sample {
    with_client(cores, async |mut client: client::Grpc<Channel>| {
        let (send, receive) = mpsc::channel(1);
        client.ready().await.expect("the connection is open");
        let path = PathAndQuery::from_static(BOTH_WAYS);
        let response = client.streaming(Request::new(Requests(receive)), path, Plain).await;
        let mut answers = response.expect("the call begins").into_inner();
        let warm_up = round_trips / 10;
        let mut begin = Instant::now();
        for trip in 0..warm_up + round_trips {
            if trip == warm_up {
                begin = Instant::now();
            }
            send.send(SMALL).await.expect("the call goes on");
            let answer: Option<Result<Bytes, Status>> = answers.next().await;
            assert_eq!(answer.expect("an answer comes").expect("without an error"), SMALL);
        }
        Sample { elapsed: begin.elapsed(), operations: round_trips }
    })
}

/// Sends `messages` messages within one call, and waits for its end.
pub(crate) fn one_way(messages: u64, cores: Cores) -> Sample {
    with_client(cores, async |mut client: client::Grpc<Channel>| {
        let all = tokio_stream::iter((0..messages).map(|_| SMALL));
        client.ready().await.expect("the connection is open");
        let path = PathAndQuery::from_static(ONE_WAY);
        let begin = Instant::now();
        let sum = client.client_streaming(Request::new(all), path, Plain).await;
        let sum = sum.expect("the call ends well").into_inner();
        assert_eq!(sum[..], messages.to_le_bytes(), "all of them came");
        Sample { elapsed: begin.elapsed(), operations: messages }
    })
}
