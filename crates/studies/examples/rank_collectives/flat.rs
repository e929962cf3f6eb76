//! Collective operations as programs of ranks that know nothing of sites: those of MPICH, and
//! exchanges in which every rank sends to every other at once.

use gridspan::ranks::{Comm, RankError, wait_all};

/// The tag of messages inside a pair of [`recursive_doubling`]. The tag of its other messages is
/// the distance of their ranks, which is larger.
const PAIR: u32 = 0;

fn add(mine: &mut [u64], theirs: &[u64]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
}

/// The other ranks, those after this one first.
fn others(world: &Comm) -> impl Iterator<Item = u32> + use<> {
    let (me, size) = (world.rank(), world.size());
    (1..size).map(move |step| (me + step) % size)
}

/// In step `j` ranks exchange their partial results with the rank `2^j` away. If their number is no
/// power of two, some of them form pairs, and one rank of a pair takes part for both.
pub(crate) async fn recursive_doubling(
    world: &Comm,
    mut mine: Vec<u64>,
) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let places = 1_u32 << size.ilog2();
    let pairs = size - places;
    let (is_of_pair, is_first) = (me < 2 * pairs, me.is_multiple_of(2));
    let mut theirs = vec![0; mine.len()];
    if is_of_pair && is_first {
        world.send(&mine, me + 1, PAIR).await?;
        world.recv_into(&mut mine, me + 1, PAIR).await?;
        return Ok(mine);
    }
    if is_of_pair {
        world.recv_into(&mut theirs, me - 1, PAIR).await?;
        add(&mut mine, &theirs);
    }
    let place = if is_of_pair { me / 2 } else { me - pairs };
    let rank_at = |place: u32| if place < pairs { 2 * place + 1 } else { place + pairs };
    let mut distance = 1;
    while distance < places {
        let partner = rank_at(place ^ distance);
        world.sendrecv(&mine, partner, distance, &mut theirs, partner, distance).await?;
        add(&mut mine, &theirs);
        distance *= 2;
    }
    if is_of_pair {
        world.send(&mine, me - 1, PAIR).await?;
    }
    Ok(mine)
}

/// Each rank exchanges half of its elements with the rank at a distance of half of all ranks, then
/// half of these with the rank at a quarter, and so on. The sums come back in the reverse steps.
/// The number of ranks is a power of two.
pub(crate) async fn halving_and_doubling(
    world: &Comm,
    mut mine: Vec<u64>,
) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let mut own = 0..mine.len();
    let mut given = Vec::new();
    let mut distance = size / 2;
    while distance > 0 {
        let (partner, middle) = (me ^ distance, own.start.midpoint(own.end));
        let (keep, give) = match me & distance {
            0 => (own.start..middle, middle..own.end),
            _ => (middle..own.end, own.start..middle),
        };
        let mut theirs = vec![0; keep.len()];
        let out = &mine[give.clone()];
        world.sendrecv(out, partner, distance, &mut theirs, partner, distance).await?;
        add(&mut mine[keep.clone()], &theirs);
        given.push((partner, give));
        own = keep;
        distance /= 2;
    }
    for (partner, give) in given.into_iter().rev() {
        let mut theirs = vec![0; give.len()];
        world.sendrecv(&mine[own.clone()], partner, size, &mut theirs, partner, size).await?;
        own = own.start.min(give.start)..own.end.max(give.end);
        mine[give].copy_from_slice(&theirs);
    }
    Ok(mine)
}

/// Blocks go around a ring and are added up on the way, and the sums go around again.
pub(crate) async fn ring(world: &Comm, mut mine: Vec<u64>) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    let length = mine.len();
    let block = |number: u32| {
        let at = |number: u32| length * number as usize / size as usize;
        at(number % size)..at(number % size + 1)
    };
    for step in 0..2 * (size - 1) {
        let (out, back) = (block(me + 2 * size - step), block(me + 2 * size - step - 1));
        let mut theirs = vec![0; back.len()];
        world.sendrecv(&mine[out], right, step, &mut theirs, left, step).await?;
        match step < size - 1 {
            true => add(&mut mine[back], &theirs),
            false => mine[back].copy_from_slice(&theirs),
        }
    }
    Ok(mine)
}

