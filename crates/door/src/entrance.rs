//! Lets others in: so many at once, and of those that have not shown to be where they say they are only a part. Whoever forges
//! addresses would otherwise take all places, each for as long as a handshake may take.

use quinn::{Connection, Incoming};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many others may be connected; further ones are told to come again.
const CONNECTIONS_MAX: usize = 1024;
/// The part of them whose addresses may be unproven. Others prove theirs first, which takes a round trip more and no place.
const UNPROVEN_PART: usize = 4;

/// Places for connections. Clones are of the same.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    places: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
}

/// Somebody is in, until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _of_connection: OwnedSemaphorePermit,
}

impl Default for Entrance {
    fn default() -> Self {
        Self::with_places(CONNECTIONS_MAX)
    }
}

impl Entrance {
    fn with_places(places: usize) -> Self {
        let [places, unproven] =
            [places, places / UNPROVEN_PART].map(|places| Arc::new(Semaphore::new(places)));
        Self { places, unproven }
    }

    /// Lets somebody in, if there is a place, and if he can prove that he has the token; otherwise he is told so.
    pub(super) async fn admit(&self, incoming: Incoming) -> Option<(Place, Connection)> {
        let unproven = match incoming.remote_address_validated() {
            true => None,
            false => match self.unproven.clone().try_acquire_owned() {
                Ok(unproven) => Some(unproven),
                Err(_) => {
                    // He comes again with the proof. Who has it already is not asked for it.
                    let _ = incoming.retry();
                    return None;
                }
            },
        };
        let Ok(of_connection) = self.places.clone().try_acquire_owned() else {
            incoming.refuse();
            return None;
        };
        let connection = incoming.await.ok()?;
        drop(unproven);
        Some((Place { _of_connection: of_connection }, connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;
    use quinn::Endpoint;
    use std::time::Duration;
    use tokio::net::UdpSocket;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn who_does_not_show_where_he_is_takes_a_part_of_the_places_only() {
        let listen = ([127, 0, 0, 1], 0).into();
        let (token, key) = Token::new(listen).unwrap();
        let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let address = door.local_addr().unwrap();
        let entrance = Entrance::with_places(8);
        let of_door = entrance.clone();
        tokio::spawn(async move {
            while let Some(incoming) = door.accept().await {
                let entrance = of_door.clone();
                tokio::spawn(async move {
                    let admitted = entrance.admit(incoming).await;
                    if let Some((_place, connection)) = admitted {
                        connection.closed().await;
                    }
                });
            }
        });
        let mut guest = Endpoint::client(listen).unwrap();
        guest.set_default_client_config(token.client().unwrap());
        let connect = |to| guest.connect(to, &token.names()[0]).unwrap();
        // What others begin with, from where nobody hears what the door says.
        let deaf = UdpSocket::bind(listen).await.unwrap();
        let mut begun = Vec::new();
        for _ in 0..20 {
            begun.push(connect(deaf.local_addr().unwrap()));
            let mut packet = [0; 2000];
            let (bytes, _) = timeout(LIMIT, deaf.recv_from(&mut packet)).await.unwrap().unwrap();
            deaf.send_to(&packet[..bytes], address).await.unwrap();
        }

        let mut come = Vec::new();
        for _ in 0..6 {
            come.push(timeout(LIMIT, connect(address)).await.unwrap().unwrap());
        }

        assert_eq!(entrance.unproven.available_permits(), 0, "which takes a while");
        assert_eq!(entrance.places.available_permits(), 0);
        assert!(timeout(LIMIT, connect(address)).await.unwrap().is_err(), "no place is left");
    }
}
