//! Tests of the name server with requests that are made by hand.

use super::*;

fn asker(rank: u32) -> Asker {
    Asker { rank, ticket: Ticket { slot: 0, generation: u64::from(rank) + 1 } }
}

fn group(ranks: &[u32]) -> PlacedRanks {
    let places = ranks.iter().map(|rank| (rank / 4, *rank)).collect();
    PlacedRanks { ranks: ranks.to_vec(), places }
}

fn open(server: &mut NameServer) -> RankPort {
    match &server.handle(asker(0), ServerRequest::OpenPort)[..] {
        [(_, ServerReply::Port(Some(port)))] => *port,
        other => panic!("{other:?}"),
    }
}

fn refusals(answers: Answers) -> Vec<(u32, RankRefusal)> {
    let refusal = |(asker, reply): (Asker, ServerReply)| match reply {
        ServerReply::Refused(refusal) => (asker.rank, refusal),
        other => panic!("{other:?}"),
    };
    answers.into_iter().map(refusal).collect()
}

#[test]
fn groups_are_paired_in_the_order_of_asking() {
    let mut server = NameServer::default();
    let (port, other) = (open(&mut server), open(&mut server));
    let connect = |rank| ServerRequest::Connect(port, group(&[rank, rank + 10]));
    assert!(server.handle(asker(1), connect(1)).is_empty());
    assert!(server.handle(asker(2), connect(2)).is_empty());
    // Another port is another queue.
    assert!(server.handle(asker(3), ServerRequest::Accept(other, group(&[3]))).is_empty());
    for (accepting, connecting, number) in [(4, 1, SERVED_FROM), (5, 2, SERVED_FROM + 2)] {
        let accept = ServerRequest::Accept(port, group(&[accepting]));
        let link = |ranks: &[u32]| ServerReply::Linked { number, remote: group(ranks) };
        assert_eq!(
            server.handle(asker(accepting), accept),
            [
                (asker(accepting), link(&[connecting, connecting + 10])),
                (asker(connecting), link(&[accepting])),
            ]
        );
    }
}

#[test]
fn groups_that_share_a_rank_and_closed_ports_are_refused() {
    let mut server = NameServer::default();
    let port = open(&mut server);
    server.handle(asker(1), ServerRequest::Accept(port, group(&[1, 2])));
    let refused = server.handle(asker(2), ServerRequest::Connect(port, group(&[3, 2])));
    let refusal = RankRefusal::RankInBothGroups { rank: 2 };
    assert_eq!(refusals(refused), [(2, refusal.clone()), (1, refusal)]);
    server.handle(asker(1), ServerRequest::Accept(port, group(&[1])));
    let mut closed = server.handle(asker(0), ServerRequest::ClosePort(port));
    assert_eq!(closed.pop(), Some((asker(0), ServerReply::Done)));
    assert_eq!(refusals(closed), [(1, RankRefusal::PortClosed { port })]);
    let late = server.handle(asker(1), ServerRequest::Accept(port, group(&[1])));
    assert_eq!(refusals(late), [(1, RankRefusal::PortNotOpen { port })]);
}

#[test]
fn services_are_found_at_once_or_awaited() {
    let mut server = NameServer::default();
    let port = open(&mut server);
    let lookup = |waits| ServerRequest::Lookup { service: "heat".to_owned(), waits };
    let publish = || ServerRequest::Publish { service: "heat".to_owned(), port };
    assert_eq!(server.handle(asker(1), lookup(false)), [(asker(1), ServerReply::Port(None))]);
    assert!(server.handle(asker(2), lookup(true)).is_empty());
    assert!(server.handle(asker(3), lookup(true)).is_empty());
    server.handle(asker(2), ServerRequest::Withdraw);
    let found = ServerReply::Port(Some(port));
    assert_eq!(
        server.handle(asker(0), publish()),
        [(asker(3), found.clone()), (asker(0), ServerReply::Done)]
    );
    assert_eq!(server.handle(asker(1), lookup(true)), [(asker(1), found)]);
    let again = refusals(server.handle(asker(4), publish()));
    let text = "the service \"heat\" is published, with port 1; unpublish it first";
    assert_eq!(again[0].1.to_string(), text);
    let refusal = RankRefusal::ServiceExists { service: "heat".to_owned(), port };
    assert_eq!(again, [(4, refusal)]);
    let unpublish = || ServerRequest::Unpublish { service: "heat".to_owned() };
    assert_eq!(server.handle(asker(0), unpublish()), [(asker(0), ServerReply::Done)]);
    let refusal = RankRefusal::NoSuchService { service: "heat".to_owned() };
    assert_eq!(refusals(server.handle(asker(0), unpublish())), [(0, refusal)]);
}

