//! LAMMPS data files with atom style `atomic`: a title, a header of counts and bounds, then
//! sections named by their first line.
//!
//! The sections `Atoms` (`id type x y z`, image flags are ignored) and `Velocities` (`id vx vy vz`)
//! are read, others are skipped. Atoms are ordered by id; positions are relative to the lower
//! bounds of the box. Comments start at `#`.

use std::collections::BTreeMap;

use super::scan::{Line, Names, atom_count, lines};
use super::{MdSnapshot, ReadError};

/// First words of the sections of LAMMPS; any other word at the start of a section is an error.
const SECTIONS: [&str; 26] = [
    "Atoms",
    "Velocities",
    "Masses",
    "Pair",
    "PairIJ",
    "Bond",
    "Angle",
    "Dihedral",
    "Improper",
    "BondBond",
    "BondAngle",
    "MiddleBondTorsion",
    "EndBondTorsion",
    "AngleTorsion",
    "AngleAngleTorsion",
    "BondBond13",
    "AngleAngle",
    "Bonds",
    "Angles",
    "Dihedrals",
    "Impropers",
    "Ellipsoids",
    "Lines",
    "Triangles",
    "Atom",
    "Bodies",
];

/// The contents of the header.
#[derive(Debug, Default)]
struct Header {
    atoms: Option<usize>,
    /// Lower and upper bound per axis.
    bounds: [Option<(f64, f64)>; 3],
}

/// Reads the file.
///
/// # Errors
/// If the text is not such a file; the error gives the line.
pub fn read(text: &str) -> Result<MdSnapshot, ReadError> {
    let mut header = Header::default();
    let mut section = None;
    let mut atoms: BTreeMap<u64, (u16, [f64; 3])> = BTreeMap::new();
    let mut velocities: BTreeMap<u64, [f64; 3]> = BTreeMap::new();
    let mut names = Names::default();
    let mut last = 1;
    // The first line is a title with any content.
    for full in lines(text).skip(1) {
        let line =
            Line { number: full.number, text: full.text.split('#').next().unwrap_or_default() };
        last = line.number;
        let Some(first) = line.text.split_whitespace().next() else { continue };
        if first.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            section = Some(begin(full, first)?);
            continue;
        }
        match section {
            None => header.line(line, text.len())?,
            Some("Atoms") => {
                let count = header.atoms.ok_or(ReadError::NoCount { line: line.number })?;
                let (id, atom) = atom(line, &mut names)?;
                insert(&mut atoms, line, id, atom, count)?;
            }
            Some("Velocities") => {
                let count = header.atoms.ok_or(ReadError::NoCount { line: line.number })?;
                let mut fields = line.fields();
                let id = fields.whole("an atom id")?;
                insert(&mut velocities, line, id, fields.vector("a velocity")?, count)?;
            }
            Some(_) => {}
        }
    }
    header.finish(last, &atoms, &velocities, names)
}

impl Header {
    /// Parses a line of the header; lines that do not concern atoms or the box are skipped.
    fn line(&mut self, line: Line<'_>, bytes: usize) -> Result<(), ReadError> {
        let words: Vec<&str> = line.text.split_whitespace().take(6).collect();
        let mut fields = line.fields();
        match words[..] {
            [_, "atoms"] => {
                self.atoms =
                    Some(atom_count(line.number, fields.whole("the number of atoms")?, bytes)?)
            }
            [_, _, "xlo", "xhi"] => self.bounds[0] = Some(bound(line)?),
            [_, _, "ylo", "yhi"] => self.bounds[1] = Some(bound(line)?),
            [_, _, "zlo", "zhi"] => self.bounds[2] = Some(bound(line)?),
            [.., "xy", "xz", "yz"] if fields.vector("a tilt")? != [0.0; 3] => {
                return Err(ReadError::Unsupported {
                    line: line.number,
                    what: "the box is tilted; only boxes with right angles are supported",
                });
            }
            _ => {}
        }
        Ok(())
    }

    /// Assembles the snapshot from the sections of a file of `last` lines.
    fn finish(
        self,
        last: usize,
        atoms: &BTreeMap<u64, (u16, [f64; 3])>,
        velocities: &BTreeMap<u64, [f64; 3]>,
        names: Names,
    ) -> Result<MdSnapshot, ReadError> {
        let promised = self.atoms.ok_or(ReadError::NoAtoms)?;
        if atoms.len() < promised {
            return Err(ReadError::Ends { line: last, promised, found: atoms.len() });
        }
        let [x, y, z] = self.bounds;
        let bounds = x.zip(y).zip(z).map(|((x, y), z)| [x, y, z]);
        let origin = bounds.map_or([0.0; 3], |bounds| bounds.map(|(low, _)| low));
        let mut snapshot = MdSnapshot {
            lengths: bounds.map(|bounds| bounds.map(|(low, high)| high - low)),
            ..MdSnapshot::default()
        };
        for &(species, position) in atoms.values() {
            snapshot.species.push(species);
            snapshot.positions.push(std::array::from_fn(|axis| position[axis] - origin[axis]));
        }
        if !velocities.is_empty() {
            let of = |id: &u64| {
                velocities.get(id).copied().ok_or(ReadError::Id {
                    line: last,
                    id: *id,
                    problem: "has no velocity",
                })
            };
            snapshot.velocities = Some(atoms.keys().map(of).collect::<Result<_, _>>()?);
        }
        names.finish(&mut snapshot);
        Ok(snapshot)
    }
}

