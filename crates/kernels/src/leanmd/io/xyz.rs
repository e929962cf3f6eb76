//! The XYZ family: a line with the number of atoms, a comment line, and a line per atom.
//!
//! - *plain*: any comment; an atom is `symbol x y z`; no box
//! - *extended*: the comment contains `Lattice="..."` and `Properties=name:type:columns:...`. Of
//!   the properties, `species`, `pos` and `velo` (or `vel`, `velocities`) are read. Without
//!   `Properties`, an atom is `symbol x y z`.
//! - *NIST*: the comment is `1 Lx Ly Lz`; an atom is `index x y z`

use super::scan::{Line, Names, atom_count, lines, number};
use super::{MdSnapshot, ReadError};

/// Maximum number of columns in a line; a longer `Properties` is an error.
const COLUMNS_MAX: usize = 1000;

/// Columns of an atom's properties in its line.
#[derive(Clone, Copy, Debug)]
struct Columns {
    species: Option<usize>,
    position: usize,
    velocity: Option<usize>,
}

const PLAIN: Columns = Columns { species: Some(0), position: 1, velocity: None };
const NIST: Columns = Columns { species: None, position: 1, velocity: None };

/// Reads the first frame.
///
/// # Errors
/// If the text is not such a file; the error gives the line.
pub fn read(text: &str) -> Result<MdSnapshot, ReadError> {
    let mut lines = lines(text);
    let first = lines.next().ok_or(ReadError::NoAtoms)?;
    let promised = first.fields().whole("the number of atoms")?;
    let count = atom_count(first.number, promised, text.len())?;
    let comment = lines.next().ok_or(ReadError::Ends { line: 1, promised: count, found: 0 })?;
    let (columns, lengths) = understand(comment)?;
    let mut names = Names::default();
    let mut snapshot = MdSnapshot {
        lengths,
        velocities: columns.velocity.map(|_| Vec::with_capacity(count)),
        ..MdSnapshot::default()
    };
    snapshot.positions.reserve(count);
    snapshot.species.reserve(count);
    for found in 0..count {
        let line =
            lines.next().ok_or(ReadError::Ends { line: 2 + found, promised: count, found })?;
        let fields: Vec<&str> = line.text.split_whitespace().take(COLUMNS_MAX).collect();
        let field = |column: usize, expected| {
            fields.get(column).copied().ok_or(ReadError::Missing { line: line.number, expected })
        };
        let vector = |column: usize, expected| -> Result<[f64; 3], ReadError> {
            let at = |offset| {
                field(column + offset, expected)
                    .and_then(|word| number(line.number, word, expected))
            };
            Ok([at(0)?, at(1)?, at(2)?])
        };
        let name = columns.species.map_or(Ok("Ar"), |column| field(column, "a chemical symbol"))?;
        snapshot.species.push(names.number(line.number, name)?);
        snapshot.positions.push(vector(columns.position, "a coordinate")?);
        if let (Some(column), Some(velocities)) = (columns.velocity, &mut snapshot.velocities) {
            velocities.push(vector(column, "a velocity")?);
        }
    }
    names.finish(&mut snapshot);
    Ok(snapshot)
}

/// Parses the columns and the box from the second line.
fn understand(comment: Line<'_>) -> Result<(Columns, Option<[f64; 3]>), ReadError> {
    let numbers: Vec<f64> =
        comment.text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    if let [1.0, x, y, z] = numbers[..]
        && comment.text.split_whitespace().count() == 4
    {
        return Ok((NIST, Some([x, y, z])));
    }
    let lengths = value(comment.text, "Lattice")
        .map(|lattice| lattice_lengths(comment, lattice))
        .transpose()?;
    let columns = value(comment.text, "Properties")
        .map_or(Ok(PLAIN), |properties| columns(comment, properties))?;
    Ok((columns, lengths))
}

/// Returns the value of `key=value` or `key="value with spaces"`, ignoring the case of the key.
fn value<'a>(comment: &'a str, key: &str) -> Option<&'a str> {
    let starts = comment.char_indices().map(|(start, _)| start);
    let after = starts
        .filter(|&start| start == 0 || comment[..start].ends_with(char::is_whitespace))
        .filter_map(|start| comment[start..].split_at_checked(key.len()))
        .find_map(|(word, rest)| {
            word.eq_ignore_ascii_case(key).then(|| rest.strip_prefix('=')).flatten()
        })?;
    match after.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => after.split_whitespace().next(),
    }
}

