//! Servers of typed functions, which clients find through a registry. A client maps a group of
//! calls to the servers as a whole, or makes single calls.
//!
//! ```sh
//! cargo run --example vectors -p gridspan-rpc-net -- registry grid.token &
//! cargo run --example vectors -p gridspan-rpc-net -- serve grid.token one &
//! cargo run --example vectors -p gridspan-rpc-net -- serve grid.token other &
//! cargo run --example vectors -p gridspan-rpc-net -- map grid.token
//! cargo run --example vectors -p gridspan-rpc-net -- call grid.token
//! cargo run --release --example vectors -p gridspan-rpc-net -- time grid.token 1000
//! ```
//!
//! `map` maps a group as a whole, and `call` makes single calls with the verbs of GridRPC. `time`
//! prints how long a group with the given number of empty calls takes. All of them check their
//! results.
//!
//! Anyone with the token may join: copy it to other machines as you would a private key, and make
//! the registry listen where they reach it.

use gridspan_rpc::calls::{Catalogue, Config, Function, Functions};
use gridspan_rpc::group::Room;
use gridspan_rpc_net::{DaemonOptions, Remote, Role, ServeOptions, Token, serve};
use gridspan_workflow::heuristics::HeftC;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

const FILL: Function<(u64,), (Vec<f64>,)> =
    Function::new("fill", |(count,), _| Ok(((0..count).map(|number| number as f64).collect(),)));
const SCALE: Function<(f64, Vec<f64>), (Vec<f64>,)> =
    Function::new("scale", |(factor, numbers), _| {
        Ok((numbers.into_iter().map(|number| factor * number).collect(),))
    });
const DOT: Function<(Vec<f64>, Vec<f64>), (f64,)> = Function::new("dot", |(one, other), _| {
    Ok((one.iter().zip(&other).map(|(one, other)| one * other).sum(),))
});

const NOTHING: Function<(u64,), (u64,)> = Function::new("nothing", |(number,), _| Ok((number,)));

/// Length of the vectors that `map` scales.
const NUMBERS: u64 = 1000;

/// Functions of this program's servers.
struct Vectors;

impl Catalogue for Vectors {
    fn functions() -> Functions {
        Functions::new().with_parts(&FILL).with_parts(&SCALE).with_parts(&DOT).with_parts(&NOTHING)
    }
}

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Runs the registry or a server until the process is ended.
fn stay(name: &str, role: Role) -> Outcome<()> {
    let name = name.to_owned();
    let (_keep, end) = oneshot::channel();
    let options =
        ServeOptions { name: name.clone(), pes: 1, speed: 1.0, room: Room::default(), role };
    let on_ready = move |address| println!("{name} runs; the registry is at {address}");
    Ok(serve::<Vectors>(options, end, on_ready)?)
}

/// Makes a vector on a server, scales it by two factors, and fetches only the product of the two
/// scaled vectors.
async fn map(token: &Path) -> Outcome<f64> {
    let servers = Remote::new(Token::read(token)?)?;
    let heuristic = HeftC::default();
    let group = servers.map(&heuristic, async |group| {
        let count = group.value(&NUMBERS)?;
        let (numbers,) = group.call(&FILL, (&count,));
        let (doubled,) = group.call(&SCALE, (group.value(&2.0)?, &numbers));
        let (tripled,) = group.call(&SCALE, (group.value(&3.0)?, &numbers));
        let (product,) = group.call(&DOT, (doubled, tripled));
        group.get(&product).await
    });
    let product = group.await?;
    servers.leave().await;
    Ok(product)
}

/// Makes vectors of several lengths with concurrent calls, and multiplies each with itself when it
/// arrives.
async fn call(token: &Path) -> Outcome<()> {
    let servers = Remote::new(Token::read(token)?)?;
    let rpc = servers.rpc(&Config::default())?;
    let (fill, dot) = (rpc.handle(&FILL).await?, rpc.handle(&DOT).await?);
    let sessions: Vec<_> =
        (1..=4).map(|number| rpc.call_async(&fill, &(number * 100,))).collect::<Result<_, _>>()?;
    for _ in &sessions {
        let ended = rpc.wait_any().await?;
        let Some(session) = sessions.iter().find(|session| session.id() == ended) else {
            return Err("verified: no (another call than these has ended)".into());
        };
        if let Some(error) = rpc.error(ended)? {
            return Err(format!("a vector was not made: {error}").into());
        }
        let (numbers,) = rpc.results(session)?;
        let count = numbers.len() as u64;
        let (square,) = rpc.call(&dot, &(numbers.clone(), numbers)).await?;
        println!("the squares of {count} numbers add up to {square}");
        verify(square, sum_of_squares(count))?;
    }
    servers.leave().await;
    Ok(())
}

/// Returns the exact sum of the squares of the numbers below `count`.
fn sum_of_squares(count: u64) -> f64 {
    (count.saturating_sub(1) * count * (2 * count).saturating_sub(1) / 6) as f64
}

fn verify(result: f64, expected: f64) -> Outcome<()> {
    if result != expected {
        return Err(format!("verified: no (it should be {expected})").into());
    }
    println!("verified: yes ({expected})");
    Ok(())
}

/// Returns how long a group of `calls` empty calls takes until the client has all results.
async fn time(token: &Path, calls: u64) -> Outcome<Duration> {
    let servers = Remote::new(Token::read(token)?)?;
    let (mapper, heuristic) = (servers.mapper(), HeftC::default());
    // This group connects to the servers before the measurement begins.
    mapper
        .map(&heuristic, async |group| {
            group.get(&group.call(&NOTHING, (group.value(&0)?,)).0).await
        })
        .await?;
    let begun = Instant::now();
    let group = mapper.map(&heuristic, async |group| {
        let mut results = Vec::new();
        for number in 0..calls {
            results.push(group.call(&NOTHING, (group.value(&number)?,)).0);
        }
        let mut sum = 0;
        for result in &results {
            sum += group.get(result).await?;
        }
        Ok(sum)
    });
    let (sum, took) = (group.await?, begun.elapsed());
    servers.leave().await;
    match sum == calls * calls.saturating_sub(1) / 2 {
        true => Ok(took),
        false => Err(format!("verified: no (the results add up to {sum})").into()),
    }
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["registry", token] => {
            let (listen, token) = (Some("127.0.0.1:0".parse()?), token.into());
            let registry = DaemonOptions { listen, advertise: None, token, is_kept: true };
            stay("the registry", Role::Registry(registry))
        }
        ["serve", token, name] => stay(name, Role::Member(Token::read(Path::new(token))?)),
        ["map", token] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let product = runtime.block_on(map(Path::new(token)))?;
            println!("the product of the scaled vectors is {product}");
            verify(product, 6.0 * sum_of_squares(NUMBERS))
        }
        ["call", token] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(call(Path::new(token)))
        }
        ["time", token, calls] => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let calls: u64 = calls.parse()?;
            let took_s = runtime.block_on(time(Path::new(token), calls))?.as_secs_f64();
            println!("{calls} calls in {took_s:.3} s: {:.0} calls/s", calls as f64 / took_s);
            println!("verified: yes (the sum of all results)");
            Ok(())
        }
        _ => {
            Err("write `registry TOKEN`, `serve TOKEN NAME`, `map TOKEN`, `call TOKEN` or `time TOKEN CALLS`"
                .into())
        }
    }
}
