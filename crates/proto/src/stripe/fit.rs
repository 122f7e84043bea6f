//! A curve through measured throughputs, to tell which number of lanes is enough.

/// Throughput by number of lanes as n / √(a·n² + b·n + c): rises at first, then levels off or falls (Yildirim, Yin,
/// Kosar: *Prediction of optimal parallelism level in wide area data transfers*, 2011).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    a: f64,
    b: f64,
    c: f64,
}

impl Curve {
    /// The curve closest to measured points (lanes, throughput), by relative error. `None` if there are less than three
    /// different numbers of lanes, or no such curve passes near them.
    pub fn through(points: &[(u32, f64)]) -> Option<Curve> {
        let mut matrix = [[0.0; 4]; 3];
        for &(lanes, rate) in points {
            if lanes == 0 || rate <= 0.0 {
                return None;
            }
            let n = f64::from(lanes);
            let y = (n / rate).powi(2);
            // Linear in a, b and c; divided by y, so that each point counts the same.
            let row = [n * n / y, n / y, 1.0 / y, 1.0];
            for i in 0..3 {
                for j in 0..4 {
                    matrix[i][j] += row[i] * row[j];
                }
            }
        }
        let [a, b, c] = solve(matrix)?;
        let curve = Curve { a, b, c };
        let near = |&(lanes, rate): &(u32, f64)| {
            curve.at(lanes).is_some_and(|fitted| (fitted / rate - 1.0).abs() <= ERROR_MAX)
        };
        points.iter().all(near).then_some(curve)
    }

    /// What it says for so many lanes; `None` where it makes no sense.
    pub fn at(&self, lanes: u32) -> Option<f64> {
        let n = f64::from(lanes);
        let square = self.a * n * n + self.b * n + self.c;
        (square > 0.0).then(|| n / square.sqrt())
    }

    /// The smallest number of lanes up to `max` with at least `share` of what the best of them gives.
    pub fn smallest_good(&self, max: u32, share: f64) -> Option<u32> {
        let rates: Option<Vec<f64>> = (1..=max).map(|lanes| self.at(lanes)).collect();
        let rates = rates?;
        let best = rates.iter().copied().fold(0.0, f64::max);
        rates.iter().position(|rate| *rate >= best * share).map(|at| at as u32 + 1)
    }
}

/// Gauss's elimination with row pivots.
fn solve(mut m: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    for column in 0..3 {
        let pivot = (column..3).max_by(|i, j| m[*i][column].abs().total_cmp(&m[*j][column].abs()))?;
        m.swap(column, pivot);
        let scale = m[column][column];
        // The equations depend on each other: too few different points.
        if scale.abs() < 1e-12 * m[column][3].abs().max(f64::MIN_POSITIVE) {
            return None;
        }
        let top = m[column];
        for (i, row) in m.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            debug_assert_ne!(i, column);
            let factor = row[column] / scale;
            row.iter_mut().zip(top).for_each(|(x, t)| *x -= factor * t);
        }
    }
    let solution: [f64; 3] = std::array::from_fn(|i| m[i][3] / m[i][i]);
    solution.iter().all(|x| x.is_finite()).then_some(solution)
}

/// A curve further than this from a point says nothing about what lies between the points.
const ERROR_MAX: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rate: impl Fn(f64) -> f64) -> Vec<(u32, f64)> {
        [1, 2, 4, 8, 16].map(|n| (n, rate(f64::from(n)))).to_vec()
    }

    #[test]
    fn finds_the_curve_that_the_points_lie_on() {
        let exact = |n: f64| n / (0.01 * n * n + 0.1 * n + 2.0).sqrt();
        let curve = Curve::through(&points(exact)).unwrap();
        for lanes in 1..=32 {
            assert!((curve.at(lanes).unwrap() / exact(f64::from(lanes)) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn too_few_points_or_none_near_give_no_curve() {
        assert_eq!(Curve::through(&[(1, 5.0), (2, 9.0), (2, 9.1)]), None);
        assert_eq!(Curve::through(&[]), None);
        let jagged = [(1, 10.0), (2, 1.0), (4, 10.0), (8, 1.0), (16, 10.0)];
        assert_eq!(Curve::through(&jagged), None);
    }

    #[test]
    fn a_flat_path_needs_one_lane() {
        let curve = Curve::through(&points(|_| 90.0)).unwrap();
        assert_eq!(curve.smallest_good(16, 0.95), Some(1));
    }
}
