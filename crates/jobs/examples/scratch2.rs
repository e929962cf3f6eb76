//! scratch fit
use gridspan_jobs::leanmd::{
    decomposition::Cells, droplet::*, force::Scratch, integrate::*, pair::pair_forces,
    potential::*, serial::Serial, vectors::Vectors,
};
use std::time::Instant;
fn main() {
    let system = Droplet::STANDARD.build().unwrap();
    let cells = Cells::with_dims(system.lengths, STANDARD_DIMS, STANDARD_CUTOFF).unwrap();
    let law = LennardJones::new(5.0, Truncation::LinearForceShift).unwrap();
    let mut s = Serial::new(&system, cells, law, 0.004).migrating_every(20);
    let t = Instant::now();
    for _ in 0..20 {
        s.step().unwrap();
    }
    println!("serial {:?} per step", t.elapsed() / 20);
    let atoms = s.atoms();
    let mut sc = Scratch::default();
    let mut rows = vec![];
    for p in cells.pairs() {
        let (a, b) = (atoms[cells.number(p.a)].positions(), atoms[cells.number(p.b)].positions());
        let mut best = f64::MAX;
        let mut w = 0;
        for _ in 0..7 {
            let t = Instant::now();
            let f = pair_forces(&p, &cells, &law, a, b, &mut sc);
            best = best.min(t.elapsed().as_nanos() as f64);
            w = f.sums.pairs;
            std::hint::black_box(&f);
        }
        rows.push((
            [1.0, (a.len() + b.len()) as f64, w as f64, ((a.len() * b.len()) as f64)],
            best,
        ));
    }
    for k in [3usize, 4] {
        let mut m = vec![vec![0.0; k + 1]; k];
        for (x, y) in &rows {
            let wt = 1.0 / (y + 2000.0);
            for i in 0..k {
                for j in 0..k {
                    m[i][j] += wt * x[i] * x[j];
                }
                m[i][k] += wt * x[i] * y;
            }
        }
        for i in 0..k {
            let d = m[i][i];
            for j in 0..=k {
                m[i][j] /= d;
            }
            for r in 0..k {
                if r != i {
                    let f = m[r][i];
                    for j in 0..=k {
                        m[r][j] -= f * m[i][j];
                    }
                }
            }
        }
        let c: Vec<f64> = (0..k).map(|i| m[i][k]).collect();
        let (tot, est): (f64, f64) = rows
            .iter()
            .map(|(x, y)| (*y, (0..k).map(|i| c[i] * x[i]).sum::<f64>()))
            .fold((0., 0.), |a, b| (a.0 + b.0, a.1 + b.1));
        println!("fit {c:?} total {:.2} ms est {:.2} ms", tot / 1e6, est / 1e6);
    }
    for i in (0..3024).step_by(151) {
        println!("{:?} {}", rows[i].0, rows[i].1);
    }
    let mut big = atoms[cells.number([2, 2, 2])].clone();
    let f = Vectors::zeros(big.len());
    let n = big.len();
    let t = Instant::now();
    for _ in 0..1000 {
        kick(&mut big, &f, 0.001);
        drift(&mut big, 0.0);
        kick(&mut big, &f, 0.001);
        std::hint::black_box(&Motion::of(&big));
    }
    println!("integrate {} ns/atom of {n}", t.elapsed().as_nanos() as f64 / 1000.0 / n as f64);
    let mut g = Vectors::zeros(n);
    let t = Instant::now();
    for _ in 0..1000 {
        g.add(&f);
        std::hint::black_box(&g);
    }
    println!("add {} ns/atom", t.elapsed().as_nanos() as f64 / 1000.0 / n as f64);
    let mut fp = gridspan_jobs::leanmd::fingerprint::Fingerprint::default();
    let t = Instant::now();
    for _ in 0..1000 {
        fp.add(&big);
    }
    println!("fp {} ns/atom {fp:?}", t.elapsed().as_nanos() as f64 / 1000.0 / n as f64);
}
