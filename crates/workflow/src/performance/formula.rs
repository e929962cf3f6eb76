//! Complexity formulas, such as `2 * n^3 + 50 * n * log2(n)`.
//!
//! A formula consists of numbers, names of scalar arguments, `+ - * / ^`, parentheses, and the
//! functions `sqrt`, `log`, `log2`, `exp`, `min` and `max`. A power binds strongest and is
//! right-associative; then follow the sign, products, and sums.

use thiserror::Error;

/// A parsed formula.
///
/// ```
/// use gridspan_workflow::performance::Formula;
///
/// let operations = Formula::parse("2/3 * n^3 + 2 * n^2", &["n"])?;
/// assert_eq!(operations.value(&[30.0]), 18_000.0 + 1_800.0);
///
/// let error = Formula::parse("2 * m", &["n"]).unwrap_err();
/// assert!(error.to_string().starts_with("column 5: "));
/// # Ok::<(), gridspan_workflow::performance::FormulaError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    root: Term,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Number(f64),
    /// A scalar argument, by its position.
    Argument(usize),
    Unary(Unary, Box<Term>),
    Binary(Binary, Box<[Term; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unary {
    Minus,
    Sqrt,
    Log,
    Log2,
    Exp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Binary {
    Plus,
    Minus,
    Times,
    Over,
    Power,
    Min,
    Max,
}

/// A syntax error in a formula, with its column.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("column {column}: {problem}")]
#[non_exhaustive]
pub struct FormulaError {
    /// Column of the error, from 1.
    pub column: usize,
    /// Description of the error.
    pub problem: String,
}

/// Maximum length of a formula in bytes. Longer formulas are rejected, because a chain of
/// operations is nested once for each operation.
const LENGTH_MAX: usize = 4096;
/// Maximum nesting of sums and signed terms, more than a useful formula has. A pair of parentheses
/// adds two.
const DEPTH_MAX: usize = 64;

/// The functions, for errors.
const FUNCTIONS: &str = "sqrt, log, log2, exp, min and max";

impl Formula {
    /// Parses a formula of scalar arguments with these names.
    ///
    /// # Errors
    ///
    /// [`FormulaError`] if the text is not a formula, has a name that is neither an argument nor a
    /// function, is nested too deeply, or has more than 4096 bytes.
    pub fn parse(text: &str, arguments: &[&str]) -> Result<Self, FormulaError> {
        let mut parser = Parser { text, at: 0, arguments, depth: 0 };
        if text.len() > LENGTH_MAX {
            return Err(parser.error(format!("a formula has at most {LENGTH_MAX} bytes")));
        }
        let root = parser.sum()?;
        match parser.peek() {
            None => Ok(Self { root }),
            Some(letter) => Err(parser.error(format!("unexpected `{letter}`"))),
        }
    }

    /// Returns the value for these arguments, in the order of their names. A missing argument
    /// counts as zero; a result that is negative or not finite is zero, since formulas give times
    /// and sizes.
    pub fn value(&self, arguments: &[f64]) -> f64 {
        let value = self.root.value(arguments);
        if value.is_finite() { value.max(0.0) } else { 0.0 }
    }
}

impl Term {
    fn value(&self, arguments: &[f64]) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Argument(place) => arguments.get(*place).copied().unwrap_or_default(),
            Self::Unary(unary, term) => {
                let value = term.value(arguments);
                match unary {
                    Unary::Minus => -value,
                    Unary::Sqrt => value.sqrt(),
                    Unary::Log => value.ln(),
                    Unary::Log2 => value.log2(),
                    Unary::Exp => value.exp(),
                }
            }
            Self::Binary(binary, terms) => {
                let [one, other] = [&terms[0], &terms[1]].map(|term| term.value(arguments));
                match binary {
                    Binary::Plus => one + other,
                    Binary::Minus => one - other,
                    Binary::Times => one * other,
                    Binary::Over => one / other,
                    Binary::Power => one.powf(other),
                    Binary::Min => one.min(other),
                    Binary::Max => one.max(other),
                }
            }
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    arguments: &'a [&'a str],
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, problem: impl Into<String>) -> FormulaError {
        let column = self.text[..self.at].chars().count() + 1;
        FormulaError { column, problem: problem.into() }
    }

    /// Returns the next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn takes(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(letter);
        self.at += if is_next { letter.len_utf8() } else { 0 };
        is_next
    }

    fn expect(&mut self, letter: char) -> Result<(), FormulaError> {
        match self.takes(letter) {
            true => Ok(()),
            false => Err(self.error(format!("a `{letter}` is missing"))),
        }
    }

    fn sum(&mut self) -> Result<Term, FormulaError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("the formula is nested too deeply"));
        }
        let mut term = self.product()?;
        loop {
            let binary = match self.peek() {
                Some('+') => Binary::Plus,
                Some('-') => Binary::Minus,
                _ => break,
            };
            self.at += 1;
            term = Term::Binary(binary, Box::new([term, self.product()?]));
        }
        self.depth -= 1;
        Ok(term)
    }

    fn product(&mut self) -> Result<Term, FormulaError> {
        let mut term = self.signed()?;
        loop {
            let binary = match self.peek() {
                Some('*') => Binary::Times,
                Some('/') => Binary::Over,
                _ => return Ok(term),
            };
            self.at += 1;
            term = Term::Binary(binary, Box::new([term, self.signed()?]));
        }
    }

    fn signed(&mut self) -> Result<Term, FormulaError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error("the formula is nested too deeply"));
        }
        let term = if self.takes('-') {
            Term::Unary(Unary::Minus, Box::new(self.signed()?))
        } else {
            let base = self.atom()?;
            match self.takes('^') {
                true => Term::Binary(Binary::Power, Box::new([base, self.signed()?])),
                false => base,
            }
        };
        self.depth -= 1;
        Ok(term)
    }

    fn atom(&mut self) -> Result<Term, FormulaError> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let term = self.sum()?;
                self.expect(')')?;
                Ok(term)
            }
            Some(letter) if letter.is_ascii_digit() || letter == '.' => self.number(),
            Some(letter) if letter.is_alphabetic() || letter == '_' => self.name(),
            Some(letter) => Err(self.error(format!("unexpected `{letter}`"))),
            None => Err(self.error("the formula ends too early")),
        }
    }

    fn number(&mut self) -> Result<Term, FormulaError> {
        let rest = &self.text[self.at..];
        let mut last = ' ';
        let end = rest.find(|letter: char| {
            let is_exponent = matches!(last, 'e' | 'E') && matches!(letter, '+' | '-');
            last = letter;
            !(letter.is_ascii_digit() || matches!(letter, '.' | 'e' | 'E') || is_exponent)
        });
        let text = &rest[..end.unwrap_or(rest.len())];
        let number: f64 = text.parse().map_err(|_| self.error(format!("bad number `{text}`")))?;
        self.at += text.len();
        Ok(Term::Number(number))
    }

    fn name(&mut self) -> Result<Term, FormulaError> {
        let rest = &self.text[self.at..];
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
        let name = &rest[..end.unwrap_or(rest.len())];
        let unary = match name {
            "sqrt" => Some(Unary::Sqrt),
            "log" => Some(Unary::Log),
            "log2" => Some(Unary::Log2),
            "exp" => Some(Unary::Exp),
            _ => None,
        };
        let binary = match name {
            "min" => Some(Binary::Min),
            "max" => Some(Binary::Max),
            _ => None,
        };
        if let Some(place) = self.arguments.iter().position(|argument| *argument == name) {
            self.at += name.len();
            return Ok(Term::Argument(place));
        }
        if unary.is_none() && binary.is_none() {
            let arguments = match self.arguments {
                [] => "there are no scalar arguments".to_owned(),
                names => format!("the scalar arguments are {}", names.join(", ")),
            };
            return Err(self.error(format!(
                "there is no scalar argument or function `{name}`; {arguments}, and the functions \
                 are {FUNCTIONS}"
            )));
        }
        self.at += name.len();
        self.expect('(')?;
        let first = self.sum()?;
        let term = match (unary, binary) {
            (Some(unary), _) => Term::Unary(unary, Box::new(first)),
            (None, Some(binary)) => {
                self.expect(',')?;
                Term::Binary(binary, Box::new([first, self.sum()?]))
            }
            (None, None) => first,
        };
        self.expect(')')?;
        Ok(term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        Formula::parse(text, &["n", "m"]).unwrap().value(&[8.0, 3.0])
    }

    #[test]
    fn formulas_follow_the_rules_of_arithmetic() {
        assert_eq!(value("2 * n^3 + 5"), 1029.0);
        assert_eq!(value("n * log2(n) / m"), 8.0);
        assert_eq!(value("2^3^2"), 512.0);
        assert_eq!(value("10 - 4 - 3"), 3.0);
        assert_eq!(value("max(n, m) * min(n, 2)"), 16.0);
        assert_eq!(value("1.5e-3 * sqrt(n * 2)"), 0.006);
        assert_eq!(value("-2^2 + 9"), 5.0);
    }

    #[test]
    fn negative_and_infinite_results_are_zero() {
        assert_eq!(value("m - n"), 0.0);
        assert_eq!(value("1 / (n - 8)"), 0.0);
        assert_eq!(value("log(m - 3)"), 0.0);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let problem = |arguments: &[&str]| Formula::parse("sin(n)", arguments).unwrap_err().problem;

        assert_eq!(
            problem(&["n", "m"]),
            "there is no scalar argument or function `sin`; the scalar arguments are n, m, and \
             the functions are sqrt, log, log2, exp, min and max"
        );
        assert!(problem(&[]).contains("; there are no scalar arguments, and the functions are"));
    }

    #[test]
    fn malformed_formulas_are_refused_with_the_column() {
        let column = |text: &str| Formula::parse(text, &["n"]).unwrap_err().column;

        assert_eq!(column("2 * k"), 5);
        assert_eq!(column("2 *"), 4);
        assert_eq!(column("(n"), 3);
        assert_eq!(column("n n"), 3);
        assert_eq!(column("min(n)"), 6);
        assert_eq!(column("1.2.3"), 1);
        assert!(Formula::parse(&"(".repeat(1000), &[]).is_err());
        assert!(Formula::parse(&"-".repeat(1000), &[]).is_err());
        assert!(Formula::parse(&("1+".repeat(1_000_000) + "1"), &[]).is_err());
    }
}
