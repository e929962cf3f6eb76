//! A router with address translation in front of a server: it is on loopback, admits only some
//! senders, and delays their packets.

use super::Grid;
use gridspan_rpc_net::Token;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UdpSocket;

/// Delay of packets from and to an address; `None` drops them.
pub(crate) type Rule = Arc<dyn Fn(SocketAddr) -> Option<Duration> + Send + Sync>;

/// The router of one server. The server reaches the registry, and processes that have contacted it,
/// through the router. If the server itself opens a connection to another process, it bypasses the
/// router.
#[derive(Clone)]
pub(crate) struct Nat {
    outside: Arc<UdpSocket>,
    rule: Rule,
    inside: Arc<Mutex<Inside>>,
}

#[derive(Default)]
struct Inside {
    /// Address of the server, once it has sent something.
    server: Option<SocketAddr>,
    /// Sockets that represent other processes to the server, by the addresses of these processes.
    others: BTreeMap<SocketAddr, Arc<UdpSocket>>,
}

impl Nat {
    /// Opens the router of a server. Also returns the address at which the server reaches
    /// `registry`.
    pub(crate) async fn open(registry: SocketAddr, rule: Rule) -> (Self, SocketAddr) {
        let nat = Self { outside: socket().await, rule, inside: Arc::default() };
        let to_registry = nat.other(registry).await.local_addr().unwrap();
        tokio::spawn(nat.clone().receive());
        (nat, to_registry)
    }

    /// Returns the server's address behind the router, once the server has sent something.
    pub(crate) fn server(&self) -> Option<SocketAddr> {
        self.inside.lock().unwrap().server
    }

    /// Returns the address at which others see the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.outside.local_addr().unwrap()
    }

    /// Forwards packets from others.
    async fn receive(self) {
        let mut packet = [0; 65_536];
        while let Ok((bytes, from)) = self.outside.recv_from(&mut packet).await {
            let (inside, server) = (self.other(from).await, self.server());
            if let Some(server) = server {
                self.pass(packet[..bytes].to_vec(), from, (inside, server));
            }
        }
    }

    fn pass(&self, packet: Vec<u8>, other: SocketAddr, (by, to): (Arc<UdpSocket>, SocketAddr)) {
        let Some(delay) = (self.rule)(other) else { return };
        tokio::spawn(async move {
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            // As with routers, delivery is not guaranteed.
            let _ = by.send_to(&packet, to).await;
        });
    }

    /// Returns the socket that represents another process to the server. A task forwards the
    /// packets that the server sends to this socket.
    async fn other(&self, other: SocketAddr) -> Arc<UdpSocket> {
        let known = self.inside.lock().unwrap().others.get(&other).cloned();
        if let Some(known) = known {
            return known;
        }
        let new = socket().await;
        self.inside.lock().unwrap().others.insert(other, new.clone());
        let (nat, inside) = (self.clone(), new.clone());
        tokio::spawn(async move {
            let mut packet = [0; 65_536];
            while let Ok((bytes, from)) = inside.recv_from(&mut packet).await {
                nat.inside.lock().unwrap().server = Some(from);
                nat.pass(packet[..bytes].to_vec(), other, (nat.outside.clone(), other));
            }
        });
        new
    }
}

impl Grid {
    /// Starts a server behind a router.
    pub(crate) async fn join_behind(&mut self, name: &str, rule: Rule) -> Nat {
        let mut token = Token::read(&self.token()).unwrap();
        let (nat, registry) = Nat::open(token.address, rule).await;
        token.address = registry;
        let path = self.file(&format!("{name}.token"));
        fs::write(&path, serde_json::to_vec(&token).unwrap()).unwrap();
        // `join` blocks until the server has joined, which needs the tasks of the router.
        tokio::task::block_in_place(|| self.join(name, &path));
        nat
    }
}

async fn socket() -> Arc<UdpSocket> {
    Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap())
}
