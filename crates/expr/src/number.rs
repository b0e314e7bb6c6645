//! Numbers: checked arithmetic on ints, and exact comparison of ints with doubles.
//!
//! Promises that no operation wraps around, and that an int and a double compare by their exact values, even if a
//! double cannot represent the int. NaN equals nothing.

use crate::EvalError;
use crate::program::{Arithmetic, Compare, Value};
use std::cmp::Ordering;

/// 2^63: the first double past the ints. Its negative is the least int.
const INT_END: f64 = 9_223_372_036_854_775_808.0;

impl Arithmetic {
    pub fn ints(self, left: i64, right: i64, at: u32) -> Result<i64, EvalError> {
        let result = match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide | Self::Remainder if right == 0 => {
                return Err(EvalError::DivisionByZero { at });
            }
            Self::Divide => left.checked_div(right),
            Self::Remainder => left.checked_rem(right),
        };
        result.ok_or(EvalError::Overflow { at })
    }

    pub fn doubles(self, left: f64, right: f64) -> f64 {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
            Self::Divide => left / right,
            Self::Remainder => left % right,
        }
    }
}

impl Compare {
    /// Whether two values in this order satisfy the comparison; `None` means unordered.
    pub fn holds(self, order: Option<Ordering>) -> bool {
        match self {
            Self::Equal => order == Some(Ordering::Equal),
            Self::NotEqual => order != Some(Ordering::Equal),
            Self::Less => order == Some(Ordering::Less),
            Self::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }

    /// Strings compare by their bytes, which is the order of their characters.
    pub fn texts(self, left: &str, right: &str) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            _ => self.holds(Some(left.cmp(right))),
        }
    }
}

impl Value {
    pub fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(&right)),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(&right),
            (Self::Int(left), Self::Double(right)) => order_mixed(left, right),
            (Self::Double(left), Self::Int(right)) => {
                order_mixed(right, left).map(Ordering::reverse)
            }
        }
    }
}

fn order_mixed(int: i64, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    match whole(double) {
        Some(whole) => {
            // If the whole parts are equal, the fraction decides: 2 < 2.5, -2 > -2.5.
            let fraction = double - double.trunc();
            Some(int.cmp(&whole).then(0.0_f64.total_cmp(&(fraction + 0.0))))
        }
        None if double > 0.0 => Some(Ordering::Less),
        None => Some(Ordering::Greater),
    }
}

/// A double without its fraction, if that is an int.
pub(crate) fn whole(double: f64) -> Option<i64> {
    (-INT_END..INT_END).contains(&double).then_some(double as i64)
}

#[cfg(test)]
mod tests {
    use super::{Value, order_mixed, whole};
    use std::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn ints_and_doubles_compare_exactly() {
        let big = (1_i64 << 53) + 1;
        for (int, double, order) in [
            (2, 2.0, Equal),
            (2, 2.5, Less),
            (-2, -2.5, Greater),
            (0, -0.0, Equal),
            (0, 0.5, Less),
            (0, -0.5, Greater),
            (big, 9_007_199_254_740_992.0, Greater),
            (i64::MAX, 9_223_372_036_854_775_808.0, Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Equal),
            (i64::MIN, -9_223_372_036_854_777_856.0, Greater),
            (i64::MAX, f64::INFINITY, Less),
            (i64::MIN, f64::NEG_INFINITY, Greater),
        ] {
            assert_eq!(order_mixed(int, double), Some(order), "{int} {double}");
            let back = Value::Double(double).order(Value::Int(int));
            assert_eq!(back, Some(order.reverse()), "{double} {int}");
        }
        assert_eq!(order_mixed(0, f64::NAN), None);
    }

    #[test]
    fn only_doubles_in_range_are_ints() {
        assert_eq!(whole(2.9), Some(2));
        assert_eq!(whole(-2.9), Some(-2));
        assert_eq!(whole(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        for none in [9_223_372_036_854_775_808.0, 1e300, -1e300, f64::NAN, f64::INFINITY] {
            assert_eq!(whole(none), None, "{none}");
        }
    }
}
