//! A straight line through measurements, by least squares.

/// Sums over points, kept about their means so that large coordinates cost no precision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    /// Σ(x − mean)², Σ(x − mean)(y − mean), Σ(y − mean)².
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    /// One more point.
    pub fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let (dx, dy) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += dx / self.count;
        self.mean_y += dy / self.count;
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
        self.yy += dy * (y - self.mean_y);
    }

    /// How many points.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Their mean height.
    pub fn mean_y(&self) -> f64 {
        self.mean_y
    }

    /// How much the line rises per unit of x; zero where the points do not say.
    pub fn slope(&self) -> f64 {
        if self.xx > 0.0 { self.xy / self.xx } else { 0.0 }
    }

    /// Standard error of the slope. `scatter` is how far points are taken to stray from the line before they have
    /// shown it: it counts as one more observation, and is all there is to go by for two points.
    pub fn slope_error(&self, scatter: f64) -> f64 {
        if self.xx <= 0.0 {
            return f64::INFINITY;
        }
        let residual = (self.yy - self.slope() * self.xy).max(0.0);
        let variance = (residual + scatter * scatter) / (self.count - 2.0 + 1.0).max(1.0);
        (variance / self.xx).sqrt()
    }
}

/// Probability that a standard normal variable is below `z`: Abramowitz and Stegun 7.1.26, good to 10⁻⁷.
pub(super) fn normal_cdf(z: f64) -> f64 {
    const A: [f64; 5] = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = A.iter().rev().fold(0.0, |sum, a| (sum + a) * t);
    let upper = 0.5 * polynomial * (-x * x).exp();
    if z > 0.0 { 1.0 - upper } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        let mut line = Line::default();
        points.iter().for_each(|&(x, y)| line.add(x, y));
        line
    }

    #[test]
    fn slope_and_error_of_a_textbook_line() {
        // Means 3 and 4; Σdx² = 10, ΣdxΔy = 9, Σdy² = 10: slope 0.9, residual 10 − 8.1 = 1.9.
        let line = line(&[(1.0, 2.0), (2.0, 3.0), (3.0, 5.0), (4.0, 4.0), (5.0, 6.0)]);
        assert!((line.slope() - 0.9).abs() < 1e-12 && line.mean_y() == 4.0);
        // One pseudo-observation of scatter 0: four degrees of freedom less one make 3 + 1.
        assert!((line.slope_error(0.0) - (1.9f64 / 4.0 / 10.0).sqrt()).abs() < 1e-12);
        assert!((line.slope_error(2.0) - (5.9f64 / 4.0 / 10.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn two_points_stray_as_far_as_was_assumed() {
        let line = line(&[(0.0, 0.0), (10.0, 1.0)]);
        assert!((line.slope() - 0.1).abs() < 1e-12);
        // Σdx² = 50.
        assert!((line.slope_error(1.0) - (1.0f64 / 50.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn points_at_one_moment_say_nothing() {
        let line = line(&[(5.0, 1.0), (5.0, 9.0)]);
        assert_eq!((line.slope(), line.slope_error(1.0)), (0.0, f64::INFINITY));
    }

    #[test]
    fn far_from_the_origin_nothing_is_lost() {
        let far = 1e15;
        let line = line(&[(far, 7.0), (far + 1.0, 9.0), (far + 2.0, 11.0)]);
        assert!((line.slope() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn normal_probabilities() {
        for (z, p) in
            [(0.0, 0.5), (1.0, 0.841_344_7), (-1.0, 0.158_655_3), (1.96, 0.975_002_1), (-3.0, 0.001_349_9)]
        {
            assert!((normal_cdf(z) - p).abs() < 2e-7, "{z}: {}", normal_cdf(z));
        }
    }
}
