//! The mesh, its parts, and element matrices.

use super::mesh::{Mesh, is_on_boundary};
use super::part::{MeshPart, cut};
use super::problem::{Equation, Problem, Solution};
use std::collections::BTreeSet;

const SEED: u64 = 7;

#[test]
fn a_mesh_fills_the_square_with_triangles_of_any_degree() {
    let mesh = Mesh::new(20, SEED).unwrap();

    let area = |&[a, b, c]: &[u32; 3]| {
        let [a, b, c] = [a, b, c].map(|node| mesh.nodes[node as usize]);
        0.5 * ((b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]))
    };
    let areas: Vec<f64> = mesh.triangles.iter().map(area).collect();
    let mut neighbours = vec![BTreeSet::new(); 400];
    for [a, b, c] in &mesh.triangles {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            neighbours[*from as usize].insert(*to);
            neighbours[*to as usize].insert(*from);
        }
    }
    let edges = neighbours.iter().map(BTreeSet::len).sum::<usize>() / 2;
    let is_inner = |node: &usize| !is_on_boundary(mesh.nodes[*node]);
    let degrees: BTreeSet<usize> =
        (0..400).filter(is_inner).map(|node| neighbours[node].len()).collect();

    assert!(areas.iter().all(|&area| area > 0.01 / 400.0));
    assert!((areas.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    // Euler's formula.
    assert_eq!(400 + mesh.triangles.len(), edges + 1);
    assert_eq!((0..400).filter(is_inner).count(), 18 * 18);
    assert!(degrees.len() >= 5, "{degrees:?}");
    assert_eq!(mesh, Mesh::new(20, SEED).unwrap());
    assert_ne!(mesh, Mesh::new(20, SEED + 1).unwrap());
}

#[test]
fn a_mesh_without_a_node_inside_is_refused() {
    for size in [0, 1, 2] {
        let error = Mesh::new(size, SEED).unwrap_err();
        assert_eq!(error, format!("a mesh has at least 3 by 3 nodes, not {size} by {size}"));
    }
    let nodes = Mesh::new(3, SEED).unwrap().nodes;
    assert_eq!(nodes.iter().filter(|&&node| !is_on_boundary(node)).count(), 1);
}

#[test]
fn the_element_matrix_of_poisson_is_that_of_textbooks() {
    let problem = Problem { equation: Equation::Poisson, solution: Solution::Smooth };
    // The triangle (0, 0), (1, 0), (0, 1), whose area is a half.
    let gradients = [[-1.0, -1.0], [1.0, 0.0], [0.0, 1.0]];
    let matrix =
        gradients.map(|test| gradients.map(|trial| 0.5 * problem.coupling(test, trial)[0][0]));
    assert_eq!(matrix, [[1.0, -0.5, -0.5], [-0.5, 0.5, 0.0], [-0.5, 0.0, 0.5]]);
}

/// Checks the parts of a mesh against each other.
fn check_parts(mesh: &Mesh, parts: &[MeshPart]) {
    let mut owned = Vec::new();
    for part in parts {
        assert_eq!(part.first as usize, owned.len());
        owned.extend_from_slice(&part.positions[..part.own as usize]);
    }
    let bits = |position: &[f64; 2]| position.map(f64::to_bits);
    let found: BTreeSet<_> = owned.iter().map(bits).collect();
    let inner = mesh.nodes.iter().filter(|&&node| !is_on_boundary(node));
    assert_eq!(found.len(), owned.len());
    assert_eq!(found, inner.map(bits).collect());
    for (part, rank) in parts.iter().zip(0..) {
        let ghosts = part.own as usize..part.inner();
        let expected: Vec<_> = part.ghosts.iter().map(|&ghost| owned[ghost as usize]).collect();
        assert_eq!(part.positions[ghosts], expected);
        assert!(part.positions[part.inner()..].iter().all(|&node| is_on_boundary(node)));
        // The neighbours send the ghosts, in order.
        let sent = part.neighbours.keys().flat_map(|&from| {
            let from = &parts[from as usize];
            from.neighbours[&rank].iter().map(|&own| from.first + own)
        });
        assert_eq!(sent.collect::<Vec<_>>(), part.ghosts);
        for triangle in &part.triangles {
            let has_ghost =
                triangle.iter().any(|&node| (part.own..part.inner() as u32).contains(&node));
            assert!(triangle.iter().any(|&node| node < part.own));
            assert!(!has_ghost || triangle.iter().all(|&node| node >= part.interior));
        }
    }
}

#[test]
fn every_inner_node_is_in_one_part_and_neighbours_send_what_others_miss() {
    let mesh = Mesh::new(17, SEED).unwrap();
    for ranks in [1, 2, 3, 7, 40, 225] {
        let (parts, cut) = cut(&mesh, ranks, SEED).unwrap();
        assert_eq!(parts.len(), ranks as usize);
        check_parts(&mesh, &parts);
        if ranks <= 7 {
            assert!(cut.imbalance < 1.05, "{ranks} ranks: {}", cut.imbalance);
            assert!(parts.iter().all(|part| part.interior > part.own / 3), "{ranks} ranks");
        }
    }
    let error = cut(&mesh, 226, SEED).unwrap_err();
    assert_eq!(error, "226 ranks for 225 inner nodes; use more nodes or fewer ranks");
}