/// Partial results go up a binomial tree to rank 0, and the sum goes down again.
pub(crate) async fn binomial(world: &Comm, mut mine: Vec<u64>) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let mut theirs = vec![0; mine.len()];
    let mut distance = 1;
    while distance < size {
        if me & distance != 0 {
            world.send(&mine, me - distance, distance).await?;
            world.recv_into(&mut mine, me - distance, distance).await?;
            break;
        }
        if me + distance < size {
            world.recv_into(&mut theirs, me + distance, distance).await?;
            add(&mut mine, &theirs);
        }
        distance *= 2;
    }
    while distance > 1 {
        distance /= 2;
        if me + distance < size {
            world.send(&mine, me + distance, distance).await?;
        }
    }
    Ok(mine)
}

/// Every rank sends its numbers to every other.
pub(crate) async fn everyone(world: &Comm, mut mine: Vec<u64>) -> Result<Vec<u64>, RankError> {
    let sending: Result<Vec<_>, _> = others(world).map(|to| world.isend(&mine, to, 0)).collect();
    let mut theirs = vec![0; mine.len()];
    for from in others(world) {
        world.recv_into(&mut theirs, from, 0).await?;
        add(&mut mine, &theirs);
    }
    wait_all(sending?).await?;
    Ok(mine)
}

/// In step `j` a rank sends the rank `j` after it the block of that rank, and adds the block that
/// it receives from the rank `j` before it.
pub(crate) async fn pairwise_sums(
    world: &Comm,
    mine: &[u64],
    block: usize,
) -> Result<Vec<u64>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let of = |rank: u32| rank as usize * block..(rank as usize + 1) * block;
    let mut sums = mine[of(me)].to_vec();
    let mut theirs = vec![0; block];
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        world.sendrecv(&mine[of(to)], to, step, &mut theirs, from, step).await?;
        add(&mut sums, &theirs);
    }
    Ok(sums)
}

/// In step `j` a rank sends to the rank `j` after it, and receives from the one `j` before it.
pub(crate) async fn pairwise(
    world: &Comm,
    mine: &[u8],
    bytes: usize,
) -> Result<Vec<u8>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let block = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
    let mut got = vec![0; mine.len()];
    got[block(me)].copy_from_slice(&mine[block(me)]);
    for step in 1..size {
        let (to, from) = ((me + step) % size, (me + size - step) % size);
        world.sendrecv(&mine[block(to)], to, step, &mut got[block(from)], from, step).await?;
    }
    Ok(got)
}

/// Every rank sends a block to every other at once.
pub(crate) async fn all_blocks_at_once(
    world: &Comm,
    mine: &[u8],
    bytes: usize,
) -> Result<Vec<u8>, RankError> {
    let me = world.rank();
    let block = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
    let receiving: Result<Vec<_>, _> =
        others(world).map(|from| world.irecv::<u8>(from, 0)).collect();
    let sending: Result<Vec<_>, _> =
        others(world).map(|to| world.isend(&mine[block(to)], to, 0)).collect();
    let mut got = vec![0; mine.len()];
    got[block(me)].copy_from_slice(&mine[block(me)]);
    for (from, (theirs, _)) in others(world).zip(wait_all(receiving?).await?) {
        got[block(from)].copy_from_slice(&theirs);
    }
    wait_all(sending?).await?;
    Ok(got)
}

