//! Equations (16) to (22): mean wait in the queue of a drive, from independent uses of its files.
//!
//! Each of the `F` files of a drive is in use for a share `q` of the time, waiting included. The uses are taken as
//! independent. The drive is busy while at least one of its files is in use, and `m − 1` files wait while `m` are in
//! use:
//!
//! ```text
//! (17)  Pr{m in use} = binomial(F, m) q^m (1 − q)^(F−m)
//! (18)  X A + T = R (1 − (1 − q)^F)
//! (20)  q = 1 − (1 − (X A + T)/R)^(1/F)
//! (21)  wait per drive = R ((1 − q)^F − (1 − q F))
//! (22)  d = R/X ((1 − q)^F − (1 − q F))
//! ```
//! (20) and (22) are the repaired forms: `q` includes the waiting, and the last factor is `1 − q F`.

/// Traffic of one drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// `R`: elapsed time, in seconds.
    pub elapsed_s: f64,
    /// `X`: requests of the drive.
    pub requests: f64,
    /// `A`: access of a request, in seconds.
    pub access_s: f64,
    /// `T`: transfer time of the drive, in seconds.
    pub transfer_s: f64,
    /// `F`: active files of the drive, at least 1.
    pub files: f64,
}

impl Traffic {
    /// Share of the time in which the drive is busy, `(X A + T)/R`. A traffic that is too high for `R` has more than 1.
    pub fn load(&self) -> f64 {
        (self.requests * self.access_s + self.transfer_s) / self.elapsed_s
    }

    /// Equation (20): share `q` of the time in which a file is in use, for a load below 1.
    pub fn file_use(&self) -> f64 {
        file_use(self.load(), self.files)
    }

    /// Equation (17): probability that `in_use` of `files` files are in use.
    pub fn use_probability(&self, files: u32, in_use: u32) -> f64 {
        let file_use = self.file_use();
        let choices = (0..in_use).map(|n| f64::from(files - n) / f64::from(n + 1)).product::<f64>();
        choices * file_use.powf(f64::from(in_use)) * (1.0 - file_use).powf(f64::from(files - in_use))
    }

    /// Equation (21): wait of all requests of the drive, in seconds, for a load below 1.
    pub fn total_wait_s(&self) -> f64 {
        self.elapsed_s * (self.file_use() * self.files - self.load()).max(0.0)
    }

    /// Equation (22): mean wait `d` of a request, in seconds, for a load below 1.
    pub fn wait_s(&self) -> f64 {
        self.total_wait_s() / self.requests
    }
}

/// Equation (20), for a load below 1.
pub(super) fn file_use(load: f64, files: f64) -> f64 {
    -((-load).ln_1p() / files).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(files: f64) -> Traffic {
        Traffic { elapsed_s: 400.0, requests: 2000.0, access_s: 0.062, transfer_s: 25.1875, files }
    }

    #[test]
    fn wait_has_the_figures_of_the_notes() {
        let traffic = traffic(4.0);
        assert!((traffic.load() - 0.372969).abs() < 6e-7);
        assert!((traffic.file_use() - 0.110139).abs() < 6e-7);
        assert!((traffic.wait_s() - 0.0135172).abs() < 6e-8);
        // Equation (22) as it is printed has (1 − q) F, which makes the wait negative.
        let (q, files) = (traffic.file_use(), 4.0_f64);
        let printed = 400.0 / 2000.0 * ((1.0 - q).powf(files) - (1.0 - q) * files);
        assert!((printed + 0.586).abs() < 6e-4, "{printed}");
    }

    #[test]
    fn wait_is_the_sum_of_equation_16() {
        let traffic = traffic(4.0);
        let busy: f64 = (1..=4).map(|m| traffic.use_probability(4, m)).sum();
        assert!((busy - traffic.load()).abs() < 1e-12);
        let waiting: f64 = (2..=4).map(|m| f64::from(m - 1) * traffic.use_probability(4, m)).sum();
        assert!((traffic.total_wait_s() - 400.0 * waiting).abs() < 1e-9);
    }

    #[test]
    fn uses_of_files_agree_with_littles_law() {
        let traffic = traffic(4.0);
        let in_use_s = 4.0 * traffic.file_use() * 400.0;
        assert!((in_use_s - (2000.0 * (0.062 + traffic.wait_s()) + 25.1875)).abs() < 1e-9);
    }

    #[test]
    fn one_file_never_waits() {
        assert!(traffic(1.0).wait_s() < 1e-15);
        assert!((traffic(1.0).file_use() - traffic(1.0).load()).abs() < 1e-15);
    }
}
