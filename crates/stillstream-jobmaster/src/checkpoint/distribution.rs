//! How a figure is spread over the checkpoints of a job: the least, the greatest and the mean of all, and
//! quantiles of the newest hundred.

use std::collections::VecDeque;

/// Quantiles are of so many values.
const RECENT: usize = 100;

/// What some values have in common.
///
/// ```
/// use stillstream_jobmaster::Distribution;
/// let mut sizes = Distribution::default();
/// [10, 20, 60].into_iter().for_each(|size| sizes.add(size));
/// assert_eq!((sizes.min(), sizes.max(), sizes.mean()), (10, 60, 30));
/// assert_eq!(sizes.quantile(0.5), Some(20));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distribution {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    recent: VecDeque<u64>,
}

impl Distribution {
    /// Takes in a value.
    pub fn add(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        self.recent.push_back(value);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The least of all; 0 if there were none.
    pub fn min(&self) -> u64 {
        self.min
    }

    /// The greatest of all; 0 if there were none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean of all; 0 if there were none.
    pub fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(u128::from(self.count)).unwrap_or(0);
        // the mean is no greater than the greatest
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// The least of the newest hundred values that this share of them does not exceed; `None` if there were
    /// none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let mut sorted: Vec<u64> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let at = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
        sorted.get(at.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_values_there_is_no_quantile_and_everything_else_is_zero() {
        let none = Distribution::default();
        assert_eq!((none.min(), none.max(), none.mean(), none.quantile(0.5)), (0, 0, 0, None));
    }

    #[test]
    fn the_extremes_are_of_all_values_and_quantiles_of_the_newest_hundred() {
        let mut values = Distribution::default();
        (1..=1000).for_each(|value| values.add(value));
        assert_eq!((values.count(), values.min(), values.max(), values.mean()), (1000, 1, 1000, 500));
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| values.quantile(share)),
            [901, 950, 999, 1000].map(Some)
        );
    }
}