#[test]
fn a_port_that_closes_takes_its_services_along_and_is_not_published_again() {
    let mut server = NameServer::default();
    let (port, other) = (open(&mut server), open(&mut server));
    let publish =
        |service: &str, port| ServerRequest::Publish { service: service.to_owned(), port };
    let lookup = |service: &str| {
        let (service, waits) = (service.to_owned(), false);
        ServerRequest::Lookup { service, waits }
    };
    for (service, port) in [("heat", port), ("wind", port), ("rain", other)] {
        server.handle(asker(0), publish(service, port));
    }

    server.handle(asker(0), ServerRequest::ClosePort(port));

    for (service, found) in [("heat", None), ("wind", None), ("rain", Some(other))] {
        let answers = server.handle(asker(1), lookup(service));
        assert_eq!(answers, [(asker(1), ServerReply::Port(found))], "{service}");
    }
    let late = refusals(server.handle(asker(0), publish("heat", port)));
    let text = "port 1 is not open; use one that `open_port` has returned";
    assert_eq!(late[0].1.to_string(), text);
    assert_eq!(late, [(0, RankRefusal::PortNotOpen { port })]);
    let again = server.handle(asker(2), publish("heat", other));
    assert_eq!(again, [(asker(2), ServerReply::Done)]);
}

#[test]
fn a_group_has_its_ranks_in_their_order_once_all_have_joined() {
    let mut server = NameServer::default();
    let join = |ranks, rank| ServerRequest::Join {
        group: "workers".to_owned(),
        ranks,
        place: (rank / 4, rank),
    };
    assert!(server.handle(asker(9), join(3, 9)).is_empty());
    assert!(server.handle(asker(2), join(3, 2)).is_empty());
    let group_name = || "workers".to_owned();
    let refusal = RankRefusal::OtherGroupSize { group: group_name(), expected: 3, found: 2 };
    assert_eq!(refusals(server.handle(asker(5), join(2, 5))), [(5, refusal)]);
    let refusal = RankRefusal::WaitsAlready { group: group_name() };
    assert_eq!(refusals(server.handle(asker(2), join(3, 2))), [(2, refusal)]);
    server.handle(asker(9), ServerRequest::Withdraw);
    assert!(server.handle(asker(7), join(3, 7)).is_empty());
    let answers = server.handle(asker(1), join(3, 1));
    let found = ServerReply::Gathered { number: SERVED_FROM, group: group(&[1, 2, 7]) };
    assert_eq!(answers, [1, 2, 7].map(|rank| (asker(rank), found.clone())));
    // A later request with this name begins a new group.
    assert!(server.handle(asker(1), join(2, 1)).is_empty());
    let refused = refusals(server.handle(asker(1), join(0, 1)));
    assert_eq!(refused, [(1, RankRefusal::EmptyGroup)]);
}

#[test]
fn the_error_says_how_often_communicators_can_be_numbered() {
    // The last pair of numbers has contexts below 2^32, two for each number.
    let mut server = NameServer { numbered: (1 << 29) - 2, ..NameServer::default() };
    assert_eq!(server.number(), Ok((1 << 31) - 4));
    assert_eq!(server.numbered, (1 << 29) - 1);
    assert_eq!(server.number(), Err(RankRefusal::NoNumberLeft));
    let text = "a run can have at most 2^29 - 1 spawns, connections and groups";
    assert_eq!(RankRefusal::NoNumberLeft.to_string(), text);
}

