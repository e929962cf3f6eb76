//! Writes trajectories as extended XYZ, one frame after the other, for OVITO, ASE, VMD and the
//! reader in [`xyz`](super::xyz).

use std::io::{self, Write};

use crate::leanmd::system::System;

/// The properties of a frame besides its atoms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameInfo {
    /// Number of completed steps.
    pub step: u64,
    /// Time in reduced units.
    pub time: f64,
    /// Sum of the potential and the kinetic energy in epsilon, if known.
    pub energy: Option<f64>,
}

/// Appends one frame to `out`: box, species, positions, velocities and ids. Numbers are written
/// with enough digits to read the same bits back.
///
/// # Errors
/// If writing to `out` fails.
pub fn write_frame(out: &mut impl Write, system: &System, info: FrameInfo) -> io::Result<()> {
    let [x, y, z] = system.lengths;
    writeln!(out, "{}", system.len())?;
    write!(
        out,
        "Lattice=\"{x:?} 0.0 0.0 0.0 {y:?} 0.0 0.0 0.0 {z:?}\" Properties=species:S:1:pos:R:3:velo:R:3:id:I:1"
    )?;
    write!(out, " pbc=\"T T T\" Step={} Time={:?}", info.step, info.time)?;
    if let Some(energy) = info.energy {
        write!(out, " energy={energy:?}")?;
    }
    writeln!(out)?;
    for (id, (position, velocity)) in system.positions.iter().zip(&system.velocities).enumerate() {
        write_name(out, system, id)?;
        for axis in position.iter().chain(velocity) {
            write!(out, " {axis:?}")?;
        }
        writeln!(out, " {id}")?;
    }
    Ok(())
}

/// Writes the name of an atom's species, or `X` and its number if it has no usable name, because a
/// column must not be empty.
fn write_name(out: &mut impl Write, system: &System, id: usize) -> io::Result<()> {
    let species = system.species.get(id).copied().unwrap_or_default();
    match system.names.get(usize::from(species)) {
        Some(name) if !name.is_empty() && !name.contains(char::is_whitespace) => {
            write!(out, "{name}")
        }
        _ => write!(out, "X{species}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::leanmd::io::read;

    #[test]
    fn a_frame_is_written_as_extended_xyz() {
        let mut system = System::at_rest(vec![[0.5, 1.0, 2.25]], [3.0, 4.0, 5.0]);
        system.velocities[0] = [0.0, -1.0, 1e-20];
        let mut out = Vec::new();
        write_frame(&mut out, &system, FrameInfo { step: 10, time: 0.04, energy: Some(-3.5) })
            .unwrap();
        let expected = "1\nLattice=\"3.0 0.0 0.0 0.0 4.0 0.0 0.0 0.0 5.0\" Properties=species:S:1:pos:R:3:velo:R:3:id:I:1 \
            pbc=\"T T T\" Step=10 Time=0.04 energy=-3.5\nAr 0.5 1.0 2.25 0.0 -1.0 1e-20 0\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_species_without_a_usable_name_is_named_by_its_number() {
        let mut system = System::at_rest(vec![[0.0; 3]; 2], [1.0; 3]);
        (system.species, system.names) = (vec![0, 7], vec!["two words".to_owned()]);
        let mut out = Vec::new();
        write_frame(&mut out, &system, FrameInfo::default()).unwrap();
        assert_eq!(read(&out, None).unwrap().names, ["X0", "X7"]);
    }

    proptest! {
        #[test]
        fn written_frames_are_read_back_bit_for_bit(
            atoms in proptest::collection::vec((finite(), finite(), 0..3_u16), 1..20),
            lengths in [1e-3..1e6_f64, 1e-3..1e6, 1e-3..1e6],
        ) {
            let mut system = System::at_rest(atoms.iter().map(|atom| atom.0).collect(), lengths);
            system.velocities = atoms.iter().map(|atom| atom.1).collect();
            let mut out = Vec::new();
            write_frame(&mut out, &system, FrameInfo::default()).unwrap();
            prop_assert_eq!(read(&out, Some("frame.xyz")).unwrap().into_system(None).unwrap(), system);
        }
    }

    fn finite() -> impl Strategy<Value = [f64; 3]> {
        let number = || any::<f64>().prop_filter("finite", |number| number.is_finite());
        [number(), number(), number()]
    }
}