/// Returns the section that a line starts.
fn begin(line: Line<'_>, first: &str) -> Result<&'static str, ReadError> {
    let section = SECTIONS.into_iter().find(|&known| known == first);
    let section =
        section.ok_or_else(|| line.unexpected("the name of a section", line.text.trim()))?;
    let style = line.text.split_once('#').map(|(_, comment)| comment.trim());
    if section == "Atoms" && style.is_some_and(|style| !style.is_empty() && style != "atomic") {
        return Err(ReadError::Unsupported {
            line: line.number,
            what: "only atom style `atomic` is supported",
        });
    }
    Ok(section)
}

fn bound(line: Line<'_>) -> Result<(f64, f64), ReadError> {
    let mut fields = line.fields();
    Ok((fields.number("a lower bound")?, fields.number("an upper bound")?))
}

fn atom(line: Line<'_>, names: &mut Names) -> Result<(u64, (u16, [f64; 3])), ReadError> {
    let mut fields = line.fields();
    let id = fields.whole("an atom id")?;
    let species = names.number(line.number, fields.word("an atom type")?)?;
    Ok((id, (species, fields.vector("a coordinate")?)))
}

fn insert<T>(
    into: &mut BTreeMap<u64, T>,
    line: Line<'_>,
    id: u64,
    value: T,
    count: usize,
) -> Result<(), ReadError> {
    let line = line.number;
    if into.insert(id, value).is_some() {
        return Err(ReadError::Id { line, id, problem: "appears twice" });
    }
    if into.len() > count {
        Err(ReadError::Id { line, id, problem: "is one more than the header announces" })
    } else {
        Ok(())
    }
}

/// A file with everything that this reader supports.
#[cfg(test)]
pub(super) const GOOD: &str = "LAMMPS data file of nothing

3 atoms
2 atom types

-1.0 9.0 xlo xhi
0.0 11.0 ylo yhi # periodic
0.0 12.5 zlo zhi
0 0 0 xy xz yz

Masses

1 16.0
2 1.0

Atoms # atomic

3 2 1.0 2.0 3.0 0 0 -1
1 1 0.5 0.25 0.125 # the first
2 2 -1.0 0 12

Velocities

1 0.1 0.2 0.3
2 0 0 0
3 -1 -2 -3
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_are_ordered_by_id_and_relative_to_the_lower_bounds() {
        let snapshot = read(GOOD).unwrap();
        assert_eq!(snapshot.lengths, Some([10.0, 11.0, 12.5]));
        assert_eq!(snapshot.positions, [[1.5, 0.25, 0.125], [0.0, 0.0, 12.0], [2.0, 2.0, 3.0]]);
        assert_eq!(snapshot.velocities.unwrap()[2], [-1.0, -2.0, -3.0]);
        assert_eq!((snapshot.names[0].as_str(), snapshot.species), ("2", vec![1, 0, 0]));
    }

    #[test]
    fn sections_of_class_2_force_fields_and_of_triangles_are_skipped() {
        let expected = read(GOOD).unwrap();
        for section in [
            "BondBond Coeffs",
            "BondAngle Coeffs",
            "MiddleBondTorsion Coeffs",
            "EndBondTorsion Coeffs",
            "AngleTorsion Coeffs",
            "AngleAngleTorsion Coeffs",
            "BondBond13 Coeffs",
            "AngleAngle Coeffs",
            "Triangles",
        ] {
            let text = GOOD.replacen("Masses", &format!("{section}\n\n1 2.5 0.1\n\nMasses"), 1);
            assert_eq!(read(&text).as_ref(), Ok(&expected), "{section}");
        }
    }

    #[test]
    fn errors_give_the_line() {
        for (from, to, message) in [
            ("3 atoms", "4 atoms", "line 26: the file ends here, after 3 of 4 atoms"),
            (
                "3 atoms",
                "# 3 atoms",
                "line 18: the header does not give the number of atoms (`N atoms`)",
            ),
            ("3 atoms", "2 atoms", "line 20: atom 2 is one more than the header announces"),
            (
                "3 atoms",
                "3000000 atoms",
                "line 3: 3000000 atoms are announced, but the file can hold at most 47",
            ),
            ("2 2 -1.0", "1 2 -1.0", "line 20: atom 1 appears twice"),
            ("2 0 0 0\n", "", "line 25: atom 2 has no velocity"),
            (
                "0 0 0 xy",
                "1 0 0 xy",
                "line 9: the box is tilted; only boxes with right angles are supported",
            ),
            ("# atomic", "# full", "line 16: only atom style `atomic` is supported"),
            ("Masses", "Massen", "line 11: expected the name of a section, found `Massen`"),
            ("0.5 0.25", "0.5 q", "line 19: expected a coordinate, found `q`"),
        ] {
            assert_eq!(
                read(&GOOD.replacen(from, to, 1)).unwrap_err().to_string(),
                message,
                "{from} -> {to}"
            );
        }
    }
}