#[test]
fn parents_are_answered_once_all_their_children_have_begun() {
    let layout = Layout::single(2);
    let mut server = NameServer::default();
    let (number, children) =
        server.spawn(asker(3), (8, 2), SpawnPlacement::Block, &layout).unwrap();
    assert_eq!(children, PlacedRanks { ranks: vec![8, 9], places: vec![(0, 0), (0, 1)] });
    let (other, _) = server.spawn(asker(4), (10, 1), SpawnPlacement::Block, &layout).unwrap();
    assert_eq!(other, number + 2);
    assert!(server.begun(8).is_empty());
    assert_eq!(server.begun(10)[0].0, asker(4));
    let linked = ServerReply::Linked { number, remote: children };
    assert_eq!(server.begun(8), [(asker(3), linked)]);
    assert!(server.begun(8).is_empty());
    for (first, wanted, max) in [
        (0, 0, SPAWNED_MAX),
        (u32::MAX, 1, 0),
        (1 << 30, 1 << 30, SPAWNED_MAX),
        (RANKS_MAX - 5, 6, 5),
        (5, usize::MAX, SPAWNED_MAX),
    ] {
        let spawned = server.spawn(asker(0), (first, wanted), SpawnPlacement::Block, &layout);
        let ranks = wanted as u64;
        assert_eq!(spawned, Err(RankRefusal::SpawnCount { ranks, max }));
    }
    let nowhere = server.spawn(asker(0), (0, 1), SpawnPlacement::AtSite(7), &layout);
    assert_eq!(nowhere, Err(RankRefusal::NoSuchSite { site: 7, sites: 1 }));
}

fn agreement(flags: u64, next_communicator: u32, members: &[(u32, u32)]) -> ServerRequest {
    let (key, members) = ((0, 1, 1, true), members.to_vec());
    ServerRequest::Agree(AgreementRequest { key, members, flags, next_communicator })
}

#[test]
fn an_agreement_ends_once_each_rank_has_asked_or_failed() {
    let mut server = NameServer::default();
    let asks = |flags, next| agreement(flags, next, &[(1, 3), (7, 1)]);
    assert!(server.handle(asker(1), asks(0b111, 4)).is_empty());
    assert!(server.handle(asker(7), asks(0b110, 9)).is_empty());
    // Ranks of other communicators do not matter.
    assert!(server.note_failed(5, 2, "lost".to_owned()).is_empty());
    assert!(server.note_failed(3, 1, "lost".to_owned()).is_empty());
    // Rank 7 gives up, and asks again.
    assert!(server.handle(asker(7), ServerRequest::Withdraw).is_empty());
    assert!(server.handle(asker(2), asks(0b011, 2)).is_empty());
    let answers = server.handle(asker(7), asks(0b110, 9));
    let agreed = ServerReply::Agreed { flags: 0b010, number: 9, survivors: vec![(1, 2), (7, 1)] };
    let expected: Answers = [1, 2, 7].map(|rank| (asker(rank), agreed.clone())).into();
    assert_eq!(answers, expected);
    assert_eq!(server.failed().keys().copied().collect::<Vec<_>>(), [3, 5]);
}

#[test]
fn what_a_failed_rank_has_given_to_an_agreement_does_not_count() {
    let mut server = NameServer::default();
    assert!(server.handle(asker(1), agreement(0b10, 1, &[(1, 2)])).is_empty());
    assert!(server.note_failed(1, 1, "lost".to_owned()).is_empty());
    let answers = server.handle(asker(2), agreement(0b01, 3, &[(1, 2)]));
    let agreed = ServerReply::Agreed { flags: 0b01, number: 3, survivors: vec![(2, 1)] };
    assert_eq!(answers, [(asker(2), agreed)]);
}

#[test]
fn an_agreement_gives_no_communicator_a_number_that_a_failed_rank_has_used() {
    let mut server = NameServer::default();
    assert!(server.handle(asker(2), agreement(0, 5, &[(1, 2)])).is_empty());
    // Rank 1 has made communicator 5, and rank 2 has not.
    let answers = server.note_failed(1, 6, "lost".to_owned());
    let agreed = ServerReply::Agreed { flags: 0, number: 6, survivors: vec![(2, 1)] };
    assert_eq!(answers, [(asker(2), agreed)]);
}