/// In step `j` a rank sends to the rank `2^j` after it all blocks whose distance to their receiver
/// has the binary digit `2^j` (Bruck and others, 1997).
pub(crate) async fn in_log_steps(
    world: &Comm,
    mine: &[u8],
    bytes: usize,
) -> Result<Vec<u8>, RankError> {
    let (me, size) = (world.rank(), world.size());
    let block = |number: u32| number as usize * bytes..(number as usize + 1) * bytes;
    // By the distance that a block has to go.
    let mut blocks = vec![0; mine.len()];
    for way in 0..size {
        blocks[block(way)].copy_from_slice(&mine[block((me + way) % size)]);
    }
    let mut distance = 1;
    while distance < size {
        let goes = || (0..size).filter(move |way| way & distance != 0);
        let out: Vec<u8> = goes().flat_map(|way| blocks[block(way)].iter().copied()).collect();
        let mut back = vec![0; out.len()];
        let (to, from) = ((me + distance) % size, (me + size - distance) % size);
        world.sendrecv(&out, to, distance, &mut back, from, distance).await?;
        for (number, way) in (0..).zip(goes()) {
            blocks[block(way)].copy_from_slice(&back[block(number)]);
        }
        distance *= 2;
    }
    let mut got = vec![0; mine.len()];
    for way in 0..size {
        got[block((me + size - way) % size)].copy_from_slice(&blocks[block(way)]);
    }
    Ok(got)
}

/// In step `j` ranks exchange all their blocks with the rank `2^j` away. The number of ranks is a
/// power of two.
pub(crate) async fn doubling_blocks(world: &Comm, mine: &[u8]) -> Result<Vec<u8>, RankError> {
    let (me, bytes) = (world.rank(), mine.len());
    let mut all = vec![0; bytes * world.size() as usize];
    all[me as usize * bytes..][..bytes].copy_from_slice(mine);
    let mut distance = 1;
    while distance < world.size() {
        let partner = me ^ distance;
        let known = |rank: u32| {
            let begin = (rank & !(distance - 1)) as usize * bytes;
            begin..begin + distance as usize * bytes
        };
        let out = all[known(me)].to_vec();
        let back = &mut all[known(partner)];
        world.sendrecv(&out, partner, distance, back, partner, distance).await?;
        distance *= 2;
    }
    Ok(all)
}

/// Blocks go around a ring.
pub(crate) async fn ring_of_blocks(world: &Comm, mine: &[u8]) -> Result<Vec<u8>, RankError> {
    let (me, size, bytes) = (world.rank(), world.size(), mine.len());
    let (right, left) = ((me + 1) % size, (me + size - 1) % size);
    let block = |rank: u32| (rank % size) as usize * bytes..((rank % size) as usize + 1) * bytes;
    let mut all = vec![0; bytes * size as usize];
    all[block(me)].copy_from_slice(mine);
    for step in 0..size - 1 {
        let out = all[block(me + size - step)].to_vec();
        let back = &mut all[block(me + size - step - 1)];
        world.sendrecv(&out, right, step, back, left, step).await?;
    }
    Ok(all)
}

/// Every rank sends its block to every other at once.
pub(crate) async fn blocks_of_everyone(world: &Comm, mine: &[u8]) -> Result<Vec<u8>, RankError> {
    let (me, bytes) = (world.rank(), mine.len());
    let block = |rank: u32| rank as usize * bytes..(rank as usize + 1) * bytes;
    let sending: Result<Vec<_>, _> = others(world).map(|to| world.isend(mine, to, 0)).collect();
    let mut all = vec![0; bytes * world.size() as usize];
    all[block(me)].copy_from_slice(mine);
    for from in others(world) {
        world.recv_into(&mut all[block(from)], from, 0).await?;
    }
    wait_all(sending?).await?;
    Ok(all)
}

/// In step `j` a rank notifies the rank `2^j` after it, and waits for the rank `2^j` before it.
pub(crate) async fn dissemination(world: &Comm) -> Result<(), RankError> {
    let (me, size) = (world.rank(), world.size());
    let mut distance = 1;
    while distance < size {
        let (to, from) = ((me + distance) % size, (me + size - distance) % size);
        world.sendrecv(&[0_u8], to, distance, &mut [0_u8], from, distance).await?;
        distance *= 2;
    }
    Ok(())
}