fn lattice_lengths(comment: Line<'_>, lattice: &str) -> Result<[f64; 3], ReadError> {
    let mut fields = Line { number: comment.number, text: lattice }.fields();
    let expected = "nine numbers in Lattice";
    let (a, b, c) = (fields.vector(expected)?, fields.vector(expected)?, fields.vector(expected)?);
    if [a[1], a[2], b[0], b[2], c[0], c[1]].iter().any(|&tilt| tilt != 0.0) {
        return Err(ReadError::Unsupported {
            line: comment.number,
            what: "the lattice is tilted; only boxes with right angles are supported",
        });
    }
    Ok([a[0], b[1], c[2]])
}

fn columns(comment: Line<'_>, properties: &str) -> Result<Columns, ReadError> {
    let wrong = |found: &str| comment.unexpected("name:type:columns in Properties", found);
    let mut parts = properties.split(':');
    let (mut species, mut position, mut velocity) = (None, None, None);
    let mut column = 0_usize;
    while let Some(name) = parts.next() {
        let kind = parts.next().ok_or_else(|| wrong(name))?;
        let width = parts.next().ok_or_else(|| wrong(name))?;
        let width: usize = width.parse().map_err(|_| wrong(width))?;
        let three = width == 3 && kind.eq_ignore_ascii_case("R");
        match name.to_ascii_lowercase().as_str() {
            "species" if width == 1 => species = Some(column),
            "pos" if three => position = Some(column),
            "vel" | "velo" | "velocities" if three => velocity = Some(column),
            "species" | "pos" | "vel" | "velo" | "velocities" => return Err(wrong(name)),
            _ => {}
        }
        column = column.saturating_add(width);
        if column > COLUMNS_MAX {
            return Err(wrong(name));
        }
    }
    let position =
        position.ok_or_else(|| comment.unexpected("pos:R:3 in Properties", properties))?;
    Ok(Columns { species, position, velocity })
}

/// A file with everything that this reader supports.
#[cfg(test)]
pub(super) const GOOD: &str = "2\nLattice=\"10.0 0.0 0.0 0.0 11.0 0.0 0.0 0.0 12.5\" \
    Properties=id:I:1:species:S:1:pos:R:3:velo:R:3 pbc=\"T T T\"\n7 O 1.5 2 3 0.1 0.2 0.3\n8 H -1 4.25e0 6 0 0 -1\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_file_gives_box_species_positions_and_velocities() {
        let snapshot = read(GOOD).unwrap();
        assert_eq!(snapshot.lengths, Some([10.0, 11.0, 12.5]));
        assert_eq!(snapshot.positions, [[1.5, 2.0, 3.0], [-1.0, 4.25, 6.0]]);
        assert_eq!(snapshot.velocities, Some(vec![[0.1, 0.2, 0.3], [0.0, 0.0, -1.0]]));
        assert_eq!(
            (snapshot.species, snapshot.names),
            (vec![0, 1], vec!["O".to_owned(), "H".to_owned()])
        );
    }

    #[test]
    fn a_plain_file_may_have_any_comment_and_more_frames() {
        let snapshot = read("1\nwater, lattice unknown\nO 1 2 3 extra\n1\n\nO 4 5 6\n").unwrap();
        assert_eq!((snapshot.positions, snapshot.lengths), (vec![[1.0, 2.0, 3.0]], None));
    }

    #[test]
    fn the_nist_layout_gives_the_box_in_its_second_line() {
        let snapshot = read(include_str!("../../../data/nist-lj-4.xyz")).unwrap();
        assert_eq!((snapshot.positions.len(), snapshot.lengths), (30, Some([8.0; 3])));
        assert_eq!(snapshot.positions[29], [2.592655226763, 3.786335083587, -1.252452130644]);
    }

    #[test]
    fn errors_give_the_line() {
        for (text, message) in [
            ("two\n\n", "line 1: expected the number of atoms, found `two`"),
            (
                "9999\n\nAr 0 0 0\n",
                "line 1: 9999 atoms are announced, but the file can hold at most 2",
            ),
            ("2\n\nAr 0.0 0.0 0.0\n", "line 3: the file ends here, after 1 of 2 atoms"),
            ("1\n\nAr 0 x 0\n", "line 3: expected a coordinate, found `x`"),
            ("1\n\nAr 0 0\n", "line 3: expected a coordinate, found nothing there"),
            (
                "1\nLattice=\"1 0 0 1 1 0 0 0 1\"\nAr 0 0 0\n",
                "line 2: the lattice is tilted; only boxes with right angles are supported",
            ),
            (
                "1\nLattice=\"1 0 0\"\nAr 0 0 0\n",
                "line 2: expected nine numbers in Lattice, found nothing there",
            ),
            (
                "1\nProperties=species:S:1\nAr 0 0 0\n",
                "line 2: expected pos:R:3 in Properties, found `species:S:1`",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message, "{text:?}");
        }
    }
}
