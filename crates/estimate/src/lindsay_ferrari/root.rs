//! A bracketed root of a function that may jump.

/// Evaluations at most. Bisection alone narrows any bracket of `f64` to neighbours in fewer.
const EVALUATIONS_MAX: u32 = 300;

/// Width of a closed bracket, relative to its ends: what rounding leaves of a root.
const RESOLUTION: f64 = 4.0 * f64::EPSILON;

/// A place in a bracket, and the value of the function there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) at: f64,
    pub(super) value: f64,
}

/// Narrows a bracket in which the function changes its sign, by the secant and by halves. Returns the place with the
/// smaller value in the end. Where the function jumps across zero, the result lies at the jump and its value is not 0.
pub(super) fn narrow(mut one: Place, mut other: Place, mut function: impl FnMut(f64) -> f64) -> Place {
    debug_assert!(one.value * other.value <= 0.0, "no sign change: {one:?} {other:?}");
    let (mut one_weight, mut other_weight) = (one.value, other.value);
    let mut width = (other.at - one.at).abs();
    let mut last_replaced_one = None;
    for evaluation in 0..EVALUATIONS_MAX {
        if one.value == 0.0 || other.value == 0.0 || !is_open(one.at, other.at) {
            break;
        }
        // Every third step halves, so that the secant cannot creep.
        let has_crept = evaluation % 3 == 2 && (other.at - one.at).abs() > width / 8.0;
        if evaluation % 3 == 2 {
            width = (other.at - one.at).abs();
        }
        let secant = one.at - one_weight * (other.at - one.at) / (other_weight - one_weight);
        let middle = one.at.midpoint(other.at);
        let (low, high) = (one.at.min(other.at), one.at.max(other.at));
        // A secant that falls onto an end steps beyond the root, which closes the bracket.
        let step = RESOLUTION / 2.0 * low.abs().max(high.abs());
        let is_inside = (low..=high).contains(&secant);
        let at = if has_crept || !is_inside { middle } else { secant.max(low + step).min(high - step) };
        let place = Place { at, value: function(at) };
        // An end that stays twice weighs half, so that the next secant falls beyond the root [the Illinois method].
        let replaces_one = (place.value > 0.0) == (one.value > 0.0);
        let stays = last_replaced_one == Some(replaces_one);
        last_replaced_one = Some(replaces_one);
        if replaces_one {
            one = place;
            one_weight = place.value;
            other_weight *= if stays { 0.5 } else { 1.0 };
        } else {
            other = place;
            other_weight = place.value;
            one_weight *= if stays { 0.5 } else { 1.0 };
        }
    }
    if one.value.abs() <= other.value.abs() { one } else { other }
}

/// Returns true while a bracket is wider than what rounding leaves of a root.
fn is_open(one: f64, other: f64) -> bool {
    (other - one).abs() > RESOLUTION * one.abs().max(other.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(low: f64, high: f64, function: impl Fn(f64) -> f64) -> (Place, u32) {
        let mut evaluations = 0;
        let place = |at| Place { at, value: function(at) };
        let found = narrow(place(low), place(high), |at| {
            evaluations += 1;
            function(at)
        });
        (found, evaluations)
    }

    #[test]
    fn smooth_functions_take_few_evaluations() {
        let (found, evaluations) = root(0.0, 1.0, |x| x.cos() - x);
        assert!((found.at - 0.739_085_133_215_160_6).abs() < 1e-15);
        assert!(evaluations < 20, "{evaluations}");
    }

    #[test]
    fn steep_and_flat_functions_end() {
        for (low, high) in [(0.0, 1.0), (1e-300, 1e300)] {
            let (found, evaluations) = root(low, high, |x| (x - 1e-7).powi(9));
            assert!(evaluations <= EVALUATIONS_MAX, "{evaluations}");
            assert!((found.at - 1e-7).abs() < 1e-2 * high, "{found:?}");
        }
    }

    #[test]
    fn jump_is_found_and_has_a_value() {
        let (found, _) = root(0.0, 1.0, |x| if x < 0.3 { 1.0 } else { -2.0 });
        assert!((found.at - 0.3).abs() < 1e-12);
        assert_eq!(found.value, 1.0);
    }
}
